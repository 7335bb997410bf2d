// SPDX-License-Identifier: Apache-2.0
// split_k.cl: parts of k for kernels with many work-items a work-group (gemm_tiled.cl, gemm_skinny.cl, gemm_mma_tiled.cl, gemm_dpas.cl,
// gemm_wave.cl): the tile and the part that a work-group makes, which K groups that part has, where its sums lie, and the kernel that adds
// them, always in the same order: the same bits on every call. It is a kernel of its own, since OpenCL 1.2 promises no work-group that it
// sees what another one has written before a kernel ends.
// Set by the including file: TILE_M and SPLIT_K, the parts; ROWS_TOGETHER, tiles of rows that are walked together. Set by the host: those
// of tile.cl.
#include "tile.cl"

#ifndef ROWS_TOGETHER
#define ROWS_TOGETHER 1
#endif
/// The column and the tile of rows of the work-group that comes as number `column` of row `tile`: ROWS_TOGETHER tiles of rows take a
/// column each before the next column, so that the work-groups that are under way together share columns as well as rows.
static inline int2 place_of(int column, int tile, int columns, int tiles) {
#if ROWS_TOGETHER > 1
  const int at = tile * columns + column, strip = at / (ROWS_TOGETHER * columns), in_strip = at % (ROWS_TOGETHER * columns);
  const int high = max(1, min(ROWS_TOGETHER, tiles - strip * ROWS_TOGETHER));
  return (int2)(in_strip / high, strip * ROWS_TOGETHER + in_strip % high);
#else
  return (int2)(column, tile);
#endif
}

// After EACH_UNIT(columns * SPLIT_K), `columns` tiles of `width` columns of D: the tile `here` from column first_n on, the part of k,
// and how many rows the sums of a part have.
#ifdef GROUPED
#define PART_HERE(width, columns)                                                                  \
  const scheduled_block here = block_of(scheduled, work, (columns)*SPLIT_K);                               \
  const int part = here.column % SPLIT_K, first_n = here.column / SPLIT_K * (width);               \
  const ulong scratch_rows = (ulong)scheduled[SCHEDULED_TILES] * TILE_M;
#else
#define PART_HERE(width, columns)                                                                  \
  const int part = (int)get_group_id(1) % SPLIT_K;                                                 \
  const int2 place = place_of((int)get_group_id(0), (int)get_group_id(1) / SPLIT_K, columns, (m + TILE_M - 1) / TILE_M); \
  const int first_n = place.x * (width), first_tile = place.y;                                     \
  if (first_tile * TILE_M >= m || first_n >= n) return;                                            \
  const scheduled_block here = {0, first_tile * TILE_M, m, first_tile, 1, 0, TILE_M};                  \
  const ulong scratch_rows = (ulong)m;
#endif

// The first K group of a part; that of the next part is its end.
#define FIRST_GROUP(part) ((int)((long)(part) * ((k + GROUP - 1) / GROUP) / SPLIT_K))
// The sum of a part: `row` counts rows of the problem, in a grouped one rows of tiles; `rows` is how many there are.
#define PARTIAL(part, rows, row, column) \
  scratch[scratch_at + ((ulong)(part) * (ulong)(rows) + (ulong)(row)) * (ulong)n_pad + (ulong)(column)]

#if SPLIT_K > 1
#undef PUT_TOTAL_
#define PUT_TOTAL_(i, j, row, column, total) PARTIAL(part, scratch_rows, here.first_tile * TILE_M + (i), column) = (total)
#endif

// Work-group (columns, row), in a grouped problem (columns, tile): all its rows.
#ifdef GROUPED
#define REDUCED TILE_M
#else
#define REDUCED 1
#endif
#define REDUCE_ITEMS 64
#define DEFINE_REDUCE(NAME)                                                                              \
  __kernel __attribute__((reqd_work_group_size(REDUCE_ITEMS, 1, 1))) void NAME(GEMM_ARGS) {              \
    const int column = (int)get_global_id(0);                                                            \
    EACH_TILE(REDUCED) {                                                                                 \
      const scheduled_tile here = TILE_HERE(REDUCED);                                                        \
      const ulong bias_here = bias_at + (ulong)here.matrix * (ulong)n;                                   \
      for (int i = 0; i < REDUCED; ++i) {                                                                \
        const ulong row = (ulong)tile * REDUCED + (ulong)i, rows = (ulong)tiles * REDUCED;               \
        const int inside = min(column, n - 1);                                                           \
        float value = PARTIAL(0, rows, row, inside);                                                     \
        for (int part = 1; part < SPLIT_K; ++part) value += PARTIAL(part, rows, row, inside);            \
        if (here.first + i < here.end && column < n)                                                     \
          store_d(d, d_at, ldd, bias, bias_here, here.first + i, column, value);                         \
      }                                                                                                  \
    }                                                                                                    \
  }
