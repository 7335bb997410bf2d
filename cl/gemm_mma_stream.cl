// SPDX-License-Identifier: Apache-2.0
// gemm_mma_stream.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for few rows, in class f32, at the memory's rate:
// weights stream once from memory, become f16 in registers, exactly, and are multiplied by mma.sync with f32 sums.
//
// D is made transposed: 16 columns of D are the rows of an instruction's first operand, eight rows of D the columns of the second.
// A work-group makes COLUMNS columns of TILE_M rows of D; its WARPS warps take K blocks in turn and are added up in order at the end. Each
// warp has DEPTH K blocks under way, weights, activations and scales alike: what counts is the bytes on their way. Further tiles of rows
// read the weights again, from the L2 where they are neighbours.
// In a K block a work-item takes the 16 k from 16t and from 64 + 16t on (t its number in the group of four), the same of both operands.
// With QUANTISE, A is as the caller has it: a warp makes scale and codes of a K block's rows itself, which costs less than a launch.
//
// Tunable  default  values     meaning
// TILE_M   8        1 2 4 8 16 32  rows of D per work-group
// COLUMNS  16       16 32      columns of D per work-group
// WARPS    8        4 8 16     warps of a work-group
// DEPTH    2        2 3 4      K blocks that a warp has under way
// Set by the host: those of tile.cl, PTX_SM_90, and
// QUANTISE      0      0 1    A is of type SOURCE and becomes codes here, in groups of one row by 128; then also those of quantizer.cl
// A: rows of codes, padded with zeros to a multiple of 128; with QUANTISE rows as they come. B: forms/swizzled.h.
// Local memory: WARPS * COLUMNS * (max(8, TILE_M) + 1) * 4 B = 4608 B with the defaults.
// Origin: operand layout as the PTX manual describes mma.m16n8k16.
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
#define DEPTH 2
#endif
#ifndef QUANTISE
#define QUANTISE 0
#endif

#if defined(PTX_SM_90)
#include "ptx.cl"
#if QUANTISE
#include "code_pairs.cl"
#endif

#define T (TILE_M <= 8 ? 1 : TILE_M / 8)  // Tiles of eight rows.
#define R (COLUMNS / 16)
#define UNIFORM (B_SCALE_ROWS % 128 == 0 || B_SCALE_ROWS == 0x7fffffff)
#define DECODE_A4 JOIN(DECODE4_, A_TYPE)
#define DECODE_B4 JOIN(DECODE4_, B_TYPE)

#if QUANTISE
// Rows of a K block, ROWS_HELD at a time: each lies in ROW_ITEMS work-items, ITEM_K values in each, PER to a register.
#define ROWS_HELD (TILE_M < 8 ? TILE_M : 8)
#define ROW_ITEMS (32 / ROWS_HELD)
#define ITEM_K (4 * ROWS_HELD)
#define PER (SOURCE == TYPE_F32 ? 1 : 2)
#define TOKENS (ITEM_K / PER)
// The k of a work-item's value e. Of eight rows: those that it multiplies, so that codes are made where they are used.
#define VALUE_K(e) (ROWS_HELD == 8 ? t * 16u + ((e) >> 4) * 64u + ((e) & 15) : lane % ROW_ITEMS * ITEM_K + (e))

#if SOURCE == TYPE_F32
#define PAIR_OF(V, RAW, i) const float2 V = (float2)(as_float((RAW)[i]), as_float((RAW)[(i) + 1]))
#elif SOURCE == TYPE_BF16
#define PAIR_OF(V, RAW, i) const float2 V = (float2)(as_float((RAW)[(i) / 2] << 16), as_float((RAW)[(i) / 2] & 0xffff0000u))
#else
#define PAIR_OF(V, RAW, i)  \
  float2 V;                 \
  asm("{.reg .b16 l,h; mov.b32 {l,h},%2; cvt.f32.f16 %0,l; cvt.f32.f16 %1,h;}" : "=f"(V.x), "=f"(V.y) : "r"((RAW)[(i) / 2]))
#endif

// What is seldom is kept out of the loop that must be unrolled: also four codes of a group whose scale the quick quotients do not reach.
__attribute__((noinline)) uint four_codes(__global const uchar *a, ulong row_at, uint col, uint k, float scale, uint finite)
{
  uint word = 0;
  for (uint e = 0; e < 4; ++e) {
    const float x = col + e < k ? load_element(SOURCE, a, row_at + col + e) : 0.0f;
    word |= (finite ? (uint)code_of(x, scale) : (uint)NAN_CODE) << 8 * e;
  }
  return word;
}
#define TOKEN_ROW(j) min(lane / ROW_ITEMS + 8 * (j), rows - 1)
#define ROW_AT(j) (a_at + (ulong)token_rows[j] * lda)
#define LOAD_TOKENS(S, K)                                                                                             \
  UNROLL for (int j = 0; j < T; ++j) {                                                                                \
    if (aligned && (K) * 128u + 128u <= (uint)k) {                                                                    \
      UNROLL for (int i = 0; i < TOKENS; i += 4) {                                                                    \
        __global const uchar *from = a + (ROW_AT(j) + (K) * 128u + VALUE_K(PER * i)) * (4 / PER);                     \
        if (TOKENS == 2) LOAD8(&ar[S][0], from);                                                                      \
        else LOAD16(&ar[S][TOKENS * j + i], from);                                                                    \
      }                                                                                                               \
    } else                                                                                                            \
      UNROLL for (int i = 0; i < TOKENS; ++i) ar[S][TOKENS * j + i] = word_at(a, ROW_AT(j), (K) * 128u + VALUE_K(PER * i), (uint)k);   \
  }

// Scale and codes of eight rows, of which this work-item has ITEM_K values of one in RAW: WORDS become the codes that it
// multiplies, SCALES[0] and [1] the scales of rows 2t and 2t + 1.
#define QUANTISE_ROWS(RAW, J, K, WORDS, SCALES)                                                                       \
  do {                                                                                                                \
    uint amax = 0, made[ROWS_HELD], bits;                                                                             \
    float scale, reciprocal;                                                                                          \
    UNROLL for (int i = 0; i < ITEM_K; i += 2) {                                                                      \
      PAIR_OF(v, RAW, i);                                                                                             \
      amax = magnitude(amax, v);                                                                                      \
    }                                                                                                                 \
    UNROLL for (int d_ = 1; d_ < ROW_ITEMS; d_ *= 2) {                                                                \
      SHUFFLE_XOR(bits, amax, d_);                                                                                    \
      amax = max(amax, bits);                                                                                         \
    }                                                                                                                 \
    if (scale_and_reach(amax, FLOOR_BITS, &scale, &reciprocal)) {                                                     \
      UNROLL for (int i = 0; i < ROWS_HELD; ++i) {                                                                    \
        PAIR_OF(v, RAW, 4 * i);                                                                                       \
        PAIR_OF(w, RAW, 4 * i + 2);                                                                                   \
        made[i] = quick_codes(v, scale, reciprocal) | quick_codes(w, scale, reciprocal) << 16;                        \
      }                                                                                                               \
    } else                                                                                                            \
      UNROLL for (int i = 0; i < ROWS_HELD; ++i)                                                                      \
        made[i] = four_codes(a, ROW_AT(J), (K) * 128u + VALUE_K(4 * i), (uint)k, scale, amax < 0x7f800000u);          \
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
    SHUFFLE(bits, as_uint(scale), 2 * t % ROWS_HELD * ROW_ITEMS);                                                     \
    (SCALES)[0] = as_float(bits);                                                                                     \
    SHUFFLE(bits, as_uint(scale), (2 * t + 1) % ROWS_HELD * ROW_ITEMS);                                               \
    (SCALES)[1] = as_float(bits);                                                                                     \
  } while (0)
#else
#define TOKENS 8
#define TOKEN_ROW(j) min(g + 8 * (j), rows - 1)
#define SCALE_AT(j) (sa + sa_at + (ulong)(scale_rows[j] / A_SCALE_ROWS) * sa_ld)
#define LOAD_TOKENS(S, K)                                                                                             \
  UNROLL for (int j = 0; j < T; ++j) {                                                                                \
    if (g + 8 * j < rows) {                                                                                           \
      __global const uchar *from = a + a_at + (ulong)token_rows[j] * lda + (K) * 128u + t * 16u;                      \
      LOAD16(&ar[S][8 * j], from);                                                                                    \
      LOAD16(&ar[S][8 * j + 4], from + 64u);                                                                          \
    }                                                                                                                 \
    const uint r0 = 2 * t + 8 * j, s0 = (K) * 128u / A_SCALE_COLS;                                                    \
    if (r0 < rows) LOAD_F(sr[S][2 * j], SCALE_AT(2 * j) + s0);                                                        \
    if (r0 + 1 < rows) LOAD_F(sr[S][2 * j + 1], SCALE_AT(2 * j + 1) + s0);                                            \
  }
#endif

// The scale group of B that K block kb lies in.
#define SCALE_OF(kb) min((uint)(kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
// Loads this warp's K block I into set S, if there is one.
#define LOAD(S, I)                                                                                                    \
  if ((I) < count) {                                                                                                  \
    const uint block = warp + (I) * WARPS;                                                                            \
    UNROLL for (int r = 0; r < R; ++r) {                                                                              \
      __global const uchar *from = pw + (ulong)block * 8192u + r * 2048u;                                             \
      LOAD16_STREAM(&wr[S][16 * r], from + in_b);                                                                     \
      LOAD16_STREAM(&wr[S][16 * r + 4], from + (in_b ^ 64u));                                                         \
      LOAD16_STREAM(&wr[S][16 * r + 8], from + in_b + 1024u);                                                         \
      LOAD16_STREAM(&wr[S][16 * r + 12], from + (in_b ^ 64u) + 1024u);                                                \
      LOAD_F(cr[S][2 * r], pc + SCALE_OF(block) * 128u + 16u * r);                                                    \
      if (!UNIFORM) LOAD_F(cr[S][2 * r + 1], pc + SCALE_OF(block) * 128u + 16u * r + 2u);                             \
    }                                                                                                                 \
    LOAD_TOKENS(S, block)                                                                                             \
  }

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void gemm_mma_stream(GEMM_ARGS)
{
  __local float parts[WARPS][COLUMNS][8 * T + 1];
  if (m <= 0) return;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
  const uint blocks = ((uint)k + 127u) / 128u, all_blocks = (uint)k_pad / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
  const uint count = blocks > warp ? (blocks - warp + WARPS - 1) / WARPS : 0;
  // 16 lines of a tile of 64 are two KiB of a K block.
  const uint in_b = g * 128u + ((t ^ g) << 4);
#if QUANTISE
  const bool aligned = ((a_at | lda) & (SOURCE == TYPE_F32 ? 3 : 7)) == 0;
#endif
  const int columns = (n + COLUMNS - 1) / COLUMNS;
  EACH_UNIT(columns) {
#ifdef GROUPED
    const dealt_block here = block_of(dealt, TILE_M, work, columns);
#else
    const int row_0 = (int)get_group_id(1) * TILE_M;
    const dealt_block here = {0, row_0, min(m, row_0 + TILE_M), 0, 1, (int)get_group_id(0)};
#endif
    OF_MATRIX(here)
    const uint column = (uint)here.column * COLUMNS, first_row = (uint)here.first_row, rows = (uint)(here.end_row - here.first_row);
    __global const uchar *pw = b_here + (ulong)(column / 64) * all_blocks * 8192u + column % 64 * 128u;
    __global const float *pc = sb_here + (ulong)(column / 128) * groups_b * 128u + column % 128 + 4u * (g >> 1) + (g & 1);
    // Rows of A whose codes or values this work-item loads, and those whose scales it does.
    uint token_rows[T], scale_rows[2 * T];
    UNROLL for (int j = 0; j < T; ++j) {
      token_rows[j] = (uint)ROW_OF_A(first_row + TOKEN_ROW(j));
      UNROLL for (int e = 0; e < 2; ++e) scale_rows[2 * j + e] = (uint)ROW_OF_A(first_row + min(2 * t + 8 * j + e, rows - 1));
    }
    uint wr[DEPTH][16 * R], ar[DEPTH][TOKENS * T];
    float sr[DEPTH][2 * T], cr[DEPTH][2 * R], sum[R][T][4];
    UNROLL for (int s = 0; s < DEPTH; ++s) {
      UNROLL for (int i = 0; i < TOKENS * T; ++i) ar[s][i] = 0;
      UNROLL for (int i = 0; i < 2 * T; ++i) sr[s][i] = 0.f;
    }
    UNROLL for (int r = 0; r < R; ++r) UNROLL for (int j = 0; j < T; ++j) UNROLL for (int i = 0; i < 4; ++i) sum[r][j][i] = 0.f;
    UNROLL for (int s = 0; s < DEPTH; ++s) LOAD(s, s)
    for (uint first = 0; first < count; first += DEPTH) {
      UNROLL for (int s = 0; s < DEPTH; ++s) {
        if (first + s < count) { // a break would keep the compiler from unrolling, and sets would lie in memory
          uint tokens[8 * T];
          float c[R][T][4], row_scales[2 * T];
          UNROLL for (int j = 0; j < T; ++j) {
#if QUANTISE
            QUANTISE_ROWS(ar[s] + TOKENS * j, j, warp + (first + s) * WARPS, tokens + 8 * j, row_scales + 2 * j);
#else
            UNROLL for (int i = 0; i < 8; ++i) tokens[8 * j + i] = ar[s][8 * j + i];
            row_scales[2 * j] = sr[s][2 * j];
            row_scales[2 * j + 1] = sr[s][2 * j + 1];
#endif
          }
          UNROLL for (int r = 0; r < R; ++r) UNROLL for (int j = 0; j < T; ++j) UNROLL for (int i = 0; i < 4; ++i) c[r][j][i] = 0.f;
          UNROLL for (int i = 0; i < 8; ++i) { // k = 64*(i/4) + 16*t + 4*(i%4) + 0..3 in this thread, the same for both operands
            uint b0[T], b1[T];
            UNROLL for (int j = 0; j < T; ++j) DECODE_A4(b0[j], b1[j], tokens[8 * j + i]);
            UNROLL for (int r = 0; r < R; ++r) {
              uint a0, a1, a2, a3;
              DECODE_B4(a0, a2, wr[s][16 * r + i]);
              DECODE_B4(a1, a3, wr[s][16 * r + 8 + i]);
              UNROLL for (int j = 0; j < T; ++j) MMA_M16N8K16_F16(c[r][j], a0, a1, a2, a3, b0[j], b1[j]);
            }
          }
          UNROLL for (int j = 0; j < T; ++j) UNROLL for (int r = 0; r < R; ++r) {
            const float x0 = row_scales[2 * j], x1 = row_scales[2 * j + 1], y0 = cr[s][2 * r], y1 = UNIFORM ? y0 : cr[s][2 * r + 1];
            sum[r][j][0] = fma(x0 * y0, c[r][j][0], sum[r][j][0]);
            sum[r][j][1] = fma(x1 * y0, c[r][j][1], sum[r][j][1]);
            sum[r][j][2] = fma(x0 * y1, c[r][j][2], sum[r][j][2]);
            sum[r][j][3] = fma(x1 * y1, c[r][j][3], sum[r][j][3]);
          }
          LOAD(s, first + s + DEPTH)
        }
      }
    }
    // line g of 16 is column 4*(g/2) + g%2, line g + 8 two columns on
    UNROLL for (int r = 0; r < R; ++r) UNROLL for (int j = 0; j < T; ++j) UNROLL for (int i = 0; i < 4; ++i)
      parts[warp][16 * r + 4 * (g >> 1) + (g & 1) + 2 * (i >> 1)][8 * j + 2 * t + (i & 1)] = sum[r][j][i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint o = tid; o < COLUMNS * 8 * T; o += 32 * WARPS) {
      const uint col = o % COLUMNS, row = o / COLUMNS;
      if (row >= rows || column + col >= n) continue;
      float x = 0.f;
      UNROLL for (int i = 0; i < WARPS; ++i) x += parts[i][col][row];
      store_d(d, d_at, ldd, bias, bias_here, first_row + row, column + col, x);
    }
#ifdef GROUPED
    barrier(CLK_LOCAL_MEM_FENCE); // the next unit's parts go to the same memory
#endif
  }
}
#else
// The kernel needs what PTX_SM_90 promises; without it this file is empty.
#endif
