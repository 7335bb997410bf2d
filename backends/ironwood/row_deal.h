// SPDX-License-Identifier: Apache-2.0
// Which rows of X and D each matrix of a grouped problem multiplies, and the visits that a kernel makes to do it: one
// row of tiles with one matrix. A visit costs the kernel a step for each tile of N and of K. Next door:
// program_grouped.cpp (what happens in a visit).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/interface.h"

namespace ironcl::ironwood {

/// Rows [first, first + rows) belong to matrix `matrix`; rows is at least 1.
struct MatrixRows {
  std::int64_t matrix = 0, first = 0, rows = 0;
  friend bool operator==(const MatrixRows&, const MatrixRows&) = default;
};

/// The rows of each matrix that has some, in the order of matrices, from `counts` (one a matrix), which are not
/// trusted: a negative one is 0, and rows past the last of the layout are cut off. `m`: rows of the problem, or of
/// each matrix of a masked one.
std::vector<MatrixRows> deal_rows(backend::Grouping grouping, std::int64_t m, std::span<const std::int32_t> counts);

/// `rows` rows dealt as evenly as they can be among `matrices`, the first ones getting one more.
std::vector<std::int32_t> even_counts(std::int64_t rows, std::int64_t matrices);

/// A row of tiles that is multiplied with one matrix.
struct Visit {
  std::int64_t matrix = 0;
  std::int64_t first = 0, rows = 0;            ///< Valid: what is computed and stored.
  std::int64_t tile_first = 0, tile_rows = 0;  ///< Moved from HBM: the valid rows and some of their neighbours.
  friend bool operator==(const Visit&, const Visit&) = default;
};

/// Tiles lie at multiples of `tile` rows; one that several matrices share is visited once for each of them, one visit
/// after another, and is moved as a whole. `rows`: of the array. (megablox gmm, make_group_metadata.)
std::vector<Visit> visit_fixed_tiles(std::span<const MatrixRows> dealt, std::int64_t tile, std::int64_t rows);

/// Tiles begin at each matrix's own first row, rounded down to `sublane` rows, and only the rows there are, rounded
/// to `sublane`, are moved. (gmm_v2, fill_metadata.)
std::vector<Visit> visit_own_tiles(std::span<const MatrixRows> dealt, std::int64_t tile, std::int64_t sublane,
                                   std::int64_t rows);

}  // namespace ironcl::ironwood
