// SPDX-License-Identifier: Apache-2.0
// tile.cl: what every GEMM kernel shares: its arguments, and the way out to D. Next door: fp8.cl (formats).
// Set by the host:
// A_TYPE     4    1 4 5 7     what A comes as: f32 or codes
// B_TYPE     4    4 5 7       codes of the packed weights
// D_TYPE     1    1 2 3       f32, f16, bf16
// BIAS_TYPE  0    0 1 2 3     0: no bias
// GROUP      128  32 64 128   K group: no scale of either operand changes inside one
// B_SCALE_COLS 128            width of a scale group of B; a multiple of GROUP, or past k
#include "cache_hints.cl"
#include "fp8.cl"

#ifndef A_TYPE
#define A_TYPE 4
#endif
#ifndef B_TYPE
#define B_TYPE 4
#endif
#ifndef D_TYPE
#define D_TYPE 1
#endif
#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif
#ifndef GROUP
#define GROUP 128
#endif
#ifndef B_SCALE_COLS
#define B_SCALE_COLS 128
#endif

// m, n, k: the problem. a: from element a_at on, in the form that the kernel's declaration names; lda as that form has
// it. sa: f32 from sa_at on. b: packed weights of n_pad x k_pad codes. sb: f32, scale of column n and B's K group g at
// g * n_pad + n, NaN where the column has a NaN code in that group. d: from element d_at on, rows ldd apart.
// bias: [n] from element bias_at on. scratch: f32 from scratch_at on.
#define GEMM_ARGS                                                                                                   \
  int m, int n, int k, int n_pad, int k_pad, __global const uchar *a, ulong a_at, ulong lda, __global const float *sa, \
      ulong sa_at, ulong sa_ld, __global const uchar *b, __global const float *sb, __global uchar *d, ulong d_at,   \
      ulong ldd, __global const uchar *bias, ulong bias_at, __global float *scratch, ulong scratch_at

/// D[row, col] = total (+ bias[col]), rounded once.
static inline void store_d(__global uchar* d, ulong d_at, ulong ldd, __global const uchar* bias, ulong bias_at, int row, int col,
                    float total) {
#if BIAS_TYPE != 0
  total += load_element(BIAS_TYPE, bias, bias_at + (ulong)col);
#endif
  store_element(D_TYPE, d, d_at + (ulong)row * ldd + (ulong)col, total);
}
