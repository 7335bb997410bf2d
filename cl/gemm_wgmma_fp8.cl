// SPDX-License-Identifier: Apache-2.0
// gemm_wgmma_fp8.cl (and gemm_wgmma_s8.cl): D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] on the tensor cores of compute capability 9.0,
// codes as they are: wgmma adds in about 14 bits, so sums of 128 k are added, scaled, to f32 registers. Class tensor14.
// Of int8, sums of 128 k are exact in 32 bits and as f32, so the class is f32.
//
// Two warpgroups hold 64 rows of D each: their rows of A are the register operand, loaded one K block ahead. B comes by bulk copies
// into a ring of five slots, 64 columns by 128 k each, that both read; the scales of a K block come with its first slot, since a
// scale that misses the L2 takes longer than a K block. Of a third warpgroup one work-item sends the slots and nothing else, since a slot that
// is sent late is what the others wait for; another sends the scales and asks the L2 for tiles that come AHEAD K blocks later. A product
// is 64 rows by 64 columns by 128 k, four instructions; there are two sets of its sums, so that one product runs while the one before is
// added up.
//                 columns (ring)
//                +------+------+------+------+
//   rows     64  |  D   |      |      |      |
//   (registers)  +------+------+------+------+
//            64  |      |      |      |      |
//                +------+------+------+------+
// Work-groups stay: each walks tiles of D, ROWS_TOGETHER tiles of rows beside one another. The first product of the next K block, or
// of the next tile, is started before the last one of this is added, so the stores of a tile run beside products. A last round that is
// half full or less is made of tiles of half as many columns (256 columns, no parts of K); a sum does not depend on who makes it.
// With SPLIT_K or SHARE tiles are made in parts of K (parts.cl): same bits every run. With SPLIT_K or 64 columns weights come from
// memory and not from the L2: slots that are free early are then worth more than products that run while others are added, up to 64
// rows are one warpgroup's, and a work-group has one tile or part.
//
// Tunable        default  values      meaning
// TILE_N         256      64 128 256  columns of D per work-group; its rows are 128
// SPLIT_K        1        1 to 16     parts of K that work-groups share
// SHARE          0        0 1         a last round that is half empty or more in parts of K, unless all tiles are
// ROWS_TOGETHER  8        4 to 32     tiles of rows that are walked together
// AHEAD          4        0 2 4       K blocks between asking the L2 for a tile and using it
// Set by the host: those of tile.cl, PTX_SM_90
// A: codes as forms/wgmma_tokens.h lays them out, with their scales, before which lie the counters of parts. B: forms/swizzled.h;
// a scale of B is for whole blocks of 128 columns.
// Local memory: ring 40960, scales 5 * 544, barriers 80, parts 16 B = 43776 B with the defaults.
// Origin: layouts and barriers as the PTX manual describes wgmma, mbarrier and cp.async.bulk; two-level sums after DeepGEMM.
#include "tile.cl"

#ifndef TILE_N
#define TILE_N 256
#endif
#ifndef SPLIT_K
#define SPLIT_K 1
#endif
#ifndef SHARE
#define SHARE 0
#endif
#ifndef ROWS_TOGETHER
#define ROWS_TOGETHER 8
#endif
#ifndef AHEAD
#define AHEAD 4
#endif

#if defined(PTX_SM_90)
#if SHARE && (SPLIT_K > 1 || TILE_N == 64)
#undef SHARE
#define SHARE 0  // There are no rounds.
#endif
#define SHARED_BLOCKS 8
#include "parts.cl"
#include "ptx.cl"

#define UNITS (TILE_N / 64)
#define COLUMN_SCALES ((UNITS + 1) / 2)
#define ONE_ITEM (SPLIT_K > 1 || UNITS == 1)
#define IN_HALVES (UNITS == 4 && SPLIT_K == 1 && !SHARE)
#define SLOTS 5
#define SLOT_BYTES 8192u
#define THREADS 384
#if TILE_N > 128
#define REGS_OF_FEEDERS 24
#define REGS_OF_OTHERS 240
#else
#define REGS_OF_FEEDERS 40
#define REGS_OF_OTHERS 232
#endif
#define SCALE_BYTES (512u + 32u)  // 128 row scales; one of each 128 columns in 16 bytes.
#define DESCRIPTOR (1UL << 62 | 64UL << 32 | 1UL << 16)
// The sums of a product, and a product of 64 rows by 64 columns by 32 k.
#if A_TYPE == TYPE_I8
#define product_sum int
#define PRODUCT WGMMA_M64N64K32_S8
#define SUM_OPERANDS "r"
#define WITH_SUMS(S0, S1, S2, S3, THEN)                                                                     \
  "{.reg .f32 p,q,r,s; cvt.rn.f32.s32 p," S0 "; cvt.rn.f32.s32 q," S1 "; cvt.rn.f32.s32 r," S2 "; cvt.rn.f32.s32 s," S3 "; " \
      THEN("p", "q", "r", "s") "}"
#else
#define product_sum float
#define PRODUCT(P, A0, A1, A2, A3, DESC, KEEP) WGMMA_M64N64K32_FP8(TYPES, P, A0, A1, A2, A3, DESC, KEEP)
#define SUM_OPERANDS "f"
#define WITH_SUMS(S0, S1, S2, S3, THEN) THEN(S0, S1, S2, S3)
#endif
#if A_TYPE == TYPE_E5M2 && B_TYPE == TYPE_E5M2
#define TYPES "e5m2.e5m2"
#elif A_TYPE == TYPE_E5M2
#define TYPES "e5m2.e4m3"
#elif B_TYPE == TYPE_E5M2
#define TYPES "e4m3.e5m2"
#else
#define TYPES "e4m3.e4m3"
#endif

// A power of two of work-groups, of `count` that walk side by side.
static inline uint share_of(uint count) { return count >= 8 ? 8 : count >= 4 ? 4 : count >= 2 ? 2 : 1; }

static inline void tile_at(uint t, uint row_tiles, uint col_tiles, uint *row, uint *col)
{
  uint per = ROWS_TOGETHER * col_tiles, g = t / per, r = t - g * per, rows = min(row_tiles - g * ROWS_TOGETHER, (uint)ROWS_TOGETHER);
  *col = r / rows;
  *row = g * ROWS_TOGETHER + r % rows;
}

// Of tile `row` of rows: where the weights of its matrix and their scales begin, the matrix, rows [first, end) of D.
#ifdef GROUPED
#define OF_TILE_OF_ROWS(row) tile_of(dealt, (int)(row))
#define B_OF(here) (b + (ulong)(here).matrix * b_stride)
#define SB_OF(here) (sb + (ulong)(here).matrix * sb_stride)
#else
#define OF_TILE_OF_ROWS(row) ((dealt_tile){0, (int)((row) * 128), m})
#define B_OF(here) b
#define SB_OF(here) sb
#endif

// A slot is not full before its scales are there, and they come from memory too: those of columns are asked of the L2 so many K blocks
// at a time.
#define SCALES_AHEAD 8u
#define ASK_COLUMN_SCALES(KB)                                                                                                 \
  UNROLL for (uint h = 0; h < COLUMN_SCALES; ++h)                                                                             \
    BULK_PREFETCH(column_scales + (SCALE_OF(KB) + (there > 2 ? h * groups_b : 0)) * 512u, 512u * min(SCALES_AHEAD, groups_b - SCALE_OF(KB)))
// The scale group of B that K block kb lies in; padding takes the last one's.
#define SCALE_OF(kb) min((uint)(kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
#define NEXT_SLOT() do { if (++slot == SLOTS) { slot = 0; parity ^= 1; } } while (0)
#define LOAD_A(R, P)                                                                                                    \
  do { LOAD16_IN_ORDER((R), (P)); LOAD16_IN_ORDER((R) + 4, (P) + 512); LOAD16_IN_ORDER((R) + 8, (P) + 1024); LOAD16_IN_ORDER((R) + 12, (P) + 1536); } while (0)
// starts one unit on the partial sums P
#define START(P, A)                                                                      \
  do {                                                                                   \
    BAR_WAIT(full + 8 * slot, parity);                                                   \
    const ulong d_ = DESCRIPTOR | (ulong)((ring + slot * SLOT_BYTES) >> 4);              \
    const ulong d2_ = d_ + 2, d4_ = d_ + 4, d6_ = d_ + 6;                                \
    WGMMA_FENCE();                                                                       \
    PRODUCT(P, (A)[0], (A)[1], (A)[2], (A)[3], d_, 0);                                   \
    PRODUCT(P, (A)[4], (A)[5], (A)[6], (A)[7], d2_, 1);                                  \
    PRODUCT(P, (A)[8], (A)[9], (A)[10], (A)[11], d4_, 1);                                \
    PRODUCT(P, (A)[12], (A)[13], (A)[14], (A)[15], d6_, 1);                              \
    WGMMA_COMMIT();                                                                      \
    before = current; current = slot; NEXT_SLOT();                                       \
  } while (0)
#define FINISH_BEFORE(n) do { WGMMA_WAIT(n); if (lane == 0) BAR_ARRIVE(empty + 8 * before); } while (0)
#define ADD_SUMS(S0, S1, S2, S3) "fma.rn.f32 %0,%8," S0 ",%0; fma.rn.f32 %1,%8," S1 ",%1; fma.rn.f32 %2,%9," S2 ",%2; fma.rn.f32 %3,%9," S3 ",%3;"
#define PROMOTE(U, P)                                                                                           \
  do {                                                                                                          \
    const float x_ = s0 * sb_[(U) >> 1], y_ = s1 * sb_[(U) >> 1];                                               \
    UNROLL for (int j = 0; j < 8; ++j)                                                                          \
      asm volatile(WITH_SUMS("%4", "%5", "%6", "%7", ADD_SUMS)                                                   \
          : "+f"(sum[U][4 * j]), "+f"(sum[U][4 * j + 1]), "+f"(sum[U][4 * j + 2]), "+f"(sum[U][4 * j + 3])      \
          : SUM_OPERANDS((P)[4 * j]), SUM_OPERANDS((P)[4 * j + 1]), SUM_OPERANDS((P)[4 * j + 2]), SUM_OPERANDS((P)[4 * j + 3]), "f"(x_), "f"(y_)); \
  } while (0)
#define READ_SCALES(SLOT)                                                                                       \
  do {                                                                                                          \
    LOCAL_F2(s0, s1, my_scales + (SLOT) * SCALE_BYTES);                                                         \
    LOCAL_F(sb_[0], scales + 512u + (SLOT) * SCALE_BYTES);                                                      \
    if (UNITS > 2) LOCAL_F(sb_[1], scales + 528u + (SLOT) * SCALE_BYTES);                                       \
  } while (0)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void gemm_wgmma_fp8(GEMM_ARGS)
{
  __local uchar slots[SLOTS * SLOT_BYTES] __attribute__((aligned(1024)));
  __local uchar slot_scales[SLOTS * SCALE_BYTES] __attribute__((aligned(16)));
  __local ulong bars[2 * SLOTS];
  PARTS_MEMORY
  const uint ring = LOCAL_ADDRESS(slots), scales = LOCAL_ADDRESS(slot_scales), full = LOCAL_ADDRESS(bars), empty = full + 8 * SLOTS;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, groups = get_num_groups(0);
  const uint blocks = (uint)k_pad / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
#ifdef GROUPED
  if (m == 0) return;
  __global const int *dealt = dealt_memory + dealt_at;
  const uint row_tiles = (uint)dealt[DEALT_TILES];
#else
  const uint row_tiles = ((uint)m + 127) / 128;
#endif
  const uint col_tiles = ((uint)n + TILE_N - 1) / TILE_N, tiles = row_tiles * col_tiles;
#if ONE_ITEM
  const uint workers = m > 64 ? 256 : 128; // A second warpgroup would multiply padding.
#else
  const uint workers = 256;
#endif
  if (tid == 0) {
    for (uint i = 0; i < SLOTS; ++i) {
      BAR_INIT(full + 8 * i, 1u);            // the producer
      BAR_INIT(empty + 8 * i, workers / 32); // consumer warps
    }
    BAR_INIT_DONE();
  }
  TAKE_TILE(2)
  uint row, col;
#if IN_HALVES
  // Item t: a tile, or from `whole` on half a tile.
  const uint rest = tiles % groups, whole = 2 * rest <= groups ? tiles - rest : tiles, items = 2 * tiles - whole;
#define TILE_OF(t) ((t) < whole ? (t) : whole + ((t) - whole) / 2)
#define UNITS_OF(t) ((t) < whole ? (uint)UNITS : UNITS / 2u)
#define FIRST_UNIT_OF(t) ((t) < whole ? 0u : ((t) - whole) % 2 * (UNITS / 2))
#else
  const uint whole = tiles, items = tiles;
#define TILE_OF(t) (t)
#define UNITS_OF(t) ((uint)UNITS)
#define FIRST_UNIT_OF(t) 0u
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  if (t >= items) return;

  if (warp >= 8) {
    REGS_LESS(REGS_OF_FEEDERS);
    if (lane != 0 || warp > 9) return;
    uint slot = 0, parity = 1; // the first wait on each empty barrier passes at once
    const ulong column_bytes = (ulong)blocks * SLOT_BYTES;  // From a slot to that of the next 64 columns, and of the next 64 rows of A.
#define PLACE()                                                                                                   \
  tile_at(TILE_OF(t), row_tiles, col_tiles, &row, &col);                                                          \
  const dealt_tile here = OF_TILE_OF_ROWS(row);                                                                   \
  const uint units = UNITS_OF(t), first_unit = min(col * UNITS + FIRST_UNIT_OF(t), (uint)n_pad / 64u - 1);        \
  const uint there = min(units, (uint)n_pad / 64u - first_unit)
    if (warp == 8) {
      // Past the last columns the last slot comes again, and nothing of it is stored.
      for (; t < items; NEXT_TILE()) {
        PLACE();
        __global const uchar *at = B_OF(here) + ((ulong)first_unit * blocks + first) * SLOT_BYTES;
        _Pragma("unroll 1") for (uint kb = first; kb < end; ++kb, at += SLOT_BYTES) {
          __global const uchar *from = at;
          uint bytes = SLOT_BYTES + 512u + 16u * COLUMN_SCALES;
          _Pragma("unroll 1") for (uint u = 1; u <= units; ++u) {
            BAR_WAIT(empty + 8 * slot, parity);
            BAR_ARRIVE_EXPECT(full + 8 * slot, bytes);
            BULK_COPY(ring + slot * SLOT_BYTES, from, SLOT_BYTES, full + 8 * slot);
            bytes = SLOT_BYTES;
            if (u < there) from += column_bytes;
            NEXT_SLOT();
          }
        }
      }
#if !ONE_ITEM
      // One slot more: the consumers start a unit past the end and drop it.
      BAR_WAIT(empty + 8 * slot, parity);
      BAR_ARRIVE_EXPECT(full + 8 * slot, SLOT_BYTES);
      BULK_COPY(ring + slot * SLOT_BYTES, b, SLOT_BYTES, full + 8 * slot);
#endif
      return;
    }
    // Neighbours want the same rows or columns: each asks the L2 for its share of them.
    const uint share_a = share_of(col_tiles), share_b = share_of(row_tiles);
    for (; t < items; NEXT_TILE()) {
      PLACE();
      __global const uchar *of_columns = B_OF(here) + (ulong)first_unit * column_bytes;
      __global const uchar *column_scales = (__global const uchar *)SB_OF(here) + (ulong)(first_unit / 2 * groups_b) * 512u;
      __global const uchar *tokens = a + a_at + (ulong)(row * 2) * column_bytes;
      __global const uchar *row_scales = (__global const uchar *)(sa + sa_at) + (ulong)row * blocks * 512u;
      ASK_COLUMN_SCALES(first);
      _Pragma("unroll 1") for (uint kb = first; kb < end; ++kb) {
        if ((kb - first) % SCALES_AHEAD == 0 && kb + SCALES_AHEAD < end) ASK_COLUMN_SCALES(kb + SCALES_AHEAD);
        BAR_WAIT(empty + 8 * slot, parity);
        BULK_COPY(scales + slot * SCALE_BYTES, row_scales + kb * 512u, 512u, full + 8 * slot);
        UNROLL for (uint h = 0; h < COLUMN_SCALES; ++h)
          BULK_COPY(scales + slot * SCALE_BYTES + 512u + h * 16u, column_scales + (SCALE_OF(kb) + (there > 2 ? h * groups_b : 0)) * 512u, 16u, full + 8 * slot);
        slot += units;
        if (slot >= SLOTS) { slot -= SLOTS; parity ^= 1; }
        if (AHEAD > 0 && kb + AHEAD < end) {
          const uint p = kb + AHEAD;
          if (((kb ^ col) & (share_a - 1)) == 0) {
            BULK_PREFETCH(tokens + (ulong)p * SLOT_BYTES, SLOT_BYTES);
            BULK_PREFETCH(tokens + (ulong)p * SLOT_BYTES + column_bytes, SLOT_BYTES);
            BULK_PREFETCH(row_scales + p * 512u, 512u * min(share_a, end - p));
          }
          if (((kb ^ row) & (share_b - 1)) == 0) {
            __global const uchar *from = of_columns + (ulong)p * SLOT_BYTES;
            _Pragma("unroll 1") for (uint u = 0; u < there; ++u, from += column_bytes) BULK_PREFETCH(from, SLOT_BYTES);
          }
        }
      }
    }
    return;
  }

  if (tid >= workers) return;
  REGS_MORE(REGS_OF_OTHERS);
  const uint group = warp >> 2, in_a = (warp & 3) * 2048u + lane * 16u, my_scales = scales + warp * 64u + (lane >> 2) * 8u;
  uint slot = 0, parity = 0, current = 0, before = 0, left = end - first;
  product_sum p0[32], p1[32];
  float sum[UNITS][32], s0, s1;
  float sb_[2] = {0.0f, 0.0f};
  uint a0[16], a1[16];
  UNROLL for (int i = 0; i < 32; ++i) { p0[i] = p1[i] = 0; UNROLL for (int u = 0; u < UNITS; ++u) sum[u][i] = 0.f; }
  dealt_tile here;
  uint d_row, d_end, d_col;
// The rows and columns of D of this work-item in tile (row, col), and where the bias of its matrix begins.
#if BIAS_TYPE != 0
  ulong bias_here;
#define NOTE_BIAS() bias_here = bias_at + (ulong)here.matrix * (ulong)n
#else
#define NOTE_BIAS()
#endif
#define NOTE_PLACE(ROW, COL)                                                                                             \
  do {                                                                                                                   \
    here = OF_TILE_OF_ROWS(ROW);                                                                                         \
    d_row = (uint)here.first + warp * 16 + (lane >> 2); d_end = (uint)here.end; d_col = (COL) * TILE_N + (lane & 3) * 4; \
    NOTE_BIAS();                                                                                                         \
  } while (0)
  bool more = true;

#if IN_PARTS
#define PART_AT(Z) (scratch + scratch_at + (((ulong)(get_group_id(0) % rest_) * parts_ + (Z)) * (UNITS * 8 * 256u) + tid) * 4u)
#define STORE_PART()                                                                                                                \
  do {                                                                                                                              \
    const uint rest_ = REST, parts_ = PARTS, part_ = get_group_id(0) / rest_;                                                       \
    __global float *to_ = PART_AT(part_);                                                                                           \
    UNROLL for (int u = 0; u < UNITS; ++u) UNROLL for (int i = 0; i < 8; ++i) {                                                     \
      STORE_F4(to_ + (u * 8 + i) * 1024u, sum[u][4 * i], sum[u][4 * i + 1], sum[u][4 * i + 2], sum[u][4 * i + 3]);                  \
      sum[u][4 * i] = sum[u][4 * i + 1] = sum[u][4 * i + 2] = sum[u][4 * i + 3] = 0.f;                                              \
    }                                                                                                                               \
  } while (0)
#define NOTE_PART()                                                                                                                 \
  do {                                                                                                                              \
    asm volatile("fence.acq_rel.gpu; bar.sync 1, %0;" ::"r"(workers) : "memory");                                                   \
    const uint rest_ = REST;                                                                                                        \
    if (tid == 0) share[2] = note_stored(WORD, get_group_id(0) / rest_);                                                            \
  } while (0)
#endif
#if BIAS_TYPE != 0
#define BIAS_OF(c) ((c) < (uint)n ? load_element(BIAS_TYPE, bias, bias_here + (c)) : 0.0f)
#define WITH_BIAS(x, c) ((x) + BIAS_OF(c))
#else
#define WITH_BIAS(x, c) (x)  // The compiler keeps the addition of a zero.
#endif
#if D_TYPE == TYPE_F32
#define ROW_OUT(R, X0, X1, X2, X3)                                                                    \
  if ((R) < d_end) {                                                                                \
    __global float *to_ = (__global float *)d + d_at + (ulong)(R) * ldd + c_;                         \
    if (wide_ && c_ + 3 < (uint)n) STORE_F4(to_, X0, X1, X2, X3);                                     \
    else {                                                                                            \
      if (c_ < (uint)n) to_[0] = X0;                                                                  \
      if (c_ + 1 < (uint)n) to_[1] = X1;                                                              \
      if (c_ + 2 < (uint)n) to_[2] = X2;                                                              \
      if (c_ + 3 < (uint)n) to_[3] = X3;                                                              \
    }                                                                                                 \
  }
#else
#if D_TYPE == TYPE_BF16
#define TO_PAIR TO_BF16X2
#else
#define TO_PAIR TO_F16X2
#endif
#endif
#if D_TYPE == TYPE_F32
#define STORE_PAIR(R, S, E)                                                                                  \
  UNROLL for (int i_ = 0; i_ < 2; ++i_) {                                                                    \
    const uint c_ = at_ + i_ * 16;                                                                           \
    ROW_OUT(R, WITH_BIAS((S)[8 * i_ + E], c_), WITH_BIAS((S)[8 * i_ + E + 1], c_ + 1), WITH_BIAS((S)[8 * i_ + E + 4], c_ + 2), WITH_BIAS((S)[8 * i_ + E + 5], c_ + 3)) \
  }
#else
// A thread has four columns of each 16; it gives its neighbour one four for another. Q: eight columns, from COLUMN_OF(at_) on.
#define COLUMN_OF(at) ((at) + (lane & 1 ? 12 : 0))
#define EIGHT(Q, S, E)                                                                                       \
  do {                                                                                                       \
    uint x0_, x1_, y0_, y1_, r0_, r1_;                                                                       \
    TO_PAIR(x0_, WITH_BIAS((S)[E], at_), WITH_BIAS((S)[E + 1], at_ + 1));                                      \
    TO_PAIR(x1_, WITH_BIAS((S)[E + 4], at_ + 2), WITH_BIAS((S)[E + 5], at_ + 3));                              \
    TO_PAIR(y0_, WITH_BIAS((S)[E + 8], at_ + 16), WITH_BIAS((S)[E + 9], at_ + 17));                            \
    TO_PAIR(y1_, WITH_BIAS((S)[E + 12], at_ + 18), WITH_BIAS((S)[E + 13], at_ + 19));                          \
    const bool odd_ = lane & 1;                                                                              \
    SHUFFLE_XOR(r0_, odd_ ? x0_ : y0_, 1);                                                                   \
    SHUFFLE_XOR(r1_, odd_ ? x1_ : y1_, 1);                                                                   \
    (Q)[0] = odd_ ? r0_ : x0_;                                                                               \
    (Q)[1] = odd_ ? r1_ : x1_;                                                                               \
    (Q)[2] = odd_ ? y0_ : r0_;                                                                               \
    (Q)[3] = odd_ ? y1_ : r1_;                                                                               \
  } while (0)
#define STORE_EIGHT(R, C, Q)                                                                                 \
  if ((R) < d_end && (C) < (uint)n) {                                                                        \
    __global ushort *to_ = (__global ushort *)d + d_at + (ulong)(R) * ldd + (C);                             \
    if (wide_ && (C) + 7 < (uint)n) STORE16(to_, (Q)[0], (Q)[1], (Q)[2], (Q)[3]);                            \
    else UNROLL for (uint e_ = 0; e_ < 8; ++e_) if ((C) + e_ < (uint)n) to_[e_] = (ushort)((Q)[e_ / 2] >> 16 * (e_ % 2)); \
  }
#define STORE_PAIR(R, S, E)                                                                                  \
  do {                                                                                                       \
    uint q_[4];                                                                                              \
    EIGHT(q_, S, E);                                                                                         \
    const uint c_ = COLUMN_OF(at_);                                                                          \
    STORE_EIGHT(R, c_, q_);                                                                                  \
  } while (0)
#endif
#if D_TYPE == TYPE_F32 || UNITS < 4
#define STORE_UNIT(U, R, E)                                                                                  \
  UNROLL for (int h = 0; h < 2; ++h) {                                                                       \
    const uint at_ = d_col + (U) * 64 + h * 32;                                                              \
    STORE_PAIR(R, sum[U] + 16 * h, E);                                                                       \
  }
#else
// Lines of 128 bytes: of two neighbouring rows a thread keeps eight columns in one half of the unit and gets those of the other row.
#define STORE_UNIT(U, R, E)                                                                                  \
  do {                                                                                                       \
    uint f_[4], g_[4], o_[4];                                                                                \
    { const uint at_ = d_col + (U) * 64; EIGHT(f_, sum[U], E); }                                             \
    { const uint at_ = d_col + (U) * 64 + 32; EIGHT(g_, sum[U] + 16, E); }                                   \
    const bool second_ = lane >> 2 & 1;                                                                      \
    UNROLL for (int i_ = 0; i_ < 4; ++i_) {                                                                  \
      SHUFFLE_XOR(o_[i_], second_ ? f_[i_] : g_[i_], 4);                                                     \
      f_[i_] = second_ ? o_[i_] : f_[i_];                                                                    \
      g_[i_] = second_ ? g_[i_] : o_[i_];                                                                    \
    }                                                                                                        \
    const uint c_ = COLUMN_OF(d_col + (U) * 64 + (second_ ? 32 : 0)), r_ = (R) - (second_ ? 1 : 0);          \
    STORE_EIGHT(r_, c_, f_);                                                                                 \
    STORE_EIGHT(r_ + 1, c_, g_);                                                                             \
  } while (0)
#endif
// Stores COUNT units of tile (ROW, COL), from its unit FIRST on.
#define STORE(ROW, COL, FIRST, COUNT)                                                                          \
  do {                                                                                                         \
    NOTE_PLACE(ROW, COL);                                                                                      \
    d_col += (FIRST) * 64u;                                                                                    \
    const bool wide_ = ((d_at | ldd) & (D_TYPE == TYPE_F32 ? 3 : 7)) == 0;                                     \
    UNROLL for (int u = 0; u < (COUNT); ++u) {                                                                 \
      STORE_UNIT(u, d_row, 0);                                                                                 \
      STORE_UNIT(u, d_row + 8, 2);                                                                             \
      UNROLL for (int e = 0; e < 32; ++e) sum[u][e] = 0.f;                                                     \
    }                                                                                                          \
  } while (0)

// the way out of a tile, or of this work-group's part of one, and t is the next tile
#if SHARE
#define LEAVE(ROW, COL)                                                                    \
  do {                                                                                     \
    if (t < REST) { STORE_PART(); t = REST + get_group_id(0); }                            \
    else { if (PART_IS_TO_NOTE) NOTE_PART(); STORE(ROW, COL, 0, UNITS); t += groups; }     \
  } while (0)
#else
#define LEAVE(ROW, COL) do { STORE(ROW, COL, 0, UNITS); t += groups; } while (0)
#endif
#if UNITS == 1
// two K blocks of the only tile or part of this work-group, a unit each
#define TWO_BLOCKS()                                                 \
  do {                                                               \
    more = left > 2;                                                 \
    if (more) { pa += 16384; left -= 2; }                            \
    LOAD_A(next0, pa);                                               \
    LOAD_A(next1, pa + 8192);                                        \
    START(p0, a0);                                                   \
    START(p1, a1);                                                   \
    READ_SCALES(before);                                             \
    FINISH_BEFORE(1);                                                \
    PROMOTE(0, p0);                                                  \
    READ_SCALES(current);                                            \
    WGMMA_WAIT(0);                                                   \
    if (lane == 0) BAR_ARRIVE(empty + 8 * current);                  \
    PROMOTE(0, p1);                                                  \
    UNROLL for (int i = 0; i < 16; ++i) { a0[i] = next0[i]; a1[i] = next1[i]; } \
  } while (0)
#elif SPLIT_K > 1
// one K block of the only part of this work-group, two units at a time
#define BLOCK(A, A_NEXT)                                             \
  do {                                                               \
    more = left > 1;                                                 \
    if (more) { pa += 8192; --left; }                                \
    LOAD_A(A_NEXT, pa);                                              \
    UNROLL for (int u = 0; u < UNITS; u += 2) {                      \
      START(p0, A);                                                  \
      START(p1, A);                                                  \
      if (u == 0) READ_SCALES(before);                               \
      FINISH_BEFORE(1);                                              \
      WGMMA_WAIT(0);                                                 \
      if (lane == 0) BAR_ARRIVE(empty + 8 * current);                \
      PROMOTE(u, p0);                                                \
      PROMOTE(u + 1, p1);                                            \
    }                                                                \
  } while (0)
#else
// The first N units of a K block: A is in registers and the first unit under way; ends with the next block's first unit under way.
#define MULTIPLY(N, A, A_NEXT, LAST_WAIT)                                                                                        \
  do {                                                                                                                           \
    UNROLL for (int u = 1; u < (N); ++u) {                                                                                       \
      if (u & 1) START(p1, A); else START(p0, A);                                                                                \
      FINISH_BEFORE(1);                                                                                                          \
      if (u & 1) PROMOTE(u - 1, p0); else PROMOTE(u - 1, p1);                                                                    \
    }                                                                                                                            \
    START(p0, A_NEXT);                                                                                                           \
    FINISH_BEFORE(LAST_WAIT);                                                                                                    \
    PROMOTE((N) - 1, p1);                                                                                                        \
    READ_SCALES(current);                                                                                                        \
  } while (0)
// a K block that is not its tile's last; loads the next block of A
#define BLOCK(A, A_NEXT)                                                                                                         \
  do {                                                                                                                           \
    pa += 8192;                                                                                                                  \
    --left;                                                                                                                      \
    LOAD_A(A_NEXT, pa);                                                                                                          \
    MULTIPLY(UNITS, A, A_NEXT, 1);                                                                                               \
  } while (0)
// one that may be: then it loads A of the next tile, stores this one, and `more` says whether there is a whole one
#define LAST_BLOCK(A, A_NEXT)                                                                                                    \
  do {                                                                                                                           \
    const bool last = left == 1;                                                                                                 \
    const uint row_ = row, col_ = col;                                                                                           \
    if (!last) { pa += 8192; --left; }                                                                                           \
    else {                                                                                                                       \
      const uint t_ = AFTER_THIS;                                                                                                \
      left = blocks; more = t_ < whole;                                                                                          \
      if (t_ < items) tile_at(TILE_OF(t_), row_tiles, col_tiles, &row, &col);                                                    \
      pa = a + a_at + ((ulong)(row * 2 + group) * blocks) * 8192u + in_a;                                                        \
    }                                                                                                                            \
    LOAD_A(A_NEXT, pa);                                                                                                          \
    MULTIPLY(UNITS, A, A_NEXT, 0);                                                                                               \
    if (last) LEAVE(row_, col_);                                                                                                 \
  } while (0)
// one of half a tile, this work-group's last item
#define HALF_BLOCK(A, A_NEXT, LAST_WAIT)         \
  do {                                           \
    if (left > 1) pa += 8192;                    \
    --left;                                      \
    LOAD_A(A_NEXT, pa);                          \
    MULTIPLY(UNITS / 2, A, A_NEXT, LAST_WAIT);   \
  } while (0)
#endif

  tile_at(TILE_OF(t), row_tiles, col_tiles, &row, &col);
  __global const uchar *pa = a + a_at + ((ulong)(row * 2 + group) * blocks + first) * 8192u + in_a;
  LOAD_A(a0, pa);
#if ONE_ITEM
#if UNITS == 1
  uint next0[16], next1[16];
  LOAD_A(a1, pa + 8192);
  do TWO_BLOCKS(); while (more);
#else
  do { BLOCK(a0, a1); BLOCK(a1, a0); } while (more);
#endif
#if IN_PARTS
  STORE_PART();
  NOTE_PART();
#else
  STORE(row, col, 0, UNITS);
#endif
#else
  START(p0, a0);
  READ_SCALES(current);
  // Tiles and parts are an even number of K blocks. The waits for 0, in LAST_BLOCK, are not wanted for themselves, and every other K block
  // waits for a product too much: where every wait of a loop leaves a group unfinished, the assembler serialises all wgmma (C7514).
#if IN_HALVES
  if (t < whole) do { BLOCK(a0, a1); LAST_BLOCK(a1, a0); } while (more);
  if (t < items) {
    do { HALF_BLOCK(a0, a1, 1); HALF_BLOCK(a1, a0, 0); } while (left > 0);
    STORE(row, col, FIRST_UNIT_OF(t), UNITS / 2);
  }
#else
#if UNITS == 2 && !SHARE
  // With two units a K block that costs 10 %.
  if (blocks % 8 == 0)
    do { BLOCK(a0, a1); BLOCK(a1, a0); BLOCK(a0, a1); BLOCK(a1, a0); BLOCK(a0, a1); BLOCK(a1, a0); BLOCK(a0, a1); LAST_BLOCK(a1, a0); } while (more);
  else
#endif
    do { BLOCK(a0, a1); LAST_BLOCK(a1, a0); } while (more);
#endif
  WGMMA_WAIT(0);
#if SHARE
  if (PART_IS_TO_NOTE) NOTE_PART();
#endif
#endif
#if IN_PARTS
  // Shares of a tile in parts: a unit has two, of 32 columns each.
  const uint rest_ = REST, parts_ = PARTS;
  if (parts_ > 1 && get_group_id(0) < rest_ * parts_) {
    const uint part = get_group_id(0) / rest_;
    if (tid == 0) share[2] = shares_to_add(WORD, part, parts_, share[2]);
    asm volatile("bar.sync 1, %0; fence.acq_rel.gpu;" ::"r"(workers) : "memory");
    const uint mine = share[2];
    const bool wide_ = ((d_at | ldd) & (D_TYPE == TYPE_F32 ? 3 : 7)) == 0;
    tile_at(get_group_id(0) - part * rest_, row_tiles, col_tiles, &row, &col);
    NOTE_PLACE(row, col);
    const uint shares = SHARES_OF(parts_);
    _Pragma("unroll 1") for (uint z = 0; z < shares; ++z) {
      if (!(mine >> z & 1)) continue;
      const uint end_of_share = UNITS * 2 * (z + 1) / shares;
      _Pragma("unroll 1") for (uint q = UNITS * 2 * z / shares; q < end_of_share; q += 2) {
        float x[32];
        ADD_PARTS(x, 8, PART_AT(0), UNITS * 8192u, q * 4, end_of_share * 4, parts_);
        UNROLL for (int h = 0; h < 2; ++h) {
          const uint at_ = q + h < end_of_share ? d_col + (q + h) * 32 : (uint)n;
          STORE_PAIR(d_row, x + 16 * h, 0);
          STORE_PAIR(d_row + 8, x + 16 * h, 2);
        }
      }
    }
  }
#endif
}
#else
// The kernel needs what PTX_SM_90 promises; without it this file is empty.
#endif
