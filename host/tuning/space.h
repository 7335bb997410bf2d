// SPDX-License-Identifier: Apache-2.0
// What may be tried for a problem on a device: the answer of its plugin's query "candidates". Next door: search.h
// (tries them), tables.h (keeps the winners).
#pragma once

#include <boost/json/object.hpp>

#include "backends/numerics/bounds.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/problem.h"

namespace ironcl::tuning {

/// A kernel variant with a value for each of its tunables, as options of a plan.
struct Configuration {
  std::string variant;
  std::vector<std::pair<std::string, std::string>> options;  ///< Without "variant"; in the plugin's order.
  std::string layout;                                        ///< Form of packed weights; empty: unknown.
  numerics::AccuracyClass accuracy = numerics::AccuracyClass::f32;

  /// Whether both are the same kernel: variant and options.
  friend bool operator==(const Configuration& a, const Configuration& b) {
    return a.variant == b.variant && a.options == b.options;
  }
};

/// "gemm_panel block_m=16,block_n=64,..."
std::string to_text(const Configuration& configuration);

/// Its options, {"block_m": "16", ...}.
boost::json::object options_of(const Configuration& configuration);

struct Space {
  std::vector<Configuration> candidates;
  std::size_t rule_of_thumb = 0;                              ///< Index of what a plan takes without a table.
  std::vector<std::pair<std::string, std::int64_t>> dropped;  ///< Configurations that cannot run here, by reason.
  std::vector<std::string> devices;  ///< Names of the device in file names of tables, the narrowest first.
  std::string dtype;                 ///< "fp8_w8a8", for file names.
  std::int64_t compute_units = 0;    ///< 0: not said.
};

/// Reads an answer of "candidates". Configurations of a class weaker than `weakest` are dropped, whatever the plugin
/// says. Throws std::runtime_error saying what is wrong with the answer.
Space parse_space(std::string_view json, numerics::AccuracyClass weakest);

/// Asks a device. Throws ironcl::Error as the plugin answers (UNIMPLEMENTED: nothing to tune) and std::runtime_error
/// as parse_space.
Space space_of(const Device& device, const report::Problem& problem);

}  // namespace ironcl::tuning
