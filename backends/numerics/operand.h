// SPDX-License-Identifier: Apache-2.0
// An operand of the product: a row-major matrix with its scales, not owned.
#pragma once

#include <cstdint>

#include "backends/numerics/formats.h"
#include "backends/numerics/scale_grid.h"

namespace ironcl::numerics {

/// A matrix of any element type. Owns nothing.
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
