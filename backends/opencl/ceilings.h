// SPDX-License-Identifier: Apache-2.0
// What a device can do at most, measured on it: the figures that reports set a kernel against.
#pragma once

#include "backends/opencl/context.h"

namespace ironcl::opencl {

// What lasts: each is the median of runs that take `seconds` together, by cl/ceilings.cl. Throw as building and
// running do. 15 ms are enough between the calls that are set against a figure, since a processor's clock and what
// its neighbours take of it change within seconds.

/// f32 multiply-adds a second, two operations each.
double measure_fma_flops(const Context& context, double seconds = 0.25);
/// Bytes a second, read and written together, of copies within the device's memory; getting that takes half a second.
double measure_copy_rate(const Context& context, double seconds = 0.25);

}  // namespace ironcl::opencl
