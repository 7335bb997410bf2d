// SPDX-License-Identifier: Apache-2.0
// gemm_dpas.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k], g the K groups of GROUP, by the matrix products of
// sub-groups that Intel's GPUs have (dpas.cl): fp8 codes as bf16, which holds them exactly, with f32 sums; i8 codes as they are, with s32 sums.
//
//                 COLUMNS = SUB_GROUPS x WORK_N x LANES      A sub-group makes TILE_M rows by WORK_N x LANES columns, sub-groups lie side
//            +---------------+---------------+--- ...        by side. A of a K group is decoded into local memory for all of them, in two
//            | sub-group 0   | sub-group 1   |               slots: one is filled while slower sub-groups still multiply the other. B needs
//    TILE_M  | WORK_N blocks |               |               none: its form has the 16 k that a work-item multiplies in 16 bytes, side
//            | of LANES      |               |               by side for the columns of a sub-group, and each is decoded once for TILE_M
//            +---------------+---------------+--- ...        rows. Group sums stay in registers and are scaled once a K group.
//
// Tunable     default  values                meaning
// TILE_M      16       8 16 32               rows of D per work-group
// WORK_N      2        1 2 4                 blocks of LANES columns per sub-group
// SUB_GROUPS  4        1 2 4 8               sub-groups per work-group, side by side in columns
// LANES       16       8 16                  work-items of a sub-group: as many as the device's products take
// SPLIT_K     1        1 2 3 4 6 8 12 16     parts of k, added by gemm_dpas_reduce
// Set by the host: those of split_k.cl, code_words.cl and dpas.cl.
// A: row major codes, rows padded with zeros to a multiple of 64.
// B: the 16 codes of column n and k from 16 * c on are at (c * n_pad + n) * 16.
// Local memory: TILE_M * (4 * GROUP + 8) B = 8320 B with the defaults.
// Origin: the extension's specification; scaling order after DeepGEMM.
#include "narrow_floats.cl"
#include "split_k.cl"

#define ITEMS (LANES * SUB_GROUPS)
#include "dpas.cl"
#if defined(DPAS_LANES) || defined(DPAS_BY_HAND)

#define COLUMNS (SUB_GROUPS * WORK_N * LANES)
#define BLOCKS_M (TILE_M / 8)
#define CHUNKS (GROUP / 16)  // Of 16 k, in a K group.
#define UNIT (JOIN(UNIT_OF_, A_TYPE) * JOIN(UNIT_OF_, B_TYPE))
// A product takes eight words of a row of A, and eight of a column of B.
#if A_TYPE == TYPE_I8
#define CHUNKS_A_PRODUCT 2
typedef int8 dpas_sums;
#define FLOATS(sums) convert_float8(sums)
#else
#define CHUNKS_A_PRODUCT 1
typedef float8 dpas_sums;
#define FLOATS(sums) (sums)
#endif
#define PRODUCTS (CHUNKS / CHUNKS_A_PRODUCT)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) DPAS_SUB_GROUPS
void gemm_dpas(GEMM_ARGS) {
  // Of a K group: product by product, then row by row, eight words each.
  __local uint tiles[2][PRODUCTS * TILE_M * 8] __attribute__((aligned(32)));
  __local float scales_a[2][TILE_M] __attribute__((aligned(32)));
  GROUP_MAGNITUDES(TILE_M, COLUMNS)
  DPAS_SCRATCH
  const int item = (int)get_local_id(0), lane = DPAS_LANE, sub_group = DPAS_SUB_GROUP;
  const int columns = (n + COLUMNS - 1) / COLUMNS;
  EACH_UNIT(columns * SPLIT_K) {
    PART_HERE(COLUMNS, columns)
    OF_MATRIX(here)
    const int last_row = here.end_row - 1;
    const int first_group = FIRST_GROUP(part), end_group = FIRST_GROUP(part + 1);

    // Columns past the edge read the last one again; they are not stored. Chunks past the end are zeros.
    int columns_b[WORK_N];
    dpas_sums sums[BLOCKS_M][WORK_N];
    float8 totals[BLOCKS_M][WORK_N];
#pragma unroll
    for (int j = 0; j < WORK_N; ++j) {
      columns_b[j] = min(first_n + (sub_group * WORK_N + j) * LANES + lane, n - 1);
#pragma unroll
      for (int i = 0; i < BLOCKS_M; ++i) totals[i][j] = (float8)(0.0f);
    }
#ifdef GROUPED
    barrier(CLK_LOCAL_MEM_FENCE);  // The last group of the unit before has been multiplied.
#endif
    for (int group = first_group; group < end_group; ++group) {
      const int slot = (group - first_group) % 2;
      for (int at = item; at < CHUNKS * TILE_M; at += ITEMS) {
        const int i = at % TILE_M, chunk = at / TILE_M;
        const ulong row = (ulong)ROW_OF_A(min(here.first_row + i, last_row));
        const int first_k = group * GROUP + chunk * 16;
        const uint4 codes = first_k < k_pad ? *(__global const uint4*)(a + a_at + row * lda + (ulong)first_k) : (uint4)(0u);
        __local uint* to = tiles[slot] + (chunk / CHUNKS_A_PRODUCT * TILE_M + i) * 8;
#if A_TYPE == TYPE_I8
        vstore4(codes, chunk % 2, to);
#else
        vstore8(BF16_OF(JOIN(TOKENS_, A_TYPE), codes), 0, to);
#endif
      }
      for (int i = item; i < TILE_M; i += ITEMS)
        scales_a[slot][i] = SCALE_OF_A(ROW_OF_A(min(here.first_row + i, last_row)), group * GROUP);
      barrier(CLK_LOCAL_MEM_FENCE);

#pragma unroll
      for (int i = 0; i < BLOCKS_M; ++i) {
#pragma unroll
        for (int j = 0; j < WORK_N; ++j) sums[i][j] = (dpas_sums)(0);
      }
      for (int product = 0; product < PRODUCTS; ++product) {
        const int chunk = product * CHUNKS_A_PRODUCT;
        const bool there = group * GROUP + chunk * 16 < k_pad;
        __global const uint4* from =
            (__global const uint4*)b_here + (ulong)(there ? group * CHUNKS + chunk : 0) * (ulong)n_pad;
        uint8 words[WORK_N];
#pragma unroll
        for (int j = 0; j < WORK_N; ++j) {
          const uint4 codes = there ? from[columns_b[j]] : (uint4)(0u);
#if B_TYPE == TYPE_I8
          // k is padded to 64, so the second half is there where the first is.
          words[j] = (uint8)(codes, there ? from[(ulong)n_pad + (ulong)columns_b[j]] : (uint4)(0u));
#else
          words[j] = BF16_OF(JOIN(WORD_, B_TYPE), codes);
#endif
        }
#pragma unroll
        for (int i = 0; i < BLOCKS_M; ++i) {
          // The part of this work-item of eight rows.
          __local const dpas_part* of = (__local const dpas_part*)(tiles[slot] + (product * TILE_M + i * 8) * 8) + lane;
          const dpas_rows rows = (dpas_rows)(of[0], of[LANES], of[2 * LANES], of[3 * LANES], of[4 * LANES], of[5 * LANES],
                                             of[6 * LANES], of[7 * LANES]);
#pragma unroll
          for (int j = 0; j < WORK_N; ++j) {
#if A_TYPE == TYPE_I8
            sums[i][j] = DPAS_I8(rows, as_int8(words[j]), sums[i][j]);
#else
            sums[i][j] = DPAS_BF16(rows, as_int8(words[j]), sums[i][j]);
#endif
          }
        }
      }
#pragma unroll
      for (int j = 0; j < WORK_N; ++j) {
        const float scale_b = SCALE_OF_B(group * GROUP, columns_b[j]);
#pragma unroll
        for (int i = 0; i < BLOCKS_M; ++i) {
          const float8 scale = vload8(i, scales_a[slot]);
          totals[i][j] = MUL_ADD(FLOATS(sums[i][j]) * UNIT * scale, (float8)(scale_b), totals[i][j]);
        }
      }
    }

    EACH_PASS {
      START_PASS
#pragma unroll
      for (int i = 0; i < BLOCKS_M; ++i) {
#pragma unroll
        for (int j = 0; j < WORK_N; j += BLOCK_STEP) {
          float values[BLOCK_STEP][8];
          vstore8(totals[i][j], 0, values[0]);
          vstore8(totals[i][j + BLOCK_STEP - 1], 0, values[BLOCK_STEP - 1]);
#pragma unroll
          for (int r = 0; r < 8; ++r)
            PUT_OF_BLOCKS(i * 8 + r, OF_D((sub_group * WORK_N + j) * LANES) + lane, values[0][r], values[BLOCK_STEP - 1][r]);
        }
      }
    }
  }
}

DEFINE_REDUCE(gemm_dpas_reduce)
#endif  // Without such products this file is empty.
