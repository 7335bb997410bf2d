// SPDX-License-Identifier: Apache-2.0
// The two loops of every quantiser, written so that compilers turn them into vector code: the largest magnitude of a
// run of values, and their codes under one scale. Next door: quantize.h (matrices with a grid of scales).
#pragma once

#include <cstdint>
#include <span>

#include "backends/numerics/formats.h"

namespace ironcl::numerics {

/// The bits of the largest |x|, at least `least`: their order is that of the magnitudes, with NaN above infinity.
std::uint32_t largest_magnitude_bits(std::span<const float> x, std::uint32_t least = 0) noexcept;

/// The codes RNE(x / scale) of a run, as quantize_one() gives them, each in a byte of its own: e4m3fn, e5m2, i8, or
/// e2m1 in the lower four bits. `codes` has x.size() bytes.
void quantize_run(DType type, std::span<const float> x, float scale, std::uint8_t* codes) noexcept;

}  // namespace ironcl::numerics
