// SPDX-License-Identifier: Apache-2.0
// The quantiser that every device must reproduce bit for bit (docs/numerics.md).
//
//   amax = max(max|x| over the group, amax_floor)
//   s    = amax / largest(type)            in f32, correctly rounded; ue8m0: then 2^ceil(log2 s)
//   q    = RNE(x / s)                      divided, not multiplied by 1/s; saturated to the largest of the type
//
// An all-zero group gives zeros and the finite scale amax_floor / largest. A group with a NaN or an infinity gets a
// NaN scale and NaN codes (i8: zeros): nothing non-finite becomes a plausible number. Source: SGLang
// per_token_group_quant_fp8 (eps 1e-10), DeepGEMM per_block_cast_to_fp8 (floor 1e-4).
#pragma once

#include <cstdint>
#include <span>

#include "backends/numerics/formats.h"
#include "backends/numerics/matrix_view.h"
#include "backends/numerics/scale_grid.h"

namespace ironcl::numerics {

enum class ScaleRounding : std::uint32_t {
  exact = 0,
  power_of_two = 1,  ///< s = 2^ceil(log2 s), by exponent arithmetic: exact, also for subnormal s.
};

struct Quantizer {
  float amax_floor = 1e-10f;
  ScaleRounding rounding = ScaleRounding::exact;
  bool given = false;  ///< "Static": scales are read, not made.

  friend bool operator==(const Quantizer&, const Quantizer&) = default;
};

/// The scale of a group whose largest magnitude is `amax` (NaN where a member is NaN or infinite).
float scale_of(float amax, DType type, const Quantizer& quantizer) noexcept;

/// The code of x under the scale s: RNE(x / s), saturated. `type` is e4m3fn, e5m2 or i8 (its byte).
std::uint8_t quantize_one(float x, float scale, DType type) noexcept;

/// Quantises x [rows, cols] to `type` with one scale for each block of `grid`.
/// q: rows * cols bytes, tight. scales: grid.scale_rows(rows) * grid.scale_cols(cols), tight.
/// Throws std::invalid_argument where a span is too small, a group is negative or the type is not e4m3fn, e5m2, i8.
void quantize(MatrixView<const float> x, DType type, ScaleGrid grid, const Quantizer& quantizer,
              std::span<std::uint8_t> q, std::span<float> scales);

/// The same for a source of type f32, f16 or bf16 at `x` with leading dimension `ld`.
void quantize(DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, DType type,
              ScaleGrid grid, const Quantizer& quantizer, std::span<std::uint8_t> q, std::span<float> scales);

}  // namespace ironcl::numerics
