// SPDX-License-Identifier: Apache-2.0
// gemm_bf16.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] by the dot products of bf16 and of bytes that x86 has on
// vectors (AVX512-BF16, VNNI), g the K groups of GROUP.
// One work-item is a work-group and makes BLOCK_M tiles of TILE_M rows by BLOCK_N columns of D.
//                     BLOCK_N
//                 +--+--+--+--+     A panel of 32 columns and a K group is decoded into one of two slots of local memory, as pairs of bf16
//         GROUP   |  |B^T  |  |     (int8: as fours of bytes); the next panel in turn is decoded into the other slot, a few rows after
//        +------+ +--+--+--+--+     each chunk of k. A tile of TILE_M x 32 stays in registers through a group, products of bf16 being exact
// TILE_M |  A   | |  |  D  |  |     and sums f32 (int8: s32); its scaled sums are kept in local memory until the last group is added.
//        +------+ +--+--+--+--+     Both slots, a tile of A and its totals stay in the first cache.
// Tunable   default  values       meaning
// TILE_M    8        1 to 14      rows of the register tile
// BLOCK_M   16       1 to 32      tiles of rows per work-group
// BLOCK_N   64       32 to 384    columns of D per work-group
// FLOATS    0        0 1          1: floats that are to be quantised are taken as they are, where their groups are K groups
// Set by the host: those of register_tile.cl, LAST_ROWS among them; DOT_PRODUCTS: the processor says that it has them (else the file is empty).
// QUANTISE: a is such floats, a_at elements on and lda apart, and those of quantizer.cl are set; one_launch.cl says who quantises what.
// A_TYPE is 3 (bf16: codes decoded, or floats) or 7.
// A: tiles of TILE_M rows, as quantize_tiles and pack_tiles make them with TILE_FORM 3 or 7 (a_tiles.cl), with its scales.
// B: the 32 codes of columns 32 * p on and one k are at (p * k_pad + k) * 32.
// Local memory: 64 * GROUP * bytes + BLOCK_M * TILE_M * BLOCK_N * 4 + 256 B, bytes 2 (bf16) or 1 (int8): = 49408 B with the defaults.
// Origin: gemm_panel.cl; bytes by table look-up and by adding 128 after oneDNN's kernels for the same instructions.
#include "register_tile.cl"

#ifdef DOT_PRODUCTS
#if B_TYPE == TYPE_I8
#define KIND 2
#define A_TYPE_OF_TILES 7
#else
#define KIND 1
#define A_TYPE_OF_TILES 3
#endif
#include "dot_products.cl"

#define TILE_ROWS TILE_M
#define SPLIT_K 1
#include "one_launch.cl"

#define PANELS (BLOCK_N / PANEL)
#define ROWS_OF_SLOT (GROUP / K_OF_ROW)
#define SLOT_ROW PANEL                        // 32-bit elements of a row of a panel.
#define SLOT (ROWS_OF_SLOT * SLOT_ROW)        // And of a panel.
// Elements of 32 bits of a row of A that lie side by side: RUN of a_tiles.cl.
#if KIND == 2 && GROUP < 64
#define RUN_ELEMENTS 8
#else
#define RUN_ELEMENTS 16
#endif
#define A_TILE (TILE_M * GROUP / K_OF_ROW)    // Elements of a tile of rows through a K group.
#define CODES_AHEAD (GROUP * PANEL)
#define FEW_TILES 3                           // Codes are what these wait for; their A is in the second cache anyway.

/// A panel that is decoded beside the products of the one before it, a few rows after each chunk of a tile: more of them at once would keep
/// the next products out of the core's queues. Its codes come from memory in the same way, a few lines at a time: a burst would fill the
/// queue of misses, and products would wait.
typedef struct {
  __global const uchar *codes, *ahead;    // Of the next row; of what is to be fetched, which is the panel behind this one.
  __local uint* slot;                     // The next row's place.
  __local dot_sums* offsets;              // KIND 2, of the rows so far: dot_products.cl.
  int rows, rows_at_once, lines_at_once;  // Left; decoded after a chunk; cache lines fetched before one.
} next_panel;

/// `rows` rows that are to be decoded within `chunks` chunks of products.
static inline __attribute__((always_inline)) next_panel begin_panel(__global const uchar* codes, __local uint* slot,
                                                                    __local dot_sums* offsets, int rows, int chunks) {
#if KIND == 2
  offsets[0] = offsets[1] = (dot_sums)(0);
#endif
  const next_panel next = {codes, codes + CODES_AHEAD, slot, offsets,
                           rows,  (rows + chunks - 1) / chunks, (CODES_AHEAD / 64 + chunks - 1) / chunks};
  return next;
}

static inline __attribute__((always_inline)) void decode_rows(next_panel* next, const code_table* table) {
#if KIND == 2
  dot_sums offsets[2] = {next->offsets[0], next->offsets[1]};
#else
  dot_sums* offsets = 0;
#endif
  for (int i = min(next->rows_at_once, next->rows); i > 0; --i) {
    __asm__("" : "+r"(table));  // Read for each row: in registers for longer it would turn sums out of these.
    decode_row(next->slot, next->codes, table, offsets);
    next->slot += SLOT_ROW;
    next->codes += K_OF_ROW * PANEL;
  }
  next->rows -= next->rows_at_once;
#if KIND == 2
  next->offsets[0] = offsets[0];
  next->offsets[1] = offsets[1];
#endif
}

// Sums of products and scales are rounded before they are added: a fused operation and the store after it want the same port of the core,
// and additions are the only ones that no dot product waits for.
#pragma OPENCL FP_CONTRACT OFF

/// Multiplies `length` rows of a slot with the first `rows` rows, a literal, of a tile of A, from first_0 and first_1 on, and adds the scaled
/// sums to the tile's totals, or begins these. Beside that A is fetched, the next tile into the second cache and the next chunk into the
/// first, where `a_ahead` is RUN_ELEMENTS, not 0. A row's bits do not depend on `rows`.
static inline __attribute__((always_inline)) void add_group(const int rows, __global const uint* tile_a, __local const uint* at_b,
                                                            int length, dot_sums first_0, dot_sums first_1,
                                                            __global const float* scales_a, float16 scale_0, float16 scale_1,
                                                            __local float* tile_totals, bool is_first, int a_ahead, next_panel* next,
                                                            const code_table* table) {
#define DECLARE(i) dot_sums sum_##i##_0 = first_0, sum_##i##_1 = first_1;
  EACH_ROW(DECLARE)
  for (int chunk = 0; chunk < length; chunk += RUN_ELEMENTS) {
    if (a_ahead == 0) {
      for (int i = 0; i < next->lines_at_once; ++i) PREFETCH(next->ahead + i * 64);
    } else {
      for (int i = 0; i < next->lines_at_once; ++i) PREFETCH_FAR(next->ahead + i * 64);
    }
    next->ahead += next->lines_at_once * 64;
    __global const uint* near = tile_a + TILE_M * RUN_ELEMENTS;
    // An end that the compiler cannot count to, so that it adds to pointers and does not index: gemm_stream.cl.
    __global const uint* end_a = tile_a + min(RUN_ELEMENTS, length - chunk);
    for (__global const uint* at_a = tile_a; at_a < end_a; ++at_a) {
      PREFETCH(near);
      PREFETCH_FAR(near + A_TILE);
      near += a_ahead;
      const uint16 b_0 = ((__local const uint16*)at_b)[0], b_1 = ((__local const uint16*)at_b)[1];
#define MULTIPLY(i)                                                          \
  if (i < rows) {                                                            \
    sum_##i##_0 = dot_product_at(sum_##i##_0, b_0, at_a + i * RUN_ELEMENTS); \
    sum_##i##_1 = dot_product_at(sum_##i##_1, b_1, at_a + i * RUN_ELEMENTS); \
  }
      EACH_ROW(MULTIPLY)
      at_b += SLOT_ROW;
    }
    tile_a += TILE_M * RUN_ELEMENTS;
    decode_rows(next, table);
  }
#define SCALED(i, v) (SUMS_AS_FLOATS(sum_##i##_##v) * (float16)(scales_a[i]))
#define TOTAL(i, v) (((__local float16*)(tile_totals + i * PANEL))[v])
#define ADD_FIRST(i)                      \
  if (i < rows) {                         \
    TOTAL(i, 0) = SCALED(i, 0) * scale_0; \
    TOTAL(i, 1) = SCALED(i, 1) * scale_1; \
  }
#define ADD(i)                                          \
  if (i < rows) {                                       \
    TOTAL(i, 0) = SCALED(i, 0) * scale_0 + TOTAL(i, 0); \
    TOTAL(i, 1) = SCALED(i, 1) * scale_1 + TOTAL(i, 1); \
  }
  if (is_first) {
    EACH_ROW(ADD_FIRST)
  } else {
    EACH_ROW(ADD)
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) WIDE_VECTORS
void gemm_bf16(GEMM_ARGS) {
  __local uint slots[2][SLOT] __attribute__((aligned(64)));
  __local dot_sums offsets[2][2];
  __local float totals[BLOCK_M * TILE_M * BLOCK_N] __attribute__((aligned(64)));
  const code_table table = make_code_table();
  const int columns = (n + BLOCK_N - 1) / BLOCK_N;
  EACH_UNIT(columns) {
    BLOCK_HERE(TILE_M, columns)
    OF_MATRIX(here)
    const int first_n = here.column * BLOCK_N, first_tile = here.first_tile, tiles = here.tiles;
    const int panels = min(PANELS, (n - first_n + PANEL - 1) / PANEL);
    const int groups = (k + GROUP - 1) / GROUP;
    __global const uchar* block_b = b_here + (ulong)first_n * (ulong)k_pad;

    int turn = 0;
    next_panel next = begin_panel(block_b, slots[0], offsets[0], min(GROUP, k_pad) / K_OF_ROW, 1);
    decode_rows(&next, &table);
    for (int group = 0; group < groups; ++group) {
      const int first_k = group * GROUP;
      const int length = min(GROUP, k_pad - first_k) / K_OF_ROW;
      __global const uint* group_a =
          (__global const uint*)(a + a_at * ELEMENT_BYTES) + ((ulong)group * all_tiles + (ulong)first_tile) * A_TILE;
      __global const float* group_scales = SCALES_OF_TILE(first_tile, group, TILE_M);
      for (int panel = 0; panel < panels; ++panel, ++turn) {
        // The next panel in turn, of this group or the first of the next, is decoded beside the products of this one.
        const int next_column = panel + 1 < panels ? panel + 1 : 0, next_k = panel + 1 < panels ? first_k : first_k + GROUP;
        const int next_length = clamp(k_pad - next_k, 0, GROUP) / K_OF_ROW;
        const int chunks = tiles * ((length + RUN_ELEMENTS - 1) / RUN_ELEMENTS), other = (turn & 1) ^ 1;
        next = begin_panel(block_b + ((ulong)next_column * (ulong)k_pad + (ulong)next_k) * PANEL, slots[other], offsets[other],
                           next_length, chunks);
        __local const uint* slot = slots[turn & 1];
        __global const float* scales_b = SCALES_OF_B(first_k, first_n + panel * PANEL);
        const float16 scale_0 = vload16(0, scales_b), scale_1 = vload16(1, scales_b);
#if KIND == 2
        const dot_sums first_0 = -offsets[turn & 1][0], first_1 = -offsets[turn & 1][1];
#else
        const dot_sums first_0 = (dot_sums)(0), first_1 = (dot_sums)(0);
#endif
        __global const uint* next_tile = group_a;
        __global const float* scales_a = group_scales;
        __local float* tile_totals = totals + panel * (BLOCK_M * TILE_M * PANEL);
        for (int tile = 0; tile < tiles; ++tile) {
#define ADD_GROUP(rows)                                                                                                                 \
  add_group(rows, next_tile, slot, length, first_0, first_1, scales_a, scale_0, scale_1, tile_totals, group == 0,                       \
            tiles <= FEW_TILES ? 0 : RUN_ELEMENTS, &next, &table)
          ADD_ITS_ROWS(min(here.height, here.end_row - here.first_row - tile * here.height))
          if (group + 1 == groups) {  // Its way to memory passes while the next tile is multiplied.
            const int first_row = here.first_row + tile * here.height, column = first_n + panel * PANEL;
            const int rows = min(here.height, here.end_row - first_row), end = min(PANEL, n - column);
            for (int i = 0; i < rows; ++i) {
              STORE_ROW(first_row + i, column, end, tile_totals + i * PANEL, PANEL, BLOCK_M * TILE_M * PANEL)
            }
          }
          next_tile += A_TILE;
          scales_a += sa_ld * TILE_M;
          tile_totals += PANEL * TILE_M;
        }
      }
    }
  }
}
#endif
