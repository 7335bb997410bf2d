// SPDX-License-Identifier: Apache-2.0
// What a device can do at most, as it says when it is asked, and what a problem asks of it. Next door: statistics.h.
#pragma once

#include "host/include/ironcl/ironcl.hpp"
#include "host/report/problem.h"

namespace ironcl::tuning {

/// What a device can do at most, as it measured itself; 0: it cannot say.
struct Ceilings {
  double flops = 0;             ///< f32 multiply-adds, two operations each, a second.
  double bytes_per_second = 0;  ///< Copying, read and written bytes together.
};

/// The plugin's query "ceilings": {"fma_flops": ..., "copy_bytes_per_s": ...}.
Ceilings ceilings_of(const Device& device);

/// The plugin's query "fma_flops", which answers within some 20 ms; 0: it cannot say.
double fma_flops_now(const Device& device);

/// The plugin's query "copy_bytes_per_s", which answers within half a second; 0: it cannot say.
double copy_rate_now(const Device& device);

/// Two for each multiply-add.
double flops_of(const report::Problem& problem);

/// The fewest bytes that a call reads and writes: A as it comes, the weights once, D once.
double least_bytes_of(const report::Problem& problem);

}  // namespace ironcl::tuning
