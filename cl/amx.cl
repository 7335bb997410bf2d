// SPDX-License-Identifier: Apache-2.0
// amx.cl: the tile instructions of x86 (AMX) and what feeds them. Only for devices where a trial gave the right numbers: the
// process has asked Linux for the tiles' state, and the compiler takes x86 assembly and clang's vectors of 64 bytes.
// Instructions are bytes, because PoCL 3.1 compiles for a skylake-avx512, whose assembler has no names for them. Encodings: Intel 64
// and IA-32 Architectures Software Developer's Manual, volume 2. Memory operands are [rax + rdx].
//
// Eight tiles of 16 rows of 64 bytes: sums in 0 to 3, A in 4 and 5, B in 6 and 7.
// KIND 1: bf16. A: row i has k side by side. B: row k / 2 has the pairs (k, k + 1) of 16 columns. STEP is 32 k, or 16 where the K group is 16.
// KIND 2: int8. A: as bf16. B: row k / 4 has four k of 16 columns. STEP is 64 k, or 32 where the K group is 32.
// Set by the including file: KIND, GROUP. Set by the host: AMX, without which the file is empty.
// A file that comes before and defines TILE_INSTRUCTIONS has its own tile_state and instructions: tests do them by hand, on processors
// without the unit.
#ifdef AMX
#include "wide_bytes.cl"

typedef struct __attribute__((aligned(64))) {
  uchar palette, start_row, reserved[14];
  ushort row_bytes[16];
  uchar rows[16];
} tile_config;

#define TILE_ROWS 16
#if KIND == 2
#define STEP (GROUP < 64 ? GROUP : 64)
#define ELEMENT_BYTES 1
#else
#define STEP (GROUP < 32 ? GROUP : 32)
#define ELEMENT_BYTES 2
#endif
#define STEP_BYTES (STEP * ELEMENT_BYTES)   // A row of a tile of A.
#define B_ROWS (STEP_BYTES / 4)             // Rows of a tile of B: each holds four bytes of a column.

#ifndef TILE_INSTRUCTIONS
typedef int tile_state;  // Nothing: the tiles are the processor's.
#define CONFIGURE_TILES(state, p) __asm__ volatile(".byte 0xc4,0xe2,0x78,0x49,0x00" ::"a"(p) : "memory")
#define RELEASE_TILES(state) __asm__ volatile(".byte 0xc4,0xe2,0x78,0x49,0xc0" ::: "memory")
#define LOAD_TILE_(state, modrm, p, stride) \
  __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x4b," #modrm ",0x10" ::"a"(p), "d"((long)(stride)) : "memory")
// TILELOADDT1: what is loaded passes by; the first cache keeps what is read again (4 to 9 % of a product of many rows).
#define PASS_TILE_(state, modrm, p, stride) \
  __asm__ volatile(".byte 0xc4,0xe2,0x79,0x4b," #modrm ",0x10" ::"a"(p), "d"((long)(stride)) : "memory")
#define STORE_TILE_(state, modrm, p, stride) \
  __asm__ volatile(".byte 0xc4,0xe2,0x7a,0x4b," #modrm ",0x10" ::"a"(p), "d"((long)(stride)) : "memory")
#if KIND == 2
#define WITH_TILE_6 "0x4b,0x5e"  // TDPBSSD: signed by signed, s32 sums.
#define WITH_TILE_7 "0x43,0x5e"
#else
#define WITH_TILE_6 "0x4a,0x5c"  // TDPBF16PS
#define WITH_TILE_7 "0x42,0x5c"
#endif
#define MULTIPLY_TILES_(state, modrm, b) __asm__ volatile(".byte 0xc4,0xe2," WITH_TILE_##b "," #modrm)
#define ZERO_SUMS(state)                                        \
  __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x49,0xc0\n\t"        \
                   ".byte 0xc4,0xe2,0x7b,0x49,0xc8\n\t"        \
                   ".byte 0xc4,0xe2,0x7b,0x49,0xd0\n\t"        \
                   ".byte 0xc4,0xe2,0x7b,0x49,0xd8" ::: "memory")
#endif

#define LOAD_A4(state, p) PASS_TILE_(state, 0x24, p, STEP_BYTES)
#define LOAD_A5(state, p) PASS_TILE_(state, 0x2c, p, STEP_BYTES)
#define LOAD_B6(state, p, stride) LOAD_TILE_(state, 0x34, p, stride)
#define LOAD_B7(state, p, stride) LOAD_TILE_(state, 0x3c, p, stride)
#define STORE_SUM0(state, p) STORE_TILE_(state, 0x04, p, 64)
#define STORE_SUM1(state, p) STORE_TILE_(state, 0x0c, p, 64)
#define STORE_SUM2(state, p) STORE_TILE_(state, 0x14, p, 64)
#define STORE_SUM3(state, p) STORE_TILE_(state, 0x1c, p, 64)
// SUM += A * B; the numbers are those of the tiles.
#define SUM0_A4_B6(state) MULTIPLY_TILES_(state, 0xc4, 6)
#define SUM1_A4_B7(state) MULTIPLY_TILES_(state, 0xcc, 7)
#define SUM2_A5_B6(state) MULTIPLY_TILES_(state, 0xd5, 6)
#define SUM3_A5_B7(state) MULTIPLY_TILES_(state, 0xdd, 7)
#define SUM2_A4_B6(state) MULTIPLY_TILES_(state, 0xd4, 6)
#define SUM3_A4_B7(state) MULTIPLY_TILES_(state, 0xdc, 7)

/// The tiles' shapes: sums and A of `rows` rows, B of a whole step. Ends with RELEASE_TILES().
static inline void configure_tiles(tile_state* state, int rows) {
  tile_config config;
  __private uchar* bytes = (__private uchar*)&config;
  for (int i = 0; i < 64; ++i) bytes[i] = (uchar)0;
  config.palette = (uchar)1;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = (ushort)(i == 4 || i == 5 ? STEP_BYTES : 64);
    config.rows[i] = (uchar)(i >= 6 ? B_ROWS : rows);
  }
  CONFIGURE_TILES(state, (__private void*)&config);
}

// Within each 16 bytes, as INTERLEAVE_LOW and INTERLEAVE_HIGH, pairs of bytes in turn.
#define PAIRS_OF_(l, h)                                                                                                  \
  l + h, l + h + 1, 64 + l + h, 65 + l + h, l + h + 2, l + h + 3, 66 + l + h, 67 + l + h, l + h + 4, l + h + 5, 68 + l + h, \
      69 + l + h, l + h + 6, l + h + 7, 70 + l + h, 71 + l + h
#define INTERLEAVE_PAIRS_LOW(a, b) __builtin_shufflevector(a, b, IN_EACH_LANE_(PAIRS_OF_, 0))
#define INTERLEAVE_PAIRS_HIGH(a, b) __builtin_shufflevector(a, b, IN_EACH_LANE_(PAIRS_OF_, 8))

/// The codes of 32 columns and two k as pairs, in the order that interleaving asks for. (VPERMB: processors with tiles have it, and
/// VGF2P8AFFINEQB; the compiler may not know.)
static inline __attribute__((always_inline)) uchar64 pairs_of_k(__global const uchar* codes) {
  const uchar64 from = PAIRS_OF_K;
  uchar64 pairs;
  __asm__("vpermb %2, %1, %0" : "=v"(pairs) : "v"(from), "v"(*(__global const uchar64*)codes));
  return pairs;
}

// Codes to bf16, high and low bytes apart: a bf16 is S EEEEEEEE MMMMMMM. Of a normal code every bit of both is a bit of the code, or its
// opposite, so each byte is an affine map over GF(2): a matrix, whose lowest byte says which bits of the code make the highest bit, and a
// constant. Few codes are special; theirs are mended, by two tables of what is wrong with bytes made so. No bf16 denormal comes out: the
// smallest magnitude but zero is 2^-9 (e4m3fn) or 2^-16 (e5m2).
typedef struct {
  uchar64 low, high;
} bf16_bytes;

#define AFFINE_(to, code, matrix, constant) \
  __asm__("vgf2p8affineqb %3, %2, %1, %0" : "=v"(to) : "v"(code), "v"((ulong8)(matrix)), "i"(constant))

#if B_TYPE == TYPE_E4M3
// e4m3fn SEEEEMMM: exponent E + 120, so its bits are E3, four of not E3, E2, E1, E0. Special: E = 0, from 0 to 7 of 2^-9.
#define HIGH_MATRIX_ 0x1020404040404080ul
#define HIGH_CONSTANT_ 0x3c
#define LOW_MATRIX_ 0x01020408ul
#define NUMBER_(code) (code)  // So that special codes, without their sign, are 0 to 7.
#define HIGH_WRONG_ 0x3c, 7, 7, 7, 0, 0, 0, 0
#define LOW_WRONG_ 0, 0x10, 0xa0, 0xf0, 0x40, 0x70, 0x20, 0x10
#elif B_TYPE == TYPE_E5M2
// e5m2 SEEEEEMM: exponent E + 112, so its bits are E4, three of not E4, E3 to E0. Special: E = 31, infinity or NaN in both, and E = 0, from
// 0 to 3 of 2^-16.
#define HIGH_MATRIX_ 0x0810204040404080ul
#define HIGH_CONSTANT_ 0x38
#define LOW_MATRIX_ 0x00010204ul
#define NUMBER_(code) ((code) + (uchar64)(4))
#define HIGH_WRONG_ 0x38, 0x38, 0x38, 0x38, 0x38, 0x0f, 0, 0
#define LOW_WRONG_ 0, 0, 0, 0, 0, 0xa0, 0x40, 0x20
#endif
#if KIND == 1 && BITS_OF(B_TYPE) >= 8
typedef char char64 __attribute__((ext_vector_type(64)));
#define EIGHT_ZEROS_ 0, 0, 0, 0, 0, 0, 0, 0
#define IN_EACH_LANE_AGAIN_(...) ((uchar64)(__VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__))

/// table[index % 16] for each byte, 0 where the index is 128 or more; `table` is the same 16 bytes four times.
static inline uchar64 look_up(uchar64 table, uchar64 index) {
  return __builtin_astype(
      __builtin_ia32_pshufb512(__builtin_astype(table, char64), __builtin_astype(index, char64)), uchar64);
}

static inline __attribute__((always_inline)) bf16_bytes bf16_of_normal(uchar64 code) {
  bf16_bytes x;
  AFFINE_(x.high, code, HIGH_MATRIX_, HIGH_CONSTANT_);
  AFFINE_(x.low, code, LOW_MATRIX_, 0);
  return x;
}

static inline __attribute__((always_inline)) ulong which_are_special(uchar64 code) {
  return __builtin_ia32_cvtb2mask512(__builtin_astype((NUMBER_(code) & (uchar64)(0x78)) == (uchar64)(0), char64));
}

static inline __attribute__((always_inline)) bf16_bytes mended(bf16_bytes x, uchar64 code) {
  const uchar64 index = (NUMBER_(code) & (uchar64)(0x7f)) + (uchar64)(0x78);  // 120 to 127 of special codes, 128 and more of others.
  x.high ^= look_up(IN_EACH_LANE_AGAIN_(EIGHT_ZEROS_, HIGH_WRONG_), index);
  x.low ^= look_up(IN_EACH_LANE_AGAIN_(EIGHT_ZEROS_, LOW_WRONG_), index);
  return x;
}
#endif
#endif
