// SPDX-License-Identifier: Apache-2.0
// Devices as they describe themselves, for tests of selection that need none. Next door: trials.h (what devices
// themselves say).
#pragma once

#include "backends/opencl/select.h"
#include "backends/opencl/trial.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl::testing {

/// Whoever is asked says that every variant works.
class AllWork final : public Trials {
 public:
  std::string why_not(const Variant&) override { return {}; }
};

/// What an H200 says of itself, as far as selection asks.
inline Features h200() {
  Features f;
  f.type = backend::DeviceType::gpu;
  f.local_is_dedicated = f.ptx_sm_80 = f.ptx_sm_89 = f.ptx_sm_90 = f.fma = f.fma_divide = true;
  f.half_bits = 1;
  f.compute_units = 132;
  f.clock_hz = 1.98e9;
  f.local_bytes = 47 << 10;
  f.own_local_bytes = 226 << 10;
  f.max_work_group = 1024;
  f.max_buffer_bytes = std::uint64_t{35} << 30;
  return f;
}

/// A GPU of another compute capability, by its least: 80 for 8.0 and 8.6, 89 for 8.9, 10.0 and 12.0; 0 for none.
inline Features gpu_of(int ptx, std::uint32_t compute_units, double clock_hz) {
  Features f = h200();
  f.ptx_sm_90 = false;
  f.ptx_sm_89 = ptx >= 89;
  f.ptx_sm_80 = ptx >= 80;
  f.compute_units = compute_units;
  f.clock_hz = clock_hz;
  f.own_local_bytes = f.local_bytes;
  return f;
}

/// Cores with vectors of 16 floats, a cache of 2 MiB each.
inline Features wide_cores(std::uint32_t count) {
  return {.compute_units = count, .local_bytes = 2 << 20, .vector_width = 16, .clock_hz = 2e9};
}

}  // namespace ironcl::opencl::testing
