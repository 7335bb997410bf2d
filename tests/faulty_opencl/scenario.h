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

/// Where a life is lived, and who hears of it.
struct Surroundings {
  const ironcl_plugin& plugin;
  std::string cache_dir;
  std::function<void(const char*)> step = [](const char*) {};  ///< Called with each step's name before it.
  /// Called once after a failure, before the plan and the queue are used again.
  std::function<void()> mended = [] {};
};

/// Lives once.
Life live(const Surroundings& around, const Problem& problem);

}  // namespace ironcl::faulty
