// SPDX-License-Identifier: Apache-2.0
// gemm_tiled.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k], g the K groups of GROUP.
// One work-group makes one tile of D; a work-item makes WORK_M x WORK_N of it, in quads of rows and columns.
//                          TILE_N
//                        +--------+     A and B tiles are decoded into local memory, k outermost, in SLOTS slots a
//               TILE_K   |  B^T   |     stream: while one is multiplied, the codes of the next tile are on their
//             +--------+ +--------+     way in registers; they are decoded into the next slot before the barrier.
//     TILE_M  |   A    | |   D    |     Group sums stay in registers and are scaled once a K group.
//             +--------+ +--------+
// Tunable   default  values              meaning
// TILE_M    64       8 16 32 64 128      rows of D per work-group
// TILE_N    64       16 32 64 128        columns of D per work-group
// TILE_K    16       16 32 64            step in k; divides GROUP, so no step straddles two scale groups
// WORK_M    4        1 2 4 8             rows of D per work-item
// WORK_N    4        4 8                 columns of D per work-item
// SPLIT_K   1        1 2 3 4 6 8 12 16   parts of k, added by gemm_tiled_reduce
// SLOTS     2        1 2                 tiles of A and of B in local memory: with 1, others of a compute unit work while one is filled
// TOTALS    0        0 1                 1: the sums of the K groups done lie in local memory, not in registers
// ROWS_TOGETHER  1   1 8                 tiles of rows that are walked together
// Set by the host: those of split_k.cl and chunks.cl; PROCESSOR: the device is one.
// A: rows padded to a multiple of TILE_K. A and B otherwise as chunks.cl says.
// Local memory: ((SLOTS * TILE_K + 2) * (TILE_M + TILE_N) + TOTALS * TILE_M * TILE_N) * 4 B = 17408 B with the defaults.
// Two operands of i8 lie in local memory as they are, four k a word, where the device has dot products of bytes (BYTE_DOTS): the sums of
// a K group are then s32, a quarter of the words is stored and read, and nothing is decoded.
// Origin: register quads after the GEMMs of MAGMA and CUTLASS, scaling order after DeepGEMM.
#include "chunks.cl"
#include "split_k.cl"

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
// A chunk is 16 k of one row. Work-items take chunks in turn; B's are scheduled from the last work-item backwards.
#define CHUNKS_A (TILE_M * TILE_K / 16)
#define CHUNKS_B (TILE_N * TILE_K / 16)
#define LOADS_A ((CHUNKS_A + ITEMS - 1) / ITEMS)
#define LOADS_B ((CHUNKS_B + ITEMS - 1) / ITEMS)
// Work-item `item` takes chunk number CHUNK_OF(item, i, chunks) of `chunks`, if HAS_CHUNK. On a processor those for which there is none
// take the last one too and put the same bytes where they are: PoCL 5.0 computes with garbage where a work-item that puts a chunk stands
// beside one that does not.
#ifdef PROCESSOR
#define CHUNK_OF(item, i, chunks) min((item) + (i) * ITEMS, (chunks)-1)
#define HAS_CHUNK(item, i, chunks) 1
#else
#define CHUNK_OF(item, i, chunks) ((item) + (i) * ITEMS)
#define HAS_CHUNK(item, i, chunks) ((chunks) % ITEMS == 0 || (item) + (i) * ITEMS < (chunks))
#endif
#define LOADS_SCALES ((TILE_M + TILE_N + ITEMS - 1) / ITEMS)
#define LAST_OF_GROUP(step) (((step) + 1) % (GROUP / TILE_K) == 0 || (step) + 1 == end_step)
#define GROUP_SLOT(step) ((step) / (GROUP / TILE_K) % 2)

#if (GROUP % TILE_K) != 0
#error "TILE_K must divide GROUP: a step would straddle two scale groups"
#endif

// What lies in local memory: STEP k of a row. `product` adds the products of two of them to a sum.
#if defined(BYTE_DOTS) && A_TYPE == TYPE_I8 && B_TYPE == TYPE_I8
#define STEP 4
#define WHOLE_CODES
typedef uint element;
typedef uint4 element_quad;
typedef int partial_sum;
static inline int product(uint x, uint y, int sum) { return sum + dot_4x8packed_ss_int(x, y); }
#define SUMS_AS_FLOATS convert_float4
#define QUAD_OF_SUMS int4
#else
#define STEP 1
typedef float element;
typedef float4 element_quad;
typedef float partial_sum;
static inline float product(float x, float y, float sum) { return MUL_ADD(x, y, sum); }
#define SUMS_AS_FLOATS
#define QUAD_OF_SUMS float4
#endif

// Neighbours hold neighbouring rows, so that what they store at once lies in as many banks.
static inline void put_four(__local float* slot, int stride, int row, int at, float4 values) {
  slot[(at + 0) * stride + row] = values.x;
  slot[(at + 1) * stride + row] = values.y;
  slot[(at + 2) * stride + row] = values.z;
  slot[(at + 3) * stride + row] = values.w;
}

#ifdef WHOLE_CODES
static inline void put_words(__local uint* slot, int stride, int row, int at, uint4 chunk) {
  slot[(at / 4 + 0) * stride + row] = chunk.x;
  slot[(at / 4 + 1) * stride + row] = chunk.y;
  slot[(at / 4 + 2) * stride + row] = chunk.z;
  slot[(at / 4 + 3) * stride + row] = chunk.w;
}
static inline void put_a(__local uint* slot, int row, int at, uint4 chunk) { put_words(slot, TILE_M, row, at, chunk); }
static inline void put_b(__local uint* slot, int row, int at, uint4 chunk) { put_words(slot, TILE_N, row, at, chunk); }
#else
static inline void put_a(__local float* slot, int row, int at, chunk_a chunk) {
  put_four(slot, TILE_M, row, at, FOUR_A(chunk, 0));
  put_four(slot, TILE_M, row, at + 4, FOUR_A(chunk, 1));
  put_four(slot, TILE_M, row, at + 8, FOUR_A(chunk, 2));
  put_four(slot, TILE_M, row, at + 12, FOUR_A(chunk, 3));
}

static inline void put_b(__local float* slot, int row, int at, chunk_b chunk) {
#pragma unroll
  for (int q = 0; q < 16; q += 4) {
    put_four(slot, TILE_N, row, at + q, FOUR_B(chunk));
    chunk = NEXT_FOUR(chunk);
  }
}
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void gemm_tiled(GEMM_ARGS) {
  __local element slots_a[SLOTS * (TILE_K / STEP) * TILE_M] __attribute__((aligned(16)));
  __local element slots_b[SLOTS * (TILE_K / STEP) * TILE_N] __attribute__((aligned(16)));
  // Of the K group that ends: rows, then columns. In two slots, since it may be ending in the next step again.
  __local float scales[2][TILE_M + TILE_N] __attribute__((aligned(16)));
#if TOTALS == 1
  __local float4 totals[WORK_M * QUADS_N][ITEMS];
#endif
  GROUP_MAGNITUDES(TILE_M, TILE_N)
  const int item = (int)get_local_id(0);
  // Thirty-two neighbours make a patch of 4 x 8 work-items. Each reads the same quads as a neighbour at a distance of one or two does:
  // hardware that serves a local read of 16 bytes by quarters of such a patch then serves two quarters at once.
#if ITEMS_N % 8 == 0 && ITEMS_M % 4 == 0
  const int patch = item / 32;
  const int item_n = ((item >> 1) & 1) + ((item >> 2) & 6) + 8 * (patch % (ITEMS_N / 8));
  const int item_m = (item & 1) + ((item >> 1) & 2) + 4 * (patch / (ITEMS_N / 8));
#else
  const int item_n = item % ITEMS_N;
  const int item_m = item / ITEMS_N;
#endif
  const int columns = (n + TILE_N - 1) / TILE_N;
  EACH_UNIT(columns * SPLIT_K) {
    PART_HERE(TILE_N, columns)
    OF_MATRIX(here)
    const int first_m = here.first_row, last_m = here.end_row - 1;
    const int first_step = FIRST_GROUP(part) * (GROUP / TILE_K);
    const int end_step = min(FIRST_GROUP(part + 1) * (GROUP / TILE_K), (k + TILE_K - 1) / TILE_K);

    // Rows and columns past the edge read the last one again; they are not stored.
#if A_TYPE == TYPE_F32
    __global const float* from_a[LOADS_A];
#else
    __global const uchar* from_a[LOADS_A];
#endif
    __global const chunk_b* from_b[LOADS_B];
#pragma unroll
    for (int i = 0; i < LOADS_A; ++i) {
      const int chunk = CHUNK_OF(item, i, CHUNKS_A);
      const ulong row = (ulong)ROW_OF_A(min(first_m + chunk % TILE_M, last_m));
      const ulong at = a_at + row * lda + (ulong)(first_step * TILE_K + chunk / TILE_M * 16);
#if A_TYPE == TYPE_F32
      from_a[i] = (__global const float*)a + at;
#else
      from_a[i] = a + at;
#endif
    }
#pragma unroll
    for (int i = 0; i < LOADS_B; ++i) {
      const int chunk = CHUNK_OF(ITEMS - 1 - item, i, CHUNKS_B);
      const ulong column = (ulong)min(first_n + chunk % TILE_N, n - 1);
      from_b[i] = (__global const chunk_b*)b_here + ((ulong)(first_step * (TILE_K / 16) + chunk / TILE_N) * (ulong)n_pad + column);
    }
    const ulong step_b = (ulong)(TILE_K / 16) * (ulong)n_pad;

    chunk_a next_a[LOADS_A];
    chunk_b next_b[LOADS_B];
    float next_scale[LOADS_SCALES];

#if A_TYPE == TYPE_F32
#define FETCH_A(i) next_a[i] = vload16(0, from_a[i])
#else
#define FETCH_A(i) next_a[i] = *(__global const uint4*)from_a[i]
#endif
#define FETCH(step)                                                                                             \
    _Pragma("unroll") for (int i = 0; i < LOADS_A; ++i) {                                                         \
      if (HAS_CHUNK(item, i, CHUNKS_A)) FETCH_A(i);                                                             \
      from_a[i] += TILE_K;                                                                                        \
    }                                                                                                             \
    _Pragma("unroll") for (int i = 0; i < LOADS_B; ++i) {                                                         \
      if (HAS_CHUNK(ITEMS - 1 - item, i, CHUNKS_B))                                                             \
        next_b[i] = *from_b[i];                                                                                   \
      from_b[i] += step_b;                                                                                        \
    }                                                                                                             \
    if (LAST_OF_GROUP(step)) {                                                                                    \
      _Pragma("unroll") for (int i = 0; i < LOADS_SCALES; ++i) {                                                  \
        const int at = item + i * ITEMS;                                                                          \
        next_scale[i] = at < TILE_M                                                                               \
            ? SCALE_OF_A(ROW_OF_A(min(first_m + at, last_m)), (step) * TILE_K)                                          \
            : SCALE_OF_B((step) * TILE_K, min(first_n + max(at - TILE_M, 0), n - 1));                                  \
      }                                                                                                           \
    }
#define PUT(step, slot)                                                                                         \
    _Pragma("unroll") for (int i = 0; i < LOADS_A; ++i) {                                                         \
      const int chunk = CHUNK_OF(item, i, CHUNKS_A);                                                            \
      if (HAS_CHUNK(item, i, CHUNKS_A))                                                                         \
        put_a(slots_a + (slot) * (TILE_K / STEP * TILE_M), chunk % TILE_M, chunk / TILE_M * 16, next_a[i]);              \
    }                                                                                                             \
    _Pragma("unroll") for (int i = 0; i < LOADS_B; ++i) {                                                         \
      const int chunk = CHUNK_OF(ITEMS - 1 - item, i, CHUNKS_B);                                                \
      if (HAS_CHUNK(ITEMS - 1 - item, i, CHUNKS_B))                                                             \
        put_b(slots_b + (slot) * (TILE_K / STEP * TILE_N), chunk % TILE_N, chunk / TILE_N * 16, next_b[i]);              \
    }                                                                                                             \
    if (LAST_OF_GROUP(step)) {                                                                                    \
      _Pragma("unroll") for (int i = 0; i < LOADS_SCALES; ++i) {                                                  \
        if ((TILE_M + TILE_N) % ITEMS == 0 || item + i * ITEMS < TILE_M + TILE_N)                                 \
          scales[GROUP_SLOT(step)][item + i * ITEMS] = next_scale[i];                                             \
      }                                                                                                           \
    }

    partial_sum sum[WORK_M][WORK_N];
#if TOTALS == 0
    float4 total[WORK_M][QUADS_N];
#define TOTAL(i, q) total[i][q]
#else
#define TOTAL(i, q) totals[(i) * QUADS_N + (q)][item]
#endif
#pragma unroll
    for (int i = 0; i < WORK_M; ++i) {
#pragma unroll
      for (int j = 0; j < WORK_N; ++j) sum[i][j] = 0;
#pragma unroll
      for (int q = 0; q < QUADS_N; ++q) TOTAL(i, q) = (float4)(0.0f);
    }

    if (first_step < end_step) {
      FETCH(first_step)
    }
#if defined(GROUPED) && SLOTS > 1
    barrier(CLK_LOCAL_MEM_FENCE);  // The last tile of the unit before has been multiplied.
#endif
    for (int step = first_step; step < end_step; ++step) {
      const int slot = step % SLOTS;
#if SLOTS == 1
      barrier(CLK_LOCAL_MEM_FENCE);
#endif
      PUT(step, slot)
      barrier(CLK_LOCAL_MEM_FENCE);
      // The next codes are on their way while these are multiplied, and so are the scales of a group before its last step.
      if (step + 1 < end_step) {
        FETCH(step + 1)
      }
      __local const element* tile_a = slots_a + slot * (TILE_K / STEP * TILE_M) + item_m * QUAD_M;
      __local const element* tile_b = slots_b + slot * (TILE_K / STEP * TILE_N) + item_n * 4;
#pragma unroll
      for (int kk = 0; kk < TILE_K / STEP; ++kk) {
        element va[WORK_M], vb[WORK_N];
#pragma unroll
        for (int q = 0; q < QUADS_M; ++q) {
#if QUAD_M == 4
          const element_quad quad = *(__local const element_quad*)(tile_a + kk * TILE_M + q * (TILE_M / QUADS_M));
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
          const element_quad quad = *(__local const element_quad*)(tile_b + kk * TILE_N + q * (TILE_N / QUADS_N));
          vb[4 * q] = quad.x;
          vb[4 * q + 1] = quad.y;
          vb[4 * q + 2] = quad.z;
          vb[4 * q + 3] = quad.w;
        }
#pragma unroll
        for (int i = 0; i < WORK_M; ++i) {
#pragma unroll
          for (int j = 0; j < WORK_N; ++j) sum[i][j] = product(va[i], vb[j], sum[i][j]);
        }
      }
      if (LAST_OF_GROUP(step)) {
#pragma unroll
        for (int i = 0; i < WORK_M; ++i) {
          const float scale_a = scales[GROUP_SLOT(step)][i / QUAD_M * (TILE_M / QUADS_M) + item_m * QUAD_M + i % QUAD_M];
#pragma unroll
          for (int q = 0; q < QUADS_N; ++q) {
            const float4 scale_b =
                *(__local const float4*)(scales[GROUP_SLOT(step)] + TILE_M + q * (TILE_N / QUADS_N) + item_n * 4);
            const float4 quad =
                SUMS_AS_FLOATS((QUAD_OF_SUMS)(sum[i][4 * q], sum[i][4 * q + 1], sum[i][4 * q + 2], sum[i][4 * q + 3]));
            TOTAL(i, q) = MUL_ADD(quad * UNIT * scale_a, scale_b, TOTAL(i, q));
            sum[i][4 * q] = sum[i][4 * q + 1] = sum[i][4 * q + 2] = sum[i][4 * q + 3] = 0;
          }
        }
      }
    }
    // No loop stands inside a condition that differs between work-items: PoCL 3.1 puts barriers of its own into loops, and then
    // runs such a loop for all of them.
    EACH_PASS {
      START_PASS
#pragma unroll
      for (int i = 0; i < WORK_M; ++i) {
        const int row = i / QUAD_M * (TILE_M / QUADS_M) + item_m * QUAD_M + i % QUAD_M;
#pragma unroll
        for (int q = 0; q < QUADS_N; ++q) {
          const float4 quad = TOTAL(i, q);
          PUT_FOUR_TOTALS(row, q * (TILE_N / QUADS_N) + item_n * 4, quad.x, quad.y, quad.z, quad.w);
        }
      }
    }
  }
}

DEFINE_REDUCE(gemm_tiled_reduce)
