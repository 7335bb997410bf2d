// SPDX-License-Identifier: Apache-2.0
// pack_a.cl: A [m, k] in the form that a GEMM kernel reads, with one f32 scale for each row and K group.
// pack_rows:  row major, k padded with zeros to k_pad; codes stay codes and floats become f32, or all TILE_FORM bf16.
// pack_tiles: in tiles of TILE rows, as a_tiles.cl says; k_pad a multiple of 16; past m and k are zeros.
//             Scale of row i of tile t and K group g at (t * groups + g) * TILE + i.
//
// Tunable     usual    values   meaning
// TILE        8        1 to 32  rows of a tile (pack_tiles)
// Set by the host: those of cache_hints.cl, and
// A_TYPE      4        1 to 7   element type of A
// SCALE_TYPE  1        0 to 6   type of A's scales; 0: none, all 1
// B_TYPE      4        1 to 7   the weights (for UNIT_IN_A)
// GROUP       128      32 to 128  the K group of the GEMM: divides both operands' scale groups
// GROUPED                       pack_tiles makes the tiles that schedule.cl has scheduled
// GATHER                        pack_tiles: rows of A are found through a_index
// Local memory: none.
#include "cache_hints.cl"
#include "fp8.cl"

// UNIT_IN_A: codes are multiplied with the unit of the weights' decoding (fp8.cl), a power of two: exact.
#include "a_tiles.cl"
#include "scheduled.cl"
#if defined(UNIT_IN_A)
#define UNIT WEIGHT_UNIT(B_TYPE)
#else
#define UNIT 1.0f
#endif

#if A_TYPE == TYPE_BF16 && TILE_FORM == TYPE_BF16
#define SOURCE A_TYPE
#include "magnitudes.cl"
/// What values [first, end) of a row are multiplied by, and their scale divided: dot products of bf16 take denormals for zero, so small
/// values become larger, exactly. Beside one of 2^60 and more a denormal is nothing.
static inline float unit_of_group(__global const uchar* a, ulong row_at, int first, int end) {
  const uint largest = largest_bits(larger_bits((uint16)(0u), a, row_at + (ulong)first, end - first));
  return largest < as_uint(0x1p60f) ? 0x1p32f : 1.0f;
}
#define UNIT_OF_GROUP unit_of_group(a, from, first, end)
#define IN_UNIT(scale, unit) ((scale) / (unit))
#else
#define UNIT_OF_GROUP UNIT
#define IN_UNIT(scale, unit) (scale)
#endif

// The arguments of both. a: element a_at on, rows lda apart. sa: element s_at on, rows lds apart, one for each
// scale_rows x scale_cols of A. out: from byte 0 of out + out_at; scales: f32 from scales_at on.
#define PACK_ARGS PARAMETERS(PACK_LIST)

static inline float a_scale(__global const uchar* sa, ulong s_at, ulong lds, int row, int col, int scale_rows,
                     int scale_cols) {
#if SCALE_TYPE == 0
  return 1.0f;
#else
  return load_element(SCALE_TYPE, sa, s_at + (ulong)(row / scale_rows) * lds + (ulong)(col / scale_cols));
#endif
}

// Work-item (g, row): the K group g of a row; the last one also writes the padding.
__kernel void pack_rows(PACK_ARGS) {
  const int group = (int)get_global_id(0), row = (int)get_global_id(1);
  if (row >= m || group >= groups) return;
  const int first = group * GROUP;
  const int end = min(first + GROUP, k), fill = group == groups - 1 ? k_pad : end;
  const ulong from = a_at + (ulong)row * lda, to = (ulong)row * (ulong)k_pad;
#if A_TYPE >= 4 && TILE_FORM == TYPE_F32
  __global uchar* codes = out + out_at + to;
  for (int col = first; col < end; ++col) codes[col] = a[from + (ulong)col];
  for (int col = end; col < fill; ++col) codes[col] = (uchar)0;
#else
  for (int col = first; col < fill; ++col)
    store_element(TILE_FORM, out + out_at, to + (ulong)col, col < end ? load_element(A_TYPE, a, from + (ulong)col) : 0.0f);
#endif
  scales[scales_at + (ulong)row * (ulong)groups + (ulong)group] =
      a_scale(sa, s_at, lds, row, first, scale_rows, scale_cols);
}

// Work-item (g, t): the K group g of a tile of rows.
__kernel WIDE_VECTORS void pack_tiles(PACK_ARGS SCHEDULED_ARGS GATHER_ARGS) {
  const int group = (int)get_global_id(0);
  EACH_TILE(TILE) {
    if (group >= groups) return;
    const scheduled_tile here = TILE_HERE(TILE);
    if (tile == 0 && group == 0) no_block_is_taken(scales + (scales_at + (ulong)tiles * (ulong)groups * TILE));
    const int first = group * GROUP;
    const int end = min(first + GROUP, k), fill = group == groups - 1 ? k_pad : end;
    __global uchar* values = out + out_at;
    __global float* tile_scales = scales + scales_at + ((ulong)tile * (ulong)groups + (ulong)group) * TILE;
    for (int i = 0; i < TILE; ++i) {
      const bool inside = here.first + i < here.end;
      const int row = inside ? ROW_OF_A(here.first + i) : 0;
      const ulong from = a_at + (ulong)row * lda;
      const float unit = UNIT_OF_GROUP;
      for (int col = first; col < fill; col += 16) {
        const ulong to = element_in_tile(tile, tiles, k_pad, i, col);
        if (inside && col + 16 <= end) {
#if A_TYPE >= 4
          const float16 part = DECODE_16(A_TYPE)(convert_uint16(vload16(0, a + from + (ulong)col)));
#else
          const float16 part = load_floats16(A_TYPE, a, from + (ulong)col);
#endif
          store_tile_16(values, to, part * (float16)(unit));
        } else {
          for (int j = 0; j < 16; ++j) {
            store_tile_1(values, to + (ulong)j,
                         inside && col + j < end ? load_element(A_TYPE, a, from + (ulong)(col + j)) * unit : 0.0f);
          }
        }
      }
      tile_scales[i] = inside ? IN_UNIT(a_scale(sa, s_at, lds, row, first, scale_rows, scale_cols), unit) : 0.0f;
    }
  }
  TILES_ARE_STORED();
}
