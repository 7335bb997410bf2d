// SPDX-License-Identifier: Apache-2.0
// How the rows of a grouped problem become tiles and blocks, as the host needs to know it: how many there can be. The
// device schedules (cl/schedule.cl, steps/schedule.h); counts never come to the host.
#pragma once

#include <algorithm>

#include "backends/numerics/checked.h"
#include "backends/opencl/problem.h"

namespace ironcl::opencl {

/// What a work-group of a variant takes: `tile_rows` rows that A is packed by, `block_tiles` tiles of one matrix that
/// share decoded weights.
struct ScheduleShape {
  std::int64_t tile_rows = 1, block_tiles = 1;
  /// The tiles of a matrix are as equal as can be, not full but for the last. For kernels whose tiles cost what their
  /// rows do: those of a dense problem are as high as its rows ask for, too.
  bool even = false;
};

/// The most tiles of `height` rows that `m` rows of a grouped problem can become: of each matrix the last one may not
/// be full. Of a problem that is not grouped, its tiles.
inline std::int64_t most_tiles(const Problem& p, std::int64_t m, std::int64_t height) {
  if (p.masked()) return (numerics::Size(p.matrices) * numerics::ceil_div(m, height)).value();
  const std::int64_t hit = std::max<std::int64_t>(1, std::min(p.matrices, m));
  return (m + hit * (height - 1)) / height;
}

/// Bytes of the f32 sums of `parts` parts of k, `columns` each, in tiles of `height` rows; of one part none are kept.
inline numerics::Size scratch_of_parts(const Problem& p, std::int64_t parts, std::int64_t height,
                                       numerics::Size columns) {
  if (parts == 1) return 0;
  const numerics::Size rows = p.grouped() ? numerics::Size(most_tiles(p, p.m, height)) * height : numerics::Size(p.m);
  return numerics::Size(parts) * rows * columns * 4;
}

/// Tiles of `height` rows of a problem that is not grouped, one where it has no rows.
inline std::int64_t row_tiles(const Problem& p, std::int64_t height) {
  return numerics::ceil_div(std::max<std::int64_t>(1, p.m), height);
}

/// The height of the tiles of `rows` rows that are at most `most` high and as equal as can be: 17 rows are two tiles
/// of 9, not 14 and 3.
inline std::int64_t equal_height(std::int64_t rows, std::int64_t most) {
  return numerics::ceil_div(rows, numerics::ceil_div(rows, most));
}

/// The least height of tiles, up to `most`, whose cost is within a hundredth of that of `most` rows: for matrices
/// that have other numbers of rows than the mean.
template <class Cost>
int least_height(int most, Cost&& cost) {
  const double bound = 1.01 * cost(most);
  int height = most;
  while (height > 1 && cost(height - 1) < bound) --height;
  return height;
}

/// The s32 elements of what cl/scheduled.cl describes.
struct ScheduleLists {
  std::int64_t tiles_at = 0, blocks_at = 0, elements = 0;

  ScheduleLists(const Problem& p, std::int64_t m, const ScheduleShape& shape) {
    tiles_at = 8 + 8 * p.matrices;
    blocks_at = tiles_at + most_tiles(p, m, shape.tile_rows);
    elements = blocks_at + most_tiles(p, m, shape.tile_rows * shape.block_tiles);
  }
};

}  // namespace ironcl::opencl
