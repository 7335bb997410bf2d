// SPDX-License-Identifier: Apache-2.0
// A row-major matrix, not owned.
#pragma once

#include <cstdint>

#include "backends/numerics/formats.h"
#include "backends/numerics/scale_grid.h"

namespace ironcl::numerics {

/// Row-major view; `ld` elements from a row to the next. Owns nothing and must not outlive the data.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t ld = 0;

  T& at(std::int64_t row, std::int64_t col) const { return data[row * ld + col]; }
};

/// A matrix of any element type with its scales: one operand of the product. Owns nothing.
struct Operand {
  DType dtype = DType::none;
  const void* data = nullptr;
  std::int64_t rows = 0;            ///< M of A, N of B.
  std::int64_t cols = 0;            ///< K.
  std::int64_t ld = 0;              ///< Elements from a row to the next.
  DType scale_dtype = DType::none;  ///< f32, f16, bf16 or e8m0; none: no scales, all 1.
  const void* scales = nullptr;     ///< [grid.scale_rows(rows), grid.scale_cols(cols)].
  ScaleGrid grid{};
  std::int64_t scale_ld = 0;  ///< Elements from a row of scales to the next.
};

}  // namespace ironcl::numerics
