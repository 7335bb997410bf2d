// SPDX-License-Identifier: Apache-2.0
// tiles_by_hand.cl: gemm_amx on a processor without tiles: the instructions of amx.cl done by hand, tiles in a
// struct. What an instruction reads from its bytes it reads here: the tile from bits 3 to 5 of ModRM, rows and bytes
// of each tile from the 64 bytes of configuration. Source: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2 (TILELOADD, TILESTORED, TDPBF16PS, TDPBSSD).
#ifndef AMX
#define AMX 1
#endif
#define TILE_INSTRUCTIONS 1

typedef struct {
  uchar config[64];
  uint words[8][16][16];
} tile_state;

static inline int rows_of_tile(const tile_state* s, int tile) { return s->config[0] == 1 ? s->config[48 + tile] : 0; }
static inline int words_of_tile(const tile_state* s, int tile) {
  return (s->config[16 + 2 * tile] | s->config[17 + 2 * tile] << 8) / 4;
}

// Functions that stay functions: a step of the kernel has ten of these, and is unrolled. As in the unit, an address
// is a number: on a processor it does not matter to whose memory it points.
#define BY_HAND static __attribute__((noinline)) void
#define CONFIGURE_TILES(state, p) configure_by_hand(state, (uintptr_t)(p))
#define RELEASE_TILES(state) (state)->config[0] = (uchar)0
#define LOAD_TILE_(state, modrm, p, stride) load_by_hand(state, (modrm) >> 3 & 7, (uintptr_t)(p), stride)
#define PASS_TILE_(state, modrm, p, stride) LOAD_TILE_(state, modrm, p, stride)
#define STORE_TILE_(state, modrm, p, stride) store_by_hand(state, (modrm) >> 3 & 7, (uintptr_t)(p), stride)
#define ZERO_SUMS(state) zero_sums_by_hand(state)
#define MULTIPLY_TILES_(state, modrm, b)                             \
  (KIND == 2 ? multiply_bytes(state, (modrm) >> 3 & 7, (modrm)&7, b) \
             : multiply_bf16(state, (modrm) >> 3 & 7, (modrm)&7, b))

BY_HAND configure_by_hand(tile_state* s, uintptr_t from) {
  for (int i = 0; i < 64; ++i) s->config[i] = ((__global const uchar*)from)[i];
}

/// What lies outside the tile's shape becomes zero.
BY_HAND load_by_hand(tile_state* s, int tile, uintptr_t from, int stride) {
  for (int row = 0; row < 16; ++row)
    for (int i = 0; i < 16; ++i) {
      const bool inside = row < rows_of_tile(s, tile) && i < words_of_tile(s, tile);
      s->words[tile][row][i] = inside ? ((__global const uint*)(from + row * stride))[i] : 0;
    }
}

BY_HAND store_by_hand(const tile_state* s, int tile, uintptr_t to, int stride) {
  for (int row = 0; row < rows_of_tile(s, tile); ++row)
    for (int i = 0; i < words_of_tile(s, tile); ++i)
      ((__global uint*)(to + row * stride))[i] = s->words[tile][row][i];
}

BY_HAND zero_sums_by_hand(tile_state* s) {
  for (int i = 0; i < 4 * 256; ++i) s->words[i / 256][i / 16 % 16][i % 16] = 0;
}

/// The unit refuses tiles whose shapes do not fit (#UD); here sums become NaN, or a number that no product gives.
static inline bool tiles_fit(tile_state* s, int sums, int a, int b) {
  if (rows_of_tile(s, sums) == rows_of_tile(s, a) && words_of_tile(s, a) == rows_of_tile(s, b) &&
      words_of_tile(s, sums) == words_of_tile(s, b))
    return true;
  for (int i = 0; i < 256; ++i) s->words[sums][i / 16][i % 16] = 0x7fc00000;
  return false;
}

/// Denormal numbers are zeros, with their sign.
static inline float16 without_denormals(float16 x) {
  return select(x, copysign((float16)(0.0f), x), fabs(x) < (float16)(0x1p-126f));
}
#define SUM_OF_(x, y, sum) without_denormals(fma(without_denormals(x), without_denormals(y), sum))

/// TDPBF16PS: the products of even and of odd k apart, each one added at a time, then both, then those and the sums.
BY_HAND multiply_bf16(tile_state* s, int sums, int a, int b) {
  if (!tiles_fit(s, sums, a, b)) return;
  for (int row = 0; row < rows_of_tile(s, sums); ++row) {
    float16 even = (float16)(0.0f), odd = (float16)(0.0f);
    for (int i = 0; i < words_of_tile(s, a); ++i) {
      const uint16 pair = (uint16)(s->words[a][row][i]), columns = vload16(0, s->words[b][i]);
      even = SUM_OF_(as_float16(pair << 16u), as_float16(columns << 16u), even);
      odd = SUM_OF_(as_float16(pair & 0xffff0000u), as_float16(columns & 0xffff0000u), odd);
    }
    const float16 before = as_float16(vload16(0, s->words[sums][row]));
    vstore16(as_uint16(without_denormals(before + without_denormals(even + odd))), 0, s->words[sums][row]);
  }
}

/// TDPBSSD: four products of signed bytes to each sum.
BY_HAND multiply_bytes(tile_state* s, int sums, int a, int b) {
  if (!tiles_fit(s, sums, a, b)) return;
  for (int row = 0; row < rows_of_tile(s, sums); ++row) {
    for (int i = 0; i < words_of_tile(s, a); ++i) {
      const int16 four = as_int16((uint16)(s->words[a][row][i])), columns = as_int16(vload16(0, s->words[b][i]));
      int16 sum = as_int16(vload16(0, s->words[sums][row]));
      for (int byte = 0; byte < 4; ++byte)
        sum += ((four << (24 - 8 * byte)) >> 24) * ((columns << (24 - 8 * byte)) >> 24);
      vstore16(as_uint16(sum), 0, s->words[sums][row]);
    }
  }
}

#include "gemm_amx.cl"
