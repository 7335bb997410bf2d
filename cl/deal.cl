// SPDX-License-Identifier: Apache-2.0
// deal.cl: deals the rows of a grouped problem into tiles and blocks, on the device, from counts that are never trusted: a negative
// one is 0, rows past m are cut off. One work-group; work-item i has a stretch of the matrices. dealt.cl says what it leaves.
//
// Tunable  default  values   meaning
// LANES    1        1 to 256 work-items
// Set by the host: EVEN_TILES: the tiles of a matrix are as equal as can be, not all full but the last.
// Local memory: LANES * 16 B = 16 B with the defaults.
#include "dealt.cl"
#include "lanes.cl"

/// The sum of what the lanes before this one have given as `value`. All lanes call it.
static inline long sum_before(__local long* sums, int lane, long value) {
  sums[lane] = value;
  SYNC(CLK_LOCAL_MEM_FENCE);
  for (int step = 1; step < LANES; step *= 2) {
    const long before = lane >= step ? sums[lane - step] : 0;
    SYNC(CLK_LOCAL_MEM_FENCE);
    sums[lane] += before;
    SYNC(CLK_LOCAL_MEM_FENCE);
  }
  return sums[lane] - value;
}

// matrix_rows: from rows_at on, rows of each of the `matrices`. masked: each has m rows of A and D to itself, the first are valid; else
// they share m rows. tile: rows of a tile; block: tiles of a block. tiles_at, blocks_at: where the lists go.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void deal(int m, int matrices, int masked, int tile, int block,
                                                                       __global const int* matrix_rows, ulong rows_at,
                                                                       __global int* dealt_memory, ulong dealt_at,
                                                                       int tiles_at, int blocks_at) {
  __local long sums[LANES], block_sums[LANES];
  if (m == 0) return;
  __global int* dealt = dealt_memory + dealt_at;
  const int lane = (int)get_local_id(0), share = (matrices + LANES - 1) / LANES;
  const int first = min(lane * share, matrices), end = min(first + share, matrices);
  long sum = 0;
  for (int g = first; g < end; ++g) {
    // Read once: counts that change meanwhile must not make two answers.
    const int rows = clamp(matrix_rows[rows_at + (ulong)g], 0, m);
    dealt[DEALT_HEAD + 8 * g + OF_ROWS] = rows;
    sum += rows;
  }
  const long rows_before = sum_before(sums, lane, sum);
  long row = masked ? (long)first * m : rows_before;
  long tiles = 0, blocks = 0;
  for (int g = first; g < end; ++g) {
    __global int* of = dealt + DEALT_HEAD + 8 * g;
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
    tiles += tiles_here;
    blocks += blocks_here;
  }
  SYNC(CLK_LOCAL_MEM_FENCE);  // Sums of rows have been read.
  int next_tile = (int)sum_before(sums, lane, tiles), next_block = (int)sum_before(block_sums, lane, blocks);
  for (int g = first; g < end; ++g) {
    __global int* of = dealt + DEALT_HEAD + 8 * g;
    of[OF_TILE] = next_tile;
    of[OF_BLOCK] = next_block;
    // Read before the lists are written: a reader of memory cannot know that these are not part of them.
    const int end_tile = next_tile + of[OF_TILES], end_block = next_block + of[OF_BLOCKS];
    while (next_tile < end_tile) dealt[tiles_at + next_tile++] = g;
    while (next_block < end_block) dealt[blocks_at + next_block++] = g;
  }
  if (lane == LANES - 1) {
    dealt[DEALT_TILES] = next_tile;
    dealt[DEALT_BLOCKS] = next_block;
    dealt[DEALT_TILES_AT] = tiles_at;
    dealt[DEALT_BLOCKS_AT] = blocks_at;
    dealt[DEALT_NEXT] = 0;
  }
}
