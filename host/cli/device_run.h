// SPDX-License-Identifier: Apache-2.0
// One problem on one device, through the plugin's table: plan, weights, buffers, one call, results back in host
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/numerics/bounds.h"
#include "host/cli/activations.h"
#include "host/cli/layer_problem.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/problem.h"

namespace ironcl::cli {

/// What a device made of a problem.
struct DeviceResult {
  std::vector<std::byte> d;      ///< [m, n] of problem.d, tight; bytes that the device did not write are 0xff (NaN).
  bool shows_quantized = false;  ///< The plan quantised A and left codes and scales:
  std::vector<std::uint8_t> codes;  ///< [m, k]
  std::vector<float> code_scales;   ///< Tight, on problem.a_scale.grid.
  numerics::AccuracyClass accuracy = numerics::AccuracyClass::f32;
  std::int64_t accumulation_length = 0;  ///< G of the bound.
  std::string variant, config;
  std::uint32_t time_kind = IRONCL_TIME_NONE;
  double time_ns = 0;  ///< Of the one call, on the device's clock; 0 where it cannot say.
};

/// "measured", "modelled"; empty for none.
std::string time_kind_name(std::uint32_t time_kind);

/// Runs the problem once. Throws ironcl::Error: UNSUPPORTED with the device's reason, or what failed.
DeviceResult run_on(const ironcl::Device& device, const report::Problem& problem, const Activations& a,
                    const LayerOperand& b);

}  // namespace ironcl::cli
