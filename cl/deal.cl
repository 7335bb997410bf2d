// SPDX-License-Identifier: Apache-2.0
// deal.cl: deals the rows of a grouped problem into tiles and blocks, on the device, from counts that are never trusted: a negative
// one is 0, rows past m are cut off. One work-group; work-item i has a stretch of the matrices. dealt.cl says what it leaves.
//
// Tunable  default  values   meaning
// LANES    1        1 to 64  work-items
// Set by the host: EVEN_TILES: the tiles of a matrix are as equal as can be, not all full but the last.
// Local memory: LANES * 16 B = 16 B with the defaults.
#include "dealt.cl"
#include "lanes.cl"

/// The sum of what the lanes before this one have.
static inline long sum_before(__local const long* sums, int lane) {
  long sum = 0;
  for (int i = 0; i < lane; ++i) sum += sums[i];
  return sum;
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
  sums[lane] = sum;
  SYNC(CLK_LOCAL_MEM_FENCE);
  long row = masked ? (long)first * m : sum_before(sums, lane);
  SYNC(CLK_LOCAL_MEM_FENCE);
  long tiles = 0, blocks = 0;
  for (int g = first; g < end; ++g) {
    __global int* of = dealt + DEALT_HEAD + 8 * g;
    const long at = masked ? row : min(row, (long)m);
    const int rows = masked ? of[OF_ROWS] : (int)min((long)of[OF_ROWS], (long)m - at);
    row += masked ? m : rows;
    of[OF_ROW] = (int)at;
    of[OF_ROWS] = rows;
    of[OF_TILES] = (rows + tile - 1) / tile;
    of[OF_BLOCKS] = (of[OF_TILES] + block - 1) / block;
#ifdef EVEN_TILES
    of[OF_HEIGHT] = of[OF_TILES] > 1 ? (rows + of[OF_TILES] - 1) / of[OF_TILES] : rows;  // As many tiles as full ones.
#else
    of[OF_HEIGHT] = tile;
#endif
    tiles += of[OF_TILES];
    blocks += of[OF_BLOCKS];
  }
  sums[lane] = tiles;
  block_sums[lane] = blocks;
  SYNC(CLK_LOCAL_MEM_FENCE);
  int next_tile = (int)sum_before(sums, lane), next_block = (int)sum_before(block_sums, lane);
  for (int g = first; g < end; ++g) {
    __global int* of = dealt + DEALT_HEAD + 8 * g;
    of[OF_TILE] = next_tile;
    of[OF_BLOCK] = next_block;
    for (int i = 0; i < of[OF_TILES]; ++i) dealt[tiles_at + next_tile++] = g;
    for (int i = 0; i < of[OF_BLOCKS]; ++i) dealt[blocks_at + next_block++] = g;
  }
  if (lane == LANES - 1) {
    dealt[DEALT_TILES] = next_tile;
    dealt[DEALT_BLOCKS] = next_block;
    dealt[DEALT_TILES_AT] = tiles_at;
    dealt[DEALT_BLOCKS_AT] = blocks_at;
    dealt[DEALT_NEXT] = 0;
  }
}
