// SPDX-License-Identifier: Apache-2.0
// The rates that all estimates of a variant's time share. Only their order decides, and only between variants of one
// device; these times are not reported.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/numerics/checked.h"
#include "backends/opencl/probe.h"

namespace ironcl::opencl {

/// Seconds that `count` multiply-adds of one f32 vector of `width` elements take a work-group of one work-item. A
/// CPU's core does two vectors of its width per clock. A GPU's unit gives such a work-group one lane of the 32 or 64
/// that it has, one element per clock.
inline double vector_fma_seconds(double count, int width, const Features& f) {
  if (f.prefers_vectors()) return count * std::max(1.0, 1.0 * width / f.vector_width) / (2 * f.clock_hz);
  return count * width / f.clock_hz;
}

/// Seconds of `count` f32 multiply-adds by work-groups of many work-items, spread over the whole device at a share
/// `efficiency` of its peak. A GPU's unit does 128 per clock (as NVIDIA's of the last ten years; what others do
/// differs by a factor of two). On a device that prefers vectors, work-items take turns at a core's scalar units.
inline double scalar_fma_seconds(double count, double efficiency, const Features& f) {
  const double lanes = f.prefers_vectors() ? 2 : 128;
  return count / (efficiency * lanes * f.clock_hz * f.compute_units);
}

/// Seconds in which `bytes` come from memory. A compute unit of a large
/// GPU of today gets about eight per clock.
inline double memory_seconds(double bytes, const Features& f) { return bytes / (8 * f.clock_hz * f.compute_units); }

/// Nanoseconds that a launch costs a call on a processor: all threads are woken, and waited for. Measured on PoCL,
/// two to sixteen cores (docs/performance/cpu-runtimes.md).
inline double launch_ns(const Features& f) { return 8000 + 3000.0 * f.compute_units; }

/// Rounds that `work_groups` take on the units of a device, one to a unit.
inline double rounds(std::int64_t work_groups, const Features& f) {
  return static_cast<double>(numerics::ceil_div(work_groups, f.compute_units));
}

}  // namespace ironcl::opencl
