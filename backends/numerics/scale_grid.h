// SPDX-License-Identifier: Apache-2.0
// Where the scale of an element is: grids of group_rows x group_cols blocks with partial edges, and the place in its
// block at which an operand begins.
#pragma once

#include <algorithm>
#include <numeric>

#include "backends/numerics/checked.h"

namespace ironcl::numerics {

/// One scale for each group_rows x group_cols block of a matrix. 0 spans the whole dimension: {1, 0} is per token or
/// per channel, {0, 0} per tensor. Dimensions are ceil-divided; the last block of a dimension may be partial.
struct ScaleGrid {
  std::int64_t group_rows = 0;
  std::int64_t group_cols = 0;
  std::int64_t row_origin = 0, col_origin = 0;  ///< Place of the first element in its block, of a slice.

  friend constexpr bool operator==(const ScaleGrid&, const ScaleGrid&) = default;

  /// The same grid with every 0 replaced by the dimension (at least 1).
  constexpr ScaleGrid resolved(std::int64_t rows, std::int64_t cols) const noexcept {
    return {group_rows != 0 ? group_rows : (rows > 0 ? rows : 1),
            group_cols != 0 ? group_cols : (cols > 0 ? cols : 1), row_origin, col_origin};
  }
  /// Rows of the scale matrix of an operand with `rows` rows.
  constexpr std::int64_t scale_rows(std::int64_t rows) const noexcept {
    return group_rows == 0 || rows <= 0 ? (rows > 0 ? 1 : 0) : ceil_div(row_origin + rows, group_rows);
  }
  /// Columns of the scale matrix of an operand with `cols` columns.
  constexpr std::int64_t scale_cols(std::int64_t cols) const noexcept {
    return group_cols == 0 || cols <= 0 ? (cols > 0 ? 1 : 0) : ceil_div(col_origin + cols, group_cols);
  }
  constexpr std::int64_t row_of(std::int64_t row) const noexcept {
    return group_rows == 0 ? 0 : (row_origin + row) / group_rows;
  }
  constexpr std::int64_t col_of(std::int64_t col) const noexcept {
    return group_cols == 0 ? 0 : (col_origin + col) / group_cols;
  }
};

/// The longest run of k in which neither operand's scale changes, if groups start at 0: the greatest common divisor
/// of the two group widths (0 = the whole k). This is the K group of the mathematics and the G of the error bound.
constexpr std::int64_t common_group(std::int64_t group_cols_a, std::int64_t group_cols_b, std::int64_t k) noexcept {
  const auto changes_every = [k](std::int64_t group) { return group <= 0 || group >= k ? 0 : group; };
  const std::int64_t common = std::gcd(changes_every(group_cols_a), changes_every(group_cols_b));
  return common != 0 ? common : std::max<std::int64_t>(k, 1);
}

}  // namespace ironcl::numerics
