// SPDX-License-Identifier: Apache-2.0
// totals_of_tile.cl: the way out of the totals that the work-items of a work-group have of a tile, from registers, to D or to codes of D. Part of
// epilogue.cl, whose STORE_ROW is for totals that lie side by side in local memory.
//
//   GROUP_MAGNITUDES(rows, columns)           of the tile: among the kernel's arrays in local memory
//   EACH_PASS {                               for codes a pass before finds what is largest in each scale group of a row
//     START_PASS
//     PUT_TOTAL(i, j, total);                 of all rows i and columns j of D in the tile; or
//     PUT_FOUR_TOTALS(i, j, v0, v1, v2, v3);  four columns of B side by side, the first the tile's column j, with ACTIVATION gate, up, gate, up; or
//     PUT_OF_BLOCKS(i, j, total, up);         one of each BLOCK_STEP blocks of columns, with ACTIVATION of gates and of their ups: D's column j
//   }
// A kernel may define, before this file, where in D the tile lies, and which of its work-items have totals.
#ifndef TILE_ROW
#define TILE_ROW here.first_row
#define TILE_END here.end_row
#define TILE_COLUMN first_n
#endif
#if defined(D_SCALE_TYPE) && (!defined(SPLIT_K) || SPLIT_K == 1)
#ifndef TILE_BARRIER
#define TILE_ITEM get_local_id(0)
#define TILE_ITEMS get_local_size(0)
#define TILE_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#endif
#define GROUP_MAGNITUDES(rows, columns) __local uint magnitudes[rows][((columns) + 31) / 32];
#define EACH_PASS                                                                                                                      \
  TILE_BARRIER();                                                                                                                      \
  for (uint i_ = (uint)TILE_ITEM; i_ < sizeof(magnitudes) / 4; i_ += (uint)TILE_ITEMS) magnitudes[0][i_] = 0;                          \
  for (int pass = D_GIVEN; pass < 2; ++pass)
#define START_PASS TILE_BARRIER();
#define STORE_TOGETHER(i, j, row, column, v0, v1, v2, v3, count)                                                                        \
  put_together(pass, &magnitudes[i][(j) / d_cols], d, d_at + (ulong)(row) * ldd + (ulong)(column), ds, D_SCALE_AT(row, column), v0, v1, \
               v2, v3, count, (column) % d_cols == 0, d_floor)
#define STORE_TOTAL(i, j, row, column, total) STORE_TOGETHER(i, j, row, column, D_TOTAL(total, row, column), 0.0f, 0.0f, 0.0f, 1)
#else
#define GROUP_MAGNITUDES(rows, columns)
#define EACH_PASS
#define START_PASS
#define STORE_TOTAL(i, j, row, column, total) store_d(d, d_at, ldd, bias, bias_here, row, column, total)
#endif

#define PUT_TOTAL_ STORE_TOTAL  // split_k.cl has another one.
// STORE, a statement about row_ and column_ of D, of (i, j) of the tile, where those are inside.
#define IF_INSIDE(i, j, STORE)                                                              \
  do {                                                                                      \
    const int row_ = (int)TILE_ROW + (int)(i), column_ = OF_D((int)TILE_COLUMN) + (int)(j); \
    if (row_ < (int)TILE_END && column_ < OF_D(n)) STORE;                                   \
  } while (0)
#define PUT_TOTAL(i, j, total) IF_INSIDE(i, j, PUT_TOTAL_(i, j, row_, column_, total))
#ifdef ACTIVATION
#define BLOCK_STEP 2
#define GATED(column, gate, up) activated(bias, bias_here, n, column, gate, up)
#define PUT_OF_BLOCKS(i, j, gate, up) PUT_TOTAL(i, j, GATED(column_, gate, up))
#define FOUR_OF_D(v0, v1, v2, v3) IF_COLUMN(0, GATED(column_, v0, v1)), IF_COLUMN(1, GATED(column_ + 1, v2, v3)), 0.0f, 0.0f
#define PUT_EACH_TOTAL(i, j, v0, v1, v2, v3) \
  PUT_OF_BLOCKS(i, OF_D(j), v0, v1);         \
  PUT_OF_BLOCKS(i, OF_D(j) + 1, v2, v3)
#else
#define BLOCK_STEP 1
#define PUT_OF_BLOCKS(i, j, total, same) PUT_TOTAL(i, j, total)
#define FOUR_OF_D(v0, v1, v2, v3) IF_COLUMN(0, v0), IF_COLUMN(1, v1), IF_COLUMN(2, v2), IF_COLUMN(3, v3)
#define PUT_EACH_TOTAL(i, j, v0, v1, v2, v3) \
  PUT_TOTAL(i, j, v0);                       \
  PUT_TOTAL(i, (j) + 1, v1);                 \
  PUT_TOTAL(i, (j) + 2, v2);                 \
  PUT_TOTAL(i, (j) + 3, v3)
#endif
#ifdef STORE_TOGETHER
#define IF_COLUMN(e, total) (column_ + (e) < OF_D(n) ? D_TOTAL(total, row_, column_ + (e)) : 0.0f)
#define STORE_FOUR_OF_D(i, j, ...) STORE_TOGETHER(i, j, row_, column_, __VA_ARGS__, min(OF_D(4), OF_D(n) - column_))
#define PUT_FOUR_TOTALS(i, j, v0, v1, v2, v3) IF_INSIDE(i, OF_D(j), STORE_FOUR_OF_D(i, OF_D(j), FOUR_OF_D(v0, v1, v2, v3)))
#else
#define PUT_FOUR_TOTALS(i, j, v0, v1, v2, v3) do { PUT_EACH_TOTAL(i, j, v0, v1, v2, v3); } while (0)
#endif
