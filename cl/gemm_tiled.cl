// SPDX-License-Identifier: Apache-2.0
// gemm_tiled.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k], g the K groups of GROUP.
// One work-group makes one tile of D; a work-item makes WORK_M x WORK_N of it, in quads of rows and columns.
//                          TILE_N
//                        +--------+     A and B tiles are decoded into local memory, k outermost, in two slots a
//               TILE_K   |  B^T   |     stream: while one slot is multiplied, the codes of the next tile are on their
//             +--------+ +--------+     way in registers; they are decoded into the other slot before the barrier.
//     TILE_M  |   A    | |   D    |     Group sums stay in registers and are scaled once a K group.
//             +--------+ +--------+
// Tunable   default  values              meaning
// TILE_M    64       8 16 32 64 128      rows of D per work-group
// TILE_N    64       16 32 64 128        columns of D per work-group
// TILE_K    16       16 32 64            step in k; divides GROUP, so no step straddles two scale groups
// WORK_M    4        1 2 4 8             rows of D per work-item
// WORK_N    4        4 8                 columns of D per work-item
// Set by the host: those of tile.cl, and
// A_SCALE_ROWS, A_SCALE_COLS  1, 128     scale group of A's scales as they are given
// A: row major, rows padded with zeros to a multiple of TILE_K and of 16; codes, or f32 where A_TYPE is 1.
// B: the 16 codes of column n and k from 16 * c on are at (c * n_pad + n) * 16.
// Local memory: 2 * TILE_K * (TILE_M + TILE_N) * 4 B = 16384 B with the defaults.
// Origin: register quads after the GEMMs of MAGMA and CUTLASS, scaling order after DeepGEMM.
#include "tile.cl"

#ifndef TILE_M
#define TILE_M 64
#endif
#ifndef TILE_N
#define TILE_N 64
#endif
#ifndef TILE_K
#define TILE_K 16
#endif
#ifndef WORK_M
#define WORK_M 4
#endif
#ifndef WORK_N
#define WORK_N 4
#endif
#ifndef A_SCALE_ROWS
#define A_SCALE_ROWS 1
#endif
#ifndef A_SCALE_COLS
#define A_SCALE_COLS 128
#endif

#define ITEMS_M (TILE_M / WORK_M)
#define ITEMS_N (TILE_N / WORK_N)
#define ITEMS (ITEMS_M * ITEMS_N)
// Rows of D come in runs of QUAD_M that one vector load of A brings.
#if WORK_M >= 4
#define QUAD_M 4
#else
#define QUAD_M WORK_M
#endif
#define QUADS_M (WORK_M / QUAD_M)
#define QUADS_N (WORK_N / 4)
// A chunk is 16 k of one row. Work-items take chunks in turn; B's are dealt from the last work-item backwards.
#define CHUNKS_A (TILE_M * TILE_K / 16)
#define CHUNKS_B (TILE_N * TILE_K / 16)
#define LOADS_A ((CHUNKS_A + ITEMS - 1) / ITEMS)
#define LOADS_B ((CHUNKS_B + ITEMS - 1) / ITEMS)

#if (GROUP % TILE_K) != 0
#error "TILE_K must divide GROUP: a step would straddle two scale groups"
#endif

#define DECODE_A DECODE(A_TYPE)
#define DECODE_B DECODE_FINITE(B_TYPE)

#if A_TYPE == TYPE_F32
typedef float16 chunk_a;
#else
typedef uint4 chunk_a;
#endif

#define PUT4(slot, stride, row, at, word, decode)                  \
  (slot)[((at) + 0) * (stride) + (row)] = decode((word) & 0xffu);         \
  (slot)[((at) + 1) * (stride) + (row)] = decode(((word) >> 8) & 0xffu);  \
  (slot)[((at) + 2) * (stride) + (row)] = decode(((word) >> 16) & 0xffu); \
  (slot)[((at) + 3) * (stride) + (row)] = decode((word) >> 24);

static inline void put_codes_a(__local float* slot, int row, int at, uint4 chunk) {
#if A_TYPE != TYPE_F32
  PUT4(slot, TILE_M, row, at, chunk.x, DECODE_A)
  PUT4(slot, TILE_M, row, at + 4, chunk.y, DECODE_A)
  PUT4(slot, TILE_M, row, at + 8, chunk.z, DECODE_A)
  PUT4(slot, TILE_M, row, at + 12, chunk.w, DECODE_A)
#endif
}

static inline void put_codes_b(__local float* slot, int row, int at, uint4 chunk) {
  PUT4(slot, TILE_N, row, at, chunk.x, DECODE_B)
  PUT4(slot, TILE_N, row, at + 4, chunk.y, DECODE_B)
  PUT4(slot, TILE_N, row, at + 8, chunk.z, DECODE_B)
  PUT4(slot, TILE_N, row, at + 12, chunk.w, DECODE_B)
}

#if A_TYPE == TYPE_F32
static inline void put_floats_a(__local float* slot, int row, int at, float16 chunk) {
  slot[(at + 0) * TILE_M + row] = chunk.s0;
  slot[(at + 1) * TILE_M + row] = chunk.s1;
  slot[(at + 2) * TILE_M + row] = chunk.s2;
  slot[(at + 3) * TILE_M + row] = chunk.s3;
  slot[(at + 4) * TILE_M + row] = chunk.s4;
  slot[(at + 5) * TILE_M + row] = chunk.s5;
  slot[(at + 6) * TILE_M + row] = chunk.s6;
  slot[(at + 7) * TILE_M + row] = chunk.s7;
  slot[(at + 8) * TILE_M + row] = chunk.s8;
  slot[(at + 9) * TILE_M + row] = chunk.s9;
  slot[(at + 10) * TILE_M + row] = chunk.sa;
  slot[(at + 11) * TILE_M + row] = chunk.sb;
  slot[(at + 12) * TILE_M + row] = chunk.sc;
  slot[(at + 13) * TILE_M + row] = chunk.sd;
  slot[(at + 14) * TILE_M + row] = chunk.se;
  slot[(at + 15) * TILE_M + row] = chunk.sf;
}
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void gemm_tiled(GEMM_ARGS) {
  __local float slots_a[2][TILE_K * TILE_M] __attribute__((aligned(16)));
  __local float slots_b[2][TILE_K * TILE_N] __attribute__((aligned(16)));
  const int item = (int)get_local_id(0);
  // Thirty-two neighbours make a patch of 4 x 8 work-items, so that their local reads overlap.
#if ITEMS_N % 8 == 0 && ITEMS_M % 4 == 0
  const int item_n = item % 8 + 8 * ((item / 32) % (ITEMS_N / 8));
  const int item_m = (item / 8) % 4 + 4 * (item / 32 / (ITEMS_N / 8));
#else
  const int item_n = item % ITEMS_N;
  const int item_m = item / ITEMS_N;
#endif
  const int columns = (n + TILE_N - 1) / TILE_N;
  EACH_UNIT(columns) {
#ifdef GROUPED
    const dealt_block here = block_of(dealt, TILE_M, work, columns);
#else
    const dealt_block here = {0, (int)get_group_id(1) * TILE_M, m, 0, 1, (int)get_group_id(0)};
    if (here.first_row >= m || here.column >= columns) return;
#endif
    OF_MATRIX(here)
    const int first_m = here.first_row, first_n = here.column * TILE_N, last_m = here.end_row - 1;

    // Rows and columns past the edge read the last one again; they are not stored.
#if A_TYPE == TYPE_F32
    __global const float* from_a[LOADS_A];
#else
    __global const uchar* from_a[LOADS_A];
#endif
    __global const uchar* from_b[LOADS_B];
#pragma unroll
    for (int i = 0; i < LOADS_A; ++i) {
      const int chunk = item + i * ITEMS;
      const ulong row = (ulong)ROW_OF_A(min(first_m + chunk % TILE_M, last_m));
      const ulong at = a_at + row * lda + (ulong)(chunk / TILE_M * 16);
#if A_TYPE == TYPE_F32
      from_a[i] = (__global const float*)a + at;
#else
      from_a[i] = a + at;
#endif
    }
#pragma unroll
    for (int i = 0; i < LOADS_B; ++i) {
      const int chunk = (ITEMS - 1 - item) + i * ITEMS;
      const ulong column = (ulong)min(first_n + chunk % TILE_N, n - 1);
      from_b[i] = b_here + ((ulong)(chunk / TILE_N) * (ulong)n_pad + column) * 16;
    }
    const ulong step_b = (ulong)(TILE_K / 16) * (ulong)n_pad * 16;

    chunk_a next_a[LOADS_A];
    uint4 next_b[LOADS_B];
    const int steps = (k + TILE_K - 1) / TILE_K;

#if A_TYPE == TYPE_F32
#define FETCH_A(i) next_a[i] = vload16(0, from_a[i])
#define PUT_A(slot, row, at, chunk) put_floats_a(slot, row, at, chunk)
#else
#define FETCH_A(i) next_a[i] = *(__global const uint4*)from_a[i]
#define PUT_A(slot, row, at, chunk) put_codes_a(slot, row, at, chunk)
#endif
#define FETCH()                                                                \
    _Pragma("unroll") for (int i = 0; i < LOADS_A; ++i) {                        \
      if (CHUNKS_A % ITEMS == 0 || item + i * ITEMS < CHUNKS_A) FETCH_A(i);      \
      from_a[i] += TILE_K;                                                       \
    }                                                                            \
    _Pragma("unroll") for (int i = 0; i < LOADS_B; ++i) {                        \
      if (CHUNKS_B % ITEMS == 0 || (ITEMS - 1 - item) + i * ITEMS < CHUNKS_B)    \
        next_b[i] = *(__global const uint4*)from_b[i];                           \
      from_b[i] += step_b;                                                       \
    }
#define PUT(s)                                                                            \
    _Pragma("unroll") for (int i = 0; i < LOADS_A; ++i) {                                   \
      const int chunk = item + i * ITEMS;                                                   \
      if (CHUNKS_A % ITEMS == 0 || chunk < CHUNKS_A)                                        \
        PUT_A(slots_a[s], chunk % TILE_M, chunk / TILE_M * 16, next_a[i]);                  \
    }                                                                                       \
    _Pragma("unroll") for (int i = 0; i < LOADS_B; ++i) {                                   \
      const int chunk = (ITEMS - 1 - item) + i * ITEMS;                                     \
      if (CHUNKS_B % ITEMS == 0 || chunk < CHUNKS_B)                                        \
        put_codes_b(slots_b[s], chunk % TILE_N, chunk / TILE_N * 16, next_b[i]);            \
    }

    float sum[WORK_M][WORK_N], total[WORK_M][WORK_N];
#pragma unroll
    for (int i = 0; i < WORK_M; ++i) {
#pragma unroll
      for (int j = 0; j < WORK_N; ++j) sum[i][j] = total[i][j] = 0.0f;
    }

    FETCH()
    PUT(0)
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 0; step < steps; ++step) {
      const int slot = step & 1;
      const bool more = step + 1 < steps;
      if (more) {
        FETCH()
      }
      __local const float* tile_a = slots_a[slot] + item_m * QUAD_M;
      __local const float* tile_b = slots_b[slot] + item_n * 4;
#pragma unroll
      for (int kk = 0; kk < TILE_K; ++kk) {
        float va[WORK_M], vb[WORK_N];
#pragma unroll
        for (int q = 0; q < QUADS_M; ++q) {
#if QUAD_M == 4
          const float4 quad = *(__local const float4*)(tile_a + kk * TILE_M + q * (TILE_M / QUADS_M));
          va[4 * q] = quad.x;
          va[4 * q + 1] = quad.y;
          va[4 * q + 2] = quad.z;
          va[4 * q + 3] = quad.w;
#else
#pragma unroll
          for (int i = 0; i < QUAD_M; ++i) va[i] = tile_a[kk * TILE_M + i];
#endif
        }
#pragma unroll
        for (int q = 0; q < QUADS_N; ++q) {
          const float4 quad = *(__local const float4*)(tile_b + kk * TILE_N + q * (TILE_N / QUADS_N));
          vb[4 * q] = quad.x;
          vb[4 * q + 1] = quad.y;
          vb[4 * q + 2] = quad.z;
          vb[4 * q + 3] = quad.w;
        }
#pragma unroll
        for (int i = 0; i < WORK_M; ++i) {
#pragma unroll
          for (int j = 0; j < WORK_N; ++j) sum[i][j] = MUL_ADD(va[i], vb[j], sum[i][j]);
        }
      }
      if (more) {
        PUT(slot ^ 1)
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      if ((step + 1) % (GROUP / TILE_K) == 0 || !more) {
        const int first_k = step * TILE_K;
        float scale_a[WORK_M];
#pragma unroll
        for (int i = 0; i < WORK_M; ++i) {
          const int row = min(first_m + i / QUAD_M * (TILE_M / QUADS_M) + item_m * QUAD_M + i % QUAD_M, last_m);
          scale_a[i] = sa[sa_at + (ulong)(ROW_OF_A(row) / A_SCALE_ROWS) * sa_ld + (ulong)(first_k / A_SCALE_COLS)];
        }
#pragma unroll
        for (int j = 0; j < WORK_N; ++j) {
          const int column = min(first_n + j / 4 * (TILE_N / QUADS_N) + item_n * 4 + j % 4, n - 1);
          const float scale_b = sb_here[(ulong)(first_k / B_SCALE_COLS) * (ulong)n_pad + (ulong)column];
#pragma unroll
          for (int i = 0; i < WORK_M; ++i) {
            total[i][j] += sum[i][j] * scale_a[i] * scale_b;
            sum[i][j] = 0.0f;
          }
        }
      }
    }
    // NOTES: no loop stands inside a condition that differs between work-items: PoCL 3.1 puts barriers of its own into
    // loops, and then runs such a loop for all of them.
#pragma unroll
    for (int i = 0; i < WORK_M; ++i) {
      const int row = first_m + i / QUAD_M * (TILE_M / QUADS_M) + item_m * QUAD_M + i % QUAD_M;
#pragma unroll
      for (int j = 0; j < WORK_N; ++j) {
        const int column = first_n + j / 4 * (TILE_N / QUADS_N) + item_n * 4 + j % 4;
        if (row <= last_m && column < n) store_d(d, d_at, ldd, bias, bias_here, row, column, total[i][j]);
      }
    }
  }
}
