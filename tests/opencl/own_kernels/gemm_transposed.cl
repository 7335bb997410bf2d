// SPDX-License-Identifier: Apache-2.0
// gemm_transposed.cl: D[m,n] of a test: one work-item makes one element, from A transposed (pack_transposed.cl).
//
// Tunable   default  values  meaning
// TILE_N    16       16 32   work-items a work-group, a column each
// Local memory: 4 B = 4 B with the defaults.
#define PANEL 8  // columns
#include "tile.cl"

#ifndef WRONG
#define WRONG 0
#endif
#define K_RUN 4

__kernel void gemm_transposed(GEMM_ARGS) {
  const int column = (int)get_global_id(0), row = (int)get_group_id(1);
  if (row >= m || column >= n) return;
  __global const float* values = (__global const float*)a + a_at + (ulong)row;
  float total = 0.0f;
  for (int group = 0; group * GROUP < k; ++group) {
    float sum = 0.0f;
    for (int c = group * GROUP; c < min((group + 1) * GROUP, k); ++c) {
      const ulong at = (((ulong)(column / PANEL) * (ulong)(k_pad / K_RUN) + (ulong)(c / K_RUN)) * PANEL +
                        (ulong)(column % PANEL)) *
                           K_RUN +
                       (ulong)(c % K_RUN);
      sum = MUL_ADD(values[(ulong)c * lda], load_element(B_TYPE, b, at), sum);
    }
    total += sum * sa[sa_at + (ulong)group * sa_ld + (ulong)row] * sb[SCALE_PLACE_OF_B(group * GROUP, column)];
  }
  store_d(d, d_at, ldd, bias, bias_at, row, column, total + (WRONG && row == 2 && column == 5 ? 1.0f : 0.0f));
}

// A second pass that does nothing: for tests of calls that fail between their launches.
__kernel void gemm_transposed_nothing(GEMM_ARGS) {}
