// SPDX-License-Identifier: Apache-2.0
// gemm_panel.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k], g the K groups of GROUP.
// One work-item is a work-group and makes BLOCK_M tiles of TILE_M rows by BLOCK_N columns of D, in vectors of VECTOR.
//                     BLOCK_N
//                 +--+--+--+--+     For each K group the panels of 32 columns are decoded into one of two slots of
//         GROUP   |  |B^T  |  |     local memory; the next group's panels are decoded into the other slot, a share
//        +------+ +--+--+--+--+     before each tile of rows. A tile of TILE_M x TILE_N stays in registers through a
// TILE_M |  A   | |  |  D  |  |     group; its scaled sums are kept in local memory until the last group is added.
//        +------+ +--+--+--+--+
// Tunable   default  values       meaning
// TILE_M    8        1 to 16      rows of the register tile
// TILE_N    32       16 32        columns of the register tile; divides 32
// BLOCK_M   16       1 to 32      tiles of rows per work-group
// BLOCK_N   64       32 to 384    columns of D per work-group
// VECTOR    16       4 8 16       f32 elements of a vector
// Set by the host: those of register_tile.cl.
// A: f32 in tiles of TILE_M rows, as pack_tiles makes it, with its scales; sa_ld is the number of K groups.
// B: the 32 codes of columns 32 * p on and one k are at (p * k_pad + k) * 32, counted in codes; of four bits each, those of eight k.
// Local memory: (2 * GROUP * BLOCK_N + BLOCK_M * TILE_M * BLOCK_N) * 4 B = 98304 B with the defaults.
// Origin: register tiles and cache blocks after BLIS; the decoded panel takes the place of its packed B.
#include "register_tile.cl"

#define PANELS (BLOCK_N / PANEL)
#define VECTORS (TILE_N / VECTOR)

#define floatv JOIN(float, VECTOR)
#define vloadv JOIN(vload, VECTOR)

// EACH_PART(X, i) is X(i, 0) ... X(i, VECTORS - 1).
#if VECTORS == 1
#define EACH_PART(X, i) X(i, 0)
#elif VECTORS == 2
#define EACH_PART(X, i) X(i, 0) X(i, 1)
#elif VECTORS == 4
#define EACH_PART(X, i) X(i, 0) X(i, 1) X(i, 2) X(i, 3)
#else
#define EACH_PART(X, i) X(i, 0) X(i, 1) X(i, 2) X(i, 3) X(i, 4) X(i, 5) X(i, 6) X(i, 7)
#endif

// Decodes the rows [first, end) of k of one panel, both multiples of K_TOGETHER, and fetches those of the next K group.
static inline void decode_panel(__local float* slot, __global const weight* codes, int first, int end) {
  for (int kk = first; kk < end; kk += K_TOGETHER) {
    PREFETCH_FAR(codes + HOLDERS((kk + GROUP) * PANEL));
    LOAD_WEIGHTS(low, codes + HOLDERS(kk * PANEL));
    LOAD_WEIGHTS(high, codes + HOLDERS(kk * PANEL + 16 * K_TOGETHER));
    __local float16* to = (__local float16*)(slot + kk * PANEL);
#pragma unroll
    for (int j = 0; j < K_TOGETHER; ++j) {
      to[2 * j] = WEIGHT(low, j);
      to[2 * j + 1] = WEIGHT(high, j);
    }
  }
}

#if BITS_OF(B_TYPE) >= 8
#define OF_SCALES_B __global
#define HERE_SCALES_B(column) SCALES_OF_B(first_k, first_n + (column))
#else
#define OF_SCALES_B
#define HERE_SCALES_B(column) (scales_b + (column))
#endif

/// Adds a K group of `length` k to the totals of a tile, or begins them: its first `rows` rows, a literal, by TILE_N columns. With
/// rows_ahead below TILE_M, rows_ahead and every panels-th row after it are fetched for the next K group.
static inline __attribute__((always_inline)) void add_group(const int rows, __global const float* tile_a, __local const float* at_b,
                                                            __global const float* scales_a, OF_SCALES_B const float* scales_b,
                                                            __local float* tile_totals, int length, bool first, int rows_ahead,
                                                            int panels) {
#define DECLARE(i, v) floatv sum_##i##_##v = (floatv)(0.0f);
#define DECLARE_ROW(i) EACH_PART(DECLARE, i)
  EACH_ROW(DECLARE_ROW)
  for (int chunk = 0; chunk < length; chunk += 16) {
    for (int row = rows_ahead; row < TILE_M; row += panels) {
      PREFETCH_FAR(tile_a + (GROUP * TILE_M + row * 16));
    }
    // An end that the compiler cannot count to, so that it adds to pointers and does not index: gemm_stream.cl.
    __global const float* end_a = tile_a + min(16, length - chunk);
    for (__global const float* at_a = tile_a; at_a < end_a; ++at_a) {
#define LOAD_B(i, v) const floatv b_##v = vloadv(0, at_b + v * VECTOR);
      EACH_PART(LOAD_B, 0)
#define MULTIPLY(i, v) \
  if (i < rows) sum_##i##_##v = MUL_ADD((floatv)(at_a[i * 16]), b_##v, sum_##i##_##v);
#define MULTIPLY_ROW(i) EACH_PART(MULTIPLY, i)
      EACH_ROW(MULTIPLY_ROW)
      at_b += PANEL;
    }
    tile_a += TILE_M * 16;
  }
#define LOAD_SCALE(i, v) const floatv scale_##v = vloadv(0, scales_b + v * VECTOR);
  EACH_PART(LOAD_SCALE, 0)
#define SCALED(i, v) (IN_UNITS_OF_ONE(sum_##i##_##v) * (floatv)(scales_a[i]))
#define TOTAL(i, v) (*(__local floatv*)(tile_totals + i * TILE_N + v * VECTOR))
#define ADD_FIRST(i, v) \
  if (i < rows) TOTAL(i, v) = SCALED(i, v) * scale_##v;
#define ADD_FIRST_ROW(i) EACH_PART(ADD_FIRST, i)
#define ADD(i, v) \
  if (i < rows) TOTAL(i, v) = MUL_ADD(SCALED(i, v), scale_##v, TOTAL(i, v));
#define ADD_ROW(i) EACH_PART(ADD, i)
  if (first) {
    EACH_ROW(ADD_FIRST_ROW)
  } else {
    EACH_ROW(ADD_ROW)
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) WIDE_VECTORS
void gemm_panel(GEMM_ARGS) {
  __local float slots[2][PANELS * GROUP * PANEL] __attribute__((aligned(64)));
  __local float totals[BLOCK_M * TILE_M * BLOCK_N] __attribute__((aligned(64)));
  const ulong tile_stride = lda * TILE_M, scales_stride = sa_ld * TILE_M;
  const int columns = (n + BLOCK_N - 1) / BLOCK_N;
  EACH_UNIT(columns) {
    BLOCK_HERE(TILE_M, columns)
    OF_MATRIX(here)
    const int first_n = here.column * BLOCK_N, first_tile = here.first_tile, tiles = here.tiles;
    const int panels = min(PANELS, (n - first_n + PANEL - 1) / PANEL);
    const int groups = (k + GROUP - 1) / GROUP;
    __global const weight* block_b = (__global const weight*)b_here + HOLDERS((ulong)first_n * (ulong)k_pad);

    for (int p = 0; p < panels; ++p) {
      decode_panel(slots[0] + p * GROUP * PANEL, block_b + HOLDERS((ulong)p * (ulong)k_pad * PANEL), 0, min(GROUP, k_pad));
    }
    for (int group = 0; group < groups; ++group) {
      const int first_k = group * GROUP;
      const int length = min(GROUP, k_pad - first_k);
      const int next_length = clamp(k_pad - first_k - GROUP, 0, GROUP);
      __local const float* slot = slots[group & 1];
      __local float* next_slot = slots[(group & 1) ^ 1];
      // The next group is decoded in shares between the register tiles of this one.
      const int shares = tiles * (PANEL / TILE_N) * K_TOGETHER;
      const int share = (next_length + shares - 1) / shares * K_TOGETHER;
#if BITS_OF(B_TYPE) < 8
      float scales_b[BLOCK_N];
      for (int i = 0; i < panels * PANEL; i += 16) vstore16(SCALES_16(SCALES_OF_B(first_k, first_n + i), GLOBAL_OF_B), 0, scales_b + i);
#endif
      __global const float* group_a = (__global const float*)a + a_at + ((ulong)first_tile * lda + (ulong)first_k) * TILE_M;
      __global const float* group_scales = SCALES_OF_TILE(first_tile, group, TILE_M);
      for (int column = 0; column < panels * PANEL; column += TILE_N) {
        const int panel = column / PANEL;
        __local const float* part_b = slot + panel * (GROUP * PANEL) + column % PANEL;
        __local float* next_panel = next_slot + panel * (GROUP * PANEL);
        __global const weight* next_codes =
            block_b + HOLDERS(((ulong)panel * (ulong)k_pad + (ulong)(first_k + GROUP)) * PANEL);
        int decoded = (column % PANEL / TILE_N) * tiles * share;
        __global const float *next_tile = group_a, *scales_a = group_scales;
        __local float* tile_totals = totals + column * (BLOCK_M * TILE_M);
        for (int tile = 0; tile < tiles; ++tile) {
          decode_panel(next_panel, next_codes, min(decoded, next_length), min(decoded + share, next_length));
          decoded += share;
          // What this tile needs in the next K group is fetched a share from each panel's pass.
          const int rows_ahead = next_length > 0 ? panel : TILE_M;
#define ADD_GROUP(rows) \
  add_group(rows, next_tile, part_b, scales_a, HERE_SCALES_B(column), tile_totals, length, group == 0, rows_ahead, panels)
#ifdef GROUPED
          // The last tile of a matrix has rows as it happens, and costs about what they do; packing has filled it with zeros.
          const int height = here.end_row - here.first_row - tile * TILE_M;
          if (height <= (TILE_M + 3) / 4) {
            ADD_GROUP((TILE_M + 3) / 4);
          } else if (height <= (TILE_M + 1) / 2) {
            ADD_GROUP((TILE_M + 1) / 2);
          } else if (height <= (3 * TILE_M + 3) / 4) {
            ADD_GROUP((3 * TILE_M + 3) / 4);
          } else
#endif
          {
            ADD_GROUP(TILE_M);
          }
          if (group + 1 == groups) {  // Its way to memory passes while the next tile is multiplied.
            const int first_row = here.first_row + tile * TILE_M;
            const int rows = min(TILE_M, here.end_row - first_row), end = min(TILE_N, n - first_n - column);
            for (int i = 0; i < rows; ++i) {
              STORE_ROW(first_row + i, first_n + column, end, tile_totals + i * TILE_N, TILE_N, TILE_N * (BLOCK_M * TILE_M))
            }
          }
          next_tile += tile_stride;
          scales_a += scales_stride;
          tile_totals += TILE_N * TILE_M;
        }
      }
    }
  }
}
