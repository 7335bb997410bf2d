// SPDX-License-Identifier: Apache-2.0
// quantize_tiles.cl: X [m, k] quantised straight into the tiles that pack_a.cl's pack_tiles makes of codes: one pass over X
// instead of two, and no codes in memory. For scale groups of one row; quantize.cl has the others.
// One work-item makes a scale group (GROUP_COLS columns) of a tile of TILE rows, or some: largest magnitude, scale, values.
// a_tiles.cl says how tiles lie; past m and k are zeros.
//
// Tunable     default  values    meaning
// TILE        8        1 to 32   rows of a tile
// Set by the host: those of quantizer.cl and cache_hints.cl, and
// B_TYPE      4        4 5 7     codes of the weights: their decoding's unit goes into the values (fp8.cl)
// GROUP       128      32 to 128 K group of the GEMM: divides GROUP_COLS, or GROUP_COLS is past k
// GROUP_COLS  128                columns of a scale group of X
// GROUPED                        the tiles are those that deal.cl has dealt
// GATHER                         rows of X are found through a_index
// Local memory: none.
#include "cache_hints.cl"
#include "quantizer.cl"

#ifndef TILE
#define TILE 8
#endif
#ifndef B_TYPE
#define B_TYPE 4
#endif
#ifndef GROUP
#define GROUP 128
#endif
#ifndef GROUP_COLS
#define GROUP_COLS 128
#endif

#include "a_tiles.cl"
#include "dealt.cl"

#if TILE_FORM == TYPE_F32
#define UNIT WEIGHT_UNIT(B_TYPE)
#else
#define UNIT 1.0f
#endif

// The next groups of a row are this core's, and fetched: rows are too far apart for the hardware to see a stream in a few lines of each.
#define LINE (512 / BITS_OF(SOURCE))  // Values of a cache line.

// Whole groups of bf16 to bf16 tiles, 32 values at a time, which are a cache line of either: a word's upper half is a value already, its
// lower half is one after a shift, and what comes out is exact in the upper half again.
#if SOURCE == TYPE_BF16 && TILE_FORM == TYPE_BF16 && defined(QUICK_QUOTIENTS) && defined(CACHE_BUILTINS)
#define IN_PAIRS
// Where a group's width is no literal the compiler cannot unroll; it need not say so.
#pragma clang diagnostic ignored "-Wpass-failed"
#define PAIRED_COLS (GROUP_COLS <= 256 ? GROUP_COLS : 256)
typedef uint16 __attribute__((aligned(2))) words_anywhere;
typedef ushort ushort32 __attribute__((ext_vector_type(32)));
#define WORDS(x, at) (*(__global const words_anywhere*)((__global const ushort*)(x) + (at)))
#define SECOND_OF_PAIR (uint16)(0xffff0000u)

static inline uint16 quantized_pairs(uint16 words, float scale, float reciprocal) {
  const float16 first = quotient_16(as_float16(words << (uint16)(16)), scale, reciprocal);
  const float16 second = quotient_16(as_float16(words & SECOND_OF_PAIR), scale, reciprocal);
  return as_uint16(ROUND_16(CODE)(first)) >> (uint16)(16) | (as_uint16(ROUND_16(CODE)(second)) & SECOND_OF_PAIR);
}

/// The bits of the largest magnitude of `count` values from x[from] on.
static inline __attribute__((always_inline)) uint largest_of_pairs(__global const uchar* x, ulong from, int count) {
  ushort32 magnitudes = (ushort32)(0);
#pragma unroll
  for (int col = 0; col < count; col += 32) {
    const ushort32 next = __builtin_astype(WORDS(x, from + (ulong)col), ushort32) & (ushort32)(0x7fff);
    magnitudes = magnitudes > next ? magnitudes : next;
  }
  const uint16 pairs = __builtin_astype(magnitudes, uint16);
  return largest_bits(max(pairs << (uint16)(16), pairs & SECOND_OF_PAIR));
}

/// Values `first` to `first + count` of `rows` rows, a scale group each; x[at[i]] is the first element of row i. Scales go to scale[i], values
/// to their places in the tile, zeros to the places of rows that are not there. `count` is a multiple of 32, and where it is a literal nothing
/// waits for the end of a loop. False, and no values, where a row's quotients are not quick.
static inline __attribute__((always_inline)) bool quantize_in_pairs(__global uchar* values, int tile, int tiles, int k_pad, float* scale,
                                                                    __global const uchar* x, const ulong* at, int rows, int first,
                                                                    int count, uint floor_bits) {
  float reciprocal[TILE];
  bool all_quick = true;
  for (int i = 0; i < rows; ++i) {
    const ulong from = at[i] + (ulong)first;
    if (count <= 256) {
      for (int col = 0; col < count; col += LINE) PREFETCH((__global const ushort*)x + (from + (ulong)(2 * count + col)));
    }
    const uint amax = largest_of_pairs(x, from, count);
    scale[i] = scale_of_bits(amax, floor_bits);
    all_quick &= amax < 0x7f800000u && in_reach(scale[i]);
    reciprocal[i] = divide_exactly(1.0f, scale[i]);
  }
  if (!all_quick) return false;
#pragma unroll
  for (int col = first; col < first + count; col += RUN) {
    __global uint16* to = (__global uint16*)(values + 2 * element_in_tile(tile, tiles, k_pad, 0, col));
    for (int i = 0; i < rows; ++i)
      STORE_TILE(__global uint16, to + i, quantized_pairs(WORDS(x, at[i] + (ulong)col), scale[i], reciprocal[i]));
    for (int i = rows; i < TILE; ++i) STORE_TILE(__global uint16, to + i, (uint16)(0u));
  }
  return true;
}
#endif

// x: element x_at on, rows ldx apart. out: tiles from byte 4 * out_at on. scales: of row i of tile t and K group g at
// scales_at + (t * groups + g) * TILE + i. amax_floor: the bits of the floor.
__kernel
#if defined(MIN_VECTOR_WIDTH)
__attribute__((min_vector_width(512)))
#endif
void quantize_tiles(int m, int k, int k_pad, int groups, uint floor_bits, __global const uchar* x, ulong x_at, ulong ldx,
                    __global float* out, ulong out_at, __global float* scales, ulong scales_at DEALT_ARGS GATHER_ARGS) {
  // As many groups, one after another, as it takes for all to have a work-item.
  const long all = ((long)k + GROUP_COLS - 1) / GROUP_COLS, items = (long)get_global_size(0);
  const long each = (all + items - 1) / items * GROUP_COLS, first_of_item = (long)get_global_id(0) * each;
  EACH_TILE(TILE) {
    for (long first_col = first_of_item; first_col < min(first_of_item + each, (long)k); first_col += GROUP_COLS) {
      const dealt_tile here = TILE_HERE(TILE);
      if (tile == 0 && first_col == 0) no_block_is_taken(scales + (scales_at + (ulong)tiles * (ulong)groups * TILE));
      const int first = (int)first_col, end = (int)min(first_col + (long)GROUP_COLS, (long)k);
      const int fill = end == k ? k_pad : end, whole = first + (end - first) / 16 * 16;
      __global uchar* values = (__global uchar*)(out + out_at);
      __global float* tile_scales = scales + scales_at + (ulong)tile * (ulong)groups * TILE;
      float scale[TILE], reciprocal[TILE];
      bool quick[TILE], finite[TILE];
      ulong at[TILE];  // Of a row's element 0; what is past the rows is not read.
      for (int i = 0; i < TILE; ++i) {
        const int row = here.first + i;
        at[i] = x_at + (ulong)(row < here.end ? ROW_OF_A(row) : 0) * ldx;
        scale[i] = 0.0f;
      }
      int col = first;
#ifdef IN_PAIRS
      const int rows = min(TILE, here.end - here.first);
#define IN_PAIRS_OF(count) quantize_in_pairs(values, tile, tiles, k_pad, scale, x, at, rows, first, count, floor_bits)
      if ((end - first) % 32 == 0 && (end - first == PAIRED_COLS ? IN_PAIRS_OF(PAIRED_COLS) : IN_PAIRS_OF(end - first))) col = end;
#endif
      for (int i = 0; col == first && i < TILE; ++i) {
        const ulong from = at[i];
        reciprocal[i] = 0.0f;
        quick[i] = false;
        finite[i] = true;
        if (here.first + i < here.end) {
#if GROUP_COLS <= 256
          for (int next = 0; next < GROUP_COLS; next += LINE) PREFETCH(x + (from + (ulong)(end + next)) * (BITS_OF(SOURCE) / 8));
#endif
          const uint amax = largest_bits(larger_bits((uint16)(0u), x, from + (ulong)first, end - first));
          scale[i] = scale_of_bits(amax, floor_bits);
          finite[i] = amax < 0x7f800000u;
#ifdef QUICK_QUOTIENTS
          quick[i] = finite[i] && in_reach(scale[i]);
          if (quick[i]) reciprocal[i] = divide_exactly(1.0f, scale[i]);
#endif
        }
      }
      for (int group = first / GROUP; group * GROUP < end; ++group) {
        for (int i = 0; i < TILE; ++i) tile_scales[group * TILE + i] = scale[i];
      }
      for (; col < fill; col += 16) {
        for (int i = 0; i < TILE; ++i) {
          const int row = here.first + i;
          const ulong from = at[i] + (ulong)col;
          const ulong to = element_in_tile(tile, tiles, k_pad, i, col);
#ifdef QUICK_QUOTIENTS
          if (quick[i] && col < whole) {
            const float16 quotients = quotient_16(load_floats16(SOURCE, x, from), scale[i], reciprocal[i]);
            store_tile_16(values, to, ROUND_16(CODE)(quotients) * (float16)(UNIT));
            continue;
          }
#endif
          for (int j = 0; j < 16; ++j) {
            float value = 0.0f;
            if (row < here.end && col + j < end) {
              const uchar code = finite[i] ? code_of(load_element(SOURCE, x, from + (ulong)j), scale[i]) : (uchar)NAN_CODE;
              value = DECODE(CODE)((uint)code) * UNIT;
            }
            store_tile_1(values, to + (ulong)j, value);
          }
        }
      }
    }
  }
  TILES_ARE_STORED();
}
