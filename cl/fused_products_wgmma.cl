// SPDX-License-Identifier: Apache-2.0
// fused_products_wgmma.cl: products of 17 to 64 rows one after another in one launch on compute capability 9.0, in class f32: D[m,n] = sum_g sa[m,g]
// * sb[n,g] * sum_{k in g} A[m,k] * B[n,k], of A that comes as it is, in scale groups of one row by 128. Next door: fused_products.cl (fewer rows),
// gemm_wgmma_few_f16.cl (a product by itself), whose first operand, decoded to registers, this one has too.
//
// A work-group to a multiprocessor stays. Of each product it has as many K blocks of 192 columns as the others have, whole tiles or parts of
// them, one stretch of a list that has a tile's K blocks side by side; so all read the same amount of weights, which come by bulk copies:
//
//   warp 16         sends weights and their scales into a ring, one product after another, as far ahead as there is room, but for at most
//                   UNDER_WAY K blocks that have not come: more would not come sooner, and whatever else is loaded waits behind them;
//   warp 17         sends codes of A, once they are made, into stages;
//   warps 12 to 15  decode codes of A to f16 into a ring;
//   warps 0 to 11   three warpgroups, 64 columns each: decode weights to registers, multiply, and add in f32 (transposed_d.cl). They issue their
//                   products in turns, so that the tensor cores work for one while the others add and decode; at once they would all wait.
//
// Warps 0 to 15 meet all work-groups between two products (meeting.cl); then warps 0 to 11 of all make the codes of A together, some each
// (product_list.cl). Of a tile whose K blocks several work-groups have, each adds some rows of all parts up, in order, once all are stored.
// Nobody waits for ever: a work-group that does not meet all others within `waits` looks gives up, and so do then the others; what they have not
// computed becomes NaN, by scales that are. The host tries once, without products, whether the device runs so many work-groups at once.
//
// The loop that multiplies has no register to spare: whatever makes the driver's compiler spill there costs a way to the L2 in each K block. So
// local memory is one array at one address, and what is not needed in the loop is read again after it (docs/performance/decode.md).
//
// Set by the host: those of tile.cl, code_pairs.cl, PTX_SM_90, FLOOR_BITS.
// workspace, as fused_products.cpp books it: as product_list.cl has it, then of each product a counter for each 64 columns, and of each work-group
// the sums of two parts of tiles. The counters go on counting from launch to launch.
// Local memory: 224 KiB, all of it of arrays of the kernel's own (docs/opencl.md).
// Origin: as gemm_wgmma_few_f16.cl; equal stretches of all K blocks after Stream-K (Osama et al., PPoPP 2023); turns after the ping-pong schedule
// of FlashAttention-3 (Shah et al., 2024).
#include "tile.cl"

#if defined(PTX_SM_90)
#define PASSES 1  // Groups of A whose values a half-warp asks for together.
#include "ptx.cl"
#include "code_pairs.cl"
#define TILE_M 64
#include "weights_in_registers.cl"
#include "transposed_d.cl"
#define COLUMN_GROUPS 3  // Warpgroups that multiply, of 64 columns each,
#define TILE_N (64 * COLUMN_GROUPS)
#define MULTIPLYING (128 * COLUMN_GROUPS)
#define MEETERS (MULTIPLYING + 128)
#define MAKERS (MULTIPLYING / 32)
#define MEETING_BARRIER() BAR_NAMED(1, MEETERS)
#define GROUP_BARRIER() BAR_NAMED(2 + column_group, 128)
#define MY_TURN() BAR_NAMED(5 + column_group, 256)
#define NEXT_TURN() BAR_NAMED_ARRIVE(column_group == COLUMN_GROUPS - 1 ? 5 : 6 + column_group, 256)
#define MEETINGS FUSED_MOST_PRODUCTS
#include "meeting.cl"
#include "product_list.cl"

#define SLOTS_A 3
#define SLOTS_B 6
#define A_BYTES 16384u  // Of a K block: 64 rows of 128 f16, in two halves of K.
#define HALF_BYTES 8192u
#define B_BYTES (COLUMN_GROUPS * 8192u)
#define UNDER_WAY 4u
#define STAGES 3           // K blocks of codes of A that are asked for,
#define STAGE_BYTES 8448u  // with the scales of their rows.
// Where local memory's parts begin. Of B's scales 16 bytes come for each 64 columns, the least that a bulk copy takes.
#define RING_A memory
#define RING_B (RING_A + SLOTS_A * A_BYTES)
#define STAGES_OF_CODES (RING_B + SLOTS_B * B_BYTES)
#define SCALES_A (STAGES_OF_CODES + STAGES * STAGE_BYTES)
#define SCALES_B (SCALES_A + SLOTS_A * 256u)
#define FULL_A (SCALES_B + SLOTS_B * COLUMN_GROUPS * 16u)
#define EMPTY_A (FULL_A + 8 * SLOTS_A)
#define FULL_B (EMPTY_A + 8 * SLOTS_A)
#define EMPTY_B (FULL_B + 8 * SLOTS_B)
#define CAME (EMPTY_B + 8 * SLOTS_B)
#define FREE (CAME + 8 * STAGES)
#define BEGUN (FREE + 8 * STAGES)
#define LOCAL_BYTES (SLOTS_A * (A_BYTES + 256u + 16u) + SLOTS_B * (B_BYTES + COLUMN_GROUPS * 16u + 16u) + STAGES * (STAGE_BYTES + 16u) + 8u)
// Scales of a K block's rows, so that those of a work-item's 16 rows lie side by side.
#define PLACE_OF_SCALE(row) (((row) >> 1 & 3) * 16u + ((row) >> 3) * 2u + ((row) & 1))
#define SCALE_OF(kb) min((kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
#define NEXT_SLOT(SLOT, PARITY, SLOTS) do { if (++SLOT == (SLOTS)) { SLOT = 0; PARITY ^= 1; } } while (0)
#define LOCAL_U(a, p) asm volatile("ld.shared.u32 %0,[%1];" : "=r"(a) : "r"(p) : "memory")
#define DECODE_A4 JOIN(DECODE4_, A_TYPE)

// A product's K blocks are one list, tile by tile, in equal stretches; of this work-group's a few words, made once since they take divisions: its
// first K block and the one after its last, the first one's tile and its number there, and of its first tile and of its last one who has parts.
#define STRETCH_WORDS 6
#define OF_STRETCH(p, i) stretches[(p) * STRETCH_WORDS + (i)]
#define STRETCH(p) const uint blocks = BLOCKS_OF(p), first = OF_STRETCH(p, 0), end = OF_STRETCH(p, 1)
#define FIRST_TILE(p) OF_STRETCH(p, 2)
#define FIRST_BLOCK(p) OF_STRETCH(p, 3)
#define PARTS_OF(p, is_first) OF_STRETCH(p, 5 - (uint)(is_first))
// The first work-group that has K blocks of the tile; how many have; whether the tile is the first of the first one's stretch.
#define FIRST_PART(parts) ((parts) & 0xfffu)
#define PARTS(parts) ((parts) >> 12 & 0xfffu)
#define FIRST_IS_FIRST(parts) ((parts) >> 24 == 0)

/// The stretch of work-group `group` of product p. A few work-groups have none where the others' stretches then begin with tiles or equal parts of
/// them.
static inline void find_stretch(__local const ulong* products, uint p, uint group, uint grid, __local uint* to) {
  const uint blocks = BLOCKS_OF(p), tiles = (N_OF(p) + TILE_N - 1) / TILE_N, listed = tiles * blocks;
  const uint cut = grid / tiles * tiles, parts = min(8 * cut >= 7 * grid ? cut : grid, listed);
  const uint first = group < parts ? listed * group / parts : 0, end = group < parts ? listed * (group + 1) / parts : 0;
  to[0] = first, to[1] = end, to[2] = first / blocks, to[3] = first % blocks;
  for (uint i = 0; i < 2; ++i) {
    const uint from = (i == 0 ? first : max(end, 1u) - 1) / blocks * blocks, who = ((from + 1) * parts - 1) / listed;
    to[4 + i] = who | (((from + blocks) * parts - 1) / listed - who + 1) << 12 | (listed * who / parts < from ? 1u << 24 : 0u);
  }
}

// Codes of A: of a K block 2048 bytes for each warp that decodes, half of the K block of 32 rows: four pieces of 16 codes, of all rows side by side.
#define CODES_AT(kb, part) ((kb) * 8192u + (part) * 2048u)
#define IN_PART(piece, row) ((piece) * 512u + ((row) & 31) * 16u)
#define PART_OF(half_line, row) ((half_line) * 2 + (row) / 32)
#define SCALE_AT(kb, row) (((kb) * 64u + (row)) * 4u)

/// This warp's share of the codes of product p, and of unmaking those of the next: pairs of rows of a K block, one row for each half-warp. Rows
/// past the last are zeros.
static inline __attribute__((always_inline)) void make_codes(__local const ulong* products, uint p, uint count, __global uchar* made, uint made_bytes,
                                                             uint turn, bool together) {
  const uint grid = (uint)get_num_groups(0), lane = get_local_id(0) & 31, odd_row = lane >> 4, of_line = lane & 15;
  const uint number = get_local_id(0) / 32 * grid + (uint)get_group_id(0), step = MAKERS * grid;
#define TO_CODES(kb, row) (CODES_AT(kb, PART_OF(of_line >> 3, row)) + IN_PART(of_line >> 1 & 3, row) + (of_line & 1) * 8u)
  const uint rows = ROWS_OF(p), all = BLOCKS_OF(p) * 32;
  __global const uchar* const a = A_OF(p);
  const ulong lda = LDA_OF(p);
  __global uchar* const here = made + (turn & 1) * made_bytes, *const scales_here = here + BLOCKS_OF(p) * 8192u;
  for (uint i = number; together && i < all; i += step) {
    const uint kb = i / 32, row = i % 32 * 2 + odd_row;
    const bool beyond = row >= rows;
    uint raw[PASSES][WORDS], low, high;
    float scale, reciprocal;
    LOAD_GROUP(raw[0], a, lda, min(row, rows - 1), kb)
    SCALES_OF_PASSES(raw, FLOOR_BITS, scale, reciprocal);
    CODES_OF_PASS(low, high, raw, 0, scale, reciprocal);
    STORE8_SHOWN(here + TO_CODES(kb, row), beyond ? 0u : low, beyond ? 0u : high);
    if (of_line == 0) STORE_SHOWN(scales_here + SCALE_AT(kb, row), beyond ? 0u : as_uint(scale));
  }
  const uint next = p + 1 < count ? p + 1 : 0, all_next = BLOCKS_OF(next) * 32;
  __global uchar* const there = made + ((turn + 1) & 1) * made_bytes, *const scales_there = there + BLOCKS_OF(next) * 8192u;
  for (uint i = number; i < all_next; i += step) {
    const uint kb = i / 32, row = i % 32 * 2 + odd_row;
    STORE8_SHOWN(there + TO_CODES(kb, row), UNMADE, UNMADE);
    if (of_line == 0) STORE_SHOWN(scales_there + SCALE_AT(kb, row), UNMADE);
  }
}

// Block w, number kb of its tile's, into the ring as soon as it is there. The first one, and what was copied before it was made, is read from
// memory until it is.
#define DECODE_ROWS()                                                                                          \
  do {                                                                                                         \
    for (bool from_memory = w == first;; from_memory = true) {                                                 \
      if (from_memory) {                                                                                       \
        UNROLL for (int t_ = 0; t_ < 4; ++t_) LOAD16_SHOWN(v[t_], here + CODES_AT(kb, part) + IN_PART(t_, row)); \
        LOAD_SHOWN(bits, here + blocks * 8192u + SCALE_AT(kb, row));                                           \
      } else {                                                                                                 \
        BAR_WAIT(CAME + 8 * stage, stage_parity);                                                              \
        UNROLL for (int t_ = 0; t_ < 4; ++t_) LOCAL16(v[t_], stages + stage * STAGE_BYTES + IN_PART(t_, row)); \
        LOCAL_U(bits, STAGES_OF_CODES + stage * STAGE_BYTES + 8192u + row * 4u);                               \
      }                                                                                                        \
      uint largest_ = bits;                                                                                    \
      UNROLL for (int t_ = 0; t_ < 16; ++t_) largest_ = max(largest_, v[t_ / 4][t_ % 4]);                      \
      if (!any_of_warp(largest_ == UNMADE) || looks <= 0) break;                                               \
      --looks;                                                                                                 \
    }                                                                                                          \
    if (w != first) {                                                                                          \
      if (lane == 0) BAR_ARRIVE(FREE + 8 * stage);                                                             \
      NEXT_SLOT(stage, stage_parity, STAGES);                                                                  \
    }                                                                                                          \
    BAR_WAIT(EMPTY_A + 8 * slot_a, parity_a ^ 1);                                                              \
    const uint to_ = RING_A + slot_a * A_BYTES + line;                                                         \
    UNROLL for (int i_ = 0; i_ < 4; ++i_) {                                                                    \
      uint lo_[4], hi_[4];                                                                                     \
      UNROLL for (int t_ = 0; t_ < 4; ++t_) DECODE_A4(lo_[t_], hi_[t_], v[t_][i_]);                            \
      STORE_LOCAL16(to_ + (((2 * i_) ^ swizzle) << 4), lo_[0], lo_[1], lo_[2], lo_[3]);                        \
      STORE_LOCAL16(to_ + (((2 * i_ + 1) ^ swizzle) << 4), hi_[0], hi_[1], hi_[2], hi_[3]);                    \
    }                                                                                                          \
    if (half_line == 0) STORE_LOCAL_F(SCALES_A + (slot_a * 64u + PLACE_OF_SCALE(row)) * 4u, together ? as_float(bits) : NAN); \
    FENCE_BULK();                                                                                              \
    SYNC_WARP();                                                                                               \
    if (lane == 0) BAR_ARRIVE(FULL_A + 8 * slot_a);                                                            \
    NEXT_SLOT(slot_a, parity_a, SLOTS_A);                                                                      \
    if (++kb == blocks) kb = 0;                                                                                \
  } while (0)

// The next K block's weights, once they have come.
#define TAKE_WEIGHTS()                                                 \
  do {                                                                 \
    BAR_WAIT(FULL_B + 8 * slot_b, parity_b);                           \
    const uint codes_ = RING_B + slot_b * B_BYTES + in_b;              \
    DECODE_COLUMN(weights, 0, codes_);                                 \
    DECODE_COLUMN(weights, 1, codes_ + 1024u);                         \
  } while (0)
// A K block of this warpgroup's tile, whose weights are taken; takes the next one's, of whichever product. Weights and scales that the slots gave
// are in use before these are given back, so that no bulk copy can overtake a load of them.
#define MULTIPLY_K_BLOCK()                                                                                          \
  do {                                                                                                              \
    float of_columns, q[16];                                                                                        \
    const ulong at = lines_a + slot_a * (A_BYTES >> 4);                                                             \
    const uint of_rows = SCALES_A + (slot_a * 64u + tl * 16u) * 4u;                                                 \
    MY_TURN();                                                                                                      \
    BAR_WAIT(FULL_A + 8 * slot_a, parity_a);                                                                        \
    WGMMA_FENCE();                                                                                                  \
    MULTIPLY(product, weights, at);                                                                                 \
    WGMMA_COMMIT();                                                                                                 \
    NEXT_TURN();                                                                                                    \
    LOCAL_F(of_columns, SCALES_B + (slot_b * COLUMN_GROUPS + column_group) * 16u);                                  \
    WGMMA_WAIT(0);                                                                                                  \
    UNROLL for (int i = 0; i < 16; i += 4) LOCAL_F4(q[i], q[i + 1], q[i + 2], q[i + 3], of_rows + i * 4u);          \
    UNROLL for (int i = 0; i < 8; ++i)                                                                              \
      ADD_SCALED((sum + 4 * i), (product + 4 * i), q[2 * i] * of_columns, q[2 * i + 1] * of_columns);               \
    SYNC_WARP();                                                                                                    \
    if (lane == 0) BAR_ARRIVE(EMPTY_B + 8 * slot_b);                                                                \
    if (lane == 0) BAR_ARRIVE(EMPTY_A + 8 * slot_a);                                                                \
    NEXT_SLOT(slot_b, parity_b, SLOTS_B);                                                                           \
    NEXT_SLOT(slot_a, parity_a, SLOTS_A);                                                                           \
    TAKE_WEIGHTS();                                                                                                 \
  } while (0)
// Where D and its biases are, of columns of `tile` that this warp has.
#define PLACE_OF_TILE(p, tile)                                                                           \
  const int n = (int)N_OF(p);                                                                            \
  const ulong ldd = LDD_OF(p), bias_at = 0, d_at = WORD(p, 3) / sizeof(d_element) & 3;                   \
  __global uchar* const d = D_OF(p) - d_at * sizeof(d_element);                                          \
  __global const uchar* const bias = BIASES_OF(p);                                                       \
  const scheduled_tile all_rows = {0, 0, (int)ROWS_OF(p)};                                               \
  PLACE_IN_D(all_rows, (tile) * TILE_N + column_group * 64u + (get_local_id(0) >> 5 & 3) * 16u)
// Counters of all products, behind which the parts lie.
#define COUNTERS_OF_TILES (UNITS_BEFORE(count - 1) + (N_OF(count - 1) + 127) / 128 * (128 / FUSED_COLUMNS))
// Of work-group WHO a part of a tile, which is its stretch's first tile or the last one.
#define PART_AT(who, is_first)                              \
  ((__global float*)(tile_counters + COUNTERS_OF_TILES) +   \
   (((ulong)(who)*2 + !(is_first)) * COLUMN_GROUPS + column_group) * 4096u + of_group * 4u)
// Of a tile's column group: how many work-groups have stored their parts, in this launch and all before.
#define COUNTER_OF(p) (tile_counters + UNITS_BEFORE(p) + tile * COLUMN_GROUPS + column_group)

/// A tile whose K blocks here end, of which this warpgroup has `sum`: into D, or, if other work-groups have K blocks of it too, to where all parts
/// are. What both functions need is read here, since the loop before has no registers for it.
static inline __attribute__((always_inline)) void finish_tile(__local const ulong* products, __local const uint* stretches, uint p, uint count,
                                                              uint tile, bool is_last, const float* sum, __global uint* tile_counters,
                                                              uint column_group) {
  const uint group = (uint)get_group_id(0), lane = get_local_id(0) & 31, g = LINE_OF(lane), tl = lane & 3;
  const uint of_group = get_local_id(0) & 127;
  const bool is_first = tile == FIRST_TILE(p);
  if ((is_first || is_last) && PARTS(PARTS_OF(p, is_first)) > 1) {
    __global float* const to = PART_AT(group, is_first);
    UNROLL for (int i = 0; i < 8; ++i) STORE_F4(to + i * 512, sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
    GROUP_BARRIER();
    if (of_group == 0) ADD_RELEASED(COUNTER_OF(p));
    return;
  }
  PLACE_OF_TILE(p, tile);
  UNROLL for (int i = 0; i < 8; ++i) OUT(0, i, sum + 4 * i);
}
#define ROWS_AT_ONCE 2   // Eights of rows of the tile,
#define PARTS_AT_ONCE 6  // and parts, that are asked for together, since a way to the L2 takes longer than all else.
/// This work-group's share of the rows of a tile of which it has a part, if there are others: all parts are added up, in order, and go into D.
/// Work-groups end about together, so each waits for the others'.
static inline __attribute__((always_inline)) void add_parts(__local const ulong* products, __local const uint* stretches, uint p, uint count,
                                                            uint tile, __global uint* tile_counters, uint column_group,
                                                            __global uint* counters, int waits, uint launches, __local uint* all_here) {
  const uint group = (uint)get_group_id(0), lane = get_local_id(0) & 31, g = LINE_OF(lane), tl = lane & 3;
  const uint of_group = get_local_id(0) & 127;
  const uint of_tile = PARTS_OF(p, tile == FIRST_TILE(p)), shares = PARTS(of_tile), mine = group - FIRST_PART(of_tile);
  if (shares == 1) return;
  const uint from = 8 * mine / shares, to = 8 * (mine + 1) / shares;
  __global uint* const stored = COUNTER_OF(p);
  if (from < to) {
    PLACE_OF_TILE(p, tile);
    if (of_group == 0) {
      uint here = 0;
      for (int i = 0; i < waits && here != shares; ++i) {
        LOAD_ACQUIRED(here, stored);
        here -= launches * shares;
      }
      if (here != shares) atomic_xchg(counters + GAVE_UP, 1u);
      *all_here = here == shares;
    }
    GROUP_BARRIER();
    const float none = *all_here ? 0.0f : NAN;
    // The first part may lie where its work-group has its last tile's, the others' are of first tiles.
    __global const float* const first = PART_AT(FIRST_PART(of_tile), FIRST_IS_FIRST(of_tile));
    __global const float* const others = PART_AT(FIRST_PART(of_tile), true);
    _Pragma("unroll 1") for (uint i = from; i < to; i += ROWS_AT_ONCE) {
      float sum[ROWS_AT_ONCE][4];
      UNROLL for (uint r = 0; r < ROWS_AT_ONCE; ++r) UNROLL for (int e = 0; e < 4; ++e) sum[r][e] = none;
      _Pragma("unroll 1") for (uint part = 0; part < shares; part += PARTS_AT_ONCE) {
        uint x[ROWS_AT_ONCE][PARTS_AT_ONCE][4];
        UNROLL for (uint r = 0; r < ROWS_AT_ONCE; ++r)
          UNROLL for (uint o = 0; o < PARTS_AT_ONCE; ++o) {
            const uint from_part = min(part + o, shares - 1);
            LOAD16_SHOWN(x[r][o], (from_part == 0 ? first : others + (ulong)from_part * (2 * COLUMN_GROUPS * 4096u)) + min(i + r, to - 1) * 512);
          }
        UNROLL for (uint r = 0; r < ROWS_AT_ONCE; ++r)
          UNROLL for (uint o = 0; o < PARTS_AT_ONCE; ++o)
            UNROLL for (int e = 0; e < 4; ++e) if (part + o < shares) sum[r][e] += as_float(x[r][o][e]);
      }
      UNROLL for (uint r = 0; r < ROWS_AT_ONCE; ++r) if (i + r < to) OUT(0, i + r, sum[r]);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(FUSED_WGMMA_ITEMS, 1, 1))) void fused_products_wgmma(PARAMETERS(FUSED_PRODUCTS_LIST))
{
  __local uchar rings[LOCAL_BYTES] __attribute__((aligned(1024)));
  __local ulong products[FUSED_MOST_PRODUCTS * FUSED_PRODUCT_WORDS];
  __local uint stretches[FUSED_MOST_PRODUCTS * STRETCH_WORDS];
  __local uint launches, broken, last, all_here[COLUMN_GROUPS][2];
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, group = (uint)get_group_id(0), grid = (uint)get_num_groups(0);
  __global uint* counters = (__global uint*)workspace;
  __global uchar* made = MADE;
  uint memory = LOCAL_ADDRESS(rings);
  asm volatile("" : "+r"(memory));  // So it is kept in a register, not made again at each use.
  if (count == 0) {
    if (tid >= MEETERS) return;
    come(counters, 0);
    meet(counters, 0, grid, waits, &broken);
    return;
  }
  if (tid == 0) {
    launches = counters[LAUNCHES];
    for (uint i = 0; i < SLOTS_A; ++i) {
      BAR_INIT(FULL_A + 8 * i, 4u);                   // the warps that decode A
      BAR_INIT(EMPTY_A + 8 * i, 4u * COLUMN_GROUPS);  // those that multiply
    }
    for (uint i = 0; i < SLOTS_B; ++i) {
      BAR_INIT(FULL_B + 8 * i, 2 * COLUMN_GROUPS);
      BAR_INIT(EMPTY_B + 8 * i, 4u * COLUMN_GROUPS);
    }
    for (uint i = 0; i < STAGES; ++i) {
      BAR_INIT(CAME + 8 * i, 1u);
      BAR_INIT(FREE + 8 * i, 4u);
    }
    BAR_INIT(BEGUN, 1u);
    BAR_INIT_DONE();
  }
  for (uint i = tid; i < (uint)count * FUSED_PRODUCT_WORDS; i += FUSED_WGMMA_ITEMS) products[i] = TABLE[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (tid < (uint)count) find_stretch(products, tid, group, grid, &OF_STRETCH(tid, 0));
  barrier(CLK_LOCAL_MEM_FENCE);

  if (tid >= MEETERS) {
    REGS_LESS(40);
    if (tid == MEETERS + 32) {  // Codes of A, from a product's second K block here on.
      const uint before = counters[TURN];
      uint stage = 0, parity = 1, begun = 0;
      for (uint p = 0; p < (uint)count; ++p) {
        STRETCH(p);
        if (first + 1 >= end) continue;
        BAR_WAIT(BEGUN, begun);
        begun ^= 1;
        FENCE_SENT();  // What was unmade before the meeting is so for copies too; what they see of codes is looked at.
        __global const uchar* const here = made + ((before + p) & 1) * made_bytes;
        uint kb = (FIRST_BLOCK(p) + 1) % blocks, bits = UNMADE;
        // The first one waits until one of its scales is there; those who decode look at every code.
        for (int looks = waits; bits == UNMADE && looks > 0; --looks) LOAD_SHOWN(bits, here + blocks * 8192u + SCALE_AT(kb, 63u));
        _Pragma("unroll 1") for (uint w = first + 1; w < end; ++w) {
          BAR_WAIT(FREE + 8 * stage, parity);
          BAR_ARRIVE_EXPECT(CAME + 8 * stage, STAGE_BYTES);
          BULK_COPY(STAGES_OF_CODES + stage * STAGE_BYTES, here + CODES_AT(kb, 0u), 8192u, CAME + 8 * stage);
          BULK_COPY(STAGES_OF_CODES + stage * STAGE_BYTES + 8192u, here + blocks * 8192u + SCALE_AT(kb, 0u), 256u, CAME + 8 * stage);
          NEXT_SLOT(stage, parity, STAGES);
          if (++kb == blocks) kb = 0;
        }
      }
    }
    if (tid != MEETERS) return;
    ulong once;  // Weights are read once, so they leave the L2 first.
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    uint slot = 0, parity = 1, sent = 0, landed = 0, landed_parity = 0;  // The first wait for each slot to be empty passes at once.
    for (uint q = 0; q <= (uint)count; ++q) {
      const uint p = min(q, (uint)count - 1), blocks = BLOCKS_OF(p);  // After the last product a K block that is taken, not multiplied.
      const uint first = q < (uint)count ? OF_STRETCH(p, 0) : 0, end = q < (uint)count ? OF_STRETCH(p, 1) : 1;
      const uint last_columns = (N_OF(p) - 1) / 64, groups_b = (blocks * 128u - 1) / B_SCALE_COLS + 1;
      __global const float* const sb = SB_OF(p);
      __global const uchar* const b = B_OF(p);
      const ulong column_bytes = (ulong)ALL_BLOCKS_OF(p) * 8192u;  // From a block of 64 columns to the next.
      uint kb = FIRST_BLOCK(p), columns = FIRST_TILE(p) * COLUMN_GROUPS;
      _Pragma("unroll 1") for (uint w = first; w < end; ++w, ++sent) {
        BAR_WAIT(EMPTY_B + 8 * slot, parity);
        if (sent >= UNDER_WAY) {
          BAR_WAIT(FULL_B + 8 * landed, landed_parity);
          NEXT_SLOT(landed, landed_parity, SLOTS_B);
        }
        UNROLL for (uint c = 0; c < COLUMN_GROUPS; ++c) {
          const uint here = min(columns + c, last_columns);
          SEND_IF(1, RING_B + slot * B_BYTES + c * 8192u, b + (here * column_bytes + kb * 8192u), FULL_B + 8 * slot, 8192u, once);
          SEND_IF(1, SCALES_B + (slot * COLUMN_GROUPS + c) * 16u, sb + (here / 2 * groups_b + SCALE_OF(kb)) * 128ul, FULL_B + 8 * slot, 16u,
                  once);
        }
        NEXT_SLOT(slot, parity, SLOTS_B);
        if (++kb == blocks) kb = 0, columns += COLUMN_GROUPS;
      }
    }
    return;
  }

  if (tid >= MULTIPLYING) {
    REGS_LESS(80);
    const uint row = tid & 63, half_line = tid >> 6 & 1, line = half_line * HALF_BYTES + row * 128u, swizzle = row & 7;
    const uint part = PART_OF(half_line, row), stages = STAGES_OF_CODES + part * 2048u;
    const uint before = counters[TURN];
    bool together = true;
    uint slot_a = 0, parity_a = 0, v[4][4], bits, stage = 0, stage_parity = 0;
    int looks = waits;  // For codes that have not come.
    for (uint p = 0; p < (uint)count; ++p) {
      if (p != 0) together = together && meet(counters, p, grid, waits, &broken);
      STRETCH(p);
      __global const uchar* const here = made + ((before + p) & 1) * made_bytes;
      if (!together) looks = 0;
      if (part == 0 && lane == 0 && first + 1 < end) BAR_ARRIVE(BEGUN);
      uint kb = FIRST_BLOCK(p);
      _Pragma("unroll 1") for (uint w = first; w < end; ++w) DECODE_ROWS();
      if (p + 1 < (uint)count) come(counters, p + 1);
    }
    leave(counters, made, made_bytes, COUNTERS_OF_TILES, (uint)count, before, grid, &last);
    return;
  }

  REGS_MORE(120);
  const uint column_group = warp >> 2, g = LINE_OF(lane), tl = lane & 3;
  const uint in_b = column_group * 8192u + ((warp & 3) * 16u + g) * 128u + ((tl ^ g) << 4);
  const ulong lines_a = DESCRIPTOR | (ulong)(RING_A >> 4);
  __global uint* const tile_counters = (__global uint*)(made + 2 * (ulong)made_bytes);
  const uint before = counters[TURN];
  bool together = true;
  uint slot_a = 0, parity_a = 0, slot_b = 0, parity_b = 0, weights[32];
  if (column_group == COLUMN_GROUPS - 1) NEXT_TURN();
  TAKE_WEIGHTS();
  for (uint p = 0; p < (uint)count; ++p) {
    if (p != 0) together = together && meet(counters, p, grid, waits, &broken);
    make_codes(products, p, (uint)count, made, made_bytes, before + p, together);
    STRETCH(p);
    float sum[32], product[32];
    UNROLL for (int i = 0; i < 32; ++i) product[i] = sum[i] = 0.0f;
    const uint first_tile = FIRST_TILE(p);
    uint tile = first_tile, left = end - first;
    for (uint of_tile = min(left, blocks - FIRST_BLOCK(p)); left > 0; of_tile = min(left, BLOCKS_OF(p))) {
      left -= of_tile;
      _Pragma("unroll 1") for (; of_tile > 0; --of_tile) MULTIPLY_K_BLOCK();
      finish_tile(products, stretches, p, (uint)count, tile, left == 0, sum, tile_counters, column_group);
      UNROLL for (int i = 0; i < 32; ++i) sum[i] = 0.0f;
      ++tile;
    }
    if (tile != first_tile) {  // Parts are of the first tile and of the last.
      _Pragma("unroll 1") for (uint t = first_tile; t < tile; t += max(tile - 1 - first_tile, 1u))
        add_parts(products, stretches, p, (uint)count, t, tile_counters, column_group, counters, waits, launches,
                  &all_here[column_group][t != first_tile]);
    }
    if (p + 1 < (uint)count) come(counters, p + 1);
  }
  leave(counters, made, made_bytes, COUNTERS_OF_TILES, (uint)count, before, grid, &last);
}
#endif  // Without what PTX_SM_90 promises this file is empty.
