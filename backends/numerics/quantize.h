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

#include <span>

#include "backends/numerics/formats.h"
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

/// The scale of a group whose largest magnitude is `amax` (NaN where a member is NaN or infinite), where scales are
/// stored as `stored`, f32 or e8m0.
float scale_of(float amax, DType type, const Quantizer& quantizer, DType stored = DType::f32) noexcept;

/// The code of x under the scale s: RNE(x / s), saturated. `type` is e4m3fn, e5m2 or i8 (its byte).
std::uint8_t quantize_one(float x, float scale, DType type) noexcept;

/// Where codes and scales lie: rows of codes `ld` elements apart, rows of scales `scale_ld`.
struct QuantizedMatrix {
  DType type = DType::none;  ///< e4m3fn, e5m2 or i8.
  void* codes = nullptr;
  std::int64_t ld = 0;
  DType scale_type = DType::f32;  ///< Or e8m0: then scales are powers of two from 2^-127 on, whatever the rounding.
  void* scales = nullptr;         ///< Read where quantizer.given, else written.
  std::int64_t scale_ld = 0;
};

/// Quantises x [rows, cols], of type f32, f16 or bf16 with leading dimension `ld`, with one scale for each block of
/// `grid`. Under a scale that was given an infinity saturates, and only NaN becomes NaN. Throws std::invalid_argument
/// where a type is none of those, a group is negative, or a leading dimension is shorter than a row.
void quantize(DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, ScaleGrid grid,
              const Quantizer& quantizer, const QuantizedMatrix& out);

/// The same to tight codes and f32 scales. Throws std::invalid_argument too where a span is too small.
void quantize(DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, DType type,
              ScaleGrid grid, const Quantizer& quantizer, std::span<std::uint8_t> q, std::span<float> scales);

// --- Runs of floats under one scale.

/// The bits of the largest |x|, at least `least`: their order is that of the magnitudes, with NaN above infinity.
std::uint32_t largest_magnitude_bits(std::span<const float> x, std::uint32_t least = 0) noexcept;

/// The codes RNE(x / scale) of a run, each in a byte of its own: e4m3fn, e5m2, i8, or e2m1 in the lower four bits.
/// `codes` has x.size() bytes.
void quantize_run(DType type, std::span<const float> x, float scale, std::uint8_t* codes) noexcept;

}  // namespace ironcl::numerics
