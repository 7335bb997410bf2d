// SPDX-License-Identifier: Apache-2.0
// quantize_in_tile.cl: a scale group of a tile of rows, quantised into the tile. Shared by the kernel that quantises all tiles
// (quantize_tiles.cl) and one that quantises what it multiplies (gemm_amx.cl). a_tiles.cl says how tiles lie; past m and k are zeros.
// Set by the host: those of quantizer.cl, cache_hints.cl and a_tiles.cl, and
// B_TYPE      4    4 5 7     codes of the weights: their decoding's unit goes into the values of TILE_FORM 1 (fp8.cl)
// GROUP_COLS  128            columns of a scale group of X; a multiple of GROUP, or past k
#include "cache_hints.cl"
#include "quantizer.cl"

#include "a_tiles.cl"

#if TILE_FORM == TYPE_F32
#define UNIT_OF_VALUES WEIGHT_UNIT(B_TYPE)
#else
#define UNIT_OF_VALUES 1.0f
#endif

// The next groups of a row are this core's, and fetched: rows are too far apart for the hardware to see a stream in a few lines of each.
#define VALUES_OF_LINE (512 / BITS_OF(SOURCE))  // Values of a cache line.

// Whole groups of bf16 to bf16 tiles, 32 values at a time, which are a cache line of either: a word's upper half is a value already, its
// lower half is one after a shift, and what comes out is exact in the upper half again.
#if SOURCE == TYPE_BF16 && TILE_FORM == TYPE_BF16 && !defined(PAIRS_APART) && (FMA_DIVIDE || EXACT_DIVIDE) && defined(CACHE_BUILTINS)
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
      for (int col = 0; col < count; col += VALUES_OF_LINE) PREFETCH((__global const ushort*)x + (from + (ulong)(2 * count + col)));
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

/// Columns [first, end) of a tile of rows, a scale group: scales to tile_scales, for each K group in it, values to their places, zeros to the
/// places of rows that are not there and up to column `fill`. x[at[i]] is the first element of row i.
static inline __attribute__((always_inline)) void quantize_group_of_tile(__global uchar* values, __global float* tile_scales, int tile,
                                                                         int tiles, int k_pad, __global const uchar* x, const ulong* at,
                                                                         int rows, int first, int end, int fill, uint floor_bits) {
  const int whole = first + (end - first) / 16 * 16;
  float scale[TILE], reciprocal[TILE];
  bool quick[TILE], finite[TILE];
  for (int i = 0; i < TILE; ++i) scale[i] = 0.0f;
  int col = first;
#ifdef IN_PAIRS
#define IN_PAIRS_OF(count) quantize_in_pairs(values, tile, tiles, k_pad, scale, x, at, rows, first, count, floor_bits)
  if ((end - first) % 32 == 0 && (end - first == PAIRED_COLS ? IN_PAIRS_OF(PAIRED_COLS) : IN_PAIRS_OF(end - first))) col = end;
#endif
  for (int i = 0; col == first && i < TILE; ++i) {
    const ulong from = at[i];
    reciprocal[i] = 0.0f;
    quick[i] = false;
    finite[i] = true;
    if (i < rows) {
#if GROUP_COLS <= 256
      for (int next = 0; next < GROUP_COLS; next += VALUES_OF_LINE) PREFETCH(x + (from + (ulong)(end + next)) * (BITS_OF(SOURCE) / 8));
#endif
      const uint amax = largest_bits(larger_bits((uint16)(0u), x, from + (ulong)first, end - first));
      scale[i] = scale_of_bits(amax, floor_bits);
      finite[i] = amax < 0x7f800000u;
      quick[i] = finite[i] && in_reach(scale[i]);
      if (quick[i]) reciprocal[i] = divide_exactly(1.0f, scale[i]);
    }
  }
  for (int group = first / GROUP; group * GROUP < end; ++group) {
    for (int i = 0; i < TILE; ++i) tile_scales[group * TILE + i] = scale[i];
  }
  for (; col < fill; col += 16) {
    for (int i = 0; i < TILE; ++i) {
      const ulong from = at[i] + (ulong)col;
      const ulong to = element_in_tile(tile, tiles, k_pad, i, col);
      if (quick[i] && col < whole) {
        const float16 quotients = quotient_16(load_floats16(SOURCE, x, from), scale[i], reciprocal[i]);
        store_tile_16(values, to, ROUND_16(CODE)(quotients) * (float16)(UNIT_OF_VALUES));
        continue;
      }
      for (int j = 0; j < 16; ++j) {
        float value = 0.0f;
        if (i < rows && col + j < end) {
          const uchar code = finite[i] ? code_of(load_element(SOURCE, x, from + (ulong)j), scale[i]) : (uchar)NAN_CODE;
          value = DECODE(CODE)((uint)code) * UNIT_OF_VALUES;
        }
        store_tile_1(values, to + (ulong)j, value);
      }
    }
  }
}
