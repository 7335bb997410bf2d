// SPDX-License-Identifier: Apache-2.0
// schedule_rows.cl: schedules the rows of a grouped problem into tiles and blocks from counts that are never trusted: a negative one is 0, rows
// past m are cut off. The work-items of one work-group do it together, each a stretch of the matrices. For schedule.cl, which does nothing
// else, and for kernels that schedule before they fill tiles (SCHEDULES). Next door: scheduled.cl, which says what is left behind.
//
// A kernel with SCHEDULES is the first of a grouped plan, so that scheduling costs no launch of its own. All of its work-groups schedule, each in
// local memory, and come to the same unless counts change meanwhile, where results mean nothing, but nothing is written outside of
// what there is; what the next kernels read is the first one's.
// Set by the file that includes it: LANES, work-items that schedule; TABLE, the address space of their table (__global).
// Local memory: LANES * 8 B; with SCHEDULES a table of 32 B a matrix besides.
#include "scheduled.cl"
#include "lanes.cl"

#ifndef TABLE
#define TABLE __global
#endif

/// Fills table[8 * g + OF_...] of each matrix g and returns how many tiles and blocks there are, in all and before this lane's matrices
/// [*first, *end). matrix_rows: rows of each. masked: each has m rows of A and D to itself, the first are valid; else they share m rows.
/// tile: rows of a tile; block: tiles of a block. A lane may read its own part of the table at once, others' after a barrier.
static inline int4 schedule_rows(__local long* sums, int lane, int m, int matrices, int masked, int tile, int block,
                             __global const int* matrix_rows, TABLE int* table, int* first, int* end) {
  const int share = max((matrices + LANES - 1) / LANES, 1), lanes = max((matrices + share - 1) / share, 1);
  *first = min(lane * share, matrices);
  *end = min(*first + share, matrices);
  long sum = 0, all = 0;
  for (int g = *first; g < *end; ++g) {
    // Read once: counts that change meanwhile must not make two answers.
    const int rows = clamp(matrix_rows[g], 0, m);
    table[8 * g + OF_ROWS] = rows;
    sum += rows;
  }
  long row = masked ? (long)*first * m : sum_before(sums, lane, lanes, sum, &all);
  long tiles = 0, blocks = 0;
  for (int g = *first; g < *end; ++g) {
    TABLE int* of = table + 8 * g;
    const long at = masked ? row : min(row, (long)m);
    const int rows = masked ? of[OF_ROWS] : (int)min((long)of[OF_ROWS], (long)m - at);
    const int tiles_here = (rows + tile - 1) / tile, blocks_here = (tiles_here + block - 1) / block;
    row += masked ? m : rows;
    of[OF_ROW] = (int)at;
    of[OF_ROWS] = rows;
    of[OF_TILES] = tiles_here;
    of[OF_BLOCKS] = blocks_here;
#ifdef EVEN_TILES
    of[OF_HEIGHT] = tiles_here > 1 ? (rows + tiles_here - 1) / tiles_here : rows;  // As many tiles as full ones.
#else
    of[OF_HEIGHT] = tile;
#endif
    of[7] = 0;  // Nothing yet.
    tiles += tiles_here;
    blocks += blocks_here;
  }
  const long before = sum_before(sums, lane, lanes, tiles | blocks << 32, &all);  // Each is less than 2^31.
  int next_tile = (int)(before & 0x7fffffff), next_block = (int)(before >> 32);
  for (int g = *first; g < *end; ++g) {
    TABLE int* of = table + 8 * g;
    of[OF_TILE] = next_tile;
    of[OF_BLOCK] = next_block;
    next_tile += of[OF_TILES];
    next_block += of[OF_BLOCKS];
  }
  return (int4)((int)(all & 0x7fffffff), (int)(all >> 32), (int)(before & 0x7fffffff), (int)(before >> 32));
}

/// Of the matrices [first, end), whose part of the table is this lane's, the lists of tiles and blocks, where schedule_rows returned `counts`;
/// and, of the last lane, how many there are.
static inline void list_dealt(__global int* scheduled, int lane, int4 counts, TABLE const int* table, int first, int end, int tiles_at,
                              int blocks_at) {
  int next_tile = counts.z, next_block = counts.w;
  for (int g = first; g < end; ++g) {
    // Read before the lists are written: a reader of memory cannot know that these are not part of them.
    const int end_tile = next_tile + table[8 * g + OF_TILES], end_block = next_block + table[8 * g + OF_BLOCKS];
    while (next_tile < end_tile) scheduled[tiles_at + next_tile++] = g;
    while (next_block < end_block) scheduled[blocks_at + next_block++] = g;
  }
  if (lane == LANES - 1) {
    scheduled[SCHEDULED_TILES] = counts.x;
    scheduled[SCHEDULED_BLOCKS] = counts.y;
    scheduled[SCHEDULED_TILES_AT] = tiles_at;
    scheduled[SCHEDULED_BLOCKS_AT] = blocks_at;
    scheduled[SCHEDULED_NEXT] = 0;
  }
}

#ifdef SCHEDULES
#define SCHEDULES_ARGS , PARAMETERS(SCHEDULE_FIRST_LIST)
/// Schedules tiles of `height` rows, one a block; `tiles`: how many there are.
#define SCHEDULE(tiles, height)                                                                                          \
  __local long sums_[LANES];                                                                                         \
  const int lane_ = (int)get_local_id(0);                                                                            \
  int first_, end_;                                                                                                  \
  const int4 counts_ = schedule_rows(sums_, lane_, m, matrices, masked, height, 1, matrix_rows + rows_at, table, &first_, &end_); \
  if (get_group_id(0) == 0) {                                                                                        \
    __global int* schedule_ = schedule_memory + schedule_at;                                                                  \
    for (int i_ = 8 * first_; i_ < 8 * end_; ++i_) schedule_[SCHEDULED_HEAD + i_] = table[i_];                              \
    list_dealt(schedule_, lane_, counts_, table, first_, end_, tiles_at, blocks_at);                                    \
  }                                                                                                                  \
  const int tiles = counts_.x;                                                                                       \
  SYNC(CLK_LOCAL_MEM_FENCE)

/// The matrix of tile `number`, or, with OF_ROW in place of OF_TILE as `begin`, of row `number`: the last one that begins there or before. Later
/// ones begin later, and empty ones where the next does.
static inline int matrix_at(__local const int* table, int matrices, int begin, int number) {
  int matrix = 0;
  for (int step = 1 << (31 - (int)clz(matrices)); step > 0; step /= 2)
    if (matrix + step < matrices && table[8 * (matrix + step) + begin] <= number) matrix += step;
  return matrix;
}

/// Tile `tile`, one of those scheduled.
static inline scheduled_tile tile_in_table(__local const int* table, int matrices, int tile) {
  const int matrix = matrix_at(table, matrices, OF_TILE, tile);
  __local const int* of = table + 8 * matrix;
  return TILE_IN(of, matrix, tile);
}
#define TILE_SCHEDULED(tile) tile_in_table(table, matrices, tile)

/// block_of() of scheduled.cl, where a tile is a block.
static inline scheduled_block block_in_table(__local const int* table, int matrices, long unit, int columns) {
  const int matrix = tile_in_table(table, matrices, (int)(unit / columns)).matrix;
  __local const int* of = table + 8 * matrix;
  const int at = (int)(unit - (long)of[OF_TILE] * columns), tile = of[OF_TILE] + at % of[OF_TILES];
  const scheduled_tile here = TILE_IN(of, matrix, tile);
  return (scheduled_block){matrix, here.first, here.end, tile, 1, at / of[OF_TILES], of[OF_HEIGHT]};
}
#elif defined(GROUPED)
#define SCHEDULES_ARGS SCHEDULED_ARGS
#define SCHEDULE(tiles, height) const int tiles = schedule_memory[schedule_at + SCHEDULED_TILES]
#define TILE_SCHEDULED(tile) tile_of(schedule_memory + schedule_at, tile)
#else
#define SCHEDULES_ARGS
#endif
