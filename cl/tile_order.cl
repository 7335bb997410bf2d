// SPDX-License-Identifier: Apache-2.0
// tile_order.cl: the order in which work-groups that stay walk the tiles of D, ROWS_TOGETHER tiles of rows beside one another, so that
// neighbours want the same rows or columns; and who of them asks the L2 for those. For gemm_wgmma_f16 and gemm_wgmma_fp8.

#if defined(PTX_SM_90)
// Tile t's row and column of tiles.
static inline void tile_at(uint t, uint row_tiles, uint col_tiles, uint *row, uint *col)
{
  uint per = ROWS_TOGETHER * col_tiles, g = t / per, r = t - g * per, rows = min(row_tiles - g * ROWS_TOGETHER, (uint)ROWS_TOGETHER);
  *col = r / rows;
  *row = g * ROWS_TOGETHER + r % rows;
}

// A power of two of work-groups, of `count` that walk side by side.
static inline uint share_of(uint count) { return count >= 8 ? 8 : count >= 4 ? 4 : count >= 2 ? 2 : 1; }
#endif
