// SPDX-License-Identifier: Apache-2.0
// gemm_mma_stream.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for few rows, in class f32, at the memory's rate:
// weights stream once from memory, become f16 in registers, exactly, and are multiplied by mma.sync with f32 sums. Where nothing else multiplies
// on tensor cores, many rows in many tiles too.
//
// Eight columns of D are the columns of an instruction's second operand, 16 rows of D the rows of the first (of eight rows or fewer the
// other half is zeros). A work-group makes COLUMNS columns of TILE_M rows of D; its WARPS warps take K blocks in turn and are added up
// in order at the end. Each warp has DEPTH K blocks under way, weights, activations and scales alike, and asks for more half a K block
// at a time, into the registers that were just used: what counts is the bytes on their way. Further tiles of rows read the weights
// again, from the L2 where they are neighbours.
// In a K block a work-item takes the 16 k from 16t and from 64 + 16t on (t its number in the group of four), the same of both operands.
// With LINES, loads of a warp are of whole lines of B's form, so that half as many lines are asked for at a time: half of the work-items
// then have the second half of a line's k first, which the two halves of a sum make good.
// Of K groups of 64 or 32 sums of so many k are scaled and added to the totals: of 64 those of half a K block, which an instruction is of
// anyway; of 32 half of the work-items have zeros in place of the other group's codes, twice as many instructions then.
// Weights of four bits (FOUR_BITS) meet activations in bf16: e2m1 times a scale of e4m3 or e8m0 has at most six bits, so codes become
// scaled bf16 exactly, and only A's scales are left for the sums. Sixteen columns are then the first operand and eight rows the second; of a
// K block a work-item has the 32 k from 32t on, four to an instruction, so that one scale serves 16 or 32 of its codes. Scales become bf16
// by a table in local memory; the product of a total and UNIT_OF_ALL is in units of 1. One row without scales of A: one_row.cl.
// Where registers allow it (STAYS), the work-groups of a grouped product stay, a share of its units each, and ask for the weights of the
// next unit before they end one.
// With QUANTISE, A is as the caller has it: a warp makes scale and codes of a K block's rows itself, which costs less than a launch.
//
// Tunable  default  values     meaning
// TILE_M   8        1 2 4 8 16 32  rows of D per work-group
// COLUMNS  16       8 16 32 56 64  columns of D per work-group; with FOUR_BITS a multiple of 16
// WARPS    8        4 8 12 16  warps of a work-group
// DEPTH    1        1 2 3 4    K blocks that a warp has under way
// LINES    0        0 1        1: a load of a warp is of four whole lines of weights, not of halves of eight; of K groups of 128
// Set by the host: those of tile.cl, PTX_SM_80, PTX_SM_89 (ptx.cl), and
// QUANTISE      0      0 1    A is of type SOURCE and becomes codes here, in groups of one row by 128; then also those of quantizer.cl
// MMA_BY_HAND   not set       mma_by_hand.cl in place of such a device: for tests
// A: rows of codes, FOUR_BITS: of bf16, padded with zeros to a multiple of 128; with QUANTISE rows as they come. B: forms/forms.h.
// Local memory: WARPS * COLUMNS * (max(8, TILE_M) + 1) * 4 B = 4608 B with the defaults; FOUR_BITS: 1024 B more, or of one row that one_row.cl sums WARPS * 512 + 544.
// Origin: operand layout as the PTX manual describes mma.m16n8k16.
#include "half_words.cl"
#include "tile.cl"

#ifndef TILE_M
#define TILE_M 8
#endif
#ifndef COLUMNS
#define COLUMNS 16
#endif
#ifndef WARPS
#define WARPS 8
#endif
#ifndef DEPTH
#define DEPTH 1
#endif
#ifndef LINES
#define LINES 0
#endif
#ifdef SCHEDULES
#define LANES (32 * WARPS)
#define TABLE __local
#include "schedule_rows.cl"
#endif
#ifndef QUANTISE
#define QUANTISE 0
#endif

#define FOUR_BITS (BITS_OF(B_TYPE) == 4)
#define MMA_OF_BF16 FOUR_BITS
#define ONE_ROW (FOUR_BITS && TILE_M == 1 && COLUMNS == 16 && A_SCALE_TYPE == 0)  // The host knows it, too.
#if defined(PTX_SM_80)
#undef MMA_BY_HAND
#include "ptx.cl"
// Warps go their own ways: each takes the K blocks that are its own, and what it has none for it leaves out.
#define WARP_SCRATCH
#define COUNT_OF_WARP(blocks, warp) ((blocks) > (warp) ? ((blocks) - (warp) + WARPS - 1) / WARPS : 0)
#define BLOCK_OF_WARP(block) (block)
#define IF_OF_WARP(condition) if (condition)
#define ADD_OF_WARP(there, scale, part, sum) fma(scale, part, sum)
#define WORD_OF_WARP(there, word) (word)
#elif defined(MMA_BY_HAND)
#include "mma_by_hand.cl"
#endif
#if defined(PTX_SM_80) || defined(MMA_BY_HAND)
#if QUANTISE
#include "code_pairs.cl"
#endif

#define T (TILE_M <= 8 ? 1 : TILE_M / 8)  // Tiles of eight rows.
#define T16 ((T + 1) / 2)                  // Of 16.
#define NG (COLUMNS / 8)                   // Groups of eight columns: eight lines of B's form.
#define UNIFORM (B_SCALE_ROWS % 128 == 0 || B_SCALE_ROWS == 0x7fffffff)
#if FOUR_BITS
#undef GROUP
#define GROUP (A_SCALE_COLS < 128 ? A_SCALE_COLS : 128)  // What is summed before it is scaled: B's scales are in its values.
#endif
#define PER_BLOCK (128 / GROUP)            // K groups of a K block.
#define DECODE_A4 JOIN(DECODE4_, A_TYPE)
#define DECODE_B4 JOIN(DECODE4_, B_TYPE)
#define SUMS_OF_ROWS (FOUR_BITS ? 2 * T : T)  // Rows of which a work-item has sums.
#define WORDS_B (FOUR_BITS ? 4 : 8)  // Of a K block of a column group.
#define TOKENS_DEPTH (FOUR_BITS ? 1 : DEPTH)  // Of activations, which are near, one K block beside many of weights.

// The host knows it, too (variants/gemm_mma_stream.cpp). Measured for these alone.
#if defined(SCHEDULES) && TILE_M <= 8 && COLUMNS == 32 && WARPS == 4 && LINES == 0 && GROUP == 128 && !FOUR_BITS
#define STAYS 1
#define OWN_ROWS own_rows  // Of the unit that is multiplied; token_rows: of the unit whose loads are under way.
#else
#define STAYS 0
#define OWN_ROWS token_rows
#endif

#if QUANTISE
// Rows of a K block, ROWS_HELD at a time: each lies in ROW_ITEMS work-items, ITEM_K values in each, PER to a register.
#define ROWS_HELD (TILE_M < 8 ? TILE_M : 8)
#define ROW_ITEMS (32 / ROWS_HELD)
#define ITEM_K (4 * ROWS_HELD)
#define PER (SOURCE == TYPE_F32 ? 1 : 2)
#define TOKENS (ITEM_K / PER)
// The k of a work-item's value e. Of eight rows: those that it multiplies, so that codes are made where they are used.
#define VALUE_K(e) (ROWS_HELD == 8 ? t * 16u + ((e) >> 4) * 64u + ((e) & 15) : lane % ROW_ITEMS * ITEM_K + (e))

// What is seldom is kept out of the loop that must be unrolled: four codes of a group whose scale the quick quotients do not reach.
__attribute__((noinline)) uint four_codes(__global const uchar* a, ulong row_at, uint col, uint k, float scale)
{
  uint word = 0;
  for (uint e = 0; e < 4; ++e) {
    const float x = col + e < k ? load_element(SOURCE, a, row_at + col + e) : 0.0f;
    word |= (isnan(scale) ? (uint)NAN_CODE : (uint)code_of(x, scale)) << 8 * e;
  }
  return word;
}

#define TOKEN_ROW(j) min(lane / ROW_ITEMS + 8 * (j), rows - 1)
#define ROW_AT(rows_of, j) (a_at + (ulong)(rows_of)[j] * lda)
#define LOAD_TOKENS(S, K)                                                                                             \
  UNROLL for (int j = 0; j < T; ++j) {                                                                                \
    if (WHOLE_BLOCK(K)) {                                                                                             \
      UNROLL for (int i = 0; i < TOKENS; i += 4) {                                                                    \
        __global const uchar *from = a + (ROW_AT(token_rows, j) + (K) * 128u + VALUE_K(PER * i)) * (4 / PER);                     \
        if (TOKENS == 2) LOAD8(&ar[S][0], from);                                                                      \
        else LOAD16(&ar[S][TOKENS * j + i], from);                                                                    \
      }                                                                                                               \
    } else                                                                                                            \
      UNROLL for (int i = 0; i < TOKENS; ++i) ar[S][TOKENS * j + i] = word_at(a, ROW_AT(token_rows, j), (K) * 128u + VALUE_K(PER * i), (uint)k);   \
  }

#define QUICK_WORD(RAW, i)                                                                                            \
  made[i] = quick_codes(pair_of(RAW, 4 * (i)), scale, reciprocal) | quick_codes(pair_of(RAW, 4 * (i) + 2), scale, reciprocal) << 16;
#define SLOW_WORD(J, K, i) made[i] = four_codes(a, ROW_AT(OWN_ROWS, J), (K) * 128u + VALUE_K(4 * (i)), (uint)k, scale);
#ifdef MMA_BY_HAND
// Conditions that differ between work-items inside loops, not around them: docs/kernels.md.
#define WHOLE_BLOCK(K) 0
#define MAKE_CODES(RAW, J, K)                                                 \
  const bool quick = scale_and_reach(amax, FLOOR_BITS, &scale, &reciprocal);  \
  for (int i = 0; i < ROWS_HELD; ++i) {                                       \
    if (quick) {                                                              \
      QUICK_WORD(RAW, i)                                                      \
    } else {                                                                  \
      SLOW_WORD(J, K, i)                                                      \
    }                                                                         \
  }
#else
#define WHOLE_BLOCK(K) (aligned && (K) * 128u + 128u <= (uint)k)
#define MAKE_CODES(RAW, J, K)                                       \
  if (scale_and_reach(amax, FLOOR_BITS, &scale, &reciprocal)) {     \
    UNROLL for (int i = 0; i < ROWS_HELD; ++i) { QUICK_WORD(RAW, i) } \
  } else                                                            \
    UNROLL for (int i = 0; i < ROWS_HELD; ++i) SLOW_WORD(J, K, i)
#endif

// Scale and codes of eight rows, of which this work-item has ITEM_K values of one in RAW: WORDS become the codes that it
// multiplies, SCALE the scale of row g.
#define QUANTISE_ROWS(RAW, J, K, WORDS, SCALE)                                                                        \
  do {                                                                                                                \
    uint amax = 0, made[ROWS_HELD], bits;                                                                             \
    float scale, reciprocal;                                                                                          \
    UNROLL for (int i = 0; i < ITEM_K; i += 2) amax = magnitude(amax, pair_of(RAW, i));                               \
    UNROLL for (int d_ = 1; d_ < ROW_ITEMS; d_ *= 2) {                                                                \
      SHUFFLE_XOR(bits, amax, d_);                                                                                    \
      amax = max(amax, bits);                                                                                         \
    }                                                                                                                 \
    MAKE_CODES(RAW, J, K)                                                                                             \
    UNROLL for (int i = 0; i < 4; ++i) {                                                                              \
      if (ROWS_HELD == 8) {                                                                                           \
        (WORDS)[i] = made[i % ROWS_HELD];                                                                             \
        (WORDS)[4 + i] = made[(4 + i) % ROWS_HELD];                                                                   \
      } else { /* word w of a row is word w % ROWS_HELD of the row's work-item w / ROWS_HELD */                       \
        const uint from = g % ROWS_HELD * ROW_ITEMS + 4 * t / ROWS_HELD;                                              \
        SHUFFLE((WORDS)[i], made[i % ROWS_HELD], from + i / ROWS_HELD);                                               \
        SHUFFLE((WORDS)[4 + i], made[i % ROWS_HELD], from + (16 + i) / ROWS_HELD);                                    \
      }                                                                                                               \
    }                                                                                                                 \
    if (ROWS_HELD < 8) {                                                                                              \
      SHUFFLE(bits, as_uint(scale), g % ROWS_HELD * ROW_ITEMS);                                                       \
      scale = as_float(bits);                                                                                         \
    }                                                                                                                 \
    SCALE = scale;                                                                                                    \
  } while (0)
#else
#define TOKEN_ROW(j) min(g + 8 * (j), rows - 1)
#if FOUR_BITS
#define TOKENS 16
#define LOAD_TOKENS_HALF(S, K, h)                                                                                     \
  UNROLL for (int j = 0; j < T; ++j) {                                                                                \
    if (g + 8 * j < rows)                                                                                             \
      UNROLL for (int i = 2 * (h); i < 2 * (h) + 2; ++i)                                                              \
        LOAD16(&ar[0][16 * j + 4 * i], a + 2 * (a_at + (ulong)token_rows[j] * lda + (K) * 128u + t * 32u + i * 8u));  \
  }
#else
#define TOKENS 8
#define LOAD_TOKENS_HALF(S, K, h)                                                                                     \
  UNROLL for (int j = 0; j < T; ++j) {                                                                                \
    if (g + 8 * j < rows) LOAD16(&ar[S][8 * j + 4 * (h)], a + a_at + (ulong)token_rows[j] * lda + (K) * 128u + t * 16u + 64u * (h));\
  }
#endif
#if FOUR_BITS && A_SCALE_TYPE == 0
#define LOAD_TOKENS_SCALES(S, K)
#elif FOUR_BITS
#define LOAD_TOKENS_SCALES(S, K)                                                                                      \
  UNROLL for (int j = 0; j < 2 * T; ++j) UNROLL for (int q = 0; q < PER_BLOCK; ++q)                                   \
    LOAD_F(sr[S][q][j], sa + sa_at + (ulong)ROW_OF_A(first_row + min(j / 2 * 8 + 2 * t + j % 2, rows - 1)) * sa_ld + FIRST_K(K, q) / A_SCALE_COLS);
#else
#define LOAD_TOKENS_SCALES(S, K)                                                                                      \
  UNROLL for (int j = 0; j < T; ++j) UNROLL for (int q = 0; q < PER_BLOCK; ++q) {                                     \
    if (g + 8 * j < rows)                                                                                             \
      LOAD_F(sr[S][q][j], sa + sa_at + (ulong)(token_rows[j] / A_SCALE_ROWS) * sa_ld + FIRST_K(K, q) / A_SCALE_COLS); \
  }
#endif
#endif

// Whether set s of this round is of a K block.
#define IS_THERE(s) (warp + (first + (s)) * WARPS < blocks)
// Where K group q of K block kb begins; of padding the last group. The scale group of B that it lies in.
#if GROUP == 128
#define FIRST_K(kb, q) ((uint)(kb) * 128u)
#else
#define FIRST_K(kb, q) min((uint)(kb) * 128u + (q) * (uint)GROUP, ((uint)k - 1u) / GROUP * GROUP)
#endif
#define SCALE_OF(kb, q) min(FIRST_K(kb, q) / (uint)B_SCALE_COLS, groups_b - 1)
// Line group j of this work-group: the first of `in_strip` are of one slot of 64 columns, the others of the next; past the last one the
// first is read again.
#if 8 % NG == 0
#define GROUP_AT(j) ((j) * 1024u)
#else
#define GROUP_AT(j) ((uint)(j) < there ? (j) * 1024u + ((uint)(j) < in_strip ? 0u : to_next_strip) : 0u)
#endif
// Half h of the weights of K block K into set S. Of eight lines the 16 k that a work-item has in that half of k; with LINES all k of four
// lines, 4h to 4h + 3: of eight neighbours four have the first half of k and four the second, of the same line.
#if LINES
#define IN_B ((lane >> 3) * 128u + (((lane & 7) ^ lane >> 3) << 4))
#define OTHER_HALF(at) ((at) + 512u)
#else
#define IN_B (g * 128u + ((t ^ g) << 4))
#define OTHER_HALF(at) ((at) ^ 64u)
#endif
#if FOUR_BITS
// Of sixteen columns a work-item has 32 k of column g and as many of column g + 8, and their scales side by side.
#define SCALES_B (NG / 2)
#if B_SCALE_COLS != 16
#define SCALE_BYTES 2
#define LOAD_SCALES_OF(r, p) LOAD2(r, p)
#else
#define SCALE_BYTES 4
#define LOAD_SCALES_OF(r, p) LOAD4(r, p)
#endif
#define OF_GROUP(j) ((uint)(j) < there ? (j) / 2 : 0)
#define LOAD_WEIGHTS_OF(S, K, j)                                                                    \
  do {                                                                                              \
    const ulong line_ = OF_GROUP(j) * (ulong)all_blocks + (K);                                      \
    LOAD16_STREAM(&wr[S][4 * (j)], pw + line_ * 1024u);                                             \
    LOAD16_STREAM(&wr[S][4 * (j) + 4], pw + line_ * 1024u + 512u);                                  \
    LOAD_SCALES_OF(cr[S][(j) / 2], pc + line_ * (32u * SCALE_BYTES));                               \
  } while (0)
#define LOAD_WEIGHTS_HALF(S, K, h) UNROLL for (int j = 0; j < NG && h; j += 2) LOAD_WEIGHTS_OF(S, K, j);
#else
#define LOAD_WEIGHTS_HALF(S, K, h)                                                                                    \
  UNROLL for (int j = 0; j < NG; ++j) LOAD16_STREAM(&wr[S][8 * j + 4 * (h)], pw + GROUP_AT(j) + (ulong)(K) * 8192u + ((h) ? OTHER_HALF(in_b) : in_b));
#endif
// A group's sums are kept for each half of k with LINES, and in tiles of 32 by 32, which were 7 % faster so.
#define SUMS (LINES || (TILE_M == 32 && COLUMNS == 32) ? 2 : 1)
#define HALF_SUM(h, j, u, e) c[h][j][(u) / 2][2 * ((u) % 2) + (e)]
#define GROUP_SUM(j, u, e) (SUMS == 1 ? HALF_SUM(0, j, u, e) : HALF_SUM(0, j, u, e) + HALF_SUM(SUMS - 1, j, u, LINES ? 1 - (e) : (e)))
// The line of a line group whose sum e a work-item has.
#if LINES
#define LINE_OF(e) (4 * (e) + t)
#else
#define LINE_OF(e) (2 * t + (e))
#endif
#if FOUR_BITS
#define LOAD_SCALES_B(S, K)
#define OF_SCALES uint
#define SCALES_HELD [SCALES_B]
// Codes at the place of bf16 are in units of 2^-126; what the table holds of a scale makes 2^-2 or 2^-8 of it. Scales of e8m0 from 2^4 on
// would not hold that: they are multiplied twice.
#if B_SCALE_TYPE == TYPE_E8M0
#define ENTRY_OF_SCALE(code) (decode_e8m0(code) * ((code) > 130 ? 1.0f : 0x1p124f))
#define IS_FAR(scales) (((scales) & 0xffu) > 130u || ((scales) >> 8) > 130u)
#define FACTOR(scales, h) (((scales) >> 8 * (h) & 0xffu) > 130u ? 0x7d807d80u : 0x3f803f80u)
#define UNIT_OF_ALL (4.0f * GLOBAL_OF_B)
#else
#define ENTRY_OF_SCALE(code) (DECODE(B_SCALE_TYPE)(code) * 0x1p118f)
#define UNIT_OF_ALL (256.0f * GLOBAL_OF_B)
#endif
#define SCALE_AT(scales, h, q) scale_words[(scales) >> 8 * (SCALE_BYTES == 2 ? (h) : 2 * (q) + (h)) & 0xffu]
#define ROTATED(w, by) ((w) << (by) | (w) >> (32 - (by)))
#define AT_BF16(w) ((w) & 0x81c081c0u)
// Sixteen codes of two words (forms/lines.cpp) as eight pairs of bf16. A rotation brings eight bits of a word to the places of sign,
// exponent and mantissa, three times; what is left of two words are the bits of two pairs more.
#define PAIRS_OF_WORDS(p, w0, w1)                                                       \
  do {                                                                                  \
    const uint rest_ = ((w0) & 0x06030603u) | (((w1) << 2) & ~0x06030603u);             \
    (p)[0] = AT_BF16(w0);                                                               \
    (p)[1] = AT_BF16(ROTATED(w0, 10));                                                  \
    (p)[2] = AT_BF16((w0) << 4);                                                        \
    (p)[3] = AT_BF16(w1);                                                               \
    (p)[4] = AT_BF16(ROTATED(w1, 10));                                                  \
    (p)[5] = AT_BF16((w1) << 4);                                                        \
    (p)[6] = AT_BF16(rest_ << 6);                                                       \
    (p)[7] = AT_BF16(ROTATED(rest_, 12));                                               \
  } while (0)
// Of K groups of A's scales shorter than a K block: whether this work-item's k are in group q of it.
#define OF_K_GROUP(q) (PER_BLOCK == 1 || t * PER_BLOCK / 4 == (uint)(q) ? 0xffffffffu : 0u)
// What products are added to: without scales of A the totals themselves.
#if A_SCALE_TYPE == 0
#define PRODUCT_SUMS(of, u) sum[j / 2][u]
#else
#define PRODUCT_SUMS(of, u) c[of][u]
#endif
#define SUM(j, u, e) sum[(j) / 2][u][2 * ((j) % 2) + (e)]
#define SUMS_HELD [NG / 2][T][4]
#else
#define SUM(j, u, e) sum[j][u][e]
#define SUMS_HELD [NG][T][2]
#define OF_SCALES float
#define SCALES_HELD [PER_BLOCK][SCALES_B]
// Scales of B: one for the columns of a block of 128, of which a work-group has at most two, or one a column. With gates and ups in turns
// a block has one of each: with LINES a work-item's columns are all gates or all ups.
#if UNIFORM
#ifdef ACTIVATION
#define KINDS (2 - LINES)
#define KIND_AT(e) (LINES ? t & 1u : (uint)(e))
#else
#define KINDS 1
#define KIND_AT(e) 0u
#endif
#define SCALES_B (KINDS * (128 % COLUMNS == 0 ? 1 : 2))
#define LOAD_SCALES_B(S, K)                                                                                           \
  UNROLL for (int q = 0; q < PER_BLOCK; ++q) UNROLL for (int i = 0; i < KINDS; ++i) {                                 \
    LOAD_F(cr[S][q][i], pc + SCALE_OF(K, q) * 128u + KIND_AT(i));                                                     \
    if (SCALES_B > KINDS) LOAD_F(cr[S][q][SCALES_B - KINDS + i], pc + to_last_block + SCALE_OF(K, q) * 128u + KIND_AT(i)); \
  }
#define SCALE_B(y, j, e) ((uint)(j) < in_block ? (y)[(e) % KINDS] : (y)[SCALES_B - KINDS + (e) % KINDS])
#else
#define SCALES_B (2 * NG)
#define LOAD_SCALES_B(S, K)                                                                                           \
  UNROLL for (int q = 0; q < PER_BLOCK; ++q) UNROLL for (int j = 0; j < 2 * NG; ++j)                                  \
    LOAD_F(cr[S][q][j], sb_here + SCALE_PLACE(j / 2, LINE_OF(j % 2)) + SCALE_OF(K, q) * 128u);
#define SCALE_COLUMN(j, line) column_of(min(first_group + (j), end_group - 1), line)
#define SCALE_PLACE(j, line) ((ulong)(SCALE_COLUMN(j, line) / 128u) * groups_b * 128u + SCALE_COLUMN(j, line) % 128u)
#define SCALE_B(y, j, e) (y)[2 * (j) + (e)]
#endif
#endif

// Sets of registers; those of the first K blocks are asked for by LOAD_FIRST_SETS.
#define SETS_OF_REGISTERS                                                                                             \
  uint wr[DEPTH][WORDS_B * NG], ar[TOKENS_DEPTH][TOKENS * T];                                                         \
  float sr[TOKENS_DEPTH][PER_BLOCK][SUMS_OF_ROWS], sum SUMS_HELD;                                                     \
  OF_SCALES cr[DEPTH]SCALES_HELD;                                                                                     \
  UNROLL for (int s = 0; s < TOKENS_DEPTH; ++s) {                                                                     \
    UNROLL for (int i = 0; i < TOKENS * T; ++i) ar[s][i] = 0;                                                         \
    UNROLL for (int q = 0; q < PER_BLOCK; ++q) UNROLL for (int i = 0; i < SUMS_OF_ROWS; ++i) sr[s][q][i] = 0.f;       \
  }
#define ZERO_SUMS UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < T; ++u) SUM(j, u, 0) = SUM(j, u, 1) = 0.f;
#if QUANTISE
#define LOAD_FIRST_TOKENS(s, block) LOAD_TOKENS(s, block)
#else
#define LOAD_FIRST_TOKENS(s, block)                                                                                   \
  if (s < TOKENS_DEPTH) {                                                                                             \
    LOAD_TOKENS_HALF(s, block, 0)                                                                                     \
    LOAD_TOKENS_HALF(s, block, 1)                                                                                     \
    LOAD_TOKENS_SCALES(s, block)                                                                                      \
  }
#endif
#define LOAD_FIRST_SETS                                                                                               \
  UNROLL for (int s = 0; s < DEPTH; ++s) {                                                                            \
    IF_OF_WARP(s < count) {                                                                                           \
      const uint block = BLOCK_OF_WARP(warp + s * WARPS);                                                             \
      LOAD_WEIGHTS_HALF(s, block, 0)                                                                                  \
      LOAD_WEIGHTS_HALF(s, block, 1)                                                                                  \
      LOAD_FIRST_TOKENS(s, block)                                                                                     \
      LOAD_SCALES_B(s, block)                                                                                         \
    }                                                                                                                 \
  }
#if STAYS
// Loads of weights, or of activations, are of unit `of` from here on, if `now`.
#define ENTER_WEIGHTS(now, of)                                                                                        \
  if (now) {                                                                                                          \
    b_here = b + (ulong)(of).matrix * b_stride, sb_here = sb + (ulong)(of).matrix * sb_stride;                        \
    first_group = (uint)(of).column * NG, end_group = min(first_group + NG, (uint)groups), there = end_group - first_group; \
    in_strip = 8 - first_group % 8, to_last_block = there > 16 - first_group % 16 ? (ulong)groups_b * 128u : 0ul;     \
    pw = b_here + (ulong)(first_group / 8) * all_blocks * 8192u + first_group % 8 * 1024u;                            \
    pc = sb_here + (ulong)(first_group / 16) * groups_b * 128u;                                                       \
  }
#define ENTER_TOKENS(now, of)                                                                                         \
  if (now) first_row = (uint)(of).first_row, rows = (uint)((of).end_row - (of).first_row);                            \
  UNROLL for (int j = 0; j < T; ++j)                                                                                  \
    if (now) token_rows[j] = (uint)ROW_OF_A(first_row + TOKEN_ROW(j));
#define LAST_SETS_AT (count > DEPTH ? count - DEPTH : 0)  // From here on sets are asked for of the next unit.
#endif

#if ONE_ROW
#include "one_row.cl"
#endif

/// The column of D that line `line` of eight of line group `group` is (forms/forms.h).
static inline uint column_of(uint group, uint line) { return FOUR_BITS ? 8 * group + line : column_of_line(group, line); }

#ifndef FUSED  // fused_experts.cl has what stands above.
__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void gemm_mma_stream(GEMM_ARGS)
{
  __local float parts[WARPS][COLUMNS][8 * T + 1];
  GROUP_MAGNITUDES(8 * T, COLUMNS)
  WARP_SCRATCH
#if defined(PTX_SM_80) && FOUR_BITS && A_SCALE_TYPE == 0 && TILE_M <= 8 && WARPS == 8
  // As many work-groups to a multiprocessor as one row of 7168 columns needs at once, with all registers that this leaves.
#if COLUMNS == 16
  asm volatile("//at_once 4\n");
#elif COLUMNS == 32
  asm volatile("//at_once 3\n");
#endif
#endif
  if (m <= 0) return;
#if FOUR_BITS
#if ONE_ROW
  __local __attribute__((aligned(128))) uint row_memory[ROW_MEMORY / 4];
#else
  __local uint scale_words[256];
#endif
#endif
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
  const uint blocks = ((uint)k + 127u) / 128u, all_blocks = (uint)k_pad / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
  const uint count = COUNT_OF_WARP(blocks, warp);
  const uint in_b = IN_B; // of a line group, which is a KiB of a K block
#if QUANTISE
  const bool aligned = ((a_at | lda) & (SOURCE == TYPE_F32 ? 3 : 7)) == 0;
#endif
  const int groups = ((uint)n + 15u) / 16u * 2u, columns = (groups + NG - 1) / NG;
#if STAYS
  SCHEDULE(tiles, TILE_M);
  const long units = (long)tiles * columns;
  long work = FIRST_UNIT(units, PLACE_OF_GROUP);
  const long end_work = FIRST_UNIT(units, PLACE_OF_GROUP + 1ul);
#define IS_LAST (work + 1 >= end_work)
  if (work >= end_work) return;
  scheduled_block coming = block_in_table(table, matrices, work, columns);
  __global const uchar *b_here, *pw;
  __global const float *sb_here, *pc;
  uint first_group, end_group, there, in_strip, first_row, rows, token_rows[T];
  const uint to_next_strip = (all_blocks - 1) * 8192u;
  ulong to_last_block;
  SETS_OF_REGISTERS
  ENTER_WEIGHTS(true, coming)
  ENTER_TOKENS(true, coming)
  LOAD_FIRST_SETS
  for (; work < end_work; ++work) {
    const scheduled_block here = coming;
    const ulong bias_here = bias_at + (ulong)here.matrix * (ulong)n;
    const uint in_block = 16 - (uint)here.column * NG % 16;
    uint own_rows[T];
    UNROLL for (int j = 0; j < T; ++j) own_rows[j] = token_rows[j];
    coming = block_in_table(table, matrices, min(work + 1, end_work - 1), columns);
    ZERO_SUMS
#else
#ifdef SCHEDULES
  SCHEDULE(tiles, TILE_M);
  EACH_UNIT_SCHEDULED((long)tiles * columns) {
    const scheduled_block here = block_in_table(table, matrices, work, columns);
#else
  EACH_UNIT(columns) {
#ifdef GROUPED
    const scheduled_block here = block_of(scheduled, work, columns);
#else
    const int row_0 = (int)get_group_id(1) * TILE_M;
    const scheduled_block here = {0, row_0, min(m, row_0 + TILE_M), 0, 1, (int)get_group_id(0), TILE_M};
#endif
#endif
    OF_MATRIX(here)
    const uint first_group = (uint)here.column * NG, end_group = min(first_group + NG, (uint)groups), there = end_group - first_group;
    const uint first_row = (uint)here.first_row, rows = (uint)(here.end_row - here.first_row);
    const uint in_strip = 8 - first_group % 8, to_next_strip = (all_blocks - 1) * 8192u, in_block = 16 - first_group % 16;
    const ulong to_last_block = there > in_block ? (ulong)groups_b * 128u : 0ul;
#if FOUR_BITS
    __global const uchar *pw = b_here + (ulong)(first_group / 2) * all_blocks * 1024u + lane * 16u;
    __global const uchar *pc = (__global const uchar *)(sb_here + 16) + ((ulong)(first_group / 2) * all_blocks * 32u + lane) * SCALE_BYTES;
#else
    __global const uchar *pw = b_here + (ulong)(first_group / 8) * all_blocks * 8192u + first_group % 8 * 1024u;
    __global const float *pc = sb_here + (ulong)(first_group / 16) * groups_b * 128u;
#endif
    uint token_rows[T]; // of A, whose codes or values this work-item loads
    UNROLL for (int j = 0; j < T; ++j) token_rows[j] = (uint)ROW_OF_A(first_row + TOKEN_ROW(j));
    SETS_OF_REGISTERS
    ZERO_SUMS
#if !ONE_ROW
    LOAD_FIRST_SETS
#endif
#endif
#if ONE_ROW
    const float unit = GLOBAL_OF_B;
    __global const uchar* row = a + 2 * (a_at + (ulong)token_rows[0] * lda);
    __global const uchar* scales = (__global const uchar *)(sb_here + 16) + (ulong)(first_group / 2) * all_blocks * 32u * SCALE_BYTES;
    LOCAL_PLACE of_row = LOCAL_ADDRESS((__local uchar*)row_memory);
#define SUMS_OF_ROW(sums, every)                                                                                           \
  sums_of_row(sums, every, pw, scales, row, blocks, of_row + warp * ROW_BYTES, of_row + WARPS * ROW_BYTES + 32, warp, lane SHOWN_ARGUMENT)
    float row_sums[2], every_sums[2];
    SUMS_OF_ROW(row_sums, false);
    const uint is_odd = !isfinite(row_sums[0]) || !isfinite(row_sums[1]);
    IF_OF_WARP(ANY_OF_WARP(is_odd)) {
      SUMS_OF_ROW(every_sums, true);
      UNROLL for (int h = 0; h < 2; ++h) row_sums[h] = is_odd ? every_sums[h] : row_sums[h];
    }
    SUM(0, 0, 0) = row_sums[0], SUM(1, 0, 0) = row_sums[1];
#else
#if FOUR_BITS
    const float unit = UNIT_OF_ALL;
    for (uint i = tid; i < 256; i += 32 * WARPS) scale_words[i] = encode_bf16(ENTRY_OF_SCALE(i)) * 0x10001u;
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    const float unit = 1.0f;
#endif
    for (uint first = 0; first < count; first += DEPTH) {
      UNROLL for (int s = 0; s < DEPTH; ++s) {
        IF_OF_WARP(first + s < count) { // a break would keep the compiler from unrolling, and sets would lie in memory
#if STAYS
          const uint at = first + s;
          ENTER_WEIGHTS(!IS_LAST && at == LAST_SETS_AT, coming)
          ENTER_TOKENS(!IS_LAST && at == LAST_SETS_AT, coming)
          const bool more = at + DEPTH < count || !IS_LAST;
          const uint next = BLOCK_OF_WARP(warp + (at + DEPTH < count ? at + DEPTH : (uint)s) * WARPS);
#else
          const uint next = BLOCK_OF_WARP(warp + (first + s + DEPTH) * WARPS);
          const bool more = next < blocks;
#endif
#if FOUR_BITS
          // Sixteen columns after the other, the first operand: the next codes of some are on their way while others are multiplied.
          UNROLL for (int j = 0; j < NG; j += 2) {
#if A_SCALE_TYPE != 0
            float c[PER_BLOCK][T][4];
            UNROLL for (int q = 0; q < PER_BLOCK; ++q) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int i = 0; i < 4; ++i) c[q][u][i] = 0.f;
#endif
            const uint scales = cr[s][j / 2];
            UNROLL for (int q = 0; q < 2; ++q) {
              uint pairs[2][8];
              UNROLL for (int h = 0; h < 2; ++h) {
                const uint scale = SCALE_AT(scales, h, q);
                PAIRS_OF_WORDS(pairs[h], wr[s][4 * (j + h) + 2 * q], wr[s][4 * (j + h) + 2 * q + 1]);
                UNROLL for (int p = 0; p < 8; ++p) MUL_PAIRS(pairs[h][p], pairs[h][p], scale);
              }
#ifdef IS_FAR
              if (IS_FAR(scales))
                UNROLL for (int h = 0; h < 2; ++h) UNROLL for (int p = 0; p < 8; ++p) MUL_PAIRS(pairs[h][p], pairs[h][p], FACTOR(scales, h));
#endif
              UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int of = 0; of < PER_BLOCK; ++of)
                MMA_M16N8K16(PRODUCT_SUMS(of, u), pairs[0][2 * i], pairs[1][2 * i], pairs[0][2 * i + 1], pairs[1][2 * i + 1],
                             WORD_OF_WARP(IS_THERE(s), ar[0][16 * u + 8 * q + 2 * i]) & OF_K_GROUP(of),
                             WORD_OF_WARP(IS_THERE(s), ar[0][16 * u + 8 * q + 2 * i + 1]) & OF_K_GROUP(of));
            }
#if A_SCALE_TYPE != 0
            UNROLL for (int q = 0; q < PER_BLOCK; ++q) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int e = 0; e < 4; ++e)
              sum[j / 2][u][e] = ADD_OF_WARP(IS_THERE(s), sr[0][q][2 * u + e % 2], c[q][u][e], sum[j / 2][u][e]);
#endif
            IF_OF_WARP(more) LOAD_WEIGHTS_OF(s, next, j);
          }
          IF_OF_WARP(first + s + 1 < count) {
            const uint following = BLOCK_OF_WARP(warp + (first + s + 1) * WARPS);
            LOAD_TOKENS_HALF(0, following, 0)
            LOAD_TOKENS_HALF(0, following, 1)
            LOAD_TOKENS_SCALES(0, following)
          }
#elif GROUP < 128
          float x[PER_BLOCK][T], y[PER_BLOCK][SCALES_B];
          UNROLL for (int q = 0; q < PER_BLOCK; ++q) {
            UNROLL for (int u = 0; u < T; ++u) x[q][u] = sr[s][q][u];
            UNROLL for (int i = 0; i < SCALES_B; ++i) y[q][i] = cr[s][q][i];
          }
          IF_OF_WARP(more) {
            LOAD_TOKENS_SCALES(s, next)
            LOAD_SCALES_B(s, next)
          }
          UNROLL for (int h = 0; h < 2; ++h) {
            UNROLL for (int q = h * PER_BLOCK / 2; q < (h + 1) * PER_BLOCK / 2; ++q) {
              // Of groups of 32 this thread's 16 k of the half are of one.
              const uint mine = GROUP == 64 || (t >> 1) == (uint)q % 2u ? 0xffffffffu : 0u;
              float c[NG][T16][4];
              UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < T16; ++u) UNROLL for (int i = 0; i < 4; ++i) c[j][u][i] = 0.f;
              UNROLL for (int i = 4 * h; i < 4 * h + 4; ++i) {
                uint lo[2 * T16], hi[2 * T16];
                UNROLL for (int u = 0; u < 2 * T16; ++u) {
                  lo[u] = hi[u] = 0;
                  if (u < T) DECODE_A4(lo[u], hi[u], ar[s][8 * min(u, T - 1) + i] & mine);
                }
                UNROLL for (int j = 0; j < NG; ++j) {
                  uint b0, b1;
                  DECODE_B4(b0, b1, wr[s][8 * j + i] & mine);
                  UNROLL for (int u = 0; u < T16; ++u) MMA_M16N8K16(c[j][u], lo[2 * u], lo[2 * u + 1], hi[2 * u], hi[2 * u + 1], b0, b1);
                }
              }
              UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int e = 0; e < 2; ++e)
                sum[j][u][e] = ADD_OF_WARP(IS_THERE(s), x[q][u] * SCALE_B(y[q], j, e), SUM_OF_UNITS(c[j][u / 2][2 * (u % 2) + e]), sum[j][u][e]);
            }
            IF_OF_WARP(more) {
              LOAD_WEIGHTS_HALF(s, next, h)
              LOAD_TOKENS_HALF(s, next, h)
            }
          }
#else
          float c[SUMS][NG][T16][4], x[T], y[SCALES_B];
          UNROLL for (int h = 0; h < SUMS; ++h) UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < T16; ++u) UNROLL for (int i = 0; i < 4; ++i) c[h][j][u][i] = 0.f;
#if QUANTISE
          uint tokens[8 * T];
          UNROLL for (int j = 0; j < T; ++j) QUANTISE_ROWS(ar[s] + TOKENS * j, j, warp + (first + s) * WARPS, tokens + 8 * j, x[j]);
          IF_OF_WARP(more) LOAD_TOKENS(s, next)
#else
#define tokens ar[s]
#endif
#if LINES
          // What is in hand of lines 4 to 7 changes places in every other four: then the first half of k is multiplied first, in all.
          UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int i = 0; i < 4; ++i) {
            const uint low = wr[s][8 * j + i], high = wr[s][8 * j + 4 + i];
            wr[s][8 * j + i] = lane & 4 ? high : low;
            wr[s][8 * j + 4 + i] = lane & 4 ? low : high;
          }
#endif
          UNROLL for (int h = 0; h < 2; ++h) {
            UNROLL for (int i = 4 * h; i < 4 * h + 4; ++i) { // k = 64*h + 16*t + 4*(i%4) + 0..3 in this thread, the same for both operands
              uint lo[2 * T16], hi[2 * T16];
              UNROLL for (int u = 0; u < 2 * T16; ++u) {
                lo[u] = hi[u] = 0;
                if (u < T) DECODE_A4(lo[u], hi[u], tokens[8 * min(u, T - 1) + i]);
              }
              UNROLL for (int j = 0; j < NG; ++j) {
                uint b0, b1;
                DECODE_B4(b0, b1, wr[s][8 * j + i]);
                UNROLL for (int u = 0; u < T16; ++u) MMA_M16N8K16(c[h % SUMS][j][u], lo[2 * u], lo[2 * u + 1], hi[2 * u], hi[2 * u + 1], b0, b1);
              }
            }
            IF_OF_WARP(more) {
              LOAD_WEIGHTS_HALF(s, next, h)
#if !QUANTISE
              LOAD_TOKENS_HALF(s, next, h)
#endif
            }
          }
#if !QUANTISE
#undef tokens
          UNROLL for (int u = 0; u < T; ++u) x[u] = sr[s][0][u];
#endif
          UNROLL for (int i = 0; i < SCALES_B; ++i) y[i] = cr[s][0][i];
          IF_OF_WARP(more) {
#if !QUANTISE
            LOAD_TOKENS_SCALES(s, next)
#endif
            LOAD_SCALES_B(s, next)
          }
          UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int e = 0; e < 2; ++e)
            sum[j][u][e] = ADD_OF_WARP(IS_THERE(s), x[u] * SCALE_B(y, j, e), SUM_OF_UNITS(GROUP_SUM(j, u, e)), sum[j][u][e]);
#endif
        }
      }
    }
#endif
    UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int e = 0; e < 2; ++e)
      parts[warp][8 * j + (FOUR_BITS ? g : LINE_OF(e))][8 * u + (FOUR_BITS ? 2 * t + e : g)] = SUM(j, u, e);
    barrier(CLK_LOCAL_MEM_FENCE);
    // Lines of even number and the next ones are columns side by side: a gate and its up.
    EACH_PASS {
      START_PASS
      for (uint o = tid; o < OF_D(COLUMNS) * 8 * T; o += 32 * WARPS) {
        const uint line = o % OF_D(COLUMNS) * (COLUMNS / OF_D(COLUMNS)), row = o / OF_D(COLUMNS);
#if STAYS  // first_row and the like are the next unit's by now.
        const uint group = (uint)here.column * NG + line / 8, column = column_of(group, line % 8), row_of_d = (uint)here.first_row + row;
        if (row_of_d >= (uint)here.end_row || group >= (uint)groups || column >= (uint)n) continue;
#else
        const uint column = column_of(first_group + line / 8, line % 8), row_of_d = first_row + row;
        if (row >= rows || line / 8 >= there || column >= (uint)n) continue;
#endif
        float total = 0.f;
        UNROLL for (int i = 0; i < WARPS; ++i) total += parts[i][line][row];
        total *= unit;
#ifdef ACTIVATION
        float up = 0.f;
        UNROLL for (int i = 0; i < WARPS; ++i) up += parts[i][line + 1][row];
        total = activated(bias, bias_here, n, OF_D(column), total, up * unit);
#endif
        STORE_TOTAL(row, OF_D(column - (uint)here.column * COLUMNS), (int)row_of_d, (int)OF_D(column), total);
      }
    }
#ifdef GROUPED
    barrier(CLK_LOCAL_MEM_FENCE); // the next unit's parts go to the same memory
#endif
  }
}
#endif
#else
// The kernel needs what PTX_SM_80 promises; without it this file is empty.
#endif
