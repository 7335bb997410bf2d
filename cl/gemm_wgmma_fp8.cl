// SPDX-License-Identifier: Apache-2.0
// gemm_wgmma_fp8.cl (also variant gemm_wgmma_s8): D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] on the tensor cores of compute capability 9.0,
// codes as they are: wgmma adds in about 14 bits, so sums of 128 k are added, scaled, to f32 registers. Class tensor14.
// Of int8, sums of 128 k are exact in 32 bits and as f32, so the class is f32.
//
// Two warpgroups hold 64 rows of D each and all its columns. A and B come by bulk copies into a ring of stages, a K block of both each with
// its scales, and both operands are read there by wgmma. Of a third warpgroup one work-item sends B, another A, and a third the scales; it
// also asks the L2 for what comes AHEAD K blocks later. A product is 64 rows by TILE_N columns, or half of them past 128, by 128 k, four
// instructions; where a tile has two, the warpgroups take turns to start one, so that one's products run while the other adds up its own.
//                  columns (a stage: 2 x 8 KiB of A, 8 KiB of B for each 64 columns)
//                +-------------+-------------+
//   rows     64  |  product 0  |  product 1  |   first warpgroup
//                +-------------+-------------+
//            64  |             |             |   second warpgroup
//                +-------------+-------------+
// Where D is activated, the first product is of gates and the second of their ups, in runs of 128 columns of B.
// D leaves through local memory, 16 rows a warp, by bulk copies too where its rows lie so: the next tile begins meanwhile.
// Work-groups stay: each walks tiles of D, ROWS_TOGETHER tiles of rows beside one another. A last round that is half full or less is made
// of tiles of half as many columns (256 columns, no parts of K); a sum does not depend on who makes it.
// With SPLIT_K or SHARE tiles are made in parts of K (parts.cl): same bits every run. With SPLIT_K or 64 columns up to 64 rows are one
// warpgroup's, and a work-group has one tile or part.
//
// Tunable        default  values      meaning
// TILE_N         256      64 to 272   columns of D per work-group; its rows are 128
// SPLIT_K        1        1 to 16     parts of K that work-groups share
// SHARE          0        0 1         a last round that is half empty or more in parts of K, unless all tiles are
// ROWS_TOGETHER  8        4 to 32     tiles of rows that are walked together
// AHEAD          4        0 2 4       K blocks between asking the L2 for a tile and using it
// TILE_N is 64, 128, 256 or, of fp8 without parts of K, one of 96, 144, 160, 192, 272: so many columns that tiles fill whole rounds of
// work-groups. Those tiles begin and end within the blocks of 64 columns that B is packed in, so a stage takes pieces of blocks,
// and within the blocks of 128 that have a scale, so each sixteen columns take one of two (TO_CHUNK).
// Set by the host: those of tile.cl, PTX_SM_90
// A: codes as forms/forms.h lays them out, with their scales, before which lie the counters of parts. B: forms/forms.h;
// a scale of B is for whole blocks of 128 columns.
// Local memory, arrays of the kernel's own (docs/opencl.md): stages 3 * (49152 + 544 + 16), D 69632, parts 16 B = 218784 B with the defaults.
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
#include "tile_order.cl"
#ifdef D_SCALE_TYPE
#define COLUMNS_HELD OUT_COLUMNS
#define HOLDS_D
#define LINE_FLOATS (OUT_LINE / 4)
#include "codes_of_lanes.cl"
#define WIDE_GROUPS (D_SCALE_COLS > 128 && !D_GIVEN)  // Of D in codes: they need all columns of a tile.
#else
#define WIDE_GROUPS 0
#endif

// Tiles whose columns begin and end within blocks of B, and so within those that have a scale.
#define UNEVEN (TILE_N != 64 && TILE_N != 128 && TILE_N != 256)
#if UNEVEN && (SPLIT_K > 1 || SHARE)
#error "tiles that end within a block of B are made whole"
#endif
#define UNITS (TILE_N / 64)  // Blocks of B in a stage, of tiles that are not uneven.
#define BEGIN_AT (TILE_N & -TILE_N)  // Tiles begin at multiples of this in a block of 128 columns.
#define COLUMN_SCALES (BEGIN_AT >= 128 ? (TILE_N + 127) / 128 : (TILE_N - BEGIN_AT + 255) / 128)
#define ONE_ITEM (SPLIT_K > 1 || TILE_N == 64)
#define IN_HALVES (TILE_N == 256 && SPLIT_K == 1 && !SHARE && OF_D(2) == 2 && !WIDE_GROUPS)
#define BLOCK_BYTES 8192u  // 64 rows or columns by 128 k.
#define STAGE_BYTES (2 * BLOCK_BYTES + TILE_N * 128u)
#define STAGES (TILE_N > 192 ? 3 : TILE_N > 144 ? 4 : TILE_N > 96 ? 5 : TILE_N > 64 ? 6 : 7)
#define THREADS 384
#define REGS_OF_FEEDERS 24
#define REGS_OF_OTHERS 240
#define SCALE_BYTES (512u + (COLUMN_SCALES > 2 ? 48u : 32u))  // 128 row scales; one of each 128 columns in 16 bytes.
#if D_TYPE == TYPE_F32 || defined(D_SCALE_TYPE)
#define D_BYTES 4u
#else
#define D_BYTES 2u
#endif
// A warp's 16 rows of D on their way out, all columns of 16 bits: lines so far apart that four rows meet no bank twice.
#ifdef D_SCALE_TYPE
#define OUT_COLUMNS (IN_HALVES ? 128 : OF_D(TILE_N))  // D in codes: values of eight rows at a time.
#define OUT_ROWS 8
#else
#define OUT_COLUMNS (TILE_N == 64 || D_BYTES == 2 ? TILE_N : TILE_N / 64 * 32)
#define OUT_ROWS 16
#endif
#define OUT_LINE (OUT_COLUMNS * D_BYTES + (OUT_COLUMNS * D_BYTES % 64 == 0 ? 32u : 0u))
#define OUT_BYTES (OUT_ROWS * OUT_LINE)
#define PIECE (BLOCK_BYTES >> 4)  // A block further in a descriptor.
// A product: columns of it, chunks of eight of those, and how it is called.
#define PRODUCTS (TILE_N > 128 ? 2 : 1)
#define PRODUCT_COLUMNS (TILE_N / PRODUCTS)
#define CHUNKS (PRODUCT_COLUMNS / 8)
#if A_TYPE == TYPE_I8
#define product_sum int
#define SUM_OPERANDS "r"
#define WITH_SUMS(S0, S1, S2, S3, THEN)                                                                     \
  "{.reg .f32 p,q,r,s; cvt.rn.f32.s32 p," S0 "; cvt.rn.f32.s32 q," S1 "; cvt.rn.f32.s32 r," S2 "; cvt.rn.f32.s32 s," S3 "; " \
      THEN("p", "q", "r", "s") "}"
#if UNEVEN
#error "products of int8 have other numbers of columns"
#elif TILE_N == 64
#define PRODUCT WGMMA_M64N64K32_S8
#else
#define PRODUCT WGMMA_M64N128K32_S8
#endif
#else
#define product_sum float
#define SUM_OPERANDS "f"
#define WITH_SUMS(S0, S1, S2, S3, THEN) THEN(S0, S1, S2, S3)
#if TILE_N == 64
#define PRODUCT(P, A, B, KEEP) WGMMA_M64N64K32_FP8(FP8_TYPES, P, A, B, KEEP)
#elif TILE_N == 96 || TILE_N == 192
#define PRODUCT(P, A, B, KEEP) WGMMA_M64N96K32_FP8(FP8_TYPES, P, A, B, KEEP)
#elif TILE_N == 144
#define PRODUCT(P, A, B, KEEP) WGMMA_M64N72K32_FP8(FP8_TYPES, P, A, B, KEEP)
#elif TILE_N == 160
#define PRODUCT(P, A, B, KEEP) WGMMA_M64N80K32_FP8(FP8_TYPES, P, A, B, KEEP)
#elif TILE_N == 272
#define PRODUCT(P, A, B, KEEP) WGMMA_M64N136K32_FP8(FP8_TYPES, P, A, B, KEEP)
#else
#define PRODUCT(P, A, B, KEEP) WGMMA_M64N128K32_FP8(FP8_TYPES, P, A, B, KEEP)
#endif
#endif

// Of tile `row` of rows: where the weights of its matrix and their scales begin, the matrix, rows [first, end) of D.
#ifdef GROUPED
#define OF_TILE_OF_ROWS(row) tile_of(scheduled, (int)(row))
#define B_OF(here) (b + (ulong)(here).matrix * b_stride)
#define SB_OF(here) (sb + (ulong)(here).matrix * sb_stride)
#else
#define OF_TILE_OF_ROWS(row) ((scheduled_tile){0, (int)((row) * 128), m})
#define B_OF(here) b
#define SB_OF(here) sb
#endif

// A stage is not full before its scales are there, and they come from memory too: those of columns are asked of the L2 so many K blocks
// at a time.
#define SCALES_AHEAD 8u
#define ASK_COLUMN_SCALES(KB)                                                                                                 \
  UNROLL for (uint h = 0; h < COLUMN_SCALES; ++h)                                                                             \
    BULK_PREFETCH(column_scales + (SCALE_OF(KB) + SCALES_OF_BLOCK(h)) * 512u, 512u * min(SCALES_AHEAD, groups_b - SCALE_OF(KB)))
// The scale group of B that K block kb lies in; padding takes the last one's.
#define SCALE_OF(kb) min((uint)(kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
#define NEXT_STAGE() do { if (++stage == STAGES) { stage = 0; parity ^= 1; } } while (0)
// Two warpgroups that both wait for their products would add them up at the same time, and none would be under way.
#if PRODUCTS == 2
#define IN_TURN (workers == 256)
#else
#define IN_TURN 0
#endif
#define TURN_TAKE() do { if (IN_TURN) BAR_NAMED(2 + group, 256); } while (0)
#define TURN_PASS() do { if (IN_TURN) BAR_NAMED_ARRIVE(3 - group, 256); } while (0)
#define ADD_SUMS(S0, S1, S2, S3) "fma.rn.f32 %0,%8," S0 ",%0; fma.rn.f32 %1,%8," S1 ",%1; fma.rn.f32 %2,%9," S2 ",%2; fma.rn.f32 %3,%9," S3 ",%3;"
// Scales of what product U adds: x_ for row lane / 4, y_ for the eighth below it.
#if UNEVEN
// The tile begins `late` times 16 columns, LATEST at most, after its first block of 128; its columns 8 J to 8 J + 7 lie in that block or the
// (late + J / 2) / 8 th after it.
#define LATEST (8 - BEGIN_AT / 16)
#define IN_NEXT(J) ((J) / 2 % 8 + LATEST >= 8 && late >= 8 - (J) / 2 % 8)
#define TO_BLOCKS(U)                                                                             \
  float xs_[COLUMN_SCALES + 1], ys_[COLUMN_SCALES + 1];                                          \
  UNROLL for (int h = 0; h < COLUMN_SCALES; ++h) { xs_[h] = s0 * sb_[h]; ys_[h] = s1 * sb_[h]; } \
  xs_[COLUMN_SCALES] = ys_[COLUMN_SCALES] = 0.0f
#define TO_CHUNK(J)                                                                                         \
  const float xs0_ = xs_[(J) / 16], xs1_ = xs_[(J) / 16 + 1], ys0_ = ys_[(J) / 16], ys1_ = ys_[(J) / 16 + 1]; \
  const float x_ = IN_NEXT(J) ? xs1_ : xs0_, y_ = IN_NEXT(J) ? ys1_ : ys0_
#else
#define TO_BLOCKS(U) const float x_ = s0 * sb_[U], y_ = s1 * sb_[U]
#define TO_CHUNK(J)
#endif
#define PROMOTE(U)                                                                                              \
  do {                                                                                                          \
    TO_BLOCKS(U);                                                                                               \
    UNROLL for (int j = 0; j < CHUNKS; ++j) {                                                                   \
      float *to_ = sum + 4 * ((U) * CHUNKS + j);                                                                \
      const product_sum *p_ = p + 4 * j;                                                                        \
      TO_CHUNK((U) * CHUNKS + j);                                                                               \
      asm volatile(WITH_SUMS("%4", "%5", "%6", "%7", ADD_SUMS)                                                   \
          : "+f"(to_[0]), "+f"(to_[1]), "+f"(to_[2]), "+f"(to_[3])                                              \
          : SUM_OPERANDS(p_[0]), SUM_OPERANDS(p_[1]), SUM_OPERANDS(p_[2]), SUM_OPERANDS(p_[3]), "f"(x_), "f"(y_)); \
    }                                                                                                           \
  } while (0)
#define READ_SCALES(S0, S1, SB)                                                                                 \
  do {                                                                                                          \
    LOCAL_F2(S0, S1, my_scales + stage * SCALE_BYTES);                                                          \
    UNROLL for (int h = 0; h < COLUMN_SCALES; ++h) LOCAL_F((SB)[h], scales + 512u + h * 16u + stage * SCALE_BYTES); \
  } while (0)
// One K block of this warpgroup: the first COUNT products. Its stage is full and its scales are read; leaves the next block so, the wait for
// which runs beside products.
#define K_BLOCK(COUNT)                                                                                          \
  do {                                                                                                          \
    const ulong a_ = descriptor_a + stage * (STAGE_BYTES >> 4), b_ = descriptor_b + stage * (STAGE_BYTES >> 4);   \
    const uint empty_ = empty + 8 * stage;                                                                      \
    UNROLL for (int u = 0; u < (COUNT); ++u) {                                                                  \
      TURN_TAKE();                                                                                              \
      WGMMA_FENCE();                                                                                            \
      PRODUCT(p, a_, b_ + u * (PRODUCT_COLUMNS * 8), 0);                                                        \
      PRODUCT(p, a_ + 2, b_ + u * (PRODUCT_COLUMNS * 8) + 2, 1);                                                \
      PRODUCT(p, a_ + 4, b_ + u * (PRODUCT_COLUMNS * 8) + 4, 1);                                                \
      TURN_PASS();                                                                                              \
      PRODUCT(p, a_ + 6, b_ + u * (PRODUCT_COLUMNS * 8) + 6, 1);                                                \
      WGMMA_COMMIT();                                                                                           \
      if (u == (COUNT) - 1) {                                                                                   \
        NEXT_STAGE();                                                                                           \
        BAR_WAIT(full + 8 * stage, parity);                                                                     \
        READ_SCALES(t0, t1, tb_);                                                                               \
      }                                                                                                         \
      WGMMA_WAIT(0);                                                                                            \
      if (u == (COUNT) - 1 && lane == 0) BAR_ARRIVE(empty_);                                                    \
      PROMOTE(u);                                                                                               \
    }                                                                                                           \
    s0 = t0; s1 = t1; sb_[0] = tb_[0]; sb_[1] = tb_[1]; sb_[2] = tb_[2];                                        \
  } while (0)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void gemm_wgmma_fp8(GEMM_ARGS)
{
  __local uchar ring_[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  __local uchar ring_scales[STAGES * SCALE_BYTES] __attribute__((aligned(16)));
  __local uchar out_rows[8 * OUT_BYTES] __attribute__((aligned(16)));
  __local ulong bars[2 * STAGES];
  PARTS_MEMORY
  const uint ring = LOCAL_ADDRESS(ring_), scales = LOCAL_ADDRESS(ring_scales), full = LOCAL_ADDRESS(bars), empty = full + 8 * STAGES;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, groups = get_num_groups(0);
  const uint blocks = (uint)k_pad / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
#ifdef GROUPED
  if (m == 0) return;
  __global const int *scheduled = schedule_memory + schedule_at;
  const uint row_tiles = (uint)scheduled[SCHEDULED_TILES];
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
    for (uint i = 0; i < STAGES; ++i) {
      BAR_INIT(full + 8 * i, 1u);            // who sends B
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
  const uint items = tiles;
#define TILE_OF(t) (t)
#define UNITS_OF(t) ((uint)UNITS)
#define FIRST_UNIT_OF(t) 0u
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  if (t >= items) return;

  if (warp >= 8) {
    REGS_LESS(REGS_OF_FEEDERS);
    if (lane != 0 || warp > 10) return;
    uint stage = 0, parity = 1; // the first wait on each empty barrier passes at once
    const ulong column_bytes = (ulong)blocks * BLOCK_BYTES;  // From a block to that of the next 64 columns, and of the next 64 rows of A.
#if UNEVEN
#define PLACE()                                                                                                   \
  tile_at(t, row_tiles, col_tiles, &row, &col);                                                                   \
  const scheduled_tile here = OF_TILE_OF_ROWS(row);                                                                   \
  const uint first_column = col * TILE_N, lines = min((uint)TILE_N, (uint)n_pad - first_column)
#define BLOCK_OF_COLUMNS (first_column / 64u)
#define SCALES_OF_BLOCK(H) (min((uint)(H), (uint)n_pad / 128u - 1 - first_column / 128u) * groups_b)
#define BYTES_OF_CODES (workers / 128 * BLOCK_BYTES + lines * 128u)
// COPY(line of the stage, from where, bytes) for each piece that lies in one block, of K block `from`.
#define EACH_PIECE(COPY)                                                                                          \
  _Pragma("unroll 1") for (uint line = 0, skip = first_column % 64u; line < lines; from += column_bytes) {        \
    const uint there = min(64u - skip, lines - line);                                                             \
    COPY(line, from + skip * 128u, there * 128u);                                                                 \
    line += there;                                                                                                \
    skip = 0;                                                                                                     \
  }
#else
#define PLACE()                                                                                                   \
  tile_at(TILE_OF(t), row_tiles, col_tiles, &row, &col);                                                          \
  const scheduled_tile here = OF_TILE_OF_ROWS(row);                                                                   \
  const uint first_unit = min(col * UNITS + FIRST_UNIT_OF(t), (uint)n_pad / 64u - 1);                             \
  const uint there = min(UNITS_OF(t), (uint)n_pad / 64u - first_unit)
#define BLOCK_OF_COLUMNS first_unit
#define SCALES_OF_BLOCK(H) (there > 2 ? (H) * groups_b : 0)
#define BYTES_OF_CODES ((workers / 128 + there) * BLOCK_BYTES)
#define EACH_PIECE(COPY) \
  _Pragma("unroll 1") for (uint u = 0; u < there; ++u, from += column_bytes) COPY(u * 64u, from, BLOCK_BYTES);
#endif
#define TO_STAGE(LINE, FROM, BYTES) BULK_COPY(ring + stage * STAGE_BYTES + 2 * BLOCK_BYTES + (LINE) * 128u, FROM, BYTES, full + 8 * stage)
#define TO_L2(LINE, FROM, BYTES) BULK_PREFETCH(FROM, BYTES)
#define COLUMNS_PLACE __global const uchar *of_columns = B_OF(here) + (ulong)(BLOCK_OF_COLUMNS) * column_bytes
#define ROWS_PLACE __global const uchar *tokens = a + a_at + (ulong)(row * 2) * column_bytes
    if (warp == 8) {
      // Past the last columns nothing comes, and nothing of those is stored.
      for (; t < items; NEXT_TILE()) {
        PLACE();
        COLUMNS_PLACE;
        const uint bytes = BYTES_OF_CODES + 512u + 16u * COLUMN_SCALES;
        _Pragma("unroll 1") for (uint kb = first; kb < end; ++kb) {
          __global const uchar *from = of_columns + (ulong)kb * BLOCK_BYTES;
          BAR_WAIT(empty + 8 * stage, parity);
          BAR_ARRIVE_EXPECT(full + 8 * stage, bytes);
          EACH_PIECE(TO_STAGE)
          NEXT_STAGE();
        }
      }
      // One stage more, with nothing in it: the consumers look one ahead.
      BAR_WAIT(empty + 8 * stage, parity);
      BAR_ARRIVE(full + 8 * stage);
      return;
    }
    if (warp == 9) {
      for (; t < items; NEXT_TILE()) {
        PLACE();
        ROWS_PLACE;
        _Pragma("unroll 1") for (uint kb = first; kb < end; ++kb) {
          __global const uchar *from = tokens + (ulong)kb * BLOCK_BYTES;
          BAR_WAIT(empty + 8 * stage, parity);
          BULK_COPY(ring + stage * STAGE_BYTES, from, BLOCK_BYTES, full + 8 * stage);
          if (workers > 128) BULK_COPY(ring + stage * STAGE_BYTES + BLOCK_BYTES, from + column_bytes, BLOCK_BYTES, full + 8 * stage);
          NEXT_STAGE();
        }
      }
      return;
    }
    // Neighbours want the same rows or columns: each asks the L2 for its share of them. This work-item sends the scales too, so that no stage
    // is full without it: one that only asked could fall two rounds of the ring behind, and its barriers look then as if it were ahead.
    const uint share_a = share_of(col_tiles), share_b = share_of(row_tiles);
    for (; t < items; NEXT_TILE()) {
      PLACE();
      COLUMNS_PLACE;
      ROWS_PLACE;
      __global const uchar *column_scales = (__global const uchar *)SB_OF(here) + (ulong)(BLOCK_OF_COLUMNS / 2 * groups_b) * 512u;
      __global const uchar *row_scales = (__global const uchar *)(sa + sa_at) + (ulong)row * blocks * 512u;
      ASK_COLUMN_SCALES(first);
      _Pragma("unroll 1") for (uint kb = first; kb < end; ++kb) {
        if ((kb - first) % SCALES_AHEAD == 0 && kb + SCALES_AHEAD < end) ASK_COLUMN_SCALES(kb + SCALES_AHEAD);
        BAR_WAIT(empty + 8 * stage, parity);
        BULK_COPY(scales + stage * SCALE_BYTES, row_scales + kb * 512u, 512u, full + 8 * stage);
        UNROLL for (uint h = 0; h < COLUMN_SCALES; ++h)
          BULK_COPY(scales + stage * SCALE_BYTES + 512u + h * 16u, column_scales + (SCALE_OF(kb) + SCALES_OF_BLOCK(h)) * 512u, 16u, full + 8 * stage);
        NEXT_STAGE();
        if (AHEAD > 0 && kb + AHEAD < end) {
          const uint p = kb + AHEAD;
          if (((kb ^ col) & (share_a - 1)) == 0) {
            BULK_PREFETCH(tokens + (ulong)p * BLOCK_BYTES, BLOCK_BYTES);
            BULK_PREFETCH(tokens + (ulong)p * BLOCK_BYTES + column_bytes, BLOCK_BYTES);
            BULK_PREFETCH(row_scales + p * 512u, 512u * min(share_a, end - p));
          }
          if (((kb ^ row) & (share_b - 1)) == 0) {
            __global const uchar *from = of_columns + (ulong)p * BLOCK_BYTES;
            EACH_PIECE(TO_L2)
          }
        }
      }
    }
    return;
  }

  if (tid >= workers) return;
  REGS_MORE(REGS_OF_OTHERS);
  const uint group = warp >> 2, my_scales = scales + warp * 64u + (lane >> 2) * 8u;
  const ulong descriptor_a = (DESCRIPTOR | (ulong)(ring >> 4)) + group * PIECE, descriptor_b = (DESCRIPTOR | (ulong)(ring >> 4)) + 2 * PIECE;
  uint stage = 0, parity = 0;
  float s0, s1, sb_[3] = {0.0f, 0.0f, 0.0f}, t0, t1, tb_[3] = {0.0f, 0.0f, 0.0f};
  product_sum p[4 * CHUNKS];
  float sum[4 * CHUNKS * PRODUCTS];
  UNROLL for (int i = 0; i < 4 * CHUNKS; ++i) p[i] = 0;
  UNROLL for (int i = 0; i < 4 * CHUNKS * PRODUCTS; ++i) sum[i] = 0.f;
#if UNEVEN
  uint late;
#endif
  scheduled_tile here;
  uint d_col;
// The rows and columns of D of this work-item in tile (row, col), and where the bias of its matrix begins.
  ulong bias_here;
#define NOTE_PLACE()                                                                                                   \
  do {                                                                                                                 \
    here = OF_TILE_OF_ROWS(row);                                                                                       \
    here.first += (int)warp * 16;                                                                                      \
    d_col = OF_D(col * TILE_N);                                                                                        \
    bias_here = bias_at + (ulong)here.matrix * (ulong)n;                                                               \
  } while (0)
  // A warp's 16 rows of D on their way out, and this work-item's four columns of the first of them.
  const uint out_lines = LOCAL_ADDRESS(out_rows) + warp * OUT_BYTES, my_out = out_lines + (lane >> 2) * OUT_LINE + (lane & 3) * 4 * D_BYTES;
#if D_BYTES == 4u
#define d_word uint
#define PUT(AT, X0, X1, X2, X3) STORE_LOCAL_F4(AT, X0, X1, X2, X3)
#else
#define d_word ushort
#define PUT(AT, X0, X1, X2, X3)          \
  do {                                   \
    uint x_, y_;                         \
    TO_PAIR(x_, X0, X1);                 \
    TO_PAIR(y_, X2, X3);                 \
    STORE_LOCAL8(AT, x_, y_);            \
  } while (0)
#endif
#define VALUE_PUT(sum, E, c) D_VALUE(sum, BIAS_OF(c, bias_here), here.first + (int)(lane >> 2) + 4 * (E), c)
// Row lane / 4, or with E = 2 row 8 + lane / 4, of SIXTEENS of columns S, D's column C and those after it, in the lines from column AT on.
#define PUT_ROW(S, E, SIXTEENS, C, AT)                                                                                 \
  UNROLL for (int i_ = 0; i_ < (SIXTEENS); ++i_) {                                                                     \
    const uint c_ = (C) + 16 * i_ + (lane & 3) * 4;                                                                    \
    PUT(my_out + (E) * (OUT_ROWS - 8) / 2 * OUT_LINE + ((AT) + i_ * 16) * D_BYTES, VALUE_PUT((S)[8 * i_ + E], E, c_), VALUE_PUT((S)[8 * i_ + E + 1], E, c_ + 1), \
        VALUE_PUT((S)[8 * i_ + E + 4], E, c_ + 2), VALUE_PUT((S)[8 * i_ + E + 5], E, c_ + 3));                         \
  }
#define PUT_ROWS(S, SIXTEENS, C, AT) do { PUT_ROW(S, 0, SIXTEENS, C, AT); PUT_ROW(S, 2, SIXTEENS, C, AT); } while (0)
// The lines are free again.
#define OUT_FREE() do { BULK_STORE_READ(); SYNC_WARP(); } while (0)
// COLUMNS of the lines to D's column C: by bulk copies of which nobody waits, or one by one where rows do not lie so.
#define SEND(C, COLUMNS)                                                                                               \
  do {                                                                                                                 \
    const uint bytes_ = (C) < (uint)n ? min((uint)(COLUMNS), (uint)n - (C)) * D_BYTES : 0u;                            \
    const int rows_ = min(here.end - here.first, 16);                                                                  \
    __global d_word *to_ = (__global d_word *)d + d_at + (long)here.first * (long)ldd + (C);                           \
    if ((((ulong)((__global d_word *)d + d_at) | ldd * D_BYTES | bytes_) & 15) == 0) {                                 \
      FENCE_BULK();                                                                                                    \
      SYNC_WARP();                                                                                                     \
      if ((int)lane < rows_ && bytes_ != 0) BULK_STORE(to_ + lane * ldd, out_lines + lane * OUT_LINE, bytes_);         \
      BULK_STORE_COMMIT();                                                                                             \
    } else {                                                                                                           \
      SYNC_WARP();                                                                                                     \
      _Pragma("unroll 1") for (int r_ = 0; r_ < rows_; ++r_, to_ += ldd)                                               \
        _Pragma("unroll 1") for (uint x_ = lane; x_ < bytes_ / D_BYTES; x_ += 32)                                      \
          to_[x_] = ((__local const d_word *)(out_rows + warp * OUT_BYTES + r_ * OUT_LINE))[x_];                       \
    }                                                                                                                  \
  } while (0)
// Stores COLUMNS of tile (row, col), from its column FIRST on.
#ifdef D_SCALE_TYPE
#define STORE(FIRST, COLUMNS)                                                                                          \
  do {                                                                                                                 \
    NOTE_PLACE();                                                                                                      \
    d_col += (FIRST);                                                                                                  \
    UNROLL for (int c = 0; c < (COLUMNS); c += OUT_COLUMNS) UNROLL for (int e = 0; e < 4; e += 2) {                    \
      SYNC_WARP();                                                                                                     \
      PUT_ROW(sum + c / 2, e, OUT_COLUMNS / 16, d_col + c, 0);                                                         \
      SYNC_WARP();                                                                                                     \
      PUT_ROWS_OF_CODES(out_lines, 8u, (uint)here.first + 4 * e, (uint)here.end, d_col + c, 0u, 1u, 0);                \
    }                                                                                                                  \
    UNROLL for (int i = 0; i < (COLUMNS) / 2; ++i) sum[i] = 0.f;                                                       \
  } while (0)
#else
#define STORE(FIRST, COLUMNS)                                                                                          \
  do {                                                                                                                 \
    NOTE_PLACE();                                                                                                      \
    d_col += (FIRST);                                                                                                  \
    UNROLL for (int c = 0; c < (COLUMNS); c += 32) {                                                                   \
      const int width_ = (COLUMNS) - c < 32 ? (COLUMNS) - c : 32;                                                      \
      if (c % OUT_COLUMNS == 0) OUT_FREE();                                                                            \
      PUT_ROWS(sum + c / 2, width_ / 16, d_col + c, c % OUT_COLUMNS);                                                  \
      if ((c + 32) % OUT_COLUMNS == 0 || c + 32 >= (COLUMNS))                                                          \
        SEND(d_col + c / OUT_COLUMNS * OUT_COLUMNS, c % OUT_COLUMNS + width_);                                         \
    }                                                                                                                  \
    UNROLL for (int e = 0; e < (COLUMNS) / 2; ++e) sum[e] = 0.f;                                                       \
  } while (0)
#endif

#ifdef ACTIVATION
// The first product's totals are gates, the second's the ups of the same columns: D's values take the place of the gates.
#define STORE_TILE()                                                                                                   \
  do {                                                                                                                 \
    NOTE_PLACE();                                                                                                      \
    UNROLL for (int i = 0; i < 4 * CHUNKS; ++i) {                                                                      \
      const int row_ = here.first + (int)(lane >> 2) + i % 4 / 2 * 8, c_ = (int)(d_col + (lane & 3) * 4) + i / 8 * 16 + i % 8 / 4 * 2 + i % 2; \
      sum[i] = D_TOTAL(activated(bias, bias_here, n, c_, sum[i], sum[4 * CHUNKS + i]), row_, c_);                      \
      sum[4 * CHUNKS + i] = 0.f;                                                                                       \
    }                                                                                                                  \
    STORE(0, OF_D(TILE_N));                                                                                            \
  } while (0)
#else
#define STORE_TILE() STORE(0, TILE_N)
#endif
#if IN_PARTS
#define PART_AT(Z) (scratch + scratch_at + (((ulong)(get_group_id(0) % rest_) * parts_ + (Z)) * (UNITS * 8 * 256u) + tid) * 4u)
#define STORE_PART()                                                                                                                \
  do {                                                                                                                              \
    const uint rest_ = REST, parts_ = PARTS, part_ = get_group_id(0) / rest_;                                                       \
    __global float *to_ = PART_AT(part_);                                                                                           \
    UNROLL for (int i = 0; i < UNITS * 8; ++i) {                                                                                    \
      STORE_F4(to_ + i * 1024u, sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);                                        \
      sum[4 * i] = sum[4 * i + 1] = sum[4 * i + 2] = sum[4 * i + 3] = 0.f;                                                          \
    }                                                                                                                               \
  } while (0)
#define NOTE_PART()                                                                                                                 \
  do {                                                                                                                              \
    asm volatile("fence.acq_rel.gpu; bar.sync 1, %0;" ::"r"(workers) : "memory");                                                   \
    const uint rest_ = REST;                                                                                                        \
    if (tid == 0) share[2] = note_stored(WORD, get_group_id(0) / rest_);                                                            \
  } while (0)
#endif

  if (IN_TURN && group == 1) BAR_NAMED_ARRIVE(2, 256);  // The first turn.
  BAR_WAIT(full, 0u);
  READ_SCALES(s0, s1, sb_);
  for (; t < items; NEXT_TILE()) {
    tile_at(TILE_OF(t), row_tiles, col_tiles, &row, &col);
#if UNEVEN
    late = col * (TILE_N / 16u) % 8u;
#endif
    uint left = end - first;
#if IN_HALVES
    if (t >= whole) {
      _Pragma("unroll 1") for (; left > 0; --left) K_BLOCK(PRODUCTS / 2);
      STORE(FIRST_UNIT_OF(t) * 64u, TILE_N / 2);
      continue;
    }
#endif
    _Pragma("unroll 1") for (; left > 0; --left) K_BLOCK(PRODUCTS);
#if IN_PARTS
    if (t < REST) {
      STORE_PART();
      continue;
    }
    if (PART_IS_TO_NOTE) NOTE_PART();
#endif
    STORE_TILE();
  }
  if (IN_TURN && group == 0) BAR_NAMED(2, 256);  // The last one is nobody's.
#if IN_PARTS
  if (PART_IS_TO_NOTE) NOTE_PART();
  // Shares of a tile in parts: a unit has two, of 32 columns each.
  const uint rest_ = REST, parts_ = PARTS;
  if (parts_ > 1 && get_group_id(0) < rest_ * parts_) {
    const uint part = get_group_id(0) / rest_;
    if (tid == 0) share[2] = shares_to_add(WORD, part, parts_, share[2]);
    asm volatile("bar.sync 1, %0; fence.acq_rel.gpu;" ::"r"(workers) : "memory");
    const uint mine = share[2];
    tile_at(get_group_id(0) - part * rest_, row_tiles, col_tiles, &row, &col);
    NOTE_PLACE();
    const uint shares = SHARES_OF(parts_);
    _Pragma("unroll 1") for (uint z = 0; z < shares; ++z) {
      if (!(mine >> z & 1)) continue;
      const uint end_of_share = UNITS * 2 * (z + 1) / shares;
      _Pragma("unroll 1") for (uint q = UNITS * 2 * z / shares; q < end_of_share; q += 2) {
        float x[32];
        ADD_PARTS(x, 8, PART_AT(0), UNITS * 8192u, q * 4, end_of_share * 4, parts_);
        OUT_FREE();
        PUT_ROWS(x, 2, d_col + q * 32, 0);
        PUT_ROWS(x + 16, 2, d_col + q * 32 + 32, 32);
        SEND(d_col + q * 32, q + 1 < end_of_share ? 64 : 32);
      }
    }
  }
#endif
  BULK_STORE_READ();  // The copies read this work-group's memory.
}
#else
// The kernel needs what PTX_SM_90 promises; without it this file is empty.
#endif
