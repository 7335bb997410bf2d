// SPDX-License-Identifier: Apache-2.0
// fused_products_wgmma.cl: products of 17 to 64 rows one after another in one launch on compute capability 9.0, in class f32: D[m,n] = sum_g sa[m,g]
// * sb[n,g] * sum_{k in g} A[m,k] * B[n,k], of A that comes as it is, in scale groups of one row by 128. Next door: fused_products.cl (fewer rows),
// gemm_wgmma_few_f16.cl (a product by itself), whose first operand, decoded to registers, this one has too.
//
// A work-group to a multiprocessor stays. Of each product it has as many K blocks of 192 columns as the others have, whole tiles or parts of
// them, one stretch of a list that has a tile's K blocks side by side; so all read the same amount of weights, which come by bulk copies:
//
//   warp 16         sends weights into a ring, one product after another, as far ahead as there is room, but for at most UNDER_WAY K blocks that
//                   have not come: more would not come sooner, and whatever else is loaded waits behind them;
//   warps 12 to 15  take the codes of A from memory as they appear, decode them to f16 into a ring, and beside them both scales;
//   warps 0 to 11   three warpgroups, 64 columns each: decode weights to registers, multiply, and add in f32 (transposed_d.cl).
//
// Warps 0 to 15 meet all work-groups between two products (meeting.cl); then warps 0 to 11 of all make the codes of A together, some each
// (product_list.cl). Of a tile whose K blocks several work-groups have, each adds some rows of all parts up, in order, once all are stored.
// Nobody waits for ever: a work-group that does not meet all others within `waits` looks gives up, and so do then the others; what they have not
// computed becomes NaN, by scales that are. The host tries once, without products, whether the device runs so many work-groups at once.
//
// Set by the host: those of tile.cl, code_pairs.cl, PTX_SM_90, FLOOR_BITS.
// workspace, as fused_products.cpp books it: as product_list.cl has it, then of each product a counter for each 64 columns, and of each work-group
// the sums of two parts of tiles.
// Local memory: 222 KiB, all of it of arrays of the kernel's own (docs/opencl.md).
// Origin: as gemm_wgmma_few_f16.cl; equal stretches of all K blocks after Stream-K (Osama et al., PPoPP 2023).
#include "tile.cl"

#if defined(PTX_SM_90)
#define PASSES 2  // Groups of A whose values a half-warp asks for together.
#include "ptx.cl"
#include "code_pairs.cl"
#define TILE_M 64
#include "transposed_d.cl"
#include "weights_in_registers.cl"
#define COLUMN_GROUPS 3  // Warpgroups that multiply, of 64 columns each,
#define TILE_N (64 * COLUMN_GROUPS)
#define MULTIPLYING (128 * COLUMN_GROUPS)
#define MEETERS (MULTIPLYING + 128)
#define MAKERS (MULTIPLYING / 32)
#define MEETING_BARRIER() BAR_NAMED(1, MEETERS)
#define MEETINGS FUSED_MOST_PRODUCTS
#include "meeting.cl"
#include "product_list.cl"

#define SLOTS_A 3
#define SLOTS_B 7
#define A_BYTES 16384u  // Of a K block: 64 rows of 128 f16, in two halves of K.
#define HALF_BYTES 8192u
#define B_BYTES (COLUMN_GROUPS * 8192u)
#define UNDER_WAY 4u
#define SLOT_SCALES 68u  // Of a K block: of 64 rows, and of each 64 columns.
#define AHEAD 2  // K blocks of codes of A that a work-item has asked for.
#define SCALE_OF(kb) min((kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
#define NEXT_SLOT(SLOT, PARITY, SLOTS) do { if (++SLOT == (SLOTS)) { SLOT = 0; PARITY ^= 1; } } while (0)
#define DECODE_A4 JOIN(DECODE4_, A_TYPE)

// A product's K blocks as one list, tile by tile, in equal stretches: that of work-group GROUP, and whose block W is. A few work-groups have none
// where the others' stretches then begin with tiles or equal parts of them.
#define TILES_OF(p) ((N_OF(p) + TILE_N - 1) / TILE_N)
#define STRETCH(p)                                                                                      \
  const uint blocks = BLOCKS_OF(p), tiles = TILES_OF(p), listed = tiles * blocks;                       \
  const uint cut = grid / tiles * tiles, parts = min(8 * cut >= 7 * grid ? cut : grid, listed);         \
  const uint first = group < parts ? listed * group / parts : 0, end = group < parts ? listed * (group + 1) / parts : 0
#define IS_PART(tile) (first > (tile) * blocks || end < (tile) * blocks + blocks)
#define WHOSE(w) ((((w) + 1) * parts - 1) / listed)

// Codes of A: of a K block pieces of 16 codes, PIECE of four of a half line, so that a warp of those that decode takes 32 side by side.
#define PIECE_AT(kb, piece, of_line, row) ((kb) * 8192u + ((piece) * 128u + (of_line) * 64u + (row)) * 16u)
#define SCALE_AT(kb, row) (((kb) * 64u + (row)) * 4u)

/// This warp's share of the codes of product p, and of unmaking those of the next: pairs of rows of a K block, one row for each half-warp.
static inline __attribute__((always_inline)) void make_codes(__local const ulong* products, uint p, uint count, __global uchar* made, uint made_bytes, uint turn, bool together, uint group,
                              uint grid) {
  const uint lane = get_local_id(0) & 31, number = get_local_id(0) / 32 * grid + group, step = MAKERS * grid, odd_row = lane >> 4, of_line = lane & 15;
  const uint to_piece = PIECE_AT(0u, of_line >> 1 & 3, of_line >> 3, 0u) + (of_line & 1) * 8u;
  const uint rows = ROWS_OF(p), row_pairs = (rows + 1) / 2, all = BLOCKS_OF(p) * row_pairs;
  __global const uchar* const a = A_OF(p);
  const ulong lda = LDA_OF(p);
  __global uchar* const here = made + (turn & 1) * made_bytes, *const scales_here = here + BLOCKS_OF(p) * 8192u;
  for (uint from = number; together && from < all; from += PASSES * step) {
    uint raw[PASSES][WORDS], low, high;
    float scale, reciprocal;
#define PAIR(i) min(from + (i) * step, all - 1)
#define BLOCK_OF_PAIR(i) (PAIR(i) / row_pairs)
#define ROW_OF_PAIR(i) (PAIR(i) % row_pairs * 2 + odd_row)
    UNROLL for (int i = 0; i < PASSES; ++i) LOAD_GROUP(raw[i], a, lda, min(ROW_OF_PAIR(i), rows - 1), BLOCK_OF_PAIR(i))
    SCALES_OF_PASSES(raw, FLOOR_BITS, scale, reciprocal);
    UNROLL for (int i = 0; i < PASSES; ++i) {
      CODES_OF_PASS(low, high, raw, i, scale, reciprocal);
      if (from + i * step >= all || ROW_OF_PAIR(i) >= rows) continue;
      STORE8_SHOWN(here + to_piece + BLOCK_OF_PAIR(i) * 8192u + ROW_OF_PAIR(i) * 16u, low, high);
      if (of_line == i) STORE_SHOWN(scales_here + SCALE_AT(BLOCK_OF_PAIR(i), ROW_OF_PAIR(i)), as_uint(scale));
    }
  }
  const uint next = p + 1 < count ? p + 1 : 0, rows_next = ROWS_OF(next), pairs_next = (rows_next + 1) / 2, all_next = BLOCKS_OF(next) * pairs_next;
  __global uchar* const there = made + ((turn + 1) & 1) * made_bytes, *const scales_there = there + BLOCKS_OF(next) * 8192u;
  for (uint i = number; i < all_next; i += step) {
    const uint kb = i / pairs_next, row = i % pairs_next * 2 + odd_row;
    if (row >= rows_next) continue;
    STORE8_SHOWN(there + to_piece + kb * 8192u + row * 16u, UNMADE, UNMADE);
    if (of_line == 0) STORE_SHOWN(scales_there + SCALE_AT(kb, row), UNMADE);
  }
}

// This work-item's codes and scale of K block KB, into the registers of number j.
#define ASK(j, kb)                                                                                             \
  if (mine && together) {                                                                                      \
    UNROLL for (int t_ = 0; t_ < 4; ++t_) LOAD16_SHOWN(v[j][t_], here + PIECE_AT(kb, t_, half_line, row));     \
    LOAD_SHOWN(bits[j], scales_here + SCALE_AT(kb, row));                                                      \
  }
// The same of the stretch's next one, with the scale of its columns.
#define ASK_NEXT(j, at)                                                                                        \
  if ((at) < end) {                                                                                            \
    if (of_columns < COLUMN_GROUPS) LOAD_F(sb_of[j], sb + SCALE_OF(next_kb) * 128u);                           \
    ASK(j, next_kb)                                                                                            \
    if (++next_kb == blocks) next_kb = 0, sb = SCALES_OF_TILE(++tile);                                         \
  }
#define ASK_AGAIN(j, later) if ((later) >= (j) && w + (later) < end) ASK(later, (kb + (later) - (j)) % blocks)
// Block w + j, number kb of its tile's, into the ring as soon as it is there: a look takes long, so it is one at those after it too. Then asks
// for the one AHEAD of it.
#define DECODE_ROWS(j)                                                                                         \
  if (w + j < end) {                                                                                           \
    for (;;) {                                                                                                 \
      uint missing_ = bits[j] == UNMADE;                                                                       \
      UNROLL for (int t_ = 0; t_ < 4; ++t_) UNROLL for (int i_ = 0; i_ < 4; ++i_) missing_ |= v[j][t_][i_] == UNMADE; \
      if (!any_of_warp(missing_) || looks <= 0) break;                                                         \
      --looks;                                                                                                 \
      ASK_AGAIN(j, 0)                                                                                          \
      ASK_AGAIN(j, 1)                                                                                          \
    }                                                                                                          \
    BAR_WAIT(empty_a + 8 * slot_a, parity_a ^ 1);                                                              \
    const uint to_ = ring_a + slot_a * A_BYTES + line;                                                         \
    UNROLL for (int i_ = 0; i_ < 4; ++i_) {                                                                    \
      uint lo_[4], hi_[4];                                                                                     \
      UNROLL for (int t_ = 0; t_ < 4; ++t_) DECODE_A4(lo_[t_], hi_[t_], v[j][t_][i_]);                         \
      STORE_LOCAL16(to_ + (((2 * i_) ^ swizzle) << 4), lo_[0], lo_[1], lo_[2], lo_[3]);                        \
      STORE_LOCAL16(to_ + (((2 * i_ + 1) ^ swizzle) << 4), hi_[0], hi_[1], hi_[2], hi_[3]);                    \
    }                                                                                                          \
    if (half_line == 0) STORE_LOCAL_F(scales + (slot_a * SLOT_SCALES + row) * 4u, as_float(bits[j]));          \
    if (of_columns < COLUMN_GROUPS) STORE_LOCAL_F(scales + (slot_a * SLOT_SCALES + 64u + of_columns) * 4u, sb_of[j]); \
    SYNC_WARP();                                                                                               \
    if (lane == 0) BAR_ARRIVE(full_a + 8 * slot_a);                                                            \
    NEXT_SLOT(slot_a, parity_a, SLOTS_A);                                                                      \
    if (++kb == blocks) kb = 0;                                                                                \
    ASK_NEXT(j, w + AHEAD + j)                                                                                 \
  }

// K block w of this warpgroup's tile.
#define MULTIPLY_K_BLOCK()                                                                                                     \
  do {                                                                                                                         \
    uint weights[32];                                                                                                          \
    float of_columns;                                                                                                          \
    BAR_WAIT(full_b + 8 * slot_b, parity_b);                                                                                   \
    const uint codes = ring_b + slot_b * B_BYTES + in_b;                                                                       \
    DECODE_COLUMN(weights, 0, codes);                                                                                          \
    DECODE_COLUMN(weights, 1, codes + 1024u);                                                                                  \
    BAR_WAIT(full_a + 8 * slot_a, parity_a);                                                                                   \
    FENCE_BULK();                                                                                                              \
    SYNC_WARP();                                                                                                               \
    if (lane == 0) BAR_ARRIVE(empty_b + 8 * slot_b);                                                                           \
    NEXT_SLOT(slot_b, parity_b, SLOTS_B);                                                                                      \
    const ulong at = lines_a + slot_a * (A_BYTES >> 4);                                                                        \
    WGMMA_FENCE();                                                                                                             \
    MULTIPLY(product, weights, at);                                                                                            \
    WGMMA_COMMIT();                                                                                                            \
    LOCAL_F(of_columns, scales + (slot_a * SLOT_SCALES + 64u + column_group) * 4u);                                            \
    WGMMA_WAIT(0);                                                                                                             \
    UNROLL for (int i = 0; i < 8; ++i) {                                                                                       \
      float q0, q1;                                                                                                            \
      LOCAL_F2(q0, q1, scales + (slot_a * SLOT_SCALES + tl * 2u + i * 8u) * 4u);                                               \
      ADD_SCALED((sum + 4 * i), (product + 4 * i), q0 * of_columns, q1 * of_columns);                                          \
    }                                                                                                                          \
    GIVE_BACK(empty_a + 8 * slot_a);                                                                                           \
    NEXT_SLOT(slot_a, parity_a, SLOTS_A);                                                                                      \
  } while (0)
// Where D and its biases are, of columns of `tile` that this warp has.
#define PLACE_OF_TILE(p, tile)                                                                           \
  const int n = (int)N_OF(p);                                                                            \
  const ulong ldd = LDD_OF(p), bias_at = 0, d_at = WORD(p, 3) / sizeof(d_element) & 3;                   \
  __global uchar* const d = D_OF(p) - d_at * sizeof(d_element);                                          \
  __global const uchar* const bias = BIASES_OF(p);                                                       \
  const scheduled_tile all_rows = {0, 0, (int)ROWS_OF(p)};                                               \
  PLACE_IN_D(all_rows, (tile) * TILE_N + column_group * 64u + (get_local_id(0) >> 5 & 3) * 16u)
static inline __global float* parts_made(__local const ulong* products, uint count, __global uint* tile_counters) {
  return (__global float*)(tile_counters + UNITS_BEFORE(count - 1) + (N_OF(count - 1) + 127) / 128 * (128 / FUSED_COLUMNS));
}
// Of a stretch's first tile and of its last one are parts; a tile between them is whole.
#define PART_AT(who) (parts_made(products, count, tile_counters) + ((((ulong)(who)) * 2 + (tile != listed * (who) / parts / blocks)) * COLUMN_GROUPS + column_group) * 4096u + of_group * 4u)
// Of a tile's column group: how many work-groups have stored their parts, and in the upper half how many have added up.
#define COUNTER_OF(p) (tile_counters + UNITS_BEFORE(p) + tile * COLUMN_GROUPS + column_group)

/// A tile whose last K block here is number `last` of product p's list, of which this warpgroup has `sum`: into D, or, if other work-groups have K
/// blocks of it too, to where all parts are. What both functions need is read here, since the loop before has no registers for it.
static inline __attribute__((always_inline)) void finish_tile(__local const ulong* products, uint p, uint count, uint last, const float* sum,
                                                              __global uint* tile_counters, uint column_group) {
  const uint group = (uint)get_group_id(0), grid = (uint)get_num_groups(0), lane = get_local_id(0) & 31, g = lane >> 2, tl = lane & 3;
  const uint of_group = get_local_id(0) & 127;
  STRETCH(p);
  const uint tile = last / blocks;
  if (IS_PART(tile)) {
    __global float* const to = PART_AT(group);
    UNROLL for (int i = 0; i < 8; ++i) STORE_F4(to + i * 512, sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
    BAR_NAMED(2 + column_group, 128);
    if (of_group == 0) ADD_RELEASED(COUNTER_OF(p));
    return;
  }
  PLACE_OF_TILE(p, tile);
  UNROLL for (int i = 0; i < 8; ++i) OUT(0, i, sum + 4 * i);
}
/// This work-group's share of the rows of a tile of which it has a part: all parts are added up, in order, and go into D. Work-groups end about
/// together, so each waits for the others'.
static inline __attribute__((always_inline)) void add_parts(__local const ulong* products, uint p, uint count, uint tile, __global uint* tile_counters,
                                                            uint column_group, __global uint* counters, int waits, __local uint* all_here) {
  const uint group = (uint)get_group_id(0), grid = (uint)get_num_groups(0), lane = get_local_id(0) & 31, g = lane >> 2, tl = lane & 3;
  const uint of_group = get_local_id(0) & 127;
  STRETCH(p);
  const uint first_part = WHOSE(tile * blocks), last_part = WHOSE(tile * blocks + blocks - 1), shares = last_part - first_part + 1;
  const uint from = 8 * (group - first_part) / shares, to = 8 * (group - first_part + 1) / shares;
  __global uint* const stored = COUNTER_OF(p);
  if (from < to) {
    if (of_group == 0) {
      uint here = 0;
      for (int i = 0; i < waits && here < shares; ++i) {
        LOAD_ACQUIRED(here, stored);
        here &= 0xffffu;
      }
      if (here < shares) atomic_xchg(counters + GAVE_UP, 1u);
      *all_here = here == shares;
    }
    BAR_NAMED(2 + column_group, 128);
    const float none = *all_here ? 0.0f : NAN;
    PLACE_OF_TILE(p, tile);
    _Pragma("unroll 1") for (uint i = from; i < to; ++i) {
      float sum[4] = {none, none, none, none};
      _Pragma("unroll 1") for (uint part = first_part; part <= last_part; part += 4) {
        uint x[4][4];
        UNROLL for (uint o = 0; o < 4; ++o) LOAD16_SHOWN(x[o], PART_AT(min(part + o, last_part)) + i * 512);
        UNROLL for (uint o = 0; o < 4; ++o) UNROLL for (int e = 0; e < 4; ++e) if (part + o <= last_part) sum[e] += as_float(x[o][e]);
      }
      OUT(0, i, sum);
    }
  }
  if (of_group == 0) {
    uint before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0,[%1],65536;" : "=r"(before) : "l"(stored) : "memory");
    if (before >> 16 == shares - 1) *stored = 0;
  }
}

__kernel __attribute__((reqd_work_group_size(FUSED_WGMMA_ITEMS, 1, 1))) void fused_products_wgmma(PARAMETERS(FUSED_PRODUCTS_LIST))
{
  __local uchar ring_of_a[SLOTS_A * A_BYTES] __attribute__((aligned(1024)));
  __local uchar ring_of_b[SLOTS_B * B_BYTES] __attribute__((aligned(1024)));
  __local float ring_of_scales[SLOTS_A * SLOT_SCALES];
  __local ulong bars[2 * SLOTS_A + 2 * SLOTS_B];
  __local ulong products[FUSED_MOST_PRODUCTS * FUSED_PRODUCT_WORDS];
  __local uint broken, last, all_here[COLUMN_GROUPS][2];
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, group = (uint)get_group_id(0), grid = (uint)get_num_groups(0);
  __global uint* counters = (__global uint*)workspace;
  __global uchar* made = MADE;
  const uint ring_a = LOCAL_ADDRESS(ring_of_a), ring_b = LOCAL_ADDRESS(ring_of_b), scales = LOCAL_ADDRESS(ring_of_scales);
  const uint full_a = LOCAL_ADDRESS(bars), empty_a = full_a + 8 * SLOTS_A, full_b = empty_a + 8 * SLOTS_A, empty_b = full_b + 8 * SLOTS_B;
  if (count == 0) {
    if (tid >= MEETERS) return;
    come(counters, 0);
    meet(counters, 0, grid, waits, &broken);
    return;
  }
  if (tid == 0) {
    for (uint i = 0; i < SLOTS_A; ++i) {
      BAR_INIT(full_a + 8 * i, 4u);   // the warps that decode A
      BAR_INIT(empty_a + 8 * i, 4u * COLUMN_GROUPS);  // those that multiply
    }
    for (uint i = 0; i < SLOTS_B; ++i) {
      BAR_INIT(full_b + 8 * i, COLUMN_GROUPS);
      BAR_INIT(empty_b + 8 * i, 4u * COLUMN_GROUPS);
    }
    BAR_INIT_DONE();
  }
  for (uint i = tid; i < (uint)count * FUSED_PRODUCT_WORDS; i += FUSED_WGMMA_ITEMS) products[i] = TABLE[i];
  barrier(CLK_LOCAL_MEM_FENCE);

  if (tid >= MEETERS) {
    REGS_LESS(40);
    if (tid != MEETERS) return;
    ulong once;  // Weights are read once, so they leave the L2 first.
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    uint slot = 0, parity = 1, sent = 0, landed = 0, landed_parity = 0;  // The first wait for each slot to be empty passes at once.
    for (uint p = 0; p < (uint)count; ++p) {
      STRETCH(p);
      __global const uchar* const b = B_OF(p);
      const ulong column_bytes = (ulong)ALL_BLOCKS_OF(p) * 8192u;  // From a block of 64 columns to the next.
      const uint last_columns = (N_OF(p) - 1) / 64;
      _Pragma("unroll 1") for (uint w = first; w < end; ++w, ++sent) {
        const uint tile = w / blocks;
        __global const uchar* const from = b + (ulong)(w % blocks) * 8192u;
        BAR_WAIT(empty_b + 8 * slot, parity);
        if (sent >= UNDER_WAY) {
          BAR_WAIT(full_b + 8 * landed, landed_parity);
          NEXT_SLOT(landed, landed_parity, SLOTS_B);
        }
        UNROLL for (uint c = 0; c < COLUMN_GROUPS; ++c)
          SEND_IF(1, ring_b + slot * B_BYTES + c * 8192u, from + min(tile * COLUMN_GROUPS + c, last_columns) * column_bytes, full_b + 8 * slot, 8192u, once);
        NEXT_SLOT(slot, parity, SLOTS_B);
      }
    }
    return;
  }
  const uint before = counters[TURN];
  bool together = true;
  uint slot_a = 0, parity_a = 0;

  if (tid >= MULTIPLYING) {
    REGS_LESS(80);
    const uint row = tid & 63, half_line = tid >> 6 & 1, line = half_line * HALF_BYTES + row * 128u, swizzle = row & 7;
    const uint of_columns = tid - (MEETERS - 64u);  // Of three work-items: which columns' scale they bring.
    uint v[AHEAD][4][4], bits[AHEAD];
    float sb_of[AHEAD];
    int looks = waits;  // For codes that have not come.
    for (uint p = 0; p < (uint)count; ++p) {
      if (p != 0) together = together && meet(counters, p, grid, waits, &broken);
      STRETCH(p);
      const bool mine = row < ROWS_OF(p);
      const uint groups_b = (blocks * 128u - 1) / B_SCALE_COLS + 1;
      __global const uchar* const here = made + ((before + p) & 1) * made_bytes, *const scales_here = here + blocks * 8192u;
      if (!together) looks = 0;
      UNROLL for (int j = 0; j < AHEAD; ++j) {
        UNROLL for (int t = 0; t < 4; ++t) UNROLL for (int i = 0; i < 4; ++i) v[j][t][i] = 0;
        bits[j] = together ? 0 : UNMADE;
      }
      uint kb = first % blocks, next_kb = kb, tile = first / blocks;
#define SCALES_OF_TILE(tile) (SB_OF(p) + (ulong)min(((tile) * COLUMN_GROUPS + of_columns) / 2, (N_OF(p) - 1) / 128) * groups_b * 128u)
      __global const float* sb = SCALES_OF_TILE(tile);
      ASK_NEXT(0, first)
      ASK_NEXT(1, first + 1)
      _Pragma("unroll 1") for (uint w = first; w < end; w += AHEAD) {
        DECODE_ROWS(0)
        DECODE_ROWS(1)
      }
      if (p + 1 < (uint)count) come(counters, p + 1);
    }
    leave(counters, made, made_bytes, (uint)count, before, grid, &last);
    return;
  }

  REGS_MORE(120);
  const uint column_group = warp >> 2, g = lane >> 2, tl = lane & 3;
  const uint in_b = column_group * 8192u + ((warp & 3) * 16u + g) * 128u + (((tl ^ g) << 4) ^ (g & 1) << 6);
  const ulong lines_a = DESCRIPTOR | (ulong)(ring_a >> 4);
  __global uint* const tile_counters = (__global uint*)(made + 2 * (ulong)made_bytes);
  uint slot_b = 0, parity_b = 0;
  for (uint p = 0; p < (uint)count; ++p) {
    if (p != 0) together = together && meet(counters, p, grid, waits, &broken);
    make_codes(products, p, (uint)count, made, made_bytes, before + p, together, group, grid);
    STRETCH(p);
    float sum[32], product[32];
    UNROLL for (int i = 0; i < 32; ++i) product[i] = sum[i] = 0.0f;
    uint tile_end = min(end, (first / blocks + 1) * blocks);
    _Pragma("unroll 1") for (uint w = first; w < end;) {
      MULTIPLY_K_BLOCK();
      if (++w == tile_end) {
        finish_tile(products, p, (uint)count, w - 1, sum, tile_counters, column_group);
        UNROLL for (int i = 0; i < 32; ++i) sum[i] = 0.0f;
        tile_end = min(end, tile_end + BLOCKS_OF(p));
      }
    }
    if (first < end) {
      const uint tile = first / BLOCKS_OF(p), last_tile = (end - 1) / BLOCKS_OF(p);
      _Pragma("unroll 1") for (uint t = tile; t <= last_tile; t += max(last_tile - tile, 1u))
        if (IS_PART(t)) add_parts(products, p, (uint)count, t, tile_counters, column_group, counters, waits, &all_here[column_group][t != tile]);
    }
    if (p + 1 < (uint)count) come(counters, p + 1);
  }
  leave(counters, made, made_bytes, (uint)count, before, grid, &last);
}
#endif  // Without what PTX_SM_90 promises this file is empty.
