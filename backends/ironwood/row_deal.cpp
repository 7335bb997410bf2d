// SPDX-License-Identifier: Apache-2.0
// Counts to rows, rows to visits.
#include "backends/ironwood/row_deal.h"

#include <algorithm>
#include <limits>

#include "backends/numerics/checked.h"

namespace ironcl::ironwood {

std::vector<MatrixRows> deal_rows(backend::Grouping grouping, std::int64_t m, std::span<const std::int32_t> counts) {
  std::vector<MatrixRows> dealt;
  std::int64_t next = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const auto matrix = static_cast<std::int64_t>(g);
    const bool masked = grouping == backend::Grouping::masked;
    const std::int64_t first = masked ? matrix * m : next;
    const std::int64_t rows = std::clamp<std::int64_t>(counts[g], 0, masked ? m : m - next);
    next = first + rows;
    if (rows > 0) dealt.push_back({.matrix = matrix, .first = first, .rows = rows});
  }
  return dealt;
}

std::vector<std::int32_t> even_counts(std::int64_t rows, std::int64_t matrices) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(matrices));
  for (std::int64_t g = 0; g < matrices; ++g) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    counts[static_cast<std::size_t>(g)] =
        static_cast<std::int32_t>(std::min(kMost, rows / matrices + (g < rows % matrices ? 1 : 0)));
  }
  return counts;
}

std::vector<Visit> visit_fixed_tiles(std::span<const MatrixRows> dealt, std::int64_t tile, std::int64_t rows) {
  std::vector<Visit> visits;
  for (const MatrixRows& own : dealt) {
    const std::int64_t end = own.first + own.rows;
    for (std::int64_t at = own.first; at < end;) {
      const std::int64_t tile_first = at / tile * tile;
      const std::int64_t until = std::min(end, tile_first + tile);
      visits.push_back({.matrix = own.matrix,
                        .first = at,
                        .rows = until - at,
                        .tile_first = tile_first,
                        .tile_rows = std::min(tile, rows - tile_first)});
      at = until;
    }
  }
  return visits;
}

std::vector<Visit> visit_own_tiles(std::span<const MatrixRows> dealt, std::int64_t tile, std::int64_t sublane,
                                   std::int64_t rows) {
  std::vector<Visit> visits;
  for (const MatrixRows& own : dealt) {
    const std::int64_t end = own.first + own.rows;
    for (std::int64_t at = own.first; at < end;) {
      const std::int64_t tile_first = at / sublane * sublane;
      const std::int64_t until = std::min(end, tile_first + tile);
      const std::int64_t tile_end = std::min(rows, numerics::ceil_div(until, sublane) * sublane);
      visits.push_back({.matrix = own.matrix,
                        .first = at,
                        .rows = until - at,
                        .tile_first = tile_first,
                        .tile_rows = tile_end - tile_first});
      at = until;
    }
  }
  return visits;
}

}  // namespace ironcl::ironwood
