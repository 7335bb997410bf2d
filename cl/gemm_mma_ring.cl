// SPDX-License-Identifier: Apache-2.0
// gemm_mma_ring.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for up to 32 rows on compute capability 9.0, in class f32,
// at the memory's rate: a work-group stays on its multiprocessor, whose local memory is a ring of weights on their way.
//
// Weights come by bulk copies, COLUMNS columns of a K block each, into a ring of each warp's own, so that warps wait for nobody: a warp takes
// K blocks in turn, of one unit of COLUMNS columns after another, and asks for more as soon as it has read some (ring.cl).
// A that comes as it is becomes codes here (QUANTISE). Of few rows each work-group makes all of them and has them in local memory; values of A
// are asked for before any weights are, since they would wait for all of those. With SHARES the last work-groups make them in scratch, all
// warps at once, and ask for weights afterwards, which would slow them down; bulk copies bring codes with the weights of their K block. A word
// of two halves of 64 bits says of each group that its codes are there: the call's number above MARK_BITS bits of the group's scale. Nobody
// waits for ever: what is not there after LOOKS looks a warp makes itself, to the same bytes.
//
// Tunable  default  values         meaning
// TILE_M   4        1 2 4 8 16 32  rows of D
// COLUMNS  32       16 32 64       columns of D of a unit
// WARPS    16       8 16           warps of a work-group
// PER_UNIT 1        1 2            work-groups that share a multiprocessor's local memory
// PASSES   4        1 2 4 8 16     groups of A whose values a half-warp asks for together
// SHARES   0        0 1            1: with QUANTISE, work-groups make A's codes together
// LOOKS    256      0 256          with SHARES: looks for codes before a warp makes them
// Set by the host: those of tile.cl, PTX_SM_90 (ptx.cl), and
// QUANTISE 0        0 1            A is of type SOURCE and becomes codes here, in groups of one row by 128; then also those of quantizer.cl
// A: rows of codes padded with zeros to a multiple of 128; with QUANTISE rows as they come. B: forms/forms.h; a scale of B is for whole blocks
// of 128 columns. Scratch, with SHARES: 16 bytes for each K group of each row, padded to 128 bytes, and its codes.
// Local memory of a multiprocessor, all of it of arrays of the kernel's own (docs/opencl.md): PER_UNIT * (MEMORY + 4 * BUFFERS * WARPS *
// TILE_M * COLUMNS + 8 * WARPS * MOST_STAGES), MEMORY for ring and A, = 221568 B with the defaults.
// Origin: layouts, barriers and orders of memory as the PTX manual describes mma.m16n8k16, ldmatrix, mbarrier, cp.async.bulk and fence.
#include "tile.cl"

#ifndef TILE_M
#define TILE_M 4
#endif
#ifndef COLUMNS
#define COLUMNS 32
#endif
#ifndef WARPS
#define WARPS 16
#endif
#ifndef PER_UNIT
#define PER_UNIT 1
#endif
#ifndef PASSES
#define PASSES 4
#endif
#ifndef SHARES
#define SHARES 0
#endif
#ifndef LOOKS
#define LOOKS 256
#endif
#ifndef QUANTISE
#define QUANTISE 0
#endif
#if defined(PTX_SM_90)
#include "ptx.cl"
#if QUANTISE
#include "code_pairs.cl"
#endif

#include "ring.cl"
#define SLOT (WEIGHTS + (SHARES ? CODES : 0u))
#define MEMORY ((PER_UNIT == 2 ? 96u : TILE_M >= 8 ? 184u : 200u) * 1024u)  // The host knows it, too.
#define MOST_STAGES (MEMORY / SLOT / WARPS)
#if QUANTISE
#define GROUPS_OF_WARP 2  // Sixteen lanes have a group, eight values each.
#else
#define GROUPS_OF_WARP 4  // Eight lanes have a group, sixteen codes each.
#define WORDS 4
#endif
// Group i of those in hand is of row GROUP_ROW of K block GROUP_BLOCK; those beyond the last one are that one again.
#define GROUP_AT(i) (group + WARPS * GROUPS_OF_WARP * (i))
#define GROUP_BLOCK(i) (min(GROUP_AT(i), all - 1) / TILE_M)
#define GROUP_ROW(i) (min(GROUP_AT(i), all - 1) % TILE_M)
#define A_ROW(i) min(GROUP_ROW(i), rows - 1)
#define A_COLUMN(i) (GROUP_BLOCK(i) * 128u + (lane & 15) * 8u)
#if QUANTISE
#define LOAD_GROUPS                                                                                                          \
  UNROLL for (int i = 0; i < PASSES; ++i) {                                                                                  \
    if (aligned && GROUP_BLOCK(i) * 128u + 128u <= (uint)k) LOAD_EIGHT(raw[i], a, a_at + (ulong)A_ROW(i) * lda, A_COLUMN(i)); \
    else LOAD_EIGHT_ANYWHERE(raw[i], a, a_at + (ulong)A_ROW(i) * lda, A_COLUMN(i), k);                                        \
  }
#else
#define LOAD_GROUPS                                                                                                          \
  UNROLL for (int i = 0; i < PASSES; ++i) {                                                                                  \
    LOAD16(raw[i], a + a_at + (ulong)A_ROW(i) * lda + GROUP_BLOCK(i) * 128u + (lane & 7) * 16u);                              \
    LOAD_F(scale[i], sa + sa_at + (ulong)(A_ROW(i) / A_SCALE_ROWS) * sa_ld + GROUP_BLOCK(i) * 128u / A_SCALE_COLS);           \
  }
#endif
#define MARK_BITS 20
#define LOOKED_AT 4  // Words at a time.
#define GROUP_OF_WARP(index) ((warp + (index) / TILE_M * WARPS) * TILE_M + (index) % TILE_M)  // Of those of this warp's K blocks.
#define PLACE_OF_SCALE(i) (scales + (GROUP_BLOCK(i) * 8 * T + GROUP_ROW(i)) * 4)
#define PLACE_OF_CODES(i) (codes + min(GROUP_AT(i), all - 1) * 128u)
#define PIECE_OF_CODES(i) ((((lane >> 1 & 7) ^ (GROUP_ROW(i) & 7)) << 4) + (lane & 1) * 8u)  // Eight of this lane.

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void gemm_mma_ring(GEMM_ARGS)
{
  __local uchar memory_[MEMORY] __attribute__((aligned(1024)));
  __local float parts[BUFFERS][WARPS][TILE_M][COLUMNS];
  __local ulong bars_[WARPS * MOST_STAGES];
  if (m <= 0) return;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3, rows = (uint)m;
  const uint blocks = ((uint)k + 127u) / 128u, all = blocks * TILE_M;
  // Before any load, since it waits for those.
  const uint bars = LOCAL_ADDRESS(bars_) + warp * (8 * MOST_STAGES);
  if (lane < MOST_STAGES) BAR_INIT(bars + 8 * lane, SHARES ? 2u : 1u);
  BAR_INIT_DONE();
  SYNC_WARP();
  uint raw[PASSES][WORDS], group = tid / (32 / GROUPS_OF_WARP);
#if QUANTISE
  float scale, reciprocal;
  const bool aligned = ((a_at | lda) & (PER == 1 ? 3 : 7)) == 0;
#else
  float scale[PASSES];
#endif
#if !SHARES
  LOAD_GROUPS
#endif

  const uint all_blocks = (uint)k_pad / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
  const uint units = ((uint)n + COLUMNS - 1) / COLUMNS, first = (uint)get_group_id(0), step = (uint)get_num_groups(0);
  const uint count = blocks > warp ? (blocks - warp + WARPS - 1) / WARPS : 0;  // K blocks of this warp.
  const uint stages = min((uint)MOST_STAGES, (MEMORY - (SHARES ? 0u : all * 128u) - blocks * T * 32u) / (WARPS * SLOT));
  const uint memory = LOCAL_ADDRESS(memory_), ring = memory + warp * stages * SLOT, codes = memory + WARPS * stages * SLOT,
             scales = codes + (SHARES ? 0u : all * 128u);
  ulong once;  // Weights are read once, so they leave the L2 first.
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
#if SHARES
  ulong often;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(often));
#endif
#define WEIGHTS_OF(unit, block) WEIGHTS_IN(b, unit, block, all_blocks)
#define SCALES_OF(unit) SCALES_IN(sb, unit, groups_b)
#define UNITS_BEFORE(index) (count > 0 ? (uint)(((float)(index) + 0.5f) * native_recip((float)count)) : 0u)  // index / count
  // A lane asks for the first weights of each stage. What comes after them:
  const uint ahead = UNITS_BEFORE(lane), before = UNITS_BEFORE(stages), first_block = warp + (lane - ahead * count) * WARPS;
  const bool fills = lane < stages && count > 0 && first + ahead * step < units;
  __global const uchar *fill = WEIGHTS_OF(first + ahead * step, first_block);
  uint coming_unit = first + before * step, coming_block = warp + (stages - before * count) * WARPS;
  __global const uchar *coming = WEIGHTS_OF(coming_unit, coming_block);
  float scale_next = 0.f;  // Of this lane's K block of the warp's, of the next unit.
  const uint scale_block = SCALE_OF(warp + lane * WARPS) * 128u;
#if SHARES
  __global uchar *words = (__global uchar*)(scratch + scratch_at), *made = words + (all + 7u) / 8u * 128u;
  // The last work-groups have the fewest units.
  const uint makers = min(step, (all + 2 * WARPS - 1) / (2 * WARPS)), maker = step - 1 - first, upper = tid >> 4 & 1;
  for (bool helps = false;; helps = true) {
    // Groups of this work-group's share; or those of this warp's K blocks, two at a time.
    const uint end = helps ? count * TILE_M : all, next = helps ? 2 : makers * 2 * WARPS;
    for (uint i = helps ? 0 : maker < makers ? (maker * WARPS + warp) * 2 : end; i < end; i += next) {
      const uint index = i + upper;
      group = !helps ? index : index < end ? GROUP_OF_WARP(index) : all;
      LOAD_GROUPS
      SCALES_OF_PASSES(raw, FLOOR_BITS, scale, reciprocal);
      uint low, high;
      CODES_OF_PASS(low, high, raw, 0, scale, reciprocal);
      if (group < all) STORE8(made + group * 128u + PIECE_OF_CODES(0), low, high);
      FENCE_SENT();
      SYNC_WARP();
      if (group < all && (lane & 15) == 0)
        SET_WORD(words + group * 16u, call << MARK_BITS | as_uint(scale) >> 16, call << MARK_BITS | (as_uint(scale) & 0xffffu));
    }
    // One stage until codes are there: looks would wait for more.
    SEND_IF(!helps && fills && lane == 0, ring, fill, bars, WEIGHTS, once);
    if (!helps && lane < count) LOAD_F(scale_next, SCALES_OF(first) + scale_block);
    uint missing = 1;
    for (uint look = 0; missing && (helps || look < LOOKS); ++look) {
      missing = 0;
      for (uint from = lane; from < count * TILE_M + lane; from += 32 * LOOKED_AT) {
        ulong seen[LOOKED_AT][2];
#define INDEX_SEEN(i) min(from + 32 * (i), count * TILE_M - 1)
        UNROLL for (int i = 0; i < LOOKED_AT; ++i) SEE_WORD(seen[i][0], seen[i][1], words + GROUP_OF_WARP(INDEX_SEEN(i)) * 16u);
        UNROLL for (int i = 0; i < LOOKED_AT; ++i) {
          missing |= seen[i][0] >> MARK_BITS != call || seen[i][1] >> MARK_BITS != call;
          group = GROUP_OF_WARP(INDEX_SEEN(i));
          STORE_LOCAL_F(PLACE_OF_SCALE(0), as_float((uint)seen[i][0] << 16 | ((uint)seen[i][1] & 0xffffu)));
        }
      }
      missing = any_of_warp(missing);
    }
    if (!missing) break;
  }
  SYNC_WARP();
  FENCE_SENT();
  SEND_IF(fills, ring + lane * SLOT + WEIGHTS, made + first_block * CODES, bars + 8 * lane, CODES, often);
  SEND_IF(fills && lane != 0, ring + lane * SLOT, fill, bars + 8 * lane, WEIGHTS, once);
#else
  if (lane < count) LOAD_F(scale_next, SCALES_OF(first) + scale_block);

  for (bool more = true; more;) {
    more = GROUP_AT(PASSES) / GROUPS_OF_WARP * GROUPS_OF_WARP < all;  // The same for all lanes of a warp.
    SEND_IF(!more && fills, ring + lane * SLOT, fill, bars + 8 * lane, WEIGHTS, once);
#if QUANTISE
    SCALES_OF_PASSES(raw, FLOOR_BITS, scale, reciprocal);
    UNROLL for (int i = 0; i < PASSES; ++i) {
      uint low, high;
      CODES_OF_PASS(low, high, raw, i, scale, reciprocal);
      STORE_LOCAL8(PLACE_OF_CODES(i) + PIECE_OF_CODES(i), low, high);
    }
    if ((lane & 15) < PASSES) STORE_LOCAL_F(PLACE_OF_SCALE(lane & 15), scale);
#else
    UNROLL for (int i = 0; i < PASSES; ++i) {
      STORE_LOCAL16(PLACE_OF_CODES(i) + (((lane & 7) ^ (GROUP_ROW(i) & 7)) << 4), raw[i][0], raw[i][1], raw[i][2], raw[i][3]);
      if ((lane & 7) == 0) STORE_LOCAL_F(PLACE_OF_SCALE(i), scale[i]);
    }
#endif
    group = GROUP_AT(PASSES);
    if (more) { LOAD_GROUPS }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#endif

  const uint in_slot = IN_SLOT, in_codes = IN_CODES;
  uint stage = 0, parity = 0, buffer = 0;
  for (uint unit = first; unit < units; unit += step, buffer = (buffer + 1) % BUFFERS) {
    const float scale_here = scale_next;
    if (unit + step < units && lane < count) LOAD_F(scale_next, SCALES_OF(unit + step) + scale_block);
    float sum[NG / 2][T][4];
    EACH_SUM sum[j][u][e] = 0.f;
    _Pragma("unroll 1") for (uint i = 0; i < count; ++i) {
      const uint kb = warp + i * WARPS;
      const uint slot = ring + stage * SLOT, codes_here = (SHARES ? slot + WEIGHTS : codes + kb * CODES) + in_codes;
      uint x[T][8], w[NG][8], scale_bits;
      float scale_a[T][2], c[NG / 2][T][4];
      LOAD_SCALES_OF_A(scale_a, scales, kb, t)
      if (!SHARES) { LOAD_CODES_OF_A(x, codes_here) }
      SHUFFLE(scale_bits, as_uint(scale_here), i);
      BAR_WAIT(bars + 8 * stage, parity);
      if (SHARES) { LOAD_CODES_OF_A(x, codes_here) }
      LOAD_WEIGHTS(w, slot + in_slot)
      FENCE_BULK();  // The copy would else overtake loads whose values nobody has used yet.
      SYNC_WARP();
      SEND_IF(lane == 0 && coming_unit < units, slot, coming, bars + 8 * stage, WEIGHTS, once);
#if SHARES
      SEND_IF(lane == 0 && coming_unit < units, slot + WEIGHTS, made + coming_block * CODES, bars + 8 * stage, CODES, often);
#endif
      coming_block += WARPS, coming += WARPS * 8192;
      if (coming_block >= blocks) {
        coming_block = warp, coming_unit += step;
        coming = WEIGHTS_OF(coming_unit, warp);
      }
      if (++stage == stages) stage = 0, parity ^= 1;
      MULTIPLY_K_BLOCK(sum, c, x, w, scale_a, as_float(scale_bits))
    }
    LEAVE_SUMS(parts[buffer][warp], sum)
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint o = tid; o < COLUMNS * TILE_M; o += 32 * WARPS) {
      const uint of_unit = o % COLUMNS, row = o / COLUMNS, column = column_of_line(unit * NG + of_unit / 8, of_unit % 8);
      if (row >= rows || column >= (uint)n) continue;
      float total = 0.f;
      UNROLL for (int i = 0; i < WARPS; ++i) total += parts[buffer][i] SUM_AT(row, of_unit);
      store_d(d, d_at, ldd, bias, bias_at, (int)row, (int)column, total);
    }
    if (BUFFERS == 1) barrier(CLK_LOCAL_MEM_FENCE);
  }
}
#else
// The kernel needs what PTX_SM_90 promises; without it this file is empty.
#endif
