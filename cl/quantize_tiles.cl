// SPDX-License-Identifier: Apache-2.0
// quantize_tiles.cl: X [m, k] quantised straight into the tiles that pack_a.cl's pack_tiles makes of codes: one pass over X
// instead of two, and no codes in memory. For scale groups of one row; quantize.cl has the others.
// One work-item makes a scale group (GROUP_COLS columns) of a tile of TILE rows, or some: largest magnitude, scale, values.
// a_tiles.cl says how tiles lie; past m and k are zeros.
//
// Tunable     usual    values    meaning
// TILE        8        1 to 32   rows of a tile
// Set by the host: those of quantizer.cl and cache_hints.cl, and
// B_TYPE      4        4 5 7     codes of the weights: their decoding's unit goes into the values (fp8.cl)
// GROUP       128      32 to 128 K group of the GEMM: divides GROUP_COLS, or GROUP_COLS is past k
// GROUP_COLS  128                columns of a scale group of X
// GROUPED                        the tiles are those that schedule.cl has scheduled
// GATHER                         rows of X are found through a_index
// Local memory: none.

#include "scheduled.cl"
#include "quantize_in_tile.cl"

// x: element x_at on, rows ldx apart. out: tiles from byte 4 * out_at on. scales: of row i of tile t and K group g at
// scales_at + (t * groups + g) * TILE + i. amax_floor: the bits of the floor.
__kernel WIDE_VECTORS void quantize_tiles(PARAMETERS(QUANTIZE_TILES_LIST) SCHEDULED_ARGS GATHER_ARGS) {
  // As many groups, one after another, as it takes for all to have a work-item.
  const long all = ((long)k + GROUP_COLS - 1) / GROUP_COLS, items = (long)get_global_size(0);
  const long each = (all + items - 1) / items * GROUP_COLS, first_of_item = (long)get_global_id(0) * each;
  EACH_TILE(TILE) {
    for (long first_col = first_of_item; first_col < min(first_of_item + each, (long)k); first_col += GROUP_COLS) {
      const scheduled_tile here = TILE_HERE(TILE);
      if (tile == 0 && first_col == 0) no_block_is_taken(scales + (scales_at + (ulong)tiles * (ulong)groups * TILE));
      const int first = (int)first_col, end = (int)min(first_col + (long)GROUP_COLS, (long)k);
      ulong at[TILE];  // Of a row's element 0; what is past the rows is not read.
      for (int i = 0; i < TILE; ++i) at[i] = x_at + (ulong)(here.first + i < here.end ? ROW_OF_A(here.first + i) : 0) * ldx;
      quantize_group_of_tile((__global uchar*)(out + out_at), scales + scales_at + (ulong)tile * (ulong)groups * TILE, tile, tiles, k_pad, x,
                             at, min(TILE, here.end - here.first), first, end, end == k ? k_pad : end, floor_bits);
    }
  }
  TILES_ARE_STORED();
}
