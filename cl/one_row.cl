// SPDX-License-Identifier: Apache-2.0
// one_row.cl: sums of one row of D with weights of four bits and a row of bf16, of gemm_mma_stream.cl: scales meet sums of K groups, not codes.
// Of the eight columns of a product's second operand only the one of a code's own scale group holds the row's values, the others zeros. So
// each column of the sums is of one group, and is scaled when all of it has been added; codes need no more than to lie where bf16 has its bits.
//
//   16 columns of B   k: t = 0  1  2  3        row of A, column   0  1  2  3 ..      sums, column    0  1  2  3 ..
//                  +------------------+        t = 0            [ x          ]                     +-----------
//                  |  g0  g1  g2  g3  |   *        1            [    x       ]   =                 | sums of g0, g1, g2, g3
//                  +------------------+            2            [       x    ]                     +-----------
//
// Codes are then in units of 2^-126. So that products stay normal numbers, the row's values come times 2^110; from 2^18 on they overflow, sums
// are not finite, and a warp makes them again with codes in units of 2^-2 and values as they are.
// A warp has two K blocks of 128 under way: groups of 32 are of both at once, four columns each; of groups of 16 a K block has eight.
// Set by the including file: FOUR_BITS and what it takes from ptx.cl or mma_by_hand.cl.
// Local memory: of each warp ROW_BYTES, the values of two K blocks; then as many zeros, 32 bytes on, in other banks.

#ifdef FOUR_BITS
#define ROW_BYTES 512u
#define ROW_MEMORY (WARPS * ROW_BYTES + 32 + ROW_BYTES)
#define ROW_FACTOR 0x76807680u      // 2^110, a pair of bf16.
#define ROW_CODE_FACTOR 0x7d807d80u  // 2^124.
// Where a work-item finds the values that meet half q of its codes of K block s: of itself, or zeros.
#if B_SCALE_COLS == 16
#define SCALE_SETS 2  // Words of scales of a work-item, for one K block each.
#define IS_OWN(i) (g == 2 * t + (i))
#define OWN_VALUES(i) (mine + t * 64u)
#define VALUES_FROM(s, q) (from[q] + 256 * (s) + 32 * (q))
#define SCALES_FROM(s, pair) (scales + BLOCK_OF_ROW(2 * (pair) + (s)) * 128ul + lane * 4u)
#else
#define SCALE_SETS 1
#define IS_OWN(i) (g == t + 4 * (i))
#define OWN_VALUES(i) (mine + t * 64u + 256 * (i))
#define VALUES_FROM(s, q) (from[s] + 32 * (q))
#define SCALES_FROM(s, pair) (scales + BLOCK_OF_ROW(2 * (pair) + (t >> 1)) * 64ul + g * 8u + (t & 1u) * 4u)
#endif
#define BLOCK_OF_ROW(block) min((uint)(block), blocks - 1)
#define LOAD_ROW_WEIGHTS(s, pair)                                                            \
  do {                                                                                       \
    __global const uchar* const block_ = weights + BLOCK_OF_ROW(2 * (pair) + (s)) * 1024ul;  \
    LOAD16_STREAM_IN_ORDER(&codes[s][0], block_);                                            \
    LOAD16_STREAM_IN_ORDER(&codes[s][4], block_ + 512);                                      \
  } while (0)
#define LOAD_ROW_SCALES(s, pair) LOAD4(of_groups[s], SCALES_FROM(s, pair))
#define LOAD_ROW_VALUES(pair)                                                       \
  do {                                                                              \
    const uint at_ = (pair) * 256u + lane * 8u;                                     \
    values[0] = values[1] = values[2] = values[3] = 0;                              \
    if (at_ < blocks * 128u) LOAD16(values, row + 2ul * at_);                       \
  } while (0)
// Four scales as f32: of columns g and g + 8 in one group, then in the next.
#if B_SCALE_TYPE == TYPE_E8M0  // NaN becomes infinity.
#define BYTE_AT_EXPONENT(word, i) (((i) < 3 ? (word) << (23 - 8 * (i)) : (word) >> 1) & 0x7f800000u)
#define SCALES_OF_WORD(f, word) UNROLL for (int i_ = 0; i_ < 4; ++i_) (f)[i_] = as_float(max(BYTE_AT_EXPONENT(word, i_), 0x00400000u))
#elif defined(PTX_SM_89)
#define SCALES_OF_WORD(f, word)                                                                                              \
  asm("{.reg .b16 a,b,c,d; .reg .b32 x; mov.b32 {a,c},%4; cvt.rn.f16x2.e4m3x2 x,a; mov.b32 {a,b},x;"                         \
      " cvt.rn.f16x2.e4m3x2 x,c; mov.b32 {c,d},x; cvt.f32.f16 %0,a; cvt.f32.f16 %1,b; cvt.f32.f16 %2,c; cvt.f32.f16 %3,d;}"  \
      : "=f"((f)[0]), "=f"((f)[1]), "=f"((f)[2]), "=f"((f)[3]) : "r"(word))
#else
#define SCALES_OF_WORD(f, word) EVERY_SCALE_OF_WORD(f, word)
#endif
#define EVERY_SCALE_OF_WORD(f, word) UNROLL for (int i_ = 0; i_ < 4; ++i_) (f)[i_] = DECODE(B_SCALE_TYPE)((word) >> 8 * i_ & 0xffu)

/// sums: the row's, of columns g and g + 8, over this warp's K blocks; every: whatever the values and scales are, a constant.
static inline __attribute__((always_inline)) void sums_of_row(float* sums, const bool every, __global const uchar* weights,
                                                              __global const uchar* scales, __global const uchar* row, uint blocks,
                                                              LOCAL_PLACE mine, LOCAL_PLACE zeros, uint warp, uint lane SHOWN_PARAMETER)
{
  const uint g = lane >> 2, t = lane & 3, pairs = (blocks + 1) / 2, count = COUNT_OF_WARP(pairs, warp);
  LOCAL_PLACE from[2];
  UNROLL for (int i = 0; i < 2; ++i) from[i] = IS_OWN(i) ? OWN_VALUES(i) : zeros;
  uint codes[2][8], of_groups[SCALE_SETS], values[4];
  sums[0] = sums[1] = 0.f;
  IF_OF_WARP(count > 0) {
    UNROLL for (int s = 0; s < 2; ++s) LOAD_ROW_WEIGHTS(s, warp);
    UNROLL for (int s = 0; s < SCALE_SETS; ++s) LOAD_ROW_SCALES(s, warp);
    LOAD_ROW_VALUES(warp);
  }
  STORE_LOCAL16(zeros + lane * 16u, 0u, 0u, 0u, 0u);  // Each warp the same ones, so that none waits for another.
  for (uint at = 0; at < count; ++at) {
    const uint next = warp + (at + 1) * WARPS;
    const bool more = next < pairs;
    if (!every) UNROLL for (int i = 0; i < 4; ++i) MUL_PAIRS(values[i], values[i], ROW_FACTOR);
    SYNC_WARP();
    STORE_LOCAL16(mine + lane * 16u, values[0], values[1], values[2], values[3]);
    SYNC_WARP();
    IF_OF_WARP(more) LOAD_ROW_VALUES(next);
    float c[4] = {0.f, 0.f, 0.f, 0.f};
    UNROLL for (int s = 0; s < 2; ++s) {
      UNROLL for (int q = 0; q < 2; ++q) {
        uint pairs_of[2][8], of_row[8];
        LOCAL16(&of_row[0], VALUES_FROM(s, q));
        LOCAL16(&of_row[4], VALUES_FROM(s, q) + 16);
        UNROLL for (int h = 0; h < 2; ++h) {
          PAIRS_OF_WORDS(pairs_of[h], codes[s][4 * h + 2 * q], codes[s][4 * h + 2 * q + 1]);
          if (every) UNROLL for (int p = 0; p < 8; ++p) MUL_PAIRS(pairs_of[h][p], pairs_of[h][p], ROW_CODE_FACTOR);
        }
        UNROLL for (int i = 0; i < 4; ++i)
          MMA_M16N8K16(c, pairs_of[0][2 * i], pairs_of[1][2 * i], pairs_of[0][2 * i + 1], pairs_of[1][2 * i + 1], of_row[2 * i], of_row[2 * i + 1]);
      }
      // Asked for here, before the next K block is multiplied: the assembler would move these loads to the end.
      IF_OF_WARP(more) LOAD_ROW_WEIGHTS(s, next);
      SYNC_WARP();
      if (SCALE_SETS == 2 || s == 1) {
        float f[4];
        if (every) EVERY_SCALE_OF_WORD(f, of_groups[s % SCALE_SETS]);
        else SCALES_OF_WORD(f, of_groups[s % SCALE_SETS]);
        IF_OF_WARP(more) LOAD_ROW_SCALES(s % SCALE_SETS, next);
        UNROLL for (int h = 0; h < 2; ++h) {
          sums[h] = fma(c[2 * h + 1], f[2 + h], fma(c[2 * h], f[h], sums[h]));
          c[2 * h] = c[2 * h + 1] = 0.f;
        }
      }
    }
  }
  UNROLL for (int h = 0; h < 2; ++h) {
    sums[h] *= every ? 4.0f : 0x1p16f;  // In units of 1.
    UNROLL for (int d = 1; d < 4; d *= 2) {
      uint other;
      SHUFFLE_XOR(other, as_uint(sums[h]), d);
      sums[h] += as_float(other);
    }
  }
}
#endif
