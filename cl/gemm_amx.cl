// SPDX-License-Identifier: Apache-2.0
// gemm_amx.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] on the tiles of x86 (AMX), g the K groups of GROUP.
// One work-item is a work-group and makes BLOCK_M tiles of 16 rows by BLOCK_N columns of D, in units of 64 (one of 32).
//                       BLOCK_N
//                 +--+--+--+--+     The codes of a unit and a K group are decoded into one of two slots of local memory, as tiles of
//         GROUP   |  |B^T  |  |     bf16 pairs (int8: of fours); the next unit in turn is decoded into the other slot, a share at
//        +------+ +--+--+--+--+     each step. Blocks of 2 x 2 tiles are summed through a group: products of bf16 are exact, sums
//    16  |  A   | |  |  D  |  |     are f32 (int8: s32). While a block is multiplied, the sums of the one before are scaled and
//        +------+ +--+--+--+--+     added to totals in local memory: vector work beside tile work.
// Tunable   default  values              meaning
// BLOCK_M   8        1 to 32             tiles of 16 rows per work-group
// BLOCK_N   128      32 to 512           columns of D per work-group: 32, or whole units of 64
// FLOATS    0        0 1                 1: floats that are to be quantised are taken as they are, where their groups are K groups
// SPLIT_K   1        1 to 16             parts of k, added in order: by cores of their own with FLOATS 1, else one after another
// Set by the host: those of tile.cl; AMX: the device was seen to give the right numbers with tiles (else the file is empty).
// QUANTISE: a is such floats, a_at elements on and lda apart, and those of quantizer.cl are set; one_launch.cl says who quantises what.
// A_TYPE is 3 (bf16: codes decoded, or floats) or 7.
// A: groups of tiles, as quantize_tiles and pack_tiles make them with TILE 16 and TILE_FORM 3 or 7 (a_tiles.cl), with its scales and
// the count of blocks taken.
// B: the 32 codes of columns 32 * p on and one k are at (p * k_pad + k) * 32; of four bits each, those of eight k (gemm_stream.cl).
// Local memory: 2 * UNIT * GROUP * bytes + BLOCK_M * BLOCK_N * 64 + 4608 B, bytes 2 (bf16) or 1 (int8): = 102912 B with the defaults.
// Origin: two by two tiles after Intel's optimisation manual and oneDNN; decoding beside multiplying is gemm_panel's.
#define TAKEN ((volatile __global uint*)(sa + sa_at + (ulong)((m + TILE_ROWS - 1) / TILE_ROWS) * sa_ld * TILE_ROWS))
#define TOGETHER (BLOCK_N < 64 ? 4 : 1)
#define PANEL 32
#include "tile.cl"

#ifdef AMX
// The last K group may have fewer steps than the compiler counts on; it need not say that it cannot unroll those.
#pragma clang diagnostic ignored "-Wpass-failed"
#if B_TYPE == TYPE_I8
#define KIND 2
#define A_TYPE_OF_TILES 7
#else
#define KIND 1
#define A_TYPE_OF_TILES 3
#endif
#include "amx.cl"

#define UNIT (BLOCK_N < 64 ? 32 : 64)      // Columns that are decoded together: two or four tiles of B.
#define PAIRS (UNIT / 32)                // Of tiles.
#define SLOT_BYTES (GROUP * UNIT * ELEMENT_BYTES)  // Of one unit.
#define SLOT_ROW (UNIT * 4)                        // Bytes of a row of a slot: the tiles side by side, 64 bytes of each.
#define K_OF_ROW (4 / ELEMENT_BYTES)
// What is decoded at once: a row, or two; of codes of four bits four or eight, for a word of theirs has eight k of a column.
#define FOUR_BITS (BITS_OF(B_TYPE) < 8)
#define LINE (FOUR_BITS ? 1024 : 256)
#define ROWS_OF_LINE (LINE / SLOT_ROW)
#define LINE_CODES HOLDERS(ROWS_OF_LINE * K_OF_ROW * PANEL)  // Bytes of a panel.
#define SLOT_LINES (SLOT_BYTES / LINE)
#define STEPS (GROUP / STEP)
#define A_TILE_BYTES (TILE_ROWS * GROUP * ELEMENT_BYTES)  // A tile of rows through a K group.
#define TILE_SUMS (TILE_ROWS * 16)  // Of one tile: 16 rows of 16.
#define UNIT_SUMS (UNIT / 16 * TILE_SUMS)
#if KIND == 2
#define SUM_AT(p) convert_float16(*(__local const int16*)(p))
#else
#define SUM_AT(p) (*(__local const float16*)(p))
#endif

#define CODES_AHEAD 4096  // Bytes: gemm_stream.cl says why.

/// A line: 32 columns of `low`, then of `high`. In a unit of 64 columns these are its panels. In one of 32 they are the same panel at this
/// row and the next, or at this word and the next.
#if FOUR_BITS
static inline __attribute__((always_inline)) void decode_line(__local uchar* to, __global const uchar* low, __global const uchar* high,
                                                              const code_table* table) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    __global const uchar* words = part == 0 ? low : high;
    PREFETCH_FAR(words + CODES_AHEAD);
    PREFETCH_FAR(words + CODES_AHEAD + 64);
    const uint16 first = *(__global const uint16*)words, second = *(__global const uint16*)(words + 64);
#pragma unroll
    for (int row = 0; row < 4; ++row) {
      __local uint16* parts = (__local uint16*)(to + (PAIRS == 2 ? row * SLOT_ROW + part * 128 : (4 * part + row) * SLOT_ROW));
      parts[0] = decode_pairs(first >> (uint16)((uint)(4 * row)), table);
      parts[1] = decode_pairs(second >> (uint16)((uint)(4 * row)), table);
    }
  }
}
#else
static inline __attribute__((always_inline)) void decode_line(__local uchar* to, __global const uchar* low, __global const uchar* high) {
  __local uchar64* parts = (__local uchar64*)to;
  PREFETCH_FAR(low + CODES_AHEAD);
  PREFETCH_FAR(high + CODES_AHEAD);
  const uchar64 low_pairs = pairs_of_k(low), high_pairs = pairs_of_k(high);
#if KIND == 2
  PREFETCH_FAR(low + CODES_AHEAD + 64);
  PREFETCH_FAR(high + CODES_AHEAD + 64);
  const uchar64 low_next = pairs_of_k(low + 64), high_next = pairs_of_k(high + 64);
  parts[0] = INTERLEAVE_PAIRS_LOW(low_pairs, low_next);
  parts[1] = INTERLEAVE_PAIRS_HIGH(low_pairs, low_next);
  parts[2] = INTERLEAVE_PAIRS_LOW(high_pairs, high_next);
  parts[3] = INTERLEAVE_PAIRS_HIGH(high_pairs, high_next);
#else
  bf16_bytes left = bf16_of_normal(low_pairs), right = bf16_of_normal(high_pairs);
  if ((which_are_special(low_pairs) | which_are_special(high_pairs)) != 0) {
    left = mended(left, low_pairs);
    right = mended(right, high_pairs);
  }
  parts[0] = INTERLEAVE_LOW(left.low, left.high);
  parts[1] = INTERLEAVE_HIGH(left.low, left.high);
  parts[2] = INTERLEAVE_LOW(right.low, right.high);
  parts[3] = INTERLEAVE_HIGH(right.low, right.high);
#endif
}
#endif

/// The decoding of a unit, a share at a time.
typedef struct {
  __local uchar* to;                  // The next line, from
  __global const uchar *low, *high;   // these codes.
  int left, real;                     // Lines still to make; those of them that are no padding.
#if FOUR_BITS
  const code_table* table;
#define TABLE_OF(d) , (d)->table
#else
#define TABLE_OF(d)
#endif
} decoding;

static inline __attribute__((always_inline)) void decode_some(decoding* d, int lines) {
  for (int i = min(lines, d->left); i > 0; --i) {
    if (d->real > 0) {
      decode_line(d->to, d->low, d->high TABLE_OF(d));
    } else {
      for (int j = 0; j < LINE; j += 64) *(__local uchar64*)(d->to + j) = (uchar64)(0);
    }
    d->to += LINE;
    d->low += LINE_CODES;
    d->high += LINE_CODES;
    --d->left;
    --d->real;
  }
}

/// Four tiles of sums that wait to be scaled and added: two rows of two tiles, or one row of four, given as two halves, or of two.
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
  int share;                   // so many lines a step.
  __global const uchar* ahead; // A of the next K group: `lines` cache lines of each of two tiles a step.
  int lines;
} work_beside;

// After product number `part` of the `parts` of a step: a share of the `waiting` rows of sums.
#define BESIDE(part) \
  add_rows(w->sums, scales, min((step * parts + (part)) * share, waiting), min((step * parts + (part) + 1) * share, waiting))
#define SHARE_OF(waiting) (((waiting) + parts * steps - 1) / (parts * steps))

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
  const int parts = 4, waiting = 32, share = SHARE_OF(waiting);
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

/// One tile of A by those of a unit. `waiting`, a literal: rows of sums that wait, 16 where they are of one row of two tiles.
static inline __attribute__((always_inline)) void multiply_lone(tile_state* state, __local float* sums, __global const uchar* a,
                                                                __local const uchar* b, int steps, int waiting, work_beside* w) {
  const int parts = 2 * PAIRS, share = SHARE_OF(waiting);
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
#if PAIRS == 2
    LOAD_B6(state, b + 128, SLOT_ROW);
    BESIDE(1);
    SUM2_A4_B6(state);
    LOAD_B7(state, b + 192, SLOT_ROW);
    BESIDE(2);
    SUM3_A4_B7(state);
#endif
    BESIDE(parts - 1);
    end_step(w);
    a += TILE_ROWS * STEP_BYTES;
    b += B_ROWS * SLOT_ROW;
  }
  STORE_SUM0(state, sums);
  STORE_SUM1(state, sums + TILE_SUMS);
#if PAIRS == 2
  STORE_SUM2(state, sums + 2 * TILE_SUMS);
  STORE_SUM3(state, sums + 3 * TILE_SUMS);
#endif
}

// A whole group takes the form whose number of steps the compiler knows.
#define MULTIPLY(form, ...) \
  if (steps == STEPS) form(&state, sums, __VA_ARGS__, STEPS, &beside); else form(&state, sums, __VA_ARGS__, steps, &beside)
#define LONE_16(state, sums, a, b, steps, w) multiply_lone(state, sums, a, b, steps, 16, w)
#define LONE_32(state, sums, a, b, steps, w) multiply_lone(state, sums, a, b, steps, 32, w)

#define BLOCK_SUMS (BLOCK_N / UNIT * BLOCK_M * UNIT_SUMS)
#include "one_launch.cl"
#ifdef QUANTISE
#define EACH_PART for (int part = PART_HERE; part >= 0; part = -1)
#else
#define EACH_PART for (int part = 0; part < SPLIT_K; ++part)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) WIDE_VECTORS
void gemm_amx(GEMM_ARGS) {
  __local uchar slots[2][SLOT_BYTES] __attribute__((aligned(64)));
  __local float totals[BLOCK_SUMS] __attribute__((aligned(64)));
#if SPLIT_K > 1 && !defined(QUANTISE)
  __local float parts[BLOCK_SUMS] __attribute__((aligned(64)));  // What the parts before add up to.
#endif
  __local float sums[4 * TILE_SUMS] __attribute__((aligned(64)));  // Stored after those of the block before were added.
  __local float scales_b[2][UNIT] __attribute__((aligned(64)));
  tile_state state;
#if FOUR_BITS
  const code_table table = make_code_table();
#endif
  const int columns = (n + BLOCK_N - 1) / BLOCK_N;
  EACH_UNIT(columns)
  EACH_PART {
    BLOCK_HERE(TILE_ROWS, columns)
    OF_MATRIX(here)
    const int first_n = here.column * BLOCK_N, first_tile = here.first_tile, tiles = here.tiles;
    const int units = min(BLOCK_N / UNIT, (n - first_n + UNIT - 1) / UNIT);
    __global const uchar* block_b = b_here + HOLDERS((ulong)first_n * (ulong)k_pad);
#if UNIT == 64
    // A unit whose second panel is past the last column reads its first panel twice.
#define HIGH_CODES(unit) (first_n + (unit) * UNIT + PANEL < n_pad ? HOLDERS((ulong)k_pad * PANEL) : 0ul)
#else
#define HIGH_CODES(unit) (LINE_CODES / 2)
#endif

    const int all_groups = (k + GROUP - 1) / GROUP, block_sums = units * BLOCK_M * UNIT_SUMS;
    const int first_group = FIRST_GROUP_OF(part, all_groups), groups = FIRST_GROUP_OF(part + 1, all_groups);
    const int end_k = min(k, groups * GROUP);
    configure_tiles(&state, min(here.end_row - here.first_row, here.height));
    for (int i = 0; i < block_sums; i += 16) *(__local float16*)(totals + i) = (float16)(0.0f);
    work_beside beside;
#if FOUR_BITS
    beside.next.table = &table;
#endif
    beside.next.to = slots[0];
    beside.next.low = block_b + HOLDERS((ulong)(first_group * GROUP) * PANEL);
    beside.next.high = beside.next.low + HIGH_CODES(0);
    beside.next.left = SLOT_LINES;
    beside.next.real = (k_pad - first_group * GROUP) / K_OF_ROW / ROWS_OF_LINE;
    decode_some(&beside.next, SLOT_LINES);
    // Nothing waits at first: what is added then goes to sums that the first block overwrites.
    for (int i = 0; i < 4 * TILE_SUMS; i += 16) *(__local float16*)(sums + i) = (float16)(0.0f);
    for (int i = 0; i < UNIT; i += 16) *(__local float16*)(scales_b[1] + i) = (float16)(0.0f);
    int turn = 0;
    beside.sums.sums = sums;
    beside.sums.totals0 = beside.sums.totals1 = sums;
    beside.sums.scales_a0 = beside.sums.scales_a1 = sa + sa_at + (ulong)first_tile * sa_ld * TILE_ROWS;
    beside.sums.scales_b0 = beside.sums.scales_b1 = scales_b[1];

    for (int group = first_group; group < groups; ++group) {
      const int first_k = group * GROUP;
      const int steps = (min(GROUP, k - first_k) + STEP - 1) / STEP;
      // Blocks of a unit: one for two tiles and 32 columns, one for a tile that is left over.
      const int shares = (tiles / 2 * PAIRS + tiles % 2) * steps;
      const int lines = group + 1 < groups ? (A_TILE_BYTES / 64 + units * PAIRS * steps - 1) / (units * PAIRS * steps) : 0;
      __global const uchar* group_a = a + a_at * ELEMENT_BYTES + ((ulong)group * all_tiles + (ulong)first_tile) * A_TILE_BYTES;
      for (int unit = 0; unit < units; ++unit, ++turn) {
        // The next unit in turn: of this group, or the first of the next.
        const int next_unit = unit + 1 < units ? unit + 1 : 0, next_k = first_k + (unit + 1 < units ? 0 : GROUP);
        __local const uchar* slot = slots[turn & 1];
        beside.next.to = slots[(turn + 1) & 1];
        beside.next.low = block_b + HOLDERS((ulong)next_unit * (ulong)k_pad * UNIT + (ulong)next_k * PANEL);
        beside.next.high = beside.next.low + HIGH_CODES(next_unit);
        beside.next.left = next_k < end_k ? (min(GROUP, k - next_k) + STEP - 1) / STEP * B_ROWS / ROWS_OF_LINE : 0;
        beside.next.real = (k_pad - next_k) / K_OF_ROW / ROWS_OF_LINE;
        beside.share = (beside.next.left + shares - 1) / shares;
        // Scales of the unit's columns; those of the unit before are still read by sums that wait.
        __local float* scales = scales_b[turn & 1];
        {
          const int col = first_n + unit * UNIT;
          for (int i = 0; i < UNIT; i += 16) {
            const int panel = i < PANEL || col + PANEL < n_pad ? i / PANEL * PANEL : 0;
            *(__local float16*)(scales + i) = SCALES_16(SCALES_OF_B(first_k, col + panel) + i % PANEL, GLOBAL_OF_B);
          }
        }
        for (int tile = 0; tile < tiles; tile += 2) {
          __global const uchar* tile_a = group_a + (ulong)tile * A_TILE_BYTES;
          __global const float* scales_a = SCALES_OF_TILE(first_tile + tile, group, TILE_ROWS);
          __local float* tile_totals = totals + (unit * BLOCK_M + tile) * UNIT_SUMS;
          if (tile + 1 < tiles) {
            beside.lines = lines;
            for (int pair = 0; pair < PAIRS; ++pair) {
              beside.ahead = tile_a + all_tiles * A_TILE_BYTES + (unit * PAIRS + pair) * steps * lines * 64;
              MULTIPLY(multiply_2x2, tile_a, slot + pair * 128);
              beside.sums.totals0 = tile_totals + pair * (2 * TILE_SUMS);
              beside.sums.totals1 = beside.sums.totals0 + UNIT_SUMS;
              beside.sums.scales_a0 = scales_a;
              beside.sums.scales_a1 = scales_a + sa_ld * TILE_ROWS;
              beside.sums.scales_b0 = beside.sums.scales_b1 = scales + pair * 32;
            }
          } else {
            beside.lines = 0;
            if (PAIRS == 1 && tiles == 1) {  // So is what waits.
              MULTIPLY(LONE_16, tile_a, slot);
            } else {
              MULTIPLY(LONE_32, tile_a, slot);
            }
            beside.sums.totals0 = tile_totals;
            // Of two tiles of sums there is no second half: what lies there is added to itself, and overwritten before it counts.
            beside.sums.totals1 = PAIRS == 2 ? tile_totals + 2 * TILE_SUMS : sums + 2 * TILE_SUMS;
            beside.sums.scales_a0 = beside.sums.scales_a1 = scales_a;
            beside.sums.scales_b0 = scales;
            beside.sums.scales_b1 = scales + (PAIRS - 1) * 32;
          }
        }
      }
    }
    RELEASE_TILES(&state);
    add_rows(beside.sums, scales_of(beside.sums), 0, 32);
#if SPLIT_K > 1
#ifdef QUANTISE
    if (!all_parts_are_added(&launch, here.column, totals, block_sums)) continue;
#else
    for (int i = 0; i < block_sums; i += 16) {
      __local float16 *sum = (__local float16*)(parts + i), *of_part = (__local float16*)(totals + i);
      *sum = part == 0 ? *of_part : *sum + *of_part;
      *of_part = *sum;
    }
    if (part + 1 < SPLIT_K) continue;
#endif
#endif

    // `sums` is free by now: a row's totals side by side, on their way to D.
    const int block_columns = min(units * UNIT, n - first_n);
    for (int tile = 0; tile < tiles; ++tile) {
      const int first_row = here.first_row + tile * here.height;
      for (int i = 0; i < min(here.height, here.end_row - first_row); ++i) {
        __local const float* from = totals + tile * UNIT_SUMS + i * 16;
        for (int at = 0; at < units * UNIT; at += 16)
          *(__local float16*)(sums + at) = *(__local const float16*)(from + at / UNIT * (BLOCK_M * UNIT_SUMS) + at % UNIT / 16 * TILE_SUMS);
        for (int at = 0; at < block_columns; at += 32)
          STORE_ROW(first_row + i, first_n + at, min(32, block_columns - at), sums + at, 32, 32)
      }
    }
  }
}
#endif
