// SPDX-License-Identifier: Apache-2.0
// The quantiser of quantize.h for rows that lie anywhere, with scales that are stored as f32 or e8m0, or given.
#pragma once

#include "backends/numerics/quantize.h"

namespace ironcl::numerics {

/// Where codes and scales lie: rows of codes `ld` elements apart, rows of scales `scale_ld`.
struct QuantizedMatrix {
  DType type = DType::none;  ///< e4m3fn, e5m2 or i8.
  void* codes = nullptr;
  std::int64_t ld = 0;
  DType scale_type = DType::f32;  ///< Or e8m0: then scales are powers of two from 2^-127 on, whatever the rounding.
  void* scales = nullptr;         ///< Read where quantizer.given, else written.
  std::int64_t scale_ld = 0;
};

/// The scale of a group whose largest magnitude is `amax`, where scales are stored as `stored`, f32 or e8m0.
float scale_of(float amax, DType type, const Quantizer& quantizer, DType stored) noexcept;

/// Quantises x [rows, cols], of type f32, f16 or bf16 with leading dimension `ld`. Under a scale that was given an
/// infinity saturates, and only NaN becomes NaN. Throws std::invalid_argument where a type is none of those, or a
/// leading dimension is shorter than a row.
void quantize(DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, ScaleGrid grid,
              const Quantizer& quantizer, const QuantizedMatrix& out);

}  // namespace ironcl::numerics
