// SPDX-License-Identifier: Apache-2.0
// gemm_stream.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for few rows, g the K groups of GROUP.
// One work-item is a work-group and makes BLOCK_M tiles of TILE_M rows by BLOCK_N columns of D over a part of k.
// Weights are decoded in registers, once for each tile of rows: with one tile the kernel is a stream of codes.
//                  32
//                +----+     With SPLIT_K above 1 the parts of k are summed by gemm_stream_reduce, always in the same
//          k     |B^T |     order: the same bits on every call.
//        +-----+ +----+     Scaled sums of the groups are kept in local memory. There is no slot to fill ahead: the next
// TILE_M |  A  | | D  |     codes are loaded while these are multiplied, by the core itself.
//        +-----+ +----+
// Tunable   default  values            meaning
// TILE_M    8        1 to 16           rows of the register tile
// TILE_N    32       16 32             columns of the register tile; divides 32
// BLOCK_M   1        1 to 32           tiles of rows per work-group
// BLOCK_N   32       32 64 128 192 256 columns of D per work-group
// SPLIT_K   1        1 2 4 8 16        parts of k
// FLOATS    0        0 1               1: floats that are to be quantised are taken as they are, where their groups are K groups
// Set by the host: those of register_tile.cl; QUANTISE: a is such floats, a_at elements on and lda apart, and those of quantizer.cl
// are set. Each work-group then quantises what it multiplies: for a few rows that costs less than a kernel before this one. PERSISTENT_GROUPS, for one tile
// of rows and no more K groups than it says: one for each core stays, quantises all of A once and takes stretches of columns; scratch is
// their counter (stretches.cl).
// A: f32 in tiles of TILE_M rows, as pack_tiles makes it, with its scales; sa_ld is the number of K groups.
// B: the 32 codes of columns 32 * p on and one k are at (p * k_pad + k) * 32, counted in codes; of four bits each, those of eight k.
// Local memory: BLOCK_M * TILE_M * (BLOCK_N + FLOATS * max(1, PERSISTENT_GROUPS) * (GROUP + 1)) * 4 B = 1024 B with the defaults.
#include "register_tile.cl"

#if PERSISTENT_GROUPS > 0
#include "stretches.cl"
#define HELD_GROUPS PERSISTENT_GROUPS
#define HELD_AT(group) (group)
#else
#define HELD_GROUPS 1
#define HELD_AT(group) 0
#endif
#ifdef QUANTISE
#include "quantize_group.cl"
#define OF_A __local
/// A K group of the rows from first_row on, `tiles` tiles of them: their values, and a scale for each row.
static inline void quantise_tiles(__local float* values, __local float* scales, int tiles, int first_row, int end_row,
                                  __global const uchar* x, ulong x_at, ulong ldx, int first_k, int count, int padded) {
  for (int i = 0; i < tiles * TILE_M; ++i) {
    __local float* to = values + i / TILE_M * (TILE_M * GROUP) + i % TILE_M * 16;
    const int row = first_row + i;
    scales[i] = 0.0f;
    if (row < end_row) {
      scales[i] = quantise_group(to, TILE_M * 16, x, x_at + (ulong)row * ldx + (ulong)first_k, count, padded);
    }
  }
}
#else
#define OF_A __global
#endif

#define PANELS (BLOCK_N / PANEL)
// The hardware's own prefetching leaves a stream at each page of 4096 bytes, and a core waits with few lines under way where many
// instructions wait for each: one Xeon core alone then reads at 7.5 of 16 GB/s, 13 with one of these hints, and 14 with both. Codes of four
// bits, which are used half as fast, came sooner where the far one was half as far.
#define FETCH_CODES(at)     \
  PREFETCH((at) + 1024);    \
  PREFETCH_FAR((at) + (BITS_OF(B_TYPE) < 8 ? 4096 : 8192))
// Sums of even and odd k apart where there are too few rows to hide the latency of a multiply-add.
#if TILE_M <= 2
#define SETS 2
#else
#define SETS 1
#endif
// K groups that are added at once: narrow ones cost more between them than in them.
#if GROUP < 128 && B_SCALE_COLS == GROUP && !defined(QUANTISE)
#define TOGETHER_K (128 / GROUP)
#else
#define TOGETHER_K 1
#endif
// Codes of a byte, where a vector of the processor holds those of two k: moved to the places of 16-bit floats as in fp8.cl, but all at once,
// the columns of even number apart from the odd ones. That is 19 instructions for 64 codes in place of 24.
#if defined(HALF_VECTORS) && defined(__AVX512BW__) && TILE_N == PANEL && (B_TYPE == TYPE_E4M3 || B_TYPE == TYPE_E5M2)
#define TWO_K
typedef short short32 __attribute__((ext_vector_type(32), aligned(2)));
typedef struct {
  float16 even[2], odd[2];
} two_k;
#define FROM_(i) i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7, i + 8, i + 9, i + 10, i + 11, i + 12, i + 13, i + 14, i + 15
#define HALF_OF_(x, first) convert_halfs(__builtin_astype(__builtin_shufflevector(x, x, FROM_(first)), ushort16))
static inline __attribute__((always_inline)) two_k decode_two_k(__global const uchar* codes) {
  const short32 words = *(__global const short32*)codes, up = words << (short32)(8);
#if B_TYPE == TYPE_E4M3
  const short32 bits = (short32)((short)0xbf80), even = (up >> (short32)(1)) & bits, odd = (words >> (short32)(1)) & bits;
#else
  const short32 even = up, odd = words & (short32)((short)0xff00);
#endif
  const two_k both = {{HALF_OF_(even, 0), HALF_OF_(even, 16)}, {HALF_OF_(odd, 0), HALF_OF_(odd, 16)}};
  return both;
}
#define STEP 2  // k of a pass.
#else
#define STEP (K_TOGETHER > SETS ? K_TOGETHER : SETS)
#endif

/// Adds `groups` K groups, one after another, of all that `length` k are, to the totals of a tile: its first `rows` rows by 16 columns, or
/// 32 where `wide`. Both are literals, so that each height has a loop of its own. A row's bits do not depend on them.
static inline __attribute__((always_inline)) void add_groups(const int rows, const bool wide, __global const weight* codes,
                                                             OF_A const float* values, OF_A const float* scales_a,
                                                             __global const scale_of_b* scales_b, float global_b, __local float* to,
                                                             int length, int groups) {
  for (int group = 0; group < groups; ++group) {
    const int in_group = min(GROUP, length - group * GROUP);
#define DECLARE_ROW(i) \
  float16 low_##i = (float16)(0.0f), high_##i = (float16)(0.0f), odd_low_##i = (float16)(0.0f), odd_high_##i = (float16)(0.0f);
    EACH_ROW(DECLARE_ROW)
    for (int chunk = 0; chunk < in_group; chunk += 16) {
      // An end that the compiler cannot count to: it would index from a constant, and multiply-adds with an indexed
      // operand take two slots of the core.
      OF_A const float* end = values + min(16, in_group - chunk);
      for (OF_A const float* at = values; at < end; at += STEP) {
#ifdef TWO_K
        FETCH_CODES(codes);
        const two_k b = decode_two_k(codes);
#define MULTIPLY_TWO(i)                                                                 \
  if (i < rows) {                                                                       \
    const float16 first_##i = (float16)(at[i * 16]), next_##i = (float16)(at[i * 16 + 1]); \
    low_##i = MUL_ADD(first_##i, b.even[0], low_##i);                                   \
    high_##i = MUL_ADD(first_##i, b.odd[0], high_##i);                                  \
    float16* const low = SETS == 2 ? &odd_low_##i : &low_##i;                           \
    float16* const high = SETS == 2 ? &odd_high_##i : &high_##i;                        \
    *low = MUL_ADD(next_##i, b.even[1], *low);                                          \
    *high = MUL_ADD(next_##i, b.odd[1], *high);                                         \
  }
        EACH_ROW(MULTIPLY_TWO)
        codes += 2 * PANEL;
#else
        // Words of several k are loaded once, others for each k.
#pragma unroll
        for (int first = 0; first < STEP; first += K_TOGETHER) {
          FETCH_CODES(codes);
          if (K_TOGETHER > 1) {
            FETCH_CODES(codes + 64);
          }
          LOAD_WEIGHTS(low, codes);
          LOAD_WEIGHTS(high, codes + HOLDERS(16 * K_TOGETHER));
#pragma unroll
          for (int j = first; j < first + K_TOGETHER; ++j) {
            const float16 b_low = WEIGHT(low, j - first);
#define MULTIPLY_LOW(i)                                                                      \
  if (i < rows && (SETS == 1 || j % 2 == 0)) low_##i = MUL_ADD((float16)(at[i * 16 + j]), b_low, low_##i); \
  if (i < rows && SETS == 2 && j % 2 == 1) odd_low_##i = MUL_ADD((float16)(at[i * 16 + j]), b_low, odd_low_##i);
            EACH_ROW(MULTIPLY_LOW)
            if (wide) {
              const float16 b_high = WEIGHT(high, j - first);
#define MULTIPLY_HIGH(i)                                                                        \
  if (i < rows && (SETS == 1 || j % 2 == 0)) high_##i = MUL_ADD((float16)(at[i * 16 + j]), b_high, high_##i); \
  if (i < rows && SETS == 2 && j % 2 == 1) odd_high_##i = MUL_ADD((float16)(at[i * 16 + j]), b_high, odd_high_##i);
              EACH_ROW(MULTIPLY_HIGH)
            }
          }
          codes += HOLDERS(PANEL * K_TOGETHER);
        }
#endif
      }
      values += TILE_M * 16;
    }
#if SETS == 2
#define JOIN_SETS(i)      \
  low_##i += odd_low_##i; \
  high_##i += odd_high_##i;
    EACH_ROW(JOIN_SETS)
#endif
#ifdef TWO_K
// Columns of even and of odd number in turn again.
#define IN_ORDER(i)                                                                                                             \
  const float16 evens_##i = low_##i;                                                                                            \
  low_##i = __builtin_shufflevector(evens_##i, high_##i, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);               \
  high_##i = __builtin_shufflevector(evens_##i, high_##i, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    EACH_ROW(IN_ORDER)
#endif
    PREFETCH(scales_b + 16 * PANEL);
    PREFETCH(scales_b + 16 * PANEL + 16);
    const float16 scale_low = SCALES_16(scales_b, global_b);
#define TOTAL(i, at) (*(__local float16*)(to + i * PANEL + at))
#define SCALED(sum, i) (IN_UNITS_OF_ONE(sum) * (float16)(scales_a[i]))
#define ADD_LOW(i) \
  if (i < rows) TOTAL(i, 0) = MUL_ADD(SCALED(low_##i, i), scale_low, TOTAL(i, 0));
    EACH_ROW(ADD_LOW)
    if (wide) {
      const float16 scale_high = SCALES_16(scales_b + 16, global_b);
#define ADD_HIGH(i) \
  if (i < rows) TOTAL(i, 16) = MUL_ADD(SCALED(high_##i, i), scale_high, TOTAL(i, 16));
      EACH_ROW(ADD_HIGH)
    }
    scales_a += TILE_M;
    scales_b += PANEL;
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) WIDE_VECTORS
void gemm_stream(GEMM_ARGS) {
  __local float totals[PANELS * BLOCK_M * TILE_M * PANEL] __attribute__((aligned(64)));
#ifdef QUANTISE
  __local float quantised[HELD_GROUPS * BLOCK_M * TILE_M * GROUP] __attribute__((aligned(64)));
  __local float its_scales[HELD_GROUPS * BLOCK_M * TILE_M];
#endif
  const int columns = (n + BLOCK_N - 1) / BLOCK_N;
#if PERSISTENT_GROUPS > 0
  if (m == 0) return;
  stretch taken = take_stretch(COUNTER, (uint)columns);
#ifdef QUANTISE
  for (int first_k = 0; first_k < k && taken.first < taken.end; first_k += GROUP) {
    const int group = first_k / GROUP;
    quantise_tiles(quantised + group * (TILE_M * GROUP), its_scales + group * TILE_M, 1, 0, m, a, a_at, lda, first_k,
                   min(GROUP, k - first_k), min(GROUP, k_pad - first_k));
  }
#endif
  EACH_COLUMN_FROM(taken, columns)
#else
  EACH_UNIT(columns * SPLIT_K)
#endif
  {
#ifdef GROUPED
    const scheduled_block here = block_of(scheduled, work, columns * SPLIT_K);
    const int part = here.column % SPLIT_K, first_n = here.column / SPLIT_K * BLOCK_N;
    const int first_tile = here.first_tile, tiles = here.tiles;
    const ulong scratch_rows = (ulong)scheduled[SCHEDULED_TILES] * TILE_M;
#elif PERSISTENT_GROUPS > 0
    const int part = 0, first_n = (int)column * BLOCK_N, first_tile = 0, tiles = 1;
    const scheduled_block here = {0, 0, m, 0, 1, 0, TILE_M};
#else
    const int part = (int)get_group_id(0) % SPLIT_K, first_n = (int)get_group_id(1) * BLOCK_N;
    const int first_tile = (int)get_group_id(0) / SPLIT_K * BLOCK_M;
    if (first_tile * TILE_M >= m || first_n >= n) return;
    const int tiles = min(BLOCK_M, (m + TILE_M - 1) / TILE_M - first_tile);
    const scheduled_block here = {0, first_tile * TILE_M, m, first_tile, tiles, 0, TILE_M};
    const ulong scratch_rows = (ulong)m;
#endif
    OF_MATRIX(here)
    const int panels = min(PANELS, (n - first_n + PANEL - 1) / PANEL);
    const int groups = (k + GROUP - 1) / GROUP;
    const int groups_a_part = (groups + SPLIT_K - 1) / SPLIT_K;
    const int end_group = min((part + 1) * groups_a_part, groups);

    for (int i = 0; i < PANELS * BLOCK_M * TILE_M * PANEL; i += 16) vstore16((float16)(0.0f), 0, totals + i);
    for (int group = part * groups_a_part; group < end_group; group += TOGETHER_K) {
      const int first_k = group * GROUP;
      const int length = min(TOGETHER_K * GROUP, k_pad - first_k), groups_here = min(TOGETHER_K, end_group - group);
#if defined(QUANTISE) && PERSISTENT_GROUPS == 0
      quantise_tiles(quantised, its_scales, tiles, here.first_row, here.end_row, a, a_at, lda, first_k, min(GROUP, k - first_k),
                     length);
#endif
      // A tile of A stays in the first cache while the codes, four times smaller, pass by.
      for (int step = 0; step < tiles * panels; ++step) {
        const int tile = step / panels, panel = step - tile * panels;
        __global const weight* codes = (__global const weight*)b_here +
            HOLDERS((ulong)(first_n + panel * PANEL) * (ulong)k_pad + (ulong)first_k * PANEL);
#ifdef QUANTISE
        __local const float* values = quantised + (HELD_AT(group) + tile) * (TILE_M * GROUP);
        __local const float* scales_a = its_scales + (HELD_AT(group) + tile) * TILE_M;
#else
        __global const float* values =
            (__global const float*)a + a_at + ((ulong)(first_tile + tile) * lda + (ulong)first_k) * TILE_M;
        __global const float* scales_a = SCALES_OF_TILE(first_tile + tile, group, TILE_M);
#endif
        __global const scale_of_b* scales_b = SCALES_OF_B(first_k, first_n + panel * PANEL);
        __local float* to = totals + (panel * BLOCK_M + tile) * (TILE_M * PANEL);
#define ADD_GROUPS(rows, wide, column)                                                                                        \
  add_groups(rows, wide, codes + HOLDERS((column) * K_TOGETHER), values, scales_a, scales_b + (column), GLOBAL_OF_B, to + (column), \
             length, groups_here)
#ifdef GROUPED
        // Matrices have rows as it happens: a tile costs what its rows do. Where they are half a tile or fewer there are
        // registers for the whole panel.
        const int rows = here.end_row - here.first_row - tile * TILE_M;
#define HEIGHT(i)                                                                                             \
  if (rows == i + 1 && i + 1 < TILE_M) {                                                                      \
    const bool wide = TILE_N == 32 || 2 * (i + 1) <= TILE_M;                                                  \
    ADD_GROUPS(i + 1, wide, 0);                                                                               \
    if (!wide) ADD_GROUPS(i + 1, wide, 16);                                                                   \
    continue;                                                                                                 \
  }
        EACH_ROW(HEIGHT)
#endif
        for (int column = 0; column < PANEL; column += TILE_N) {
          ADD_GROUPS(TILE_M, TILE_N == 32, column);
        }
      }
    }
    for (int step = 0; step < tiles * TILE_M * panels; ++step) {
      const int panel = step % panels, of_block = step / panels;
      const int row = here.first_row + of_block, column = first_n + panel * PANEL;
      if (row >= here.end_row) break;
      __local float* from = totals + (panel * BLOCK_M * TILE_M + of_block) * PANEL;
#if SPLIT_K > 1
      const ulong scratch_row = (ulong)part * scratch_rows + (ulong)(first_tile * TILE_M + of_block);
      __global float* partial = scratch + scratch_at + scratch_row * (ulong)n_pad + (ulong)column;
      vstore16(vload16(0, from), 0, partial);
      vstore16(vload16(0, from + 16), 0, partial + 16);
#else
      const int end = min(PANEL, n - column);
      STORE_ROW(row, column, end, from, PANEL, PANEL * (BLOCK_M * TILE_M))
#endif
    }
  }
#if PERSISTENT_GROUPS > 0
  end_of_stretches(COUNTER);
#endif
}

// Work-group (panel, row): adds the parts of k of 32 columns of one row, the first part first. GROUPED: (panel, tile), all its rows.
#ifdef GROUPED
#define REDUCED TILE_M
#else
#define REDUCED 1
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_stream_reduce(GEMM_ARGS) {
  const int first_n = (int)get_group_id(0) * PANEL;
  if (first_n >= n) return;
  EACH_TILE(REDUCED) {
    const scheduled_tile here = TILE_HERE(REDUCED);
    const ulong bias_here = bias_at + (ulong)here.matrix * (ulong)n;
    for (int i = 0; i < min(REDUCED, here.end - here.first); ++i) {
      __global const float* partial =
          scratch + scratch_at + ((ulong)tile * REDUCED + (ulong)i) * (ulong)n_pad + (ulong)first_n;
      float16 low = vload16(0, partial), high = vload16(0, partial + 16);
      for (int part = 1; part < SPLIT_K; ++part) {
        partial += (ulong)tiles * REDUCED * (ulong)n_pad;
        low += vload16(0, partial);
        high += vload16(0, partial + 16);
      }
#ifdef ACTIVATION
      low = activated_16(bias, bias_here, n, OF_D(first_n), low, high);
#endif
      float sums[PANEL];
      vstore16(low, 0, sums);
      vstore16(high, 0, sums + 16);
      const int end = OF_D(min(PANEL, n - first_n));
      for (int j = 0; j < end; ++j) store_d(d, d_at, ldd, bias, bias_here, here.first + i, OF_D(first_n) + j, sums[j]);
    }
  }
}
