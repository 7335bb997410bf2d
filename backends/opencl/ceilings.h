// SPDX-License-Identifier: Apache-2.0
// The measured peak rates of a device, with which reports compare kernels.
#pragma once

#include "backends/opencl/context.h"

namespace ironcl::opencl {

// What lasts: each is the median of runs that take `seconds` together, by cl/ceilings.cl. Throw as building and
// running do. 15 ms are enough between the calls that are set against a figure, since a processor's clock and what
// its neighbours take of it change within seconds.

/// f32 multiply-adds per second, two operations each.
double measure_fma_flops(const Context& context, double seconds = 0.25);
/// Bytes per second, read and written together, of copies within the device's memory; getting that takes half a
/// second.
double measure_copy_rate(const Context& context, double seconds = 0.25);

}  // namespace ironcl::opencl
