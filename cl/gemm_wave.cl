// SPDX-License-Identifier: Apache-2.0
// gemm_wave.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k], g the K groups of GROUP, by the matrix products of waves
// that AMD's GPUs have (wave_products.cl). Variants by the types of codes: gemm_wave, e4m3 as f16, which holds it exactly, with f32 sums;
// gemm_wave_bf16, where some are e5m2, as bf16: the least of e5m2 are denormals of f16, which some units take for zero; gemm_wave_s8, i8 as
// it is, with s32 sums. Next door: gemm_dpas.cl (Intel's products).
//
//                  COLUMNS = WAVES x WORK_N x SIDE            A wave makes TILE_M rows by WORK_N x SIDE columns, waves lie side by side.
//            +---------------+---------------+--- ...        A of a K tile is decoded into local memory for all of them, in two slots:
//            | wave 0        | wave 1        |               while one is multiplied, the codes of the next tile are on their way in
//    TILE_M  | WORK_N blocks |               |               registers. There they lie as products take them, 16 bytes of a row beside
//            | of SIDE       |               |               those of the next row: no two work-items meet in a bank. B needs no local
//            +---------------+---------------+--- ...        memory: its form has 16 k of a column in 16 bytes, and each code is decoded
//                                                            once for TILE_M rows. Group sums stay in registers, scaled once a K group.
//
// Tunable   default  values                meaning
// TILE_M    64       16 32 64 128          rows of D per work-group; with 64 lanes 32 or more
// WORK_N    1        1 2 4                 blocks of columns per wave: of 32 with 64 lanes, of 16 with 32
// WAVES     4        1 2 4 8               waves per work-group, side by side in columns
// LANES     64       32 64                 work-items of a wave: as many as the device has
// TILE_K    32       32 64                 step in k; divides GROUP, so no step straddles two scale groups
// SPLIT_K   1        1 2 3 4 6 8 12 16     parts of k, added by gemm_wave_reduce
// Set by the host: those of split_k.cl, code_words.cl and wave_products.cl.
// A: row major codes, rows padded with zeros to a multiple of 64.
// B: the 16 codes of column n and k from 16 * c on are at (c * n_pad + n) * 16.
// Local memory: TILE_M * (4 * TILE_K + 8) B = 8704 B with the defaults; of i8 TILE_M * (2 * TILE_K + 8).
// Origin: register blocking after AMD's notes on programming its matrix cores; scaling order after DeepGEMM.
#include "narrow_floats.cl"
#include "split_k.cl"

#define ITEMS (LANES * WAVES)
#include "wave_products.cl"
#if defined(WAVE_LANES) || defined(WAVE_BY_HAND)

#define COLUMNS (WAVES * WORK_N * SIDE)
#define BLOCKS_M (TILE_M / SIDE)
#define TILES_A_GROUP (GROUP / TILE_K)
#define STEPS (TILE_K / (16 * PARTS))  // A step is the chunks, of 16 k, that the parts of a wave multiply at once.
#define CHUNKS_A (TILE_M * TILE_K / 16)
#define LOADS_A ((CHUNKS_A + ITEMS - 1) / ITEMS)
// A chunk in local memory: so many pieces of 16 bytes, TILE_M apart.
#if WAVE_I8
#define PIECES_A_CHUNK 1
#define DECODED_A(codes) (codes)
#define DECODED_B(codes) (codes)
#define CHUNK_OF_A(at) (at)[0]
#define UNIT 1.0f
#else
#define PIECES_A_CHUNK 2
#define CHUNK_OF_A(at) (uint8)((at)[0], (at)[TILE_M])
#if WAVE_F16
#define DECODED_A(codes) F16_OF(f16_tokens_e4m3, codes)
#define DECODED_B(codes) F16_OF(f16_word_e4m3, codes)
#define UNIT 1.0f
#else
#define DECODED_A(codes) BF16_OF(JOIN(TOKENS_, A_TYPE), codes)
#define DECODED_B(codes) BF16_OF(JOIN(WORD_, B_TYPE), codes)
#define UNIT (JOIN(UNIT_OF_, A_TYPE) * JOIN(UNIT_OF_, B_TYPE))
#endif
#endif

#if (GROUP % TILE_K) != 0
#error "TILE_K must divide GROUP: a step would straddle two scale groups"
#endif
#if (TILE_M % SIDE) != 0
#error "TILE_M must be a multiple of the rows of a product"
#endif

/// The scales of the rows that a work-item has sums of.
static inline wave_floats scales_of_sums(__local const float* scales, int lane) {
#if LANES == 64
  __local const float* from = scales + 4 * (lane / 32);
  return (float16)(vload4(0, from), vload4(2, from), vload4(4, from), vload4(6, from));
#elif PARTS == 1
  __local const float* from = scales + lane / 16;
  return (float8)(from[0], from[2], from[4], from[6], from[8], from[10], from[12], from[14]);
#else
  return vload8(lane / 16, scales);
#endif
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void gemm_wave(GEMM_ARGS) {
  __local uint4 tiles[2][TILE_K / 16 * PIECES_A_CHUNK * TILE_M];
  __local float scales_a[2][TILE_M] __attribute__((aligned(16)));
  GROUP_MAGNITUDES(TILE_M, COLUMNS)
  WAVE_SCRATCH
  const int item = (int)get_local_id(0), lane = item % LANES, wave = item / LANES;
  const int line = lane % SIDE, part_of_k = lane / SIDE % PARTS;
  const int columns = (n + COLUMNS - 1) / COLUMNS;
  EACH_UNIT(columns * SPLIT_K) {
    PART_HERE(COLUMNS, columns)
    OF_MATRIX(here)
    const int last_row = here.end_row - 1;
    const int first_tile_k = FIRST_GROUP(part) * TILES_A_GROUP;
    const int end_tile_k = min(FIRST_GROUP(part + 1) * TILES_A_GROUP, (k + TILE_K - 1) / TILE_K);

    // Rows and columns past the edge read the last one again; they are not stored. k is padded to whole tiles.
    __global const uchar* from_a[LOADS_A];
#pragma unroll
    for (int i = 0; i < LOADS_A; ++i) {
      const int chunk = min(item + i * ITEMS, CHUNKS_A - 1);
      const ulong row = (ulong)ROW_OF_A(min(here.first_row + chunk / (TILE_K / 16), last_row));
      from_a[i] = a + a_at + row * lda + (ulong)(first_tile_k * TILE_K + chunk % (TILE_K / 16) * 16);
    }
    int columns_b[WORK_N];
    __global const uint4* from_b[WORK_N];
    wave_sums sums[BLOCKS_M][WORK_N];
    wave_floats totals[BLOCKS_M][WORK_N];
#pragma unroll
    for (int j = 0; j < WORK_N; ++j) {
      columns_b[j] = min(first_n + (wave * WORK_N + j) * SIDE + line, n - 1);
      from_b[j] = (__global const uint4*)b_here + (ulong)(first_tile_k * (TILE_K / 16) + part_of_k) * (ulong)n_pad +
                  (ulong)columns_b[j];
#pragma unroll
      for (int i = 0; i < BLOCKS_M; ++i) {
        sums[i][j] = (wave_sums)(0);
        totals[i][j] = (wave_floats)(0.0f);
      }
    }

    uint4 next_a[LOADS_A], next_b[STEPS][WORK_N];
#define FETCH()                                                                                                  \
    _Pragma("unroll") for (int i = 0; i < LOADS_A; ++i) {                                                          \
      next_a[i] = *(__global const uint4*)from_a[i];                                                               \
      from_a[i] += TILE_K;                                                                                         \
    }                                                                                                              \
    _Pragma("unroll") for (int j = 0; j < WORK_N; ++j) {                                                           \
      _Pragma("unroll") for (int step = 0; step < STEPS; ++step) {                                                 \
        next_b[step][j] = *from_b[j];                                                                              \
        from_b[j] += (ulong)PARTS * (ulong)n_pad;                                                                  \
      }                                                                                                            \
    }
    if (first_tile_k < end_tile_k) {
      FETCH()
    }
#ifdef GROUPED
    barrier(CLK_LOCAL_MEM_FENCE);  // The last tile of the unit before has been multiplied.
#endif
    for (int tile_k = first_tile_k; tile_k < end_tile_k; ++tile_k) {
      const int slot = (tile_k - first_tile_k) % 2, group = tile_k / TILES_A_GROUP, scale_slot = group % 2;
      const bool last_of_group = (tile_k + 1) % TILES_A_GROUP == 0 || tile_k + 1 == end_tile_k;
      // Work-items without a chunk put the last one again: the same bytes.
#pragma unroll
      for (int i = 0; i < LOADS_A; ++i) {
        const int chunk = min(item + i * ITEMS, CHUNKS_A - 1);
        __local uint4* to =
            tiles[slot] + chunk % (TILE_K / 16) * (PIECES_A_CHUNK * TILE_M) + chunk / (TILE_K / 16);
        const wave_chunk decoded = DECODED_A(next_a[i]);
#if WAVE_I8
        to[0] = decoded;
#else
        to[0] = decoded.lo;
        to[TILE_M] = decoded.hi;
#endif
      }
      wave_chunk own_b[STEPS][WORK_N];
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int j = 0; j < WORK_N; ++j) own_b[step][j] = DECODED_B(next_b[step][j]);
      }
      float scales_b[WORK_N];
      if (last_of_group) {
        for (int i = item; i < TILE_M; i += ITEMS)
          scales_a[scale_slot][i] = SCALE_OF_A(ROW_OF_A(min(here.first_row + i, last_row)), group * GROUP);
#pragma unroll
        for (int j = 0; j < WORK_N; ++j)
          scales_b[j] = SCALE_OF_B(group * GROUP, columns_b[j]);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      if (tile_k + 1 < end_tile_k) {
        FETCH()
      }

#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < BLOCKS_M; ++i) {
          __local const uint4* at =
              tiles[slot] + (step * PARTS + part_of_k) * (PIECES_A_CHUNK * TILE_M) + i * SIDE + line;
          const wave_chunk rows = CHUNK_OF_A(at);
#pragma unroll
          for (int j = 0; j < WORK_N; ++j) {
            MULTIPLY_CHUNKS(rows, own_b[step][j], sums[i][j]);
          }
        }
      }
      if (last_of_group) {
#pragma unroll
        for (int i = 0; i < BLOCKS_M; ++i) {
          const wave_floats scale = scales_of_sums(scales_a[scale_slot] + i * SIDE, lane);
#pragma unroll
          for (int j = 0; j < WORK_N; ++j) {
            totals[i][j] =
                MUL_ADD(FLOATS_OF_SUMS(sums[i][j]) * UNIT * scale, (wave_floats)(scales_b[j]), totals[i][j]);
            sums[i][j] = (wave_sums)(0);
          }
        }
      }
    }

    EACH_PASS {
      START_PASS
#pragma unroll
      for (int i = 0; i < BLOCKS_M; ++i) {
#pragma unroll
        for (int j = 0; j < WORK_N; j += BLOCK_STEP) {
          float values[BLOCK_STEP][SUMS];
          VSTORE_SUMS(totals[i][j], 0, values[0]);
          VSTORE_SUMS(totals[i][j + BLOCK_STEP - 1], 0, values[BLOCK_STEP - 1]);
#pragma unroll
          for (int v = 0; v < SUMS; ++v)
            PUT_OF_BLOCKS(i * SIDE + SUM_ROW(v, lane), OF_D((wave * WORK_N + j) * SIDE) + line, values[0][v], values[BLOCK_STEP - 1][v]);
        }
      }
    }
  }
}

DEFINE_REDUCE(gemm_wave_reduce)
#endif  // Without such products this file is empty.
