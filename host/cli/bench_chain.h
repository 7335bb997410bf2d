// SPDX-License-Identifier: Apache-2.0
// Layers back to back, as a decode step runs them: what `ironcl bench --chain N` does. Next door: bench_command.cpp
// (each product by itself), bench_experts.cpp (layers of experts).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host/cli/shape_options.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/table.h"

namespace ironcl::cli {

struct ChainBench {
  std::size_t layers = 8;  ///< Each with weights of its own, so that none come from a cache.
  std::vector<std::int64_t> rows;
  int runs = 9;
  double min_ms = 50, warm_up_ms = 200;
  std::int64_t check_rows = 8;
  std::uint64_t seed = 1;
  double copy_bytes_per_second = 0;  ///< What the device measured of itself; 0: not said.
};

/// The columns of a table of chains.
report::Table chain_table();

/// Enqueues the products of all layers in order on one queue and waits once, for every number of rows, a row of the
/// table each. The products of the last layer are checked first. `say` gets the running lines. False where a check
/// failed. Throws ironcl::Error as the plugin answers.
bool bench_chain(const Device& device, const std::vector<MeasuredLayer>& products, const ChainBench& settings,
                 report::Table& table, const std::function<void(const std::string&)>& say);

}  // namespace ironcl::cli
