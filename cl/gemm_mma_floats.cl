// SPDX-License-Identifier: Apache-2.0
// gemm_mma_floats.cl: D[m,n] = sum_k A[m,k] * B[n,k] of bf16 by bf16, as a router's logits are, by mma.sync with f32 sums: tensor cores from
// compute capability 8.0 on. Next door: gemm_skinny.cl (floats of every type, on any GPU).
//
//             TILE_N columns      The work-group's warps have a slice of K each, every SLICES-th 32 k, and make the whole tile of it. Of 32 k
//           +----------------+    of a row of A, or of a column of B, each of four work-items loads 16 bytes, operands of two instructions.
//    slice 0|                |    Which k of an instruction they are does not matter to a sum, so long as both operands agree. The loads of
//    slice 1|   B^T          |    the next DEPTH times 32 k are under way while these are multiplied. At the end the slices are added in
//        ...|                |    order, through local memory: the same bits on every call.
//           +----------------+
//
// Tunable  default  values       meaning
// TILE_N   16       8 16 32 64   columns of D per work-group; rows are 16
// SLICES   16       4 8 16       slices of K, a warp each
// DEPTH    2        1 2          times 32 k that a warp loads at once
// Set by the host: PTX_SM_80 (ptx.cl), those of tile.cl, and
// MMA_BY_HAND  not set            mma_by_hand.cl in place of such a device: for tests
// A: rows of bf16, padded with zeros to a multiple of 64. B: the 16 elements of column n and k from 16 * c on are at (c * n_pad + n) * 16.
// Local memory: SLICES * 16 * (TILE_N + 1) * 4 B = 17408 B with the defaults.
#define TILE_M 16
#define MMA_OF_BF16 1
#define TILE_ROW first_row
#define TILE_END m
#define TILE_COLUMN first_n
#include "tile.cl"
#define WARPS SLICES
#if defined(PTX_SM_80)
#undef MMA_BY_HAND
#include "ptx.cl"
#define WARP_SCRATCH
#elif defined(MMA_BY_HAND)
#include "mma_by_hand.cl"
#endif
#if defined(PTX_SM_80) || defined(MMA_BY_HAND)
#define ITEMS (32 * SLICES)
#define ROWS 2  // Of a work-item, and its columns.
#define COLUMNS (TILE_N / 8)

// A's and B's words of this warp's part of step `step`; past the end of K zeros.
#define FETCH(step)                                                                                               \
  UNROLL for (int s = 0; s < DEPTH; ++s) {                                                                        \
    const int at_ = ((step) * DEPTH + s) * SLICES + (int)warp;                                                    \
    const bool there_ = at_ < all;                                                                                \
    const ulong k_ = (ulong)min(at_, all - 1) * 32;                                                               \
    UNROLL for (int i = 0; i < ROWS; ++i) LOAD16(next_a[s][i], rows[i] + k_);                                     \
    UNROLL for (int j = 0; j < COLUMNS; ++j) LOAD16(next_b[s][j], columns[j] + k_ * (ulong)n_pad);                \
    UNROLL for (int w = 0; w < 4; ++w) {                                                                          \
      UNROLL for (int i = 0; i < ROWS; ++i) next_a[s][i][w] = there_ ? next_a[s][i][w] : 0;                       \
      UNROLL for (int j = 0; j < COLUMNS; ++j) next_b[s][j][w] = there_ ? next_b[s][j][w] : 0;                    \
    }                                                                                                             \
  }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_mma_floats(GEMM_ARGS) {
  __local float parts[SLICES][TILE_M][TILE_N + 1];
  WARP_SCRATCH
  const int first_row = (int)get_group_id(1) * TILE_M, first_n = (int)get_group_id(0) * TILE_N, all = k_pad / 32;
  if (first_row >= m || first_n >= n) return;
  const uint item = get_local_id(0), warp = item >> 5, lane = item & 31, g = lane >> 2, t = lane & 3;
  // Rows and columns past the edge are the last one again; they are not stored.
  __global const ushort *rows[ROWS], *columns[COLUMNS];
  UNROLL for (int i = 0; i < ROWS; ++i)
    rows[i] = (__global const ushort*)a + a_at + (ulong)min(first_row + 8 * i + (int)g, m - 1) * lda + t * 8;
  UNROLL for (int j = 0; j < COLUMNS; ++j)
    columns[j] = (__global const ushort*)b + ((ulong)(t / 2) * (ulong)n_pad + (ulong)min(first_n + 8 * j + (int)g, n - 1)) * 16 + t % 2 * 8;
  uint next_a[DEPTH][ROWS][4], next_b[DEPTH][COLUMNS][4];
  float total[COLUMNS][4];
  UNROLL for (int j = 0; j < COLUMNS; ++j) UNROLL for (int e = 0; e < 4; ++e) total[j][e] = 0.0f;
  const int steps = (all + SLICES * DEPTH - 1) / (SLICES * DEPTH);
  FETCH(0)
  for (int step = 0; step < steps; ++step) {
    uint of_a[DEPTH][ROWS][4], of_b[DEPTH][COLUMNS][4];
    UNROLL for (int s = 0; s < DEPTH; ++s) UNROLL for (int w = 0; w < 4; ++w) {
      UNROLL for (int i = 0; i < ROWS; ++i) of_a[s][i][w] = next_a[s][i][w];
      UNROLL for (int j = 0; j < COLUMNS; ++j) of_b[s][j][w] = next_b[s][j][w];
    }
    if (step + 1 < steps) FETCH(step + 1)
    float sum[COLUMNS][4];  // An instruction cuts its sum, where an addition rounds: the bound has room for few of them in a row.
    UNROLL for (int j = 0; j < COLUMNS; ++j) UNROLL for (int e = 0; e < 4; ++e) sum[j][e] = 0.0f;
    UNROLL for (int s = 0; s < DEPTH; ++s) UNROLL for (int w = 0; w < 4; w += 2) UNROLL for (int j = 0; j < COLUMNS; ++j)
      MMA_M16N8K16(sum[j], of_a[s][0][w], of_a[s][1][w], of_a[s][0][w + 1], of_a[s][1][w + 1], of_b[s][j][w], of_b[s][j][w + 1]);
    UNROLL for (int j = 0; j < COLUMNS; ++j) UNROLL for (int e = 0; e < 4; ++e) total[j][e] += sum[j][e];
  }
  UNROLL for (int j = 0; j < COLUMNS; ++j) UNROLL for (int e = 0; e < 4; ++e) parts[warp][8 * (e / 2) + g][8 * j + 2 * t + e % 2] = total[j][e];
  barrier(CLK_LOCAL_MEM_FENCE);
  const ulong bias_here = bias_at;
  for (int at = (int)item; at < TILE_M * TILE_N; at += ITEMS) {
    const int i = at / TILE_N, j = at % TILE_N;
    float of_all = parts[0][i][j];
    UNROLL for (int s = 1; s < SLICES; ++s) of_all += parts[s][i][j];
    PUT_TOTAL(i, j, of_all);
  }
}
#endif  // Without what PTX_SM_80 promises this file is empty.
