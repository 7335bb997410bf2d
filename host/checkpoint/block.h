// SPDX-License-Identifier: Apache-2.0
// Scale tensors against the operands that they belong to: shape, type, values, and the block that they imply.
#pragma once

#include "backends/numerics/scale_grid.h"
#include "host/checkpoint/error.h"
#include "host/checkpoint/tensor.h"

namespace ironcl::checkpoint {

using numerics::ScaleGrid;

/// "128x128", "1x128", "per channel" ({1, 0} of a weight), "per tensor" ({0, 0}).
std::string grid_text(ScaleGrid grid);

/// Throws Error dtype unless `scale` is f32, f16, bf16 or e8m0.
void check_scale_dtype(const Tensor& scale);

/// Throws Error shape unless `scale` holds the scales of `operand` (a name, for the text) [rows, cols] on `grid`:
/// [scale_rows, scale_cols], with or without dimensions of 1.
void check_scale_shape(const Tensor& scale, const std::string& operand, std::int64_t rows, std::int64_t cols,
                       ScaleGrid grid);

/// Throws Error value at the first NaN, infinite or negative scale, with its row and column. Zero is allowed. `of`:
/// the layer that those count in, where the tensor has the scales of more; may be empty.
void check_scale_values(const Tensor& scale, std::string_view of = {});

/// The grid that the shape of `scale` implies for `weight` [n, k]. Throws Error shape where none fits: per tensor,
/// per channel, square blocks or groups of columns of 32, 64, 128, 256 or 512.
ScaleGrid grid_from_shape(const Tensor& scale, const Tensor& weight);

}  // namespace ironcl::checkpoint
