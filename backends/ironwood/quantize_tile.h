// SPDX-License-Identifier: Apache-2.0
// The quantiser as the kernel runs it on a tile in VMEM, and the largest magnitudes that its scales come from. The
// same bits as numerics::quantize, which a test checks; written for vectors because a tile is quantised again and
// again.
#pragma once

#include <cstdint>
#include <span>

#include "backends/numerics/formats.h"
#include "backends/numerics/quantize.h"
#include "backends/numerics/scale_grid.h"

namespace ironcl::ironwood {

/// codes[i] = RNE(x[i] / scale) as e4m3fn, e5m2 or i8, saturated; the type's NaN (i8: 0) where x[i] or the scale is
/// NaN.
void quantize_run(numerics::DType type, std::span<const float> x, float scale, std::uint8_t* codes) noexcept;

/// max |x| of a run, NaN where a member is NaN or infinite; 0 of an empty run. Combine with merge_amax.
float amax_of(std::span<const float> x) noexcept;

/// The larger, NaN winning.
float merge_amax(float a, float b) noexcept;

/// The scales that dynamic quantisation to `code` gives x [rows, cols] (f32, f16 or bf16, leading dimension `ld`
/// elements): scale(i, j) of the grid at scales[i * row_step + j * col_step]. Runs outside of the kernel, as the
/// published one's.
void make_scales(numerics::DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                 numerics::DType code, numerics::ScaleGrid grid, const numerics::Quantizer& quantizer, float* scales,
                 std::int64_t row_step, std::int64_t col_step);

}  // namespace ironcl::ironwood
