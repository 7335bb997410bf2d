// SPDX-License-Identifier: Apache-2.0
// What a device can do at most, measured on it: the figures that reports set a kernel against.
#pragma once

#include <string>

#include "backends/opencl/context.h"

namespace ironcl::opencl {

/// What lasts: the median of runs over a quarter of a second each. Takes about a second.
struct Ceilings {
  double fma_flops = 0;         ///< f32 multiply-adds a second, two operations each.
  double copy_bytes_per_s = 0;  ///< Copying within the device's memory, bytes read and written together.
};

/// Measures with cl/ceilings.cl. Throws as building and running do.
Ceilings measure_ceilings(const Context& context);
/// Ceilings::fma_flops alone, in about 20 ms: to be taken between the calls that are set against it, since a
/// processor's clock and what its neighbours take of it change within seconds.
double measure_fma_flops(const Context& context);
/// Ceilings::copy_bytes_per_s alone, for the same reason; about half a second, most of it getting the memory.
double measure_copy_rate(const Context& context);

/// {"fma_flops": ..., "copy_bytes_per_s": ...}
std::string to_json(const Ceilings& ceilings);

}  // namespace ironcl::opencl
