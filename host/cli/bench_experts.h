// SPDX-License-Identifier: Apache-2.0
// Whole layers of experts, measured: what `ironcl bench --model NAME --tokens LIST` does. Next door:
// bench_command.cpp (single products), host/layer/experts.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host/cli/measure.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/experts_source.h"
#include "host/report/table.h"

namespace ironcl::cli {

struct ExpertsBench {
  std::vector<std::int64_t> tokens;
  double skew = 0;   ///< Exponent of Zipf's law for the load; 0: even.
  bool loop = true;  ///< Measure a loop of single plans over the experts that are hit, too.
  MeasureSettings measure{};
  std::int64_t check_tokens = 4;
  std::uint64_t seed = 1;
  numerics::AccuracyClass weakest_accuracy = numerics::AccuracyClass::f32;
  std::vector<std::pair<std::string, std::string>> options;
  double copy_bytes_per_second = 0;  ///< What the device measured of itself; 0: not said.
};

/// The columns of a table of layers of experts.
report::Table experts_table();

/// Checks and measures a layer on a device for every number of tokens, a row each; `say` gets the running lines.
/// False where a check failed.
bool bench_experts(const Device& device, const layer::ExpertsForm& form, const ExpertsBench& settings,
                   report::Table& table, const std::function<void(const std::string&)>& say);

}  // namespace ironcl::cli
