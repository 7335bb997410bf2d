// SPDX-License-Identifier: Apache-2.0
// Matrices that a command line names: "FILE:TENSOR", "FILE:VALUES,SCALES".
#pragma once

#include "backends/numerics/scale_grid.h"
#include "host/checkpoint/safetensors.h"

namespace ironcl::checkpoint {

using numerics::ScaleGrid;

/// A tensor of a file as a command line names it.
struct TensorRef {
  std::filesystem::path file;
  std::vector<std::string> tensors;  ///< The requested tensors, as many as were asked for.
};

/// Splits "FILE:T1,T2,..." at the last colon into a file and exactly `count` names.
/// Throws Error config where the text does not have that form.
TensorRef parse_tensor_ref(std::string_view text, std::size_t count);

/// A row-major matrix in a file that it keeps open.
struct Matrix {
  SafetensorsFile file;
  Tensor tensor;  ///< dtype and bytes.
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  std::vector<double> to_f64() const;
};

/// The 2-D tensor `tensor` of `file`, of type f32, f16, bf16, f64, e4m3fn, e5m2 or i8.
/// Throws Error: io, format, not_found (with the tensors that are there), shape (not 2-D), dtype.
Matrix load_matrix(const std::filesystem::path& file, const std::string& tensor);

/// The scales of a [rows, cols] operand on `grid`: f32, f16, bf16 or e8m0, of shape [scale_rows, scale_cols], or
/// [rows] for {1, 0}, or a scalar or [1] for {0, 0}. Finite and not negative. Throws Error as load_matrix, and value.
Matrix load_scales(const std::filesystem::path& file, const std::string& tensor, std::int64_t rows, std::int64_t cols,
                   ScaleGrid grid);

}  // namespace ironcl::checkpoint
