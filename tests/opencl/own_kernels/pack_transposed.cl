// SPDX-License-Identifier: Apache-2.0
// pack_transposed.cl: A [m, k] as f32, k outermost, rows padded to `ld`; scales [K groups, ld]. Of a test.
#include "fp8.cl"

__kernel void pack_transposed(int m, int k, __global const uchar* a, ulong a_at, ulong lda, __global const uchar* sa,
                              ulong s_at, ulong lds, int scale_rows, int scale_cols, __global float* out,
                              ulong out_at, __global float* scales, ulong scales_at, ulong ld) {
  const int c = (int)get_global_id(0), row = (int)get_global_id(1);
  if (row >= m || c >= k) return;
  out[out_at + (ulong)c * ld + (ulong)row] = load_element(A_TYPE, a, a_at + (ulong)row * lda + (ulong)c);
  if (c % GROUP != 0) return;
#if SCALE_TYPE == 0
  const float scale = 1.0f;
#else
  const float scale = load_element(SCALE_TYPE, sa, s_at + (ulong)(row / scale_rows) * lds + (ulong)(c / scale_cols));
#endif
  scales[scales_at + (ulong)(c / GROUP) * ld + (ulong)row] = scale;
}
