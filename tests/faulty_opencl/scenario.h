// SPDX-License-Identifier: Apache-2.0
// The life of a plugin in steps, through the C ABI: load, devices, plan, weights, a call, its result, the end. A step
// that fails ends the life early; what was made is destroyed either way. Next door: walk.cpp (fails each call once),
// living.h (what every life has).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/f8_product.h"

namespace ironcl::faulty {

/// What a life does. "steps": no product but quantise, route, activate and combine, of sizes of their own. Else a
/// problem with bf16 activations and two K groups.
struct Problem : testing::F8Product {
  std::string name;
  std::vector<ironcl_key_value> options;  ///< Of the plan.
};
Problem problem_named(const std::string& name);

/// How a life went.
struct Life {
  std::string failed;  ///< The step that failed; empty: none did.
  ironcl_status status = IRONCL_OK;
  std::int32_t native_code = 0;
  std::string message;
  bool no_device = false;  ///< Loaded, but no device was listed.
  bool refused = false;    ///< The device does not run the problem; `message` has its reason.
  bool wrong = false;      ///< A call said OK and D was not what it must be.
  std::string after;       ///< What became of the plan and the queue after the failure: "right", or a status.
};

/// Opens the plugin's file; throws std::runtime_error.
const ironcl_plugin* open_plugin(const std::string& file);

/// Lives once. `step` is called with each step's name before it; `mended` is called once after a failure, before the
/// plan and the queue are used again.
Life live(const ironcl_plugin& plugin, const Problem& problem, const std::string& cache_dir,
          const std::function<void(const char*)>& step, const std::function<void()>& mended);

}  // namespace ironcl::faulty
