// SPDX-License-Identifier: Apache-2.0
// gemm_mma_stream.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for few rows, in class f32, at the memory's rate:
// weights stream once from memory, become f16 in registers, exactly, and are multiplied by mma.sync with f32 sums.
//
// D is made transposed: 16 columns of D are the rows of an instruction's first operand, eight rows of D the columns of the second.
// A work-group makes 16 columns of D; its WARPS warps share K and are added up in order at the end. Each has the next K block
// under way, weights, activations and scales alike, while it works on this one: what counts is the bytes on their way.
// In a K block a work-item takes the 16 k from 16t and from 64 + 16t on (t its number in the group of four), the same of both operands.
//
// Tunable  default  values  meaning
// TILE_M   8        8 16 32 rows of D, at most
// WARPS    8        4 8 16  warps of a work-group
// Set by the host: those of tile.cl, PTX_SM_90, and
// A_SCALE_ROWS, A_SCALE_COLS  1, 128  scale group of A's scales as they are given
// B_SCALE_ROWS  128           columns of D that a scale of B is for
// A: rows of codes, padded with zeros to a multiple of 128. B: forms/swizzled.h.
// Local memory: WARPS * 16 * (TILE_M + 1) * 4 B = 4608 B with the defaults.
// Origin: operand layout as the PTX manual describes mma.m16n8k16.
#include "tile.cl"

#ifndef TILE_M
#define TILE_M 8
#endif
#ifndef WARPS
#define WARPS 8
#endif
#ifndef A_SCALE_ROWS
#define A_SCALE_ROWS 1
#endif
#ifndef A_SCALE_COLS
#define A_SCALE_COLS 128
#endif
#ifndef B_SCALE_ROWS
#define B_SCALE_ROWS 128
#endif

#if defined(PTX_SM_90)
#include "ptx.cl"

#define T (TILE_M / 8)
#define R 1
#define UNIFORM (B_SCALE_ROWS % 128 == 0 || B_SCALE_ROWS == 0x7fffffff)
#define DECODE_A4 JOIN(DECODE4_, A_TYPE)
#define DECODE_B4 JOIN(DECODE4_, B_TYPE)

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void gemm_mma_stream(GEMM_ARGS)
{
  __local float parts[WARPS][16 * R][8 * T + 1];
  if (m <= 0) return;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3, group = get_group_id(0);
  const uint blocks = ((uint)k + 127u) / 128u, all_blocks = (uint)k_pad / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
  const uint first = blocks * warp / WARPS, end = blocks * (warp + 1) / WARPS;
  // 16 lines of a tile of 64: two KiB a K block
  const uint in_b = g * 128u + ((t ^ g) << 4);
  __global const uchar *pw[R];
  __global const float *pc[R];
  UNROLL for (int r = 0; r < R; ++r) {
    const uint lines = group * R + r;
    pw[r] = b + ((ulong)(lines >> 2) * all_blocks + first) * 8192u + (lines & 3) * 2048u;
    pc[r] = sb + ((ulong)(lines >> 3) * groups_b) * 128u + (lines & 7) * 16u + 4u * (g >> 1) + (g & 1);
  }
  __global const uchar *pa = a + a_at + (ulong)g * lda + (ulong)first * 128u + t * 16u;
  // one K block is used while the next is on its way: weights, activations and scales alike
  uint wr[2][16 * R], ar[2][8 * T];
  float sr[2][2 * T + 2 * R], sum[R][T][4];
  UNROLL for (int s = 0; s < 2; ++s) {
    UNROLL for (int i = 0; i < 8 * T; ++i) ar[s][i] = 0;
    UNROLL for (int i = 0; i < 2 * T + 2 * R; ++i) sr[s][i] = 0.f;
  }
  UNROLL for (int r = 0; r < R; ++r) UNROLL for (int j = 0; j < T; ++j) UNROLL for (int i = 0; i < 4; ++i) sum[r][j][i] = 0.f;
#define SCALE_OF(kb) min((uint)(kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
#define LOAD(S, K)                                                                                                    \
  if ((K) < end) {                                                                                                    \
    UNROLL for (int r = 0; r < R; ++r) {                                                                              \
      LOAD16_STREAM(&wr[S][16 * r], pw[r] + in_b);                                                                    \
      LOAD16_STREAM(&wr[S][16 * r + 4], pw[r] + (in_b ^ 64u));                                                        \
      LOAD16_STREAM(&wr[S][16 * r + 8], pw[r] + in_b + 1024u);                                                        \
      LOAD16_STREAM(&wr[S][16 * r + 12], pw[r] + (in_b ^ 64u) + 1024u);                                               \
      LOAD_F(sr[S][2 * T + 2 * r], pc[r] + SCALE_OF(K) * 128u);                                                               \
      if (!UNIFORM) LOAD_F(sr[S][2 * T + 2 * r + 1], pc[r] + SCALE_OF(K) * 128u + 2u);                                        \
    }                                                                                                                 \
    UNROLL for (int j = 0; j < T; ++j) {                                                                              \
      if (g + 8 * j < m) {                                                                                            \
        LOAD16(&ar[S][8 * j], pa + (ulong)j * 8 * lda);                                                               \
        LOAD16(&ar[S][8 * j + 4], pa + (ulong)j * 8 * lda + 64u);                                                     \
      }                                                                                                               \
      const uint r0 = 2 * t + 8 * j, s0 = (K) * 128u / A_SCALE_COLS;                                                  \
      if (r0 < m) LOAD_F(sr[S][2 * j], sa + sa_at + (ulong)(r0 / A_SCALE_ROWS) * sa_ld + s0);                         \
      if (r0 + 1 < m) LOAD_F(sr[S][2 * j + 1], sa + sa_at + (ulong)((r0 + 1) / A_SCALE_ROWS) * sa_ld + s0);           \
    }                                                                                                                 \
  }
  LOAD(0, first)
  for (uint kb = first; kb < end; ++kb) {
    UNROLL for (int r = 0; r < R; ++r) pw[r] += 8192u;
    pa += 128u;
    LOAD(1, kb + 1)
    float c[R][T][4];
    UNROLL for (int r = 0; r < R; ++r) UNROLL for (int j = 0; j < T; ++j) UNROLL for (int i = 0; i < 4; ++i) c[r][j][i] = 0.f;
    UNROLL for (int s = 0; s < 8; ++s) { // k = 64*(s/4) + 16*t + 4*(s%4) + 0..3 in this thread, the same for both operands
      uint b0[T], b1[T];
      UNROLL for (int j = 0; j < T; ++j) DECODE_A4(b0[j], b1[j], ar[0][8 * j + s]);
      UNROLL for (int r = 0; r < R; ++r) {
        uint a0, a1, a2, a3;
        DECODE_B4(a0, a2, wr[0][16 * r + s]);
        DECODE_B4(a1, a3, wr[0][16 * r + 8 + s]);
        UNROLL for (int j = 0; j < T; ++j) MMA_M16N8K16_F16(c[r][j], a0, a1, a2, a3, b0[j], b1[j]);
      }
    }
    UNROLL for (int j = 0; j < T; ++j) UNROLL for (int r = 0; r < R; ++r) {
      const float y0 = sr[0][2 * T + 2 * r], y1 = UNIFORM ? y0 : sr[0][2 * T + 2 * r + 1];
      sum[r][j][0] = fma(sr[0][2 * j] * y0, c[r][j][0], sum[r][j][0]);
      sum[r][j][1] = fma(sr[0][2 * j + 1] * y0, c[r][j][1], sum[r][j][1]);
      sum[r][j][2] = fma(sr[0][2 * j] * y1, c[r][j][2], sum[r][j][2]);
      sum[r][j][3] = fma(sr[0][2 * j + 1] * y1, c[r][j][3], sum[r][j][3]);
    }
    UNROLL for (int i = 0; i < 16 * R; ++i) wr[0][i] = wr[1][i];
    UNROLL for (int i = 0; i < 8 * T; ++i) ar[0][i] = ar[1][i];
    UNROLL for (int i = 0; i < 2 * T + 2 * R; ++i) sr[0][i] = sr[1][i];
  }
  // line g of 16 is column 4*(g/2) + g%2, line g + 8 two columns on
  UNROLL for (int r = 0; r < R; ++r) UNROLL for (int j = 0; j < T; ++j) UNROLL for (int i = 0; i < 4; ++i)
    parts[warp][16 * r + 4 * (g >> 1) + (g & 1) + 2 * (i >> 1)][8 * j + 2 * t + (i & 1)] = sum[r][j][i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint o = tid; o < 128 * T * R; o += 32 * WARPS) {
    const uint col = o % (16 * R), row = o / (16 * R);
    if (row >= m || group * 16 * R + col >= n) continue;
    float x = 0.f;
    UNROLL for (int i = 0; i < WARPS; ++i) x += parts[i][col][row];
    store_d(d, d_at, ldd, bias, bias_at, row, group * 16 * R + col, x);
  }
}
#else
// The kernel needs what PTX_SM_90 promises; without it this file is empty.
#endif
