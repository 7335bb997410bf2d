// SPDX-License-Identifier: Apache-2.0
// gemm_stream_bf16.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for few rows, by the dot products of bf16 that x86 has
// on vectors (AVX512-BF16), g the K groups of GROUP.
// One work-item is a work-group and makes BLOCK_M tiles of TILE_M rows by 32 columns of D. 64 codes, two k of the 32 columns, become two
// vectors of pairs of bf16 by table look-up in registers (four permutations of bytes), and each row of the tile multiplies both. Of weights of
// four bits a word holds eight k of a column; a shift and one permutation of 16 bits make a pair of it, k and k + 4, for A lies so, too.
//                  32
//                +----+     With one tile the kernel is a stream of codes, each read once and decoded once: gemm_stream.cl with a third of
//          k     |B^T |     its instructions. gemm_bf16.cl decodes into local memory instead, for many rows.
//        +-----+ +----+     Scaled sums of the groups are kept in local memory. There is no slot to fill ahead: the next codes are
// TILE_M |  A  | | D  |     loaded while these are multiplied, by the core itself.
//        +-----+ +----+
// Tunable   default  values       meaning
// TILE_M    4        1 to 10      rows of the register tile
// BLOCK_M   1        1 to 8       tiles of rows per work-group
// Set by the host: those of register_tile.cl; DOT_PRODUCTS: the processor says that it has them (else the file is empty). PERSISTENT_GROUPS, for one
// tile of rows and no more K groups than it says: a work-group for each core stays and takes stretches of columns; scratch is their counter
// (stretches.cl). QUANTISE, then: a is floats, a_at elements on and lda apart, which each quantises once; those of quantizer.cl are set.
// A: tiles of TILE_M rows of bf16, as quantize_tiles and pack_tiles make them with TILE_FORM 3 (a_tiles.cl), with its scales.
// B: the 32 codes of columns 32 * p on and one k are at (p * k_pad + k) * 32; of four bits each, those of eight k (gemm_stream.cl).
// Local memory: BLOCK_M * TILE_M * 128 B = 512 B with the defaults; with PERSISTENT_GROUPS (GROUP * 2 + 4) * TILE_M * PERSISTENT_GROUPS + 512 B more.
#include "register_tile.cl"

#if PERSISTENT_GROUPS > 0
#include "stretches.cl"
#endif
#ifdef QUANTISE
#include "quantize_group.cl"
#define OF_A __local
#else
#define OF_A __global
#endif
#ifdef DOT_PRODUCTS
#define KIND 1
#include "dot_products.cl"

// Codes of one to three rows come as fast as memory gives them if the hardware alone fetches ahead, and a fetch into the first cache takes
// from its queue of misses; with more rows between two lines of codes the hardware falls behind: fetched so many bytes ahead, into the second.
// So it does with codes of four bits, twice as many to a line, which are used two lines at a time.
#if BITS_OF(B_TYPE) < 8
#define FETCH_CODES(rows, codes)       \
  PREFETCH_FAR((codes) + 8192);        \
  PREFETCH_FAR((codes) + 8192 + 64);
#else
#define CODES_AHEAD 4096
#define FETCH_CODES(rows, codes) \
  if ((rows) > 3) PREFETCH_FAR((codes) + CODES_AHEAD);
#endif
#define RUN_PAIRS (GROUP < 32 ? GROUP / 2 : 16)  // Pairs of k of a row of A that lie side by side: RUN of a_tiles.cl.
#define A_TILE (TILE_M * GROUP / 2)
// Sums of even and odd pairs apart where there are too few rows to hide the latency of a dot product.
#if TILE_M <= 2
#define SETS 2
#else
#define SETS 1
#endif

// K groups that are added at once: of narrow ones totals would else come and go as often as sums. Several tiles take turns while their codes
// are in the first cache; one tile need not.
#if GROUP < 128 && B_SCALE_COLS == GROUP && !defined(QUANTISE)
#define TOGETHER_K(tiles) (((tiles) == 1 ? 1024 : 128) / GROUP)
#define KEEPS_TOTALS 1
#else
#define TOGETHER_K(tiles) 1
#define KEEPS_TOTALS 0
#endif

// Scales that are bytes become floats in fewer instructions where none of those that are added at once is NaN, e8m0's smallest or negative,
// which are_quick() sees. They are in units of UNIT_OF_SCALES; D is multiplied by that and by the global scale at its end.
#if B_SCALE_TYPE == TYPE_E8M0
#define UNIT_OF_SCALES 1.0f
#define QUICK_SCALES_16(at) as_float16(convert_uint16(vload16(0, at)) << (uint16)(23))
#define CARE_OF(codes) ((uchar32)(254) - (codes))
#define MOST_QUICK 253
#elif B_SCALE_TYPE == TYPE_E4M3
#define UNIT_OF_SCALES UNIT_E4M3
#ifdef HALF_VECTORS
#define QUICK_SCALES_16(at) convert_halfs(convert_ushort16(vload16(0, at)) << (ushort16)(7))
#else
#define QUICK_SCALES_16(at) DECODE_WEIGHTS(TYPE_E4M3)(vload16(0, at))
#endif
#define CARE_OF(codes) (codes)
#define MOST_QUICK 0x7e  // Without a sign, too.
#endif
#ifdef UNIT_OF_SCALES
typedef uchar uchar32 __attribute__((ext_vector_type(32)));
static inline bool are_quick(__global const uchar* scales, int groups) {
  uchar32 most = (uchar32)(0);
  for (int group = 0; group < groups; ++group) {
    PREFETCH_FAR(scales + (group + 2 * groups) * PANEL);  // Of what is added after the next.
    const uchar32 care = CARE_OF(*(__global const uchar32*)(scales + group * PANEL));
    most = care > most ? care : most;
  }
  const uchar16 of_16 = max(most.lo, most.hi);
  const uchar8 of_8 = max(of_16.lo, of_16.hi);
  const uchar4 of_4 = max(of_8.lo, of_8.hi);
  return max(max(of_4.x, of_4.y), max(of_4.z, of_4.w)) <= MOST_QUICK;
}
#else
#define UNIT_OF_SCALES 1.0f
#define QUICK_SCALES_16(at) SCALES_16(at, 1.0f)
#define are_quick(scales, groups) true
#endif

#ifdef A_UNSCALED
#define SCALED_BY_A(sum, i) (sum)
#else
#define SCALED_BY_A(sum, i) ((sum) * (float16)(scales_a[i]))
#endif

/// Adds `groups` K groups, `length` pairs of k in all, to the totals of a tile, in units of UNIT_OF_SCALES: its first `rows` rows, a literal, so
/// that each height has a loop of its own. A row's bits do not depend on it. quick: no scale of B needs care. next_a: from a group's pairs
/// to the next one's.
static inline __attribute__((always_inline)) void add_groups(const int rows, __global const uchar* codes, OF_A const uint* pairs,
                                                             OF_A const float* scales_a, __global const scale_of_b* scales_b,
                                                             bool quick, __local float* to, int length, int groups, ulong next_a,
                                                             const code_table* table) {
#if KEEPS_TOTALS
#define TOTALS_OF_ROW(i) float16 total_low_##i = vload16(0, to + i * PANEL), total_high_##i = vload16(1, to + i * PANEL);
  EACH_ROW(TOTALS_OF_ROW)
#define TOTAL_LOW(i) total_low_##i
#define TOTAL_HIGH(i) total_high_##i
#else
#define TOTAL_LOW(i) *(__local float16*)(to + i * PANEL)
#define TOTAL_HIGH(i) *(__local float16*)(to + i * PANEL + 16)
#endif
  for (int group = 0; group < groups; ++group) {
#define DECLARE_ROW(i) float16 low_##i = (float16)(0.0f), high_##i = (float16)(0.0f);
    EACH_ROW(DECLARE_ROW)
#define DECLARE_ODD_ROW(i) float16 odd_low_##i = (float16)(0.0f), odd_high_##i = (float16)(0.0f);
    EACH_ROW(DECLARE_ODD_ROW)
    const int in_group = min(GROUP / 2, length - group * (GROUP / 2));
    OF_A const uint* run = pairs;
    for (int chunk = 0; chunk < in_group; chunk += RUN_PAIRS) {
      // An end that the compiler cannot count to, so that it adds to pointers and does not index: gemm_stream.cl.
      OF_A const uint* end = run + min(RUN_PAIRS, in_group - chunk);
#if BITS_OF(B_TYPE) < 8
      // A word is eight k of a column: four pairs.
      for (OF_A const uint* at = run; at < end; at += 4) {
        FETCH_CODES(rows, codes)
        const uint16 low_words = *(__global const uint16*)codes, high_words = *(__global const uint16*)(codes + 64);
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          const uint16 b_low = decode_pairs(low_words >> (uint16)((uint)(4 * pair)), table);
          const uint16 b_high = decode_pairs(high_words >> (uint16)((uint)(4 * pair)), table);
#define MULTIPLY_PAIR(i)                                                            \
  if (i < rows) {                                                                   \
    const uint16 a_##i = (uint16)(at[i * RUN_PAIRS + pair]);                        \
    float16* const low = SETS == 2 && pair % 2 == 1 ? &odd_low_##i : &low_##i;      \
    float16* const high = SETS == 2 && pair % 2 == 1 ? &odd_high_##i : &high_##i;   \
    *low = dot_product(*low, b_low, a_##i);                                         \
    *high = dot_product(*high, b_high, a_##i);                                      \
  }
          EACH_ROW(MULTIPLY_PAIR)
        }
        codes += 4 * PANEL;
      }
#else
      for (OF_A const uint* at = run; at < end; at += SETS) {
        FETCH_CODES(rows, codes)
        const decoded_row b = decode_columns(codes, table);
#define MULTIPLY(i)                                        \
  if (i < rows) {                                          \
    const uint16 a_##i = (uint16)(at[i * RUN_PAIRS]);      \
    low_##i = dot_product(low_##i, b.low, a_##i);          \
    high_##i = dot_product(high_##i, b.high, a_##i);       \
  }
        EACH_ROW(MULTIPLY)
        codes += 2 * PANEL;
#if SETS == 2
        FETCH_CODES(rows, codes)
        const decoded_row odd_b = decode_columns(codes, table);
#define MULTIPLY_ODD(i)                                              \
  if (i < rows) {                                                    \
    const uint16 odd_a_##i = (uint16)(at[i * RUN_PAIRS + 1]);        \
    odd_low_##i = dot_product(odd_low_##i, odd_b.low, odd_a_##i);    \
    odd_high_##i = dot_product(odd_high_##i, odd_b.high, odd_a_##i); \
  }
        EACH_ROW(MULTIPLY_ODD)
        codes += 2 * PANEL;
#endif
      }
#endif
      run += TILE_M * RUN_PAIRS;
    }
#if SETS == 2
#define JOIN_SETS(i)      \
  low_##i += odd_low_##i; \
  high_##i += odd_high_##i;
    EACH_ROW(JOIN_SETS)
#endif
    float16 scale_low = QUICK_SCALES_16(scales_b), scale_high = QUICK_SCALES_16(scales_b + 16);
    if (!quick) scale_low = SCALES_16(scales_b, 1.0f / UNIT_OF_SCALES), scale_high = SCALES_16(scales_b + 16, 1.0f / UNIT_OF_SCALES);
#define ADD(i)                                                                       \
  if (i < rows) {                                                                    \
    TOTAL_LOW(i) = MUL_ADD(SCALED_BY_A(low_##i, i), scale_low, TOTAL_LOW(i));        \
    TOTAL_HIGH(i) = MUL_ADD(SCALED_BY_A(high_##i, i), scale_high, TOTAL_HIGH(i));    \
  }
    EACH_ROW(ADD)
    pairs += next_a;
    scales_a += TILE_M;
    scales_b += PANEL;
  }
#if KEEPS_TOTALS
#define STORE_TOTALS(i)                            \
  if (i < rows) {                                  \
    vstore16(total_low_##i, 0, to + i * PANEL);    \
    vstore16(total_high_##i, 1, to + i * PANEL);   \
  }
  EACH_ROW(STORE_TOTALS)
#endif
}

#ifdef QUANTISE
// In the order of a_tiles.cl.
#if BITS_OF(B_TYPE) < 8
#define PAIRS_OF_16(halves) as_uint8(PAIRS_APART_16(halves))
#else
#define PAIRS_OF_16(halves) as_uint8(halves)
#endif
/// A K group of `rows` rows as a tile of pairs, by way of `row`, and a scale for each.
static inline void quantise_tile(__local uint* tile, __local float* scales, __local float* row, int rows, __global const uchar* x,
                                 ulong x_at, ulong ldx, int first_k, int count, int padded) {
  for (int i = 0; i < rows; ++i) {
    scales[i] = quantise_group(row, 16, x, x_at + (ulong)i * ldx + (ulong)first_k, count, padded);
    // What a code stands for is exact in bf16, the upper half of an f32.
    for (int j = 0; j < padded / 16; ++j) {
      const ushort16 halves = convert_ushort16(as_uint16(vload16(j, row)) >> (uint16)(16));
      vstore8(PAIRS_OF_16(halves), 0, tile + (j / 2 * TILE_M + i) * RUN_PAIRS + j % 2 * 8);
    }
  }
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) WIDE_VECTORS
void gemm_stream_bf16(GEMM_ARGS) {
  __local float totals[BLOCK_M * TILE_M * PANEL] __attribute__((aligned(64)));
#ifdef QUANTISE
  __local uint kept[PERSISTENT_GROUPS * A_TILE] __attribute__((aligned(64)));
  __local float kept_scales[PERSISTENT_GROUPS * TILE_M], row[GROUP] __attribute__((aligned(64)));
#endif
  const code_table table = make_code_table();
  const int columns = (n + PANEL - 1) / PANEL;
#if PERSISTENT_GROUPS > 0
  if (m == 0) return;
  stretch taken = take_stretch(COUNTER, (uint)columns);
#ifdef QUANTISE
  for (int first_k = 0; first_k < k && taken.first < taken.end; first_k += GROUP) {
    const int group = first_k / GROUP;
    quantise_tile(kept + group * A_TILE, kept_scales + group * TILE_M, row, m, a, a_at, lda, first_k, min(GROUP, k - first_k),
                  min(GROUP, k_pad - first_k));
  }
#endif
  EACH_COLUMN_FROM(taken, columns)
#else
  EACH_UNIT(columns)
#endif
  {
#ifdef GROUPED
    const scheduled_block here = block_of(scheduled, work, columns);
    const ulong all_tiles = (ulong)scheduled[SCHEDULED_TILES];
#elif PERSISTENT_GROUPS > 0
    const ulong all_tiles = 1;
    const scheduled_block here = {0, 0, m, 0, 1, (int)column, TILE_M};
#else
    const ulong all_tiles = (ulong)((m + TILE_M - 1) / TILE_M);
    const int of_block = (int)get_group_id(0) * BLOCK_M;
    const scheduled_block here = {0, of_block * TILE_M, m, of_block, min(BLOCK_M, (int)all_tiles - of_block), (int)get_group_id(1),
                              TILE_M};
    if (here.tiles <= 0 || here.column >= columns) return;
#endif
    OF_MATRIX(here)
    const int first_n = here.column * PANEL;
    const int groups = (k + GROUP - 1) / GROUP;
    for (int i = 0; i < here.tiles * TILE_M * PANEL; i += 16) vstore16((float16)(0.0f), 0, totals + i);
    const int together = TOGETHER_K(here.tiles);
    for (int group = 0; group < groups; group += together) {
      const int first_k = group * GROUP, length = min(together * GROUP, k_pad - first_k) / 2, groups_here = min(together, groups - group);
      __global const uchar* codes = b_here + HOLDERS((ulong)first_n * (ulong)k_pad + (ulong)first_k * PANEL);
      __global const scale_of_b* scales_b = SCALES_OF_B(first_k, first_n);
      PREFETCH(scales_b + 16 * PANEL);
      const bool quick = are_quick(scales_b, groups_here);
#ifdef QUANTISE
      __local const uint* pairs = kept + group * A_TILE;
      __local const float* scales_a = kept_scales + group * TILE_M;
#else
      __global const uint* pairs =
          (__global const uint*)(a + a_at * ELEMENT_BYTES) + ((ulong)group * all_tiles + (ulong)here.first_tile) * A_TILE;
      __global const float* scales_a = SCALES_OF_TILE(here.first_tile, group, TILE_M);
#endif
      __local float* to = totals;
      for (int tile = 0; tile < here.tiles; ++tile) {
#define ADD_GROUP(rows)                                                                                                            \
  add_groups(rows, codes, pairs, scales_a, scales_b, quick, to, length, groups_here, all_tiles * A_TILE, &table)
        ADD_ITS_ROWS(min(here.height, here.end_row - here.first_row - tile * here.height))
        pairs += A_TILE;
        scales_a += sa_ld * TILE_M;
        to += TILE_M * PANEL;
      }
    }
    const int end = min(PANEL, n - first_n);
    for (int tile = 0; tile < here.tiles; ++tile) {
      const int first_row = here.first_row + tile * here.height, rows = min(here.height, here.end_row - first_row);
      for (int i = 0; i < rows; ++i) {
#if B_SCALE_TYPE != TYPE_F32
        for (int j = (tile * TILE_M + i) * PANEL, row_end = j + PANEL; j < row_end; j += 16)
          *(__local float16*)(totals + j) *= (float16)(UNIT_OF_SCALES * GLOBAL_OF_B);
#endif
        STORE_ROW(first_row + i, first_n, end, totals + (tile * TILE_M + i) * PANEL, PANEL, 0)
      }
    }
  }
#if PERSISTENT_GROUPS > 0
  end_of_stretches(COUNTER);
#endif
}
#endif
