// SPDX-License-Identifier: Apache-2.0
// a_tiles.cl: how tiles of A lie, for the kernels that make them: quantize_tiles.cl and pack_a.cl.
// TILE_FORM 1: f32, a tile of TILE rows through all of k; in it, each 16 k of a row side by side: element (i, k) of tile t at
//              (t * k_pad + k - k % 16) * TILE + i * 16 + k % 16.
// TILE_FORM 3: bf16, for gemm_amx.cl and gemm_bf16.cl: the tiles of a K group lie together, so that a block of rows is one stretch of memory (rows
//              whose distance is a power of two would share a few sets of the caches). RUN k of a row side by side: element (i, k) at
//              (((k / GROUP) * tiles + t) * GROUP + k % GROUP - k % RUN) * TILE + i * RUN + k % RUN, RUN 32 or GROUP, the lesser; k_pad a
//              multiple of GROUP. Beside weights of four bits k and k + 4 of each eight are neighbours: 0 4 1 5 2 6 3 7.
// TILE_FORM 7: int8, the same with RUN 64 or GROUP, the lesser.
// After the scales of all tiles of TILE_FORM 3 and 7 is a word, zero: of the product's blocks none has been taken (tile.cl).
// Set by the host: TILE_FORM, TILE, GROUP, B_TYPE.
#include "cache_hints.cl"
#include "fp8.cl"

#if TILE_FORM == TYPE_F32
#define RUN 16
#define TILE_OF(tile, tiles, k_pad, k) ((ulong)(tile) * (ulong)(k_pad) * TILE + (ulong)(k) * TILE)
#else
#define LONGEST_RUN (TILE_FORM == TYPE_BF16 ? 32 : 64)
#define RUN (GROUP < LONGEST_RUN ? GROUP : LONGEST_RUN)
#define TILE_OF(tile, tiles, k_pad, k) \
  (((ulong)((k) / GROUP) * (ulong)(tiles) + (ulong)(tile)) * (GROUP * TILE) + (ulong)((k) % GROUP - (k) % RUN) * TILE + (k) % RUN)
#endif
#if TILE_FORM == TYPE_BF16 && BITS_OF(B_TYPE) < 8
#define PAIRS_APART
#define IN_PLACE_16(halves) PAIRS_APART_16(halves)
#define PLACE_OF(at) (((at) & ~7ul) | ((at) << 1 & 7ul) | ((at) >> 2 & 1ul))
#else
#define IN_PLACE_16(halves) halves
#define PLACE_OF(at) (at)
#endif

/// Where element (i, k) of a tile is; k is a multiple of 16, and what follows it up to the next is side by side.
static inline ulong element_in_tile(int tile, int tiles, int k_pad, int i, int k) {
  return TILE_OF(tile, tiles, k_pad, k) + (ulong)(i * RUN);
}

/// Sixteen values, exact in the form's type, from element `at` on.
static inline void store_tile_16(__global uchar* tiles, ulong at, float16 values) {
#if TILE_FORM == TYPE_F32
  STORE_TILE(__global float16, (__global float*)tiles + at, values);
#elif TILE_FORM == TYPE_BF16
  const ushort16 halves = convert_ushort16(as_uint16(values) >> (uint16)(16));
  *(__global ushort16*)((__global ushort*)tiles + at) = IN_PLACE_16(halves);
#else
  *(__global char16*)(tiles + at) = convert_char16(values);
#endif
}

static inline void store_tile_1(__global uchar* tiles, ulong at, float value) {
#if TILE_FORM == TYPE_F32
  ((__global float*)tiles)[at] = value;
#elif TILE_FORM == TYPE_BF16
  ((__global ushort*)tiles)[PLACE_OF(at)] = (ushort)(as_uint(value) >> 16);
#else
  ((__global char*)tiles)[at] = convert_char(value);
#endif
}

/// Of the work-item that makes the first values of the first tile: says so in the word after the scales.
static inline void no_block_is_taken(__global float* scales_end) {
#if TILE_FORM != TYPE_F32
  *(__global uint*)scales_end = 0u;
#endif
}
