// SPDX-License-Identifier: Apache-2.0
// gemm_amx.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] on the tiles of x86 (AMX), g the K groups of GROUP.
// One work-item is a work-group and makes BLOCK_M tiles of 16 rows by BLOCK_N columns of D, in units of 64.
//                       BLOCK_N
//                 +--+--+--+--+     The codes of a unit and a K group are decoded into one of two slots of local memory, as tiles of
//         GROUP   |  |B^T  |  |     bf16 pairs (int8: of fours); the next unit in turn is decoded into the other slot, a share at
//        +------+ +--+--+--+--+     each step. Blocks of 2 x 2 tiles are summed through a group: products of bf16 are exact, sums
//    16  |  A   | |  |  D  |  |     are f32 (int8: s32). While a block is multiplied, the sums of the one before are scaled and
//        +------+ +--+--+--+--+     added to totals in local memory: vector work beside tile work.
// Tunable   default  values              meaning
// BLOCK_M   8        1 to 32             tiles of 16 rows per work-group
// BLOCK_N   128      64 128 256 384 512  columns of D per work-group
// Set by the host: those of tile.cl; AMX: the device was seen to give the right numbers with tiles (else the file is empty).
// A_TYPE is 3 (bf16: codes decoded, or floats) or 7.
// A: groups of tiles, as quantize_tiles and pack_tiles make them with TILE 16 and TILE_FORM 3 or 7 (a_tiles.cl), with its scales and
// the count of blocks taken.
// B: the 32 codes of columns 32 * p on and one k are at (p * k_pad + k) * 32.
// Local memory: 128 * GROUP * bytes + BLOCK_M * BLOCK_N * 64 + 4608 B, bytes 2 (bf16) or 1 (int8): = 102912 B with the defaults.
// Origin: two by two tiles after Intel's optimisation manual and oneDNN; decoding beside multiplying is gemm_panel's.
#define TAKEN ((volatile __global uint*)(sa + sa_at + (ulong)((m + TILE_ROWS - 1) / TILE_ROWS) * sa_ld * TILE_ROWS))
#include "tile.cl"

#ifndef BLOCK_M
#define BLOCK_M 8
#endif
#ifndef BLOCK_N
#define BLOCK_N 128
#endif
#ifdef AMX
// The last K group may have fewer steps than the compiler counts on; it need not say that it cannot unroll those.
#pragma clang diagnostic ignored "-Wpass-failed"
#if B_TYPE == TYPE_I8
#define KIND 2
#else
#define KIND 1
#endif
#include "amx.cl"

#define PANEL 32
#define UNIT 64                          // Columns that are decoded together: four tiles of B.
#define SLOT_BYTES (GROUP * UNIT * ELEMENT_BYTES)  // Of one unit.
#define SLOT_ROWS (GROUP * ELEMENT_BYTES / 4)      // Rows of a slot: the four tiles side by side,
#define SLOT_ROW 256                               // 64 bytes of each.
#define K_OF_ROW (4 / ELEMENT_BYTES)
#define STEPS (GROUP / STEP)
#define A_TILE_BYTES (TILE_ROWS * GROUP * ELEMENT_BYTES)  // A tile of rows through a K group.
#define TILE_SUMS (TILE_ROWS * 16)  // Of one tile: 16 rows of 16.
#if KIND == 2
#define SUM_AT(p) convert_float16(*(__local const int16*)(p))
#else
#define SUM_AT(p) (*(__local const float16*)(p))
#endif

typedef uchar uchar32 __attribute__((ext_vector_type(32)));
#define CODES_AHEAD 4096  // Bytes: gemm_stream.cl says why.
#define CODES_AT(low, high, at) \
  __builtin_shufflevector(*(__global const uchar32*)((low) + (at)), *(__global const uchar32*)((high) + (at)), FIRST_64)
#define FIRST_64                                                                                                          \
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,    \
      32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, \
      61, 62, 63

/// One row of the four tiles of a unit from its two panels' codes. Interleaving within 16 bytes puts
/// column 16 * i + 4 * c + j of the unit into place 4 * i + j of column tile c.
static inline __attribute__((always_inline)) void decode_row(__local uchar* to, __global const uchar* low, __global const uchar* high) {
  PREFETCH_FAR(low + CODES_AHEAD);
  PREFETCH_FAR(high + CODES_AHEAD);
  const uchar64 k0 = CODES_AT(low, high, 0), k1 = CODES_AT(low, high, PANEL);
#if KIND == 2
  PREFETCH_FAR(low + CODES_AHEAD + 64);
  PREFETCH_FAR(high + CODES_AHEAD + 64);
  const uchar64 k2 = CODES_AT(low, high, 2 * PANEL), k3 = CODES_AT(low, high, 3 * PANEL);
  const uchar64 k01 = INTERLEAVE_LOW(k0, k1), k23 = INTERLEAVE_LOW(k2, k3);
  const uchar64 high01 = INTERLEAVE_HIGH(k0, k1), high23 = INTERLEAVE_HIGH(k2, k3);
  *(__local uchar64*)(to) = INTERLEAVE_PAIRS_LOW(k01, k23);
  *(__local uchar64*)(to + 64) = INTERLEAVE_PAIRS_HIGH(k01, k23);
  *(__local uchar64*)(to + 128) = INTERLEAVE_PAIRS_LOW(high01, high23);
  *(__local uchar64*)(to + 192) = INTERLEAVE_PAIRS_HIGH(high01, high23);
#else
  const uchar64 left = INTERLEAVE_LOW(k0, k1), right = INTERLEAVE_HIGH(k0, k1);
  const uchar64 left_low = bf16_low(left), left_high = bf16_high(left);
  const uchar64 right_low = bf16_low(right), right_high = bf16_high(right);
  *(__local uchar64*)(to) = INTERLEAVE_LOW(left_low, left_high);
  *(__local uchar64*)(to + 64) = INTERLEAVE_HIGH(left_low, left_high);
  *(__local uchar64*)(to + 128) = INTERLEAVE_LOW(right_low, right_high);
  *(__local uchar64*)(to + 192) = INTERLEAVE_HIGH(right_low, right_high);
#endif
}

/// The decoding of a unit, a share at a time.
typedef struct {
  __local uchar* to;                  // The next row, from
  __global const uchar *low, *high;   // the codes of its two panels.
  int left, real;                     // Rows still to make; those of them that are no padding.
} decoding;

static inline __attribute__((always_inline)) void decode_some(decoding* d, int rows) {
  for (int i = min(rows, d->left); i > 0; --i) {
    if (d->real > 0) {
      decode_row(d->to, d->low, d->high);
    } else {
      for (int j = 0; j < SLOT_ROW; j += 64) *(__local uchar64*)(d->to + j) = (uchar64)(0);
    }
    d->to += SLOT_ROW;
    d->low += K_OF_ROW * PANEL;
    d->high += K_OF_ROW * PANEL;
    --d->left;
    --d->real;
  }
}

/// Four tiles of sums that wait to be scaled and added: two rows of two tiles (or one row of four, given as two halves).
typedef struct {
  __local const float* sums;
  __local float *totals0, *totals1;             // Of the first and second pair of tiles.
  __global const float *scales_a0, *scales_a1;
  __local const float *scales_b0, *scales_b1;   // 32 scales of the columns of each pair.
} waiting_sums;

/// Scales of the columns of the tiles that wait, held in registers through a block.
typedef struct {
  float16 first0, second0, first1, second1;
} column_scales;

static inline __attribute__((always_inline)) column_scales scales_of(const waiting_sums w) {
  __local const float16 *pair0 = (__local const float16*)w.scales_b0, *pair1 = (__local const float16*)w.scales_b1;
  const column_scales scales = {pair0[0], pair0[1], pair1[0], pair1[1]};
  return scales;
}

/// Adds the rows [first, end) of 32.
static inline __attribute__((always_inline)) void add_rows(const waiting_sums w, const column_scales s, int first, int end) {
#pragma unroll
  for (int i = first; i < end; ++i) {
    const int row = i % TILE_ROWS;
    const bool second = i >= TILE_ROWS;
    __local const float* sums = w.sums + (second ? 2 * TILE_SUMS : 0) + row * 16;
    __local float16* totals = (__local float16*)((second ? w.totals1 : w.totals0) + row * 16);
    const float16 scale_a = (float16)((second ? w.scales_a1 : w.scales_a0)[row]);
    totals[0] = MUL_ADD(SUM_AT(sums) * scale_a, second ? s.first1 : s.first0, totals[0]);
    totals[TILE_ROWS] = MUL_ADD(SUM_AT(sums + TILE_SUMS) * scale_a, second ? s.second1 : s.second0, totals[TILE_ROWS]);
  }
}

/// What is done beside the products of a block.
typedef struct {
  waiting_sums sums;           // Of the block before.
  decoding next;               // The next unit in turn,
  int share;                   // so many rows a step.
  __global const uchar* ahead; // A of the next K group: `lines` cache lines of each of two tiles a step.
  int lines;
} work_beside;

// After product number `part` of a step: a share of the waiting sums.
#define BESIDE(part) \
  add_rows(w->sums, scales, min((step * 4 + (part)) * share, 32), min((step * 4 + (part) + 1) * share, 32))

/// After each step: a share of the decoding, and what comes next of A.
static inline __attribute__((always_inline)) void end_step(work_beside* w) {
  decode_some(&w->next, w->share);
  for (int i = 0; i < w->lines; ++i) {
    PREFETCH_FAR(w->ahead);
    PREFETCH_FAR(w->ahead + A_TILE_BYTES);
    w->ahead += 64;
  }
}

static inline __attribute__((always_inline)) void store_sums(tile_state* state, __local float* sums) {
  STORE_SUM0(state, sums);
  STORE_SUM1(state, sums + TILE_SUMS);
  STORE_SUM2(state, sums + 2 * TILE_SUMS);
  STORE_SUM3(state, sums + 3 * TILE_SUMS);
}

/// Two tiles of A by two of B: the sums of a K group, to `sums`. `b` is the first of the two column tiles.
static inline __attribute__((always_inline)) void multiply_2x2(tile_state* state, __local float* sums,
                                                               __global const uchar* a, __local const uchar* b, int steps,
                                                               work_beside* w) {
  const int share = (32 + 4 * steps - 1) / (4 * steps);
  const column_scales scales = scales_of(w->sums);
  ZERO_SUMS(state);
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    LOAD_B6(state, b, SLOT_ROW);
    LOAD_A4(state, a);
    LOAD_B7(state, b + 64, SLOT_ROW);
    SUM0_A4_B6(state);
    BESIDE(0);
    LOAD_A5(state, a + A_TILE_BYTES);
    SUM1_A4_B7(state);
    BESIDE(1);
    SUM2_A5_B6(state);
    BESIDE(2);
    SUM3_A5_B7(state);
    BESIDE(3);
    end_step(w);
    a += TILE_ROWS * STEP_BYTES;
    b += B_ROWS * SLOT_ROW;
  }
  store_sums(state, sums);
}

/// One tile of A by the four of a unit.
static inline __attribute__((always_inline)) void multiply_1x4(tile_state* state, __local float* sums,
                                                               __global const uchar* a, __local const uchar* b, int steps,
                                                               work_beside* w) {
  const int share = (32 + 4 * steps - 1) / (4 * steps);
  const column_scales scales = scales_of(w->sums);
  ZERO_SUMS(state);
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    LOAD_A4(state, a);
    LOAD_B6(state, b, SLOT_ROW);
    SUM0_A4_B6(state);
    LOAD_B7(state, b + 64, SLOT_ROW);
    BESIDE(0);
    SUM1_A4_B7(state);
    LOAD_B6(state, b + 128, SLOT_ROW);
    BESIDE(1);
    SUM2_A4_B6(state);
    LOAD_B7(state, b + 192, SLOT_ROW);
    BESIDE(2);
    SUM3_A4_B7(state);
    BESIDE(3);
    end_step(w);
    a += TILE_ROWS * STEP_BYTES;
    b += B_ROWS * SLOT_ROW;
  }
  store_sums(state, sums);
}

// A whole group takes the form whose number of steps the compiler knows.
#define MULTIPLY(form, sums, a, b) \
  if (steps == STEPS) form(&state, sums, a, b, STEPS, &beside); else form(&state, sums, a, b, steps, &beside)

#define IN_TILE_ORDER(x0, x1, x2, x3, part) ((float16)((x0).part, (x1).part, (x2).part, (x3).part))

/// Sixteen values to D (+ bias), of which `count` lie inside.
static inline void store_16(__global uchar* d, ulong d_at, ulong ldd, __global const uchar* bias, ulong bias_at, int row, int col,
                            int count, float16 values) {
#if BIAS_TYPE == 0
  if (count >= 16) {
    store_elements16(D_TYPE, d, d_at + (ulong)row * ldd + (ulong)col, values);
    return;
  }
#endif
  float each[16];
  vstore16(values, 0, each);
  for (int j = 0; j < min(count, 16); ++j) store_d(d, d_at, ldd, bias, bias_at, row, col + j, each[j]);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
#if defined(MIN_VECTOR_WIDTH)
__attribute__((min_vector_width(512)))
#endif
void gemm_amx(GEMM_ARGS) {
  __local uchar slots[2][SLOT_BYTES] __attribute__((aligned(64)));
  __local float totals[BLOCK_N / UNIT * BLOCK_M * 4 * TILE_SUMS] __attribute__((aligned(64)));
  __local float sums[4 * TILE_SUMS] __attribute__((aligned(64)));  // Stored after those of the block before were added.
  __local float scales_b[2][UNIT] __attribute__((aligned(64)));
  tile_state state;
  const int columns = (n + BLOCK_N - 1) / BLOCK_N;
  EACH_UNIT(columns) {
    BLOCK_HERE(TILE_ROWS, columns)
    OF_MATRIX(here)
    const int first_n = here.column * BLOCK_N, first_tile = here.first_tile, tiles = here.tiles;
    const int units = min(BLOCK_N / UNIT, (n - first_n + UNIT - 1) / UNIT);
    const int groups = (k + GROUP - 1) / GROUP;
    __global const uchar* block_b = b_here + (ulong)first_n * (ulong)k_pad;
    // A unit whose second panel is past the last column reads its first panel twice.
#define SECOND_PANEL(unit) (first_n + (unit) * UNIT + PANEL < n_pad ? (ulong)k_pad * PANEL : 0ul)

    configure_tiles(&state, min(here.end_row - here.first_row, here.height));
    for (int i = 0; i < units * BLOCK_M * 4 * TILE_SUMS; i += 16) *(__local float16*)(totals + i) = (float16)(0.0f);
    work_beside beside;
    beside.next.to = slots[0];
    beside.next.low = block_b;
    beside.next.high = block_b + SECOND_PANEL(0);
    beside.next.left = SLOT_ROWS;
    beside.next.real = k_pad / K_OF_ROW;
    decode_some(&beside.next, SLOT_ROWS);
    // Nothing waits at first: what is added then goes to sums that the first block overwrites.
    for (int i = 0; i < 4 * TILE_SUMS; i += 16) *(__local float16*)(sums + i) = (float16)(0.0f);
    for (int i = 0; i < UNIT; i += 16) *(__local float16*)(scales_b[1] + i) = (float16)(0.0f);
    int turn = 0;
    beside.sums.sums = sums;
    beside.sums.totals0 = beside.sums.totals1 = sums;
    beside.sums.scales_a0 = beside.sums.scales_a1 = sa + sa_at + (ulong)first_tile * sa_ld * TILE_ROWS;
    beside.sums.scales_b0 = beside.sums.scales_b1 = scales_b[1];

    for (int group = 0; group < groups; ++group) {
      const int first_k = group * GROUP;
      const int steps = (min(GROUP, k - first_k) + STEP - 1) / STEP;
      // Blocks of a unit: two for each pair of tiles, one for a tile that is left over.
      const int shares = tiles * steps;
      const int lines = group + 1 < groups ? (A_TILE_BYTES / 64 + units * 2 * steps - 1) / (units * 2 * steps) : 0;
      __global const uchar* group_a = a + a_at * ELEMENT_BYTES + ((ulong)group * all_tiles + (ulong)first_tile) * A_TILE_BYTES;
      for (int unit = 0; unit < units; ++unit, ++turn) {
        // The next unit in turn: of this group, or the first of the next.
        const int next_unit = unit + 1 < units ? unit + 1 : 0, next_k = first_k + (unit + 1 < units ? 0 : GROUP);
        __local const uchar* slot = slots[turn & 1];
        beside.next.to = slots[(turn + 1) & 1];
        beside.next.low = block_b + (ulong)next_unit * (ulong)k_pad * UNIT + (ulong)next_k * PANEL;
        beside.next.high = beside.next.low + SECOND_PANEL(next_unit);
        beside.next.left = next_k < k ? (min(GROUP, k - next_k) + STEP - 1) / STEP * B_ROWS : 0;
        beside.next.real = (k_pad - next_k) / K_OF_ROW;
        beside.share = (beside.next.left + shares - 1) / shares;
        // Scales in the order of the column tiles; those of the unit before are still read by sums that wait.
        __local float* scales = scales_b[turn & 1];
        {
          const int col = first_n + unit * UNIT, second = col + PANEL < n_pad ? 2 : 0;
          __global const float* from = sb_here + (ulong)(first_k / B_SCALE_COLS) * (ulong)n_pad + (ulong)col;
          const float16 x0 = vload16(0, from), x1 = vload16(1, from);
          const float16 x2 = vload16(second, from), x3 = vload16(second + 1, from);
          *(__local float16*)(scales) = IN_TILE_ORDER(x0, x1, x2, x3, s0123);
          *(__local float16*)(scales + 16) = IN_TILE_ORDER(x0, x1, x2, x3, s4567);
          *(__local float16*)(scales + 32) = IN_TILE_ORDER(x0, x1, x2, x3, s89ab);
          *(__local float16*)(scales + 48) = IN_TILE_ORDER(x0, x1, x2, x3, scdef);
        }
        for (int tile = 0; tile < tiles; tile += 2) {
          __global const uchar* tile_a = group_a + (ulong)tile * A_TILE_BYTES;
          __global const float* scales_a = sa + sa_at + ((ulong)(first_tile + tile) * sa_ld + (ulong)group) * TILE_ROWS;
          __local float* tile_totals = totals + (unit * BLOCK_M + tile) * (4 * TILE_SUMS);
          if (tile + 1 < tiles) {
            beside.lines = lines;
            for (int pair = 0; pair < 2; ++pair) {
              beside.ahead = tile_a + all_tiles * A_TILE_BYTES + (unit * 2 + pair) * steps * lines * 64;
              MULTIPLY(multiply_2x2, sums, tile_a, slot + pair * 128);
              beside.sums.totals0 = tile_totals + pair * (2 * TILE_SUMS);
              beside.sums.totals1 = beside.sums.totals0 + 4 * TILE_SUMS;
              beside.sums.scales_a0 = scales_a;
              beside.sums.scales_a1 = scales_a + sa_ld * TILE_ROWS;
              beside.sums.scales_b0 = beside.sums.scales_b1 = scales + pair * 32;
            }
          } else {
            beside.lines = 0;
            MULTIPLY(multiply_1x4, sums, tile_a, slot);
            beside.sums.totals0 = tile_totals;
            beside.sums.totals1 = tile_totals + 2 * TILE_SUMS;
            beside.sums.scales_a0 = beside.sums.scales_a1 = scales_a;
            beside.sums.scales_b0 = scales;
            beside.sums.scales_b1 = scales + 32;
          }
        }
      }
    }
    RELEASE_TILES(&state);
    add_rows(beside.sums, scales_of(beside.sums), 0, 32);

    for (int tile = 0; tile < tiles; ++tile) {
      const int first_row = here.first_row + tile * here.height;
      for (int unit = 0; unit < units; ++unit) {
        __local const float16* from = (__local const float16*)(totals + (unit * BLOCK_M + tile) * (4 * TILE_SUMS));
        const int col = first_n + unit * UNIT, count = n - col;
        for (int i = 0; i < min(here.height, here.end_row - first_row); ++i) {
          const float16 x0 = from[i], x1 = from[TILE_ROWS + i], x2 = from[2 * TILE_ROWS + i], x3 = from[3 * TILE_ROWS + i];
#define STORE_PART(part, at) \
    store_16(d, d_at, ldd, bias, bias_here, first_row + i, col + at, count - at, IN_TILE_ORDER(x0, x1, x2, x3, part));
          STORE_PART(s0123, 0)
          STORE_PART(s4567, 16)
          STORE_PART(s89ab, 32)
          STORE_PART(scdef, 48)
        }
      }
    }
  }
}
#endif
