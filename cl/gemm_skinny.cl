// SPDX-License-Identifier: Apache-2.0
// gemm_skinny.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for few rows, g the K groups of GROUP, on devices with
// many work-items a work-group. Weights stream once from memory, 16 bytes a load, and are decoded in registers for all rows at once.
//
//              LANES x WORK_N          A work-item makes TILE_M rows by WORK_N columns, LANES columns apart, over the K groups of its
//            +---------------+         slice: neighbours read neighbouring 16 bytes. The loads of the next DEPTH chunks of 16 k are
//    slice 0 | B^T, group 0  |         under way while these are multiplied. A's chunks of all slices lie in local memory as f32, where
//    slice 1 |      group 1  |         work-items of one slice read the same place. At the end the slices are added in order, through
//        ... |      ...      |         local memory; with SPLIT_K above 1 gemm_skinny_reduce adds the parts of k, always in the same
//            +---------------+         order: the same bits on every call.
//
// Tunable  default  values           meaning
// TILE_M   1        1 2 4 8 16       rows of D per work-group, all of them of each work-item
// WORK_N   4        1 2 4            columns of D per work-item
// LANES    8        4 8 16 32 64     work-items side by side: WORK_N * LANES columns a work-group
// SLICES   16       1 2 4 8 16 32 64 K groups that a work-group has under way
// DEPTH    2        1 2 4 8          chunks of 16 k that a work-item loads at once; at most GROUP / 16
// SPLIT_K  1        1 2 ... 32       parts of k
// TOTALS   0        0 1              1: the sums of the K groups done lie in local memory, not in registers
// Set by the host: those of split_k.cl and chunks.cl.
// A: rows padded to a multiple of 64, or floats as the caller has them. A and B otherwise as chunks.cl says.
// Local memory: TILE_M * SLICES * (DEPTH * 32 + 2) * 4 B, and 4 B for each sum that is added at once: all with TOTALS, else SLICES * LANES *
// WORK_N * min(TILE_M, SLICES / WORK_N, but not less than 1); = 6272 B with the defaults.
#include "chunks.cl"
#include "split_k.cl"

#if (GROUP / 16) % DEPTH != 0
#error "DEPTH must divide the chunks of a K group: a step would straddle two scale groups"
#endif

#define ITEMS (LANES * SLICES)
#define COLUMNS (LANES * WORK_N)
#define STEPS (GROUP / 16 / DEPTH)  // Of a K group.
// Chunks of A in a step, slices first; scheduled to work-items in turn.
#define CHUNKS_A (TILE_M * DEPTH * SLICES)
#define LOADS_A ((CHUNKS_A + ITEMS - 1) / ITEMS)
#define SCALES_A ((TILE_M * SLICES + ITEMS - 1) / ITEMS)
// Rows whose slices are added at once: as many as keep the work-items busy, or all.
#define ROWS_BUSY (SLICES / WORK_N < 1 ? 1 : SLICES / WORK_N)
#define ROWS_AT_ONCE (TOTALS == 1 || ROWS_BUSY > TILE_M ? TILE_M : ROWS_BUSY)
// The sum of row i and column j of a work-item lies in `sums` at SUM(i, j) * ITEMS + the work-item.
#define SUM(i, j) ((i) * WORK_N + (j))

#if TILE_M >= 16
#define UNROLL_WORDS _Pragma("unroll 1")
#else
#define UNROLL_WORDS _Pragma("unroll")
#endif

/// The sums of all slices of row i of those at once and a column.
static inline float added(__local const float* sums, int i, int column) {
  __local const float* of = sums + SUM(i, column / LANES) * ITEMS + column % LANES;
  float value = of[0];
#pragma unroll
  for (int s = 1; s < SLICES; ++s) value += of[s * LANES];
  return value;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void gemm_skinny(GEMM_ARGS) {
  // Two slots: one is filled while others still read the other one.
  __local float4 tiles[2][TILE_M * DEPTH * 4 * SLICES];
  __local float scales_a[2][TILE_M * SLICES];
  __local float sums[ROWS_AT_ONCE * WORK_N * ITEMS];
  GROUP_MAGNITUDES(TILE_M, COLUMNS)
  const int item = (int)get_local_id(0), lane = item % LANES, slice = item / LANES;
  const int columns = (n + COLUMNS - 1) / COLUMNS;
  EACH_UNIT(columns * SPLIT_K) {
    PART_HERE(COLUMNS, columns)
    OF_MATRIX(here)
    const int last_row = here.end_row - 1;
    const int first_group = FIRST_GROUP(part), end_group = FIRST_GROUP(part + 1);
    const int steps = (end_group - first_group + SLICES - 1) / SLICES * STEPS;

    // Columns past the edge read the last one again; they are not stored. Chunks past the end are zeros.
    int columns_b[WORK_N];
#pragma unroll
    for (int j = 0; j < WORK_N; ++j) columns_b[j] = min(first_n + j * LANES + lane, n - 1);
    chunk_b next_b[DEPTH][WORK_N];
    chunk_a next_a[LOADS_A];
    float next_scale[SCALES_A];
    float next_scale_b[WORK_N];
    float sum[TILE_M][WORK_N], scale_b[WORK_N];
#if TOTALS == 1
#define TOTAL(i, j) sums[SUM(i, j) * ITEMS + item]
    barrier(CLK_LOCAL_MEM_FENCE);  // The sums of the unit before have been read.
#else
    float total[TILE_M][WORK_N];
#define TOTAL(i, j) total[i][j]
#endif
#pragma unroll
    for (int i = 0; i < TILE_M; ++i) {
#pragma unroll
      for (int j = 0; j < WORK_N; ++j) sum[i][j] = TOTAL(i, j) = 0.0f;
    }

// The K group of slice s in step t, and its chunk 0 of that step.
#define GROUP_OF(t, s) (first_group + (t) / STEPS * SLICES + (s))
#define CHUNK_OF(t, s) (GROUP_OF(t, s) * (GROUP / 16) + (t) % STEPS * DEPTH)
#define HAS(t, s, c) (GROUP_OF(t, s) < end_group && (CHUNK_OF(t, s) + (c)) * 16 < k_pad)
#define FETCH(t)                                                                                                \
    _Pragma("unroll") for (int c = 0; c < DEPTH; ++c) {                                                           \
      const bool there = HAS(t, slice, c);                                                                        \
      __global const chunk_b* from =                                                                              \
          (__global const chunk_b*)b_here + (ulong)(CHUNK_OF(t, slice) + c) * (ulong)n_pad;                       \
      _Pragma("unroll") for (int j = 0; j < WORK_N; ++j)                                                          \
          next_b[c][j] = there ? from[columns_b[j]] : (chunk_b)(0);                                               \
    }                                                                                                             \
    _Pragma("unroll") for (int i = 0; i < LOADS_A; ++i) {                                                         \
      const int at = item + i * ITEMS, s = at % SLICES, c = at / SLICES % DEPTH;                                  \
      const int row = min(here.first_row + at / (SLICES * DEPTH), last_row);                                      \
      next_a[i] = HAS(t, s, c) ? CHUNK_A(a_at + (ulong)ROW_OF_A(row) * lda + (ulong)(CHUNK_OF(t, s) + c) * 16)    \
                               : (chunk_a)(0);                                                                    \
    }                                                                                                             \
    if ((t) % STEPS == 0) {                                                                                       \
      _Pragma("unroll") for (int j = 0; j < WORK_N; ++j)                                                          \
          next_scale_b[j] = GROUP_OF(t, slice) < end_group                                                        \
              ? SCALE_OF_B(GROUP_OF(t, slice) * GROUP, columns_b[j])                                                    \
              : 0.0f;                                                                                             \
      _Pragma("unroll") for (int i = 0; i < SCALES_A; ++i) {                                                      \
        const int at = item + i * ITEMS, s = at % SLICES;                                                         \
        const int row = min(here.first_row + at / SLICES, last_row);                                              \
        next_scale[i] = GROUP_OF(t, s) < end_group                                                                \
            ? SCALE_OF_A(ROW_OF_A(row), GROUP_OF(t, s) * GROUP)                                                          \
            : 0.0f;                                                                                               \
      }                                                                                                           \
    }

    if (steps > 0) {
      FETCH(0)
    }
    for (int step = 0; step < steps; ++step) {
      chunk_b codes[DEPTH][WORK_N];
      __local float4* tile = tiles[step % 2];
#pragma unroll
      for (int i = 0; i < LOADS_A; ++i) {
        const int at = item + i * ITEMS;
        if (CHUNKS_A % ITEMS == 0 || at < CHUNKS_A) {
          __local float4* to = tile + at / SLICES * 4 * SLICES + at % SLICES;
          to[0] = FOUR_A(next_a[i], 0);
          to[SLICES] = FOUR_A(next_a[i], 1);
          to[2 * SLICES] = FOUR_A(next_a[i], 2);
          to[3 * SLICES] = FOUR_A(next_a[i], 3);
        }
      }
      if (step % STEPS == 0) {
#pragma unroll
        for (int i = 0; i < SCALES_A; ++i) {
          if ((TILE_M * SLICES) % ITEMS == 0 || item + i * ITEMS < TILE_M * SLICES)
            scales_a[step / STEPS % 2][item + i * ITEMS] = next_scale[i];
        }
#pragma unroll
        for (int j = 0; j < WORK_N; ++j) scale_b[j] = next_scale_b[j];
      }
#pragma unroll
      for (int c = 0; c < DEPTH; ++c) {
#pragma unroll
        for (int j = 0; j < WORK_N; ++j) codes[c][j] = next_b[c][j];
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      if (step + 1 < steps) {
        FETCH(step + 1)
      }
#pragma unroll
      for (int c = 0; c < DEPTH; ++c) {
UNROLL_WORDS
        for (int q = 0; q < 4; ++q) {
          float4 weight[WORK_N];
#pragma unroll
          for (int j = 0; j < WORK_N; ++j) {
            weight[j] = FOUR_B(codes[c][j]);
            codes[c][j] = NEXT_FOUR(codes[c][j]);
          }
#pragma unroll
          for (int i = 0; i < TILE_M; ++i) {
            const float4 x = tile[((i * DEPTH + c) * 4 + q) * SLICES + slice];
#pragma unroll
            for (int j = 0; j < WORK_N; ++j) {
              sum[i][j] = MUL_ADD(x.x, weight[j].x, sum[i][j]);
              sum[i][j] = MUL_ADD(x.y, weight[j].y, sum[i][j]);
              sum[i][j] = MUL_ADD(x.z, weight[j].z, sum[i][j]);
              sum[i][j] = MUL_ADD(x.w, weight[j].w, sum[i][j]);
            }
          }
        }
      }
      if ((step + 1) % STEPS == 0) {
#pragma unroll
        for (int i = 0; i < TILE_M; ++i) {
          const float scale_a = scales_a[step / STEPS % 2][i * SLICES + slice];
#pragma unroll
          for (int j = 0; j < WORK_N; ++j) {
            TOTAL(i, j) = MUL_ADD(sum[i][j] * UNIT * scale_a, scale_b[j], TOTAL(i, j));
            sum[i][j] = 0.0f;
          }
        }
      }
    }

    // Slices are added in order.
#pragma unroll
    for (int first = 0; first < TILE_M; first += ROWS_AT_ONCE) {
#if TOTALS == 0
      barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
      for (int i = 0; i < ROWS_AT_ONCE; ++i) {
#pragma unroll
        for (int j = 0; j < WORK_N; ++j) sums[SUM(i, j) * ITEMS + item] = first + i < TILE_M ? total[min(first + i, TILE_M - 1)][j] : 0.0f;
      }
#endif
      barrier(CLK_LOCAL_MEM_FENCE);
      EACH_PASS {
        START_PASS
        for (int at = item; at < ROWS_AT_ONCE * OF_D(COLUMNS); at += ITEMS) {
          const int i = at / OF_D(COLUMNS), column = at % OF_D(COLUMNS);
          const float total = added(sums, i, BLOCK_STEP * column), up = BLOCK_STEP == 2 ? added(sums, i, 2 * column + 1) : 0.0f;
          if (first + i < TILE_M) PUT_OF_BLOCKS(first + i, column, total, up);
        }
      }
    }
  }
}

DEFINE_REDUCE(gemm_skinny_reduce)
