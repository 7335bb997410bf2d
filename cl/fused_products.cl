// SPDX-License-Identifier: Apache-2.0
// fused_products.cl: products of few rows one after another in one launch on compute capability 9.0, in class f32: D[m,n] = sum_g sa[m,g] *
// sb[n,g] * sum_{k in g} A[m,k] * B[n,k], of A that comes as it is, in scale groups of one row by 128. Weights stream at the memory's rate through
// all of them: only A waits for what was before.
//
// A work-group to a multiprocessor stays. A warp of its own fills the ring of each of the others (ring.cl) with the weights of one product
// after another, as far ahead as there is room, but for at most UNDER_WAY bytes that have not come yet: more would not come sooner, and
// whatever else is loaded waits behind them. The others multiply, and meet all work-groups between two products (meeting.cl).
// With one row each work-group makes all codes of A. With more (SHARES) the work-groups make some each, in memory of the launch's own,
// and every warp takes those of its K blocks as they appear (product_list.cl).
// Nobody waits for ever: a work-group that does not meet all others within `waits` looks gives up, and so do then the others; what they have not
// computed becomes NaN. The host tries once, without products, whether the device runs so many work-groups at once.
//
// Set by the host: those of tile.cl, code_pairs.cl, PTX_SM_90, FLOOR_BITS, and
// TILE_M 1   1 2 4 8 16   rows of D of any product
// workspace, as fused_products.cpp books it: as product_list.cl has it.
// Local memory: 226 KiB, all of it of arrays of the kernel's own (docs/opencl.md).
// Origin: as gemm_mma_ring.cl.
#include "tile.cl"

#ifndef TILE_M
#define TILE_M 1
#endif
#define COLUMNS FUSED_COLUMNS
#define WARPS FUSED_WARPS
#define SHARES (TILE_M > 1)
#define PASSES (SHARES ? 1 : 8)  // Groups of A whose values a half-warp asks for together,
#define PIECES 4                 // and pieces of codes a work-item.
#define UNDER_WAY (80u * 1024u)
#define MEMORY ((SHARES ? 200u : 208u) * 1024u)
#define A_MEMORY ((TILE_M > 8 ? 64u : 32u) * 1024u)  // Of that, with SHARES, at most so much for codes of A.
#define MEETINGS FUSED_MOST_PRODUCTS
#if defined(PTX_SM_90)
#include "ptx.cl"
#include "code_pairs.cl"
#include "ring.cl"
#define MULTIPLYING (32 * WARPS)  // Work-items that do.
#define MEETING_BARRIER() BAR_NAMED(1, MULTIPLYING)
#define MEETERS MULTIPLYING
#include "meeting.cl"
#include "product_list.cl"

#define MOST_STAGES (MEMORY / WEIGHTS / WARPS)
#define UNITS_OF(p) ((N_OF(p) + COLUMNS - 1) / COLUMNS)
// Units are dealt as one list, so that all work-groups have as many.
#define FIRST_OF(p) ((group + grid - UNITS_BEFORE(p) % grid) % grid)

// Groups of a row by 128, of which a half-warp has one in hand, eight values a lane: `index` is of row ROW_AT of K block BLOCK_AT.
#define LAST(index) min(index, all - 1)
#define BLOCK_AT(index) (LAST(index) / TILE_M)
#define ROW_AT(index) (LAST(index) % TILE_M)
#define LOAD_VALUES(raw, index) LOAD_GROUP(raw, a, lda, min(ROW_AT(index), rows - 1), BLOCK_AT(index))
#define PIECE_OF_CODES(index) ((((lane >> 1 & 7) ^ (ROW_AT(index) & 7)) << 4) + (lane & 1) * 8u)
#define PLACE_OF_SCALE(kb, row) (scales + ((kb) * 8 * T + (row)) * 4)

static inline uint has_come(uint bar, uint parity) {
  uint done;
  asm volatile("{.reg .pred q; mbarrier.test_wait.parity.shared.b64 q,[%1],%2; selp.u32 %0,1,0,q;}" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done;
}
static inline uint lanes_of_warp(uint condition) {
  uint lanes;
  asm volatile("{.reg .pred p; setp.ne.u32 p,%1,0; vote.sync.ballot.b32 %0,p,0xffffffff;}" : "=r"(lanes) : "r"(condition));
  return lanes;
}

/// Each lane fills the ring of a warp, of `stages` slots, with that warp's K blocks of all products.
static inline void fill_rings(__local const ulong* products, uint count, uint ring, uint full, uint empty, uint stages, uint broken, uint lane,
                              uint group, uint grid) {
  ulong once;  // Weights are read once, so they leave the L2 first.
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
  // The stage to ask for; the first one that has not come yet, and how many have not.
  uint p = ~0u, unit = 0, units = 0, block = 0, blocks = 0, stage = 0, parity = 0, expected = 0, expected_parity = 0, under_way = 0, turn = 0;
  __global const uchar* from = 0;
  bool more = lane < WARPS;
  while (any_of_warp(more || under_way != 0)) {
    float gave_up;
    LOCAL_F(gave_up, broken);
    more = more && as_uint(gave_up) == 0;
    if (more && unit >= units) {
      if (++p == count) more = false;
      else {
        blocks = BLOCKS_OF(p), units = lane < blocks ? UNITS_OF(p) : 0, unit = FIRST_OF(p), block = lane;
        from = WEIGHTS_IN(B_OF(p), unit, block, ALL_BLOCKS_OF(p));
      }
    }
    if (under_way != 0 && has_come(full + 8 * expected, expected_parity)) {
      --under_way;
      if (++expected == stages) expected = 0, expected_parity ^= 1;
    }
    uint in_all;
    asm volatile("redux.sync.add.u32 %0,%1,0xffffffff;" : "=r"(in_all) : "r"(under_way));
    const uint ready = more && unit < units && has_come(empty + 8 * stage, parity ^ 1);
    // Lanes take turns in who is first.
    const uint others = lanes_of_warp(ready), rank = popcount((turn ? others >> turn | others << (32 - turn) : others) & ((1u << ((lane - turn) & 31)) - 1u));
    turn = (turn + 5) % WARPS;
    const uint now = ready && rank + in_all < UNDER_WAY / WEIGHTS;
    SEND_IF(now, ring + stage * WEIGHTS, from, full + 8 * stage, WEIGHTS, once);
    if (now) {
      ++under_way;
      if (++stage == stages) stage = 0, parity ^= 1;
      block += WARPS, from += WARPS * 8192;
      if (block >= blocks) block = lane, unit += grid, from = WEIGHTS_IN(B_OF(p), unit, block, ALL_BLOCKS_OF(p));
    }
  }
}

__kernel __attribute__((reqd_work_group_size(32 * (WARPS + 1), 1, 1))) void fused_products(PARAMETERS(FUSED_PRODUCTS_LIST))
{
  __local uchar memory_[MEMORY] __attribute__((aligned(1024)));
  __local float parts[BUFFERS][WARPS][TILE_M][COLUMNS];
  __local ulong bars_[2][WARPS * MOST_STAGES];
  __local ulong products[FUSED_MOST_PRODUCTS * FUSED_PRODUCT_WORDS];
  __local uint broken, last;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
  const uint group = (uint)get_group_id(0), grid = (uint)get_num_groups(0);
  __global uint* counters = (__global uint*)workspace;
  __global uchar* made = MADE;
  const uint bars = LOCAL_ADDRESS(bars_), memory = LOCAL_ADDRESS(memory_);
  for (uint i = tid; i < 2 * WARPS * MOST_STAGES; i += 32 * (WARPS + 1)) BAR_INIT(bars + 8 * i, 1u);
  BAR_INIT_DONE();
  for (uint i = tid; i < (uint)count * FUSED_PRODUCT_WORDS; i += 32 * (WARPS + 1)) products[i] = TABLE[i];
  if (tid == 0) broken = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint most_blocks = 0;
  for (uint p = 0; p < (uint)count; ++p) most_blocks = max(most_blocks, BLOCKS_OF(p));
  // Of codes of A a warp has those of so many of its K blocks at a time; without SHARES all.
  uint held = (most_blocks + WARPS - 1) / WARPS;
  if (SHARES) held = min(held, A_MEMORY / (WARPS * CODES));
  const uint stages = min((uint)MOST_STAGES, (MEMORY - held * WARPS * CODES - most_blocks * T * 32u) / (WARPS * WEIGHTS));
  const uint all_codes = memory + WARPS * stages * WEIGHTS, scales = all_codes + held * WARPS * CODES;
  const uint of_warp = warp == WARPS ? lane : warp;
  const uint ring = memory + of_warp * stages * WEIGHTS, full = bars + of_warp * 8 * MOST_STAGES, empty = full + WARPS * 8 * MOST_STAGES;
  if (warp == WARPS) {
    fill_rings(products, (uint)count, ring, full, empty, stages, LOCAL_ADDRESS(&broken), lane, group, grid);
    return;
  }
  if (count == 0) {
    come(counters, 0);
    meet(counters, 0, grid, waits, &broken);
    return;
  }
  const uint in_slot = IN_SLOT, in_codes = IN_CODES, codes = all_codes + warp * held * CODES;
  const uint before = counters[TURN];
  bool together = true;
  uint stage = 0, parity = 0, buffer = 0;
  for (uint p = 0; p < (uint)count; ++p) {
    __global const float* const sb = SB_OF(p);
    const ulong lda = LDA_OF(p);
    const uint rows = ROWS_OF(p), blocks = BLOCKS_OF(p), all = blocks * TILE_M, groups_b = (blocks * 128u - 1) / B_SCALE_COLS + 1;
    const uint n = N_OF(p), units = UNITS_OF(p), first = FIRST_OF(p);
    const uint own_blocks = blocks > warp && first < units ? (blocks - warp + WARPS - 1) / WARPS : 0;
    float scale_next = 0.f;  // Of this lane's K block of the warp's, of the next unit.
    const uint scale_block = SCALE_OF(warp + lane * WARPS) * 128u;
    if (lane < own_blocks) LOAD_F(scale_next, SCALES_IN(sb, first, groups_b) + scale_block);
    if (p != 0) together = together && meet(counters, p, grid, waits, &broken);
    __global const uchar* const a = A_OF(p);
    uint raw[PASSES][WORDS], low, high;
    float scale, reciprocal;
#if SHARES
    __global uchar* const here = made + ((before + p) & 1) * made_bytes, *const scales_here = here + all * 128u;
    // A warp's share: two groups, of each `grid` pairs one.
    for (uint pair = warp * grid + (group + UNITS_BEFORE(p)) % grid; together && pair * 2 < all; pair += WARPS * grid) {
      const uint index = pair * 2 + (lane >> 4);
      LOAD_VALUES(raw[0], index)
      SCALES_OF_PASSES(raw, FLOOR_BITS, scale, reciprocal);
      CODES_OF_PASS(low, high, raw, 0, scale, reciprocal);
      if (index < all) STORE8_SHOWN(here + index * 128u + PIECE_OF_CODES(index), low, high);
      if (index < all && (lane & 15) == 0) STORE_SHOWN(scales_here + index * 4u, as_uint(scale));
    }
#define GROUP_OF_WARP(index) ((warp + (index) / TILE_M * WARPS) * TILE_M + (index) % TILE_M)  // Of those of this warp's K blocks.
// Codes of this warp's K blocks from number FROM on, in pieces of 16 bytes, as many as it holds, into local memory.
#define TAKE_CODES(FROM)                                                                                                     \
  for (uint at_ = lane, from_ = FROM, end_ = min(held, own_blocks - from_) * TILE_M * 8; at_ < end_ + lane; at_ += 32 * PIECES) { \
    uint v_[PIECES][4], missing_ = 1;                                                                                        \
    for (int look_ = 0; missing_ && look_ < waits; ++look_) {                                                                \
      missing_ = 0;                                                                                                          \
      UNROLL for (int i = 0; i < PIECES; ++i)                                                                                \
        LOAD16_SHOWN(v_[i], here + GROUP_OF_WARP(from_ * TILE_M + PIECE_(i) / 8) * 128u + PIECE_(i) % 8 * 16u);             \
      UNROLL for (int i = 0; i < PIECES; ++i) UNROLL for (int j = 0; j < 4; ++j) missing_ |= v_[i][j] == UNMADE;             \
    }                                                                                                                        \
    UNROLL for (int i = 0; i < PIECES; ++i)                                                                                  \
      STORE_LOCAL16(codes + PIECE_(i) * 16u, v_[i][0], v_[i][1], v_[i][2], v_[i][3]);                                        \
  }
#define PIECE_(i) min(at_ + 32 * (i), end_ - 1)
    if (together && own_blocks != 0) {
      TAKE_CODES(0)
      for (uint i = lane; i < own_blocks * TILE_M; i += 32) {
        uint bits = UNMADE;
        for (int look = 0; bits == UNMADE && look < waits; ++look) LOAD_SHOWN(bits, scales_here + GROUP_OF_WARP(i) * 4u);
        STORE_LOCAL_F(PLACE_OF_SCALE(warp + i / TILE_M * WARPS, i % TILE_M), as_float(bits));
      }
    }
    SYNC_WARP();
    {
      const uint next = p + 1 < (uint)count ? p + 1 : 0, all_next = BLOCKS_OF(next) * TILE_M;
      __global uchar* const there = made + ((before + p + 1) & 1) * made_bytes;
      for (uint pair = warp * grid + group; pair * 2 < all_next; pair += WARPS * grid) {
        const uint index = pair * 2 + (lane >> 4);
        if (index < all_next) STORE8_SHOWN(there + index * 128u + (lane & 15) * 8u, UNMADE, UNMADE);
        if (index < all_next && (lane & 15) == 0) STORE_SHOWN(there + all_next * 128u + index * 4u, UNMADE);
      }
    }
#else
    for (uint from = tid / 16; together && from / 2 * 2 < all; from += PASSES * 2 * WARPS) {
#define INDEX(i) (from + 2 * WARPS * (i))
      UNROLL for (int i = 0; i < PASSES; ++i) {
        UNROLL for (int j = 0; j < WORDS; ++j) raw[i][j] = 0;
        if (INDEX(i) < all) LOAD_VALUES(raw[i], INDEX(i))
      }
      SCALES_OF_PASSES(raw, FLOOR_BITS, scale, reciprocal);
      UNROLL for (int i = 0; i < PASSES; ++i) {
        if (INDEX(i) / 2 * 2 >= all) break;  // The same for all lanes of a warp.
        CODES_OF_PASS(low, high, raw, i, scale, reciprocal);
        const uint kb = BLOCK_AT(INDEX(i));
        if (INDEX(i) < all) STORE_LOCAL8(all_codes + (kb % WARPS * held + kb / WARPS) * CODES + PIECE_OF_CODES(INDEX(i)), low, high);
        if (INDEX(i) < all && (lane & 15) == i) STORE_LOCAL_F(PLACE_OF_SCALE(kb, 0), scale);
      }
    }
    MEETING_BARRIER();
#endif

    for (uint unit = first; unit < units; unit += grid, buffer = (buffer + 1) % BUFFERS) {
      const float scale_here = scale_next;
      if (unit + grid < units && lane < own_blocks) LOAD_F(scale_next, SCALES_IN(sb, unit + grid, groups_b) + scale_block);
      float sum[NG / 2][T][4], c[NG / 2][T][4];
      EACH_SUM sum[j][u][e] = 0.f;
      uint at = 0;  // Of the codes that the warp has.
      _Pragma("unroll 1") for (uint i = 0; together && i < own_blocks; ++i, ++at) {
#if SHARES
        if (at == held || (i == 0 && unit != first && own_blocks > held)) {
          at = 0;
          SYNC_WARP();
          TAKE_CODES(i)
          SYNC_WARP();
        }
#endif
        const uint kb = warp + i * WARPS, slot = ring + stage * WEIGHTS;
        uint x[T][8], w[NG][8], scale_bits;
        float scale_a[T][2];
        LOAD_SCALES_OF_A(scale_a, scales, kb, t)
        LOAD_CODES_OF_A(x, codes + at * CODES + in_codes)
        SHUFFLE(scale_bits, as_uint(scale_here), i);
        BAR_WAIT(full + 8 * stage, parity);
        LOAD_WEIGHTS(w, slot + in_slot)
        GIVE_BACK(empty + 8 * stage);
        if (++stage == stages) stage = 0, parity ^= 1;
        MULTIPLY_K_BLOCK(sum, c, x, w, scale_a, as_float(scale_bits))
      }
      LEAVE_SUMS(parts[buffer][warp], sum)
      MEETING_BARRIER();
      for (uint o = tid; o < COLUMNS * TILE_M; o += MULTIPLYING) {
        const uint of_unit = o % COLUMNS, row = o / COLUMNS, column = column_of_line(unit * NG + of_unit / 8, of_unit % 8);
        if (row >= rows || column >= n) continue;
        float total = 0.f;
        UNROLL for (int i = 0; i < WARPS; ++i) total += parts[buffer][i] SUM_AT(row, of_unit);
        store_d(D_OF(p), 0, LDD_OF(p), BIASES_OF(p), 0, (int)row, (int)column, together ? total : NAN);
      }
      if (BUFFERS == 1) MEETING_BARRIER();
    }
    if (p + 1 < (uint)count) come(counters, p + 1);
  }
  leave(counters, made, made_bytes, 0u, (uint)count, before, grid, &last);
}
#endif  // Without what PTX_SM_90 promises this file is empty.
