// SPDX-License-Identifier: Apache-2.0
// gemm_wgmma_few_f16.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for few rows and few tiles on the tensor cores of
// compute capability 9.0, in class f32: codes become f16, exactly, and wgmma adds their exact products in f32 (docs/numerics.md has the bound).
// Next door: gemm_wgmma_few.cl (class tensor14), gemm_wgmma_f16.cl (many rows).
//
// Weights stream once from memory, and what counts is how many of their bytes are on the way. They come as codes, by bulk copies into a ring
// of their own in local memory; tokens are f16 in memory (a plan's scratch), which the second cache serves, and have a ring as well. D is
// made transposed, weights by tokens: a warpgroup decodes 64 columns' weights of a K block to the register operand, multiplies and adds,
// and while it decodes or adds another one multiplies:
//
//         tokens (f16)      64 columns: warpgroups take K blocks in turn, three of 64 rows, two of 128; their sums are added in order at
//         +----------+      the end.
//  weights|   D^T    |      128 columns: two warpgroups have 64 each. One more product runs while one is added, and the next weights are
//  (codes)|          |      decoded under both; the turn to issue passes from one to the other, since issuing waits for the tensor cores.
//         +----------+      Two more warps feed, with a work-item each: one sends weights, the other tokens and scales.
// With SPLIT_K tiles are made in parts of K (parts.cl): same bits every run.
//
// Tunable   default  values    meaning
// TILE_M    64       64 128    rows (tokens) of D per work-group
// TILE_N    64       64 128    columns of D per work-group, no more than rows
// SPLIT_K   1        1 to 16   parts of K that work-groups share
// Set by the host: those of tile.cl, PTX_SM_90, and
// A: f16 as forms/forms.h lays it out, with its scales, before which lie the counters of parts. B: forms/forms.h.
// Local memory, all of it of arrays of the kernel's own (docs/opencl.md): SLOTS_A * (TILE_M * 260 + 16) + SLOTS_B * TILE_N * 128
// + 16 * (SLOTS_A + SLOTS_B) + 16, with a scale for each column 4 * TILE_N in place of the first 16 = 223936 B with the defaults.
// Origin: layouts and barriers as the PTX manual describes wgmma, mbarrier and cp.async.bulk; two-level sums after DeepGEMM.
#include "tile.cl"

#if defined(PTX_SM_90)
#define SHARE 0
#define SHARED_BLOCKS 4
#define LAST_ADDS (SPLIT_K > 1 && TILE_N == 64)
#include "parts.cl"
#include "ptx.cl"
#define COLUMNS_HELD TILE_N
#define THREADS_HELD (2 * TILE_N)
#include "weights_in_registers.cl"
#include "transposed_d.cl"

// K blocks on their way or in use, of tokens and of weights, multiples of K_GROUPS: a warpgroup that met a slot whose last use it has not
// seen would take that one's end for its own. Registers of a work-item that multiplies, and of one that feeds.
#if TILE_M == 64
#define SLOTS_A 9
#define SLOTS_B 9
#define REGISTERS 160
#define REGISTERS_OF_FEEDERS 24
#elif TILE_N == 64
#define SLOTS_A 4
#define SLOTS_B 10
#define REGISTERS 232
#define REGISTERS_OF_FEEDERS 40
#else
#define SLOTS_A 4
#define SLOTS_B 5
#define REGISTERS 232
#define REGISTERS_OF_FEEDERS 40
#endif
#define PRODUCTS (TILE_M / 64)       // Of a warpgroup and K block: 64 columns by 64 tokens by 128 k.
#define COLUMN_GROUPS (TILE_N / 64)  // Warpgroups beside one another,
#define K_GROUPS (TILE_M == 64 ? 3 : TILE_N == 64 ? 2 : 1)  // and those of the same columns, which take K blocks in turn.
#define WORKERS (128 * COLUMN_GROUPS * K_GROUPS)
#define THREADS (WORKERS + 128)
#define A_BYTES (TILE_M * 256u)
#define HALF_BYTES (TILE_M * 128u)  // All lines of half a K block.
#define LINES_BYTES 8192u           // Those of 64 tokens.
#define B_BYTES (TILE_N * 128u)
#define COLUMN_SCALES_BYTES (UNIFORM ? 16u : TILE_N * 4u)
#define SCALE_BYTES (TILE_M * 4u + COLUMN_SCALES_BYTES)

// The scale group of B that K block kb lies in; padding takes the last one's.
#define SCALE_OF(kb) min((uint)(kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
#define NEXT_SLOT(SLOT, PARITY, BY, SLOTS) do { SLOT += (BY); if (SLOT >= (SLOTS)) { SLOT -= (SLOTS); PARITY ^= 1; } } while (0)

#define TAKE_CODES(W)                                        \
  do {                                                       \
    BAR_WAIT(full_b + 8 * slot_b, parity_b);                 \
    const uint codes_ = ring_b + slot_b * B_BYTES + in_b;    \
    DECODE_COLUMN(W, 0, codes_);                             \
    DECODE_COLUMN(W, 1, codes_ + 1024u);                     \
    GIVE_BACK(empty_b + 8 * slot_b);                         \
    NEXT_SLOT(slot_b, parity_b, K_GROUPS, SLOTS_B);          \
  } while (0)
// The scales of a product's tokens, of two in each eight.
#define READ_SCALES(V) \
  UNROLL for (int i_ = 0; i_ < 8; ++i_) LOCAL_F2(q[2 * i_], q[2 * i_ + 1], scales_here + tl * 8u + ((V) * 8 + i_) * 32u)
#if UNIFORM
#ifdef ACTIVATION
#define KIND_OF_COLUMNS (g & 1)  // A work-item's columns are all gates or all ups, of which a block has one scale each.
#else
#define KIND_OF_COLUMNS 0
#endif
#define READ_COLUMN_SCALES()                           \
  float column_scale;                                  \
  LOCAL_F(column_scale, scales_here + TILE_M * 4u + KIND_OF_COLUMNS * 4u)
#define TIMES_COLUMN(x) ((x) * column_scale)
#else
#define READ_COLUMN_SCALES()                                       \
  float sw0, sw1;                                                  \
  LOCAL_F(sw0, scales_here + TILE_M * 4u + in_columns * 4u);       \
  LOCAL_F(sw1, scales_here + TILE_M * 4u + in_columns * 4u + 8u)
#define TIMES_COLUMN(x) (x)
#endif
#define ADD_PRODUCT(V)                                                                                     \
  UNROLL for (int i_ = 0; i_ < 8; ++i_)                                                                    \
    ADD_SCALED((sum[V] + 4 * i_), (p[V] + 4 * i_), TIMES_COLUMN(q[2 * i_]), TIMES_COLUMN(q[2 * i_ + 1]))
// A K block of this warpgroup. Of 128 columns its weights are in W already, and the next ones go to NEXT_W while its products run.
#if TILE_N == 64
#if PRODUCTS == 2
#define MULTIPLY_SECOND(W)                                          \
    MULTIPLY(p[1], W, at + (LINES_BYTES >> 4));                     \
    WGMMA_COMMIT()
#define ADD_PRODUCTS()                                              \
    WGMMA_WAIT(1);                                                  \
    ADD_PRODUCT(0);                                                 \
    READ_SCALES(1);                                                 \
    WGMMA_WAIT(0);                                                  \
    ADD_PRODUCT(1)
#else
#define MULTIPLY_SECOND(W)
#define ADD_PRODUCTS()                                              \
    WGMMA_WAIT(0);                                                  \
    ADD_PRODUCT(0)
#endif
#define K_BLOCK(W)                                                  \
  do {                                                              \
    float q[16];                                                    \
    TAKE_CODES(W);                                                  \
    BAR_WAIT(full_a + 8 * slot_a, parity_a);                        \
    const ulong at = lines_a + slot_a * (A_BYTES >> 4);             \
    const uint scales_here = scales + slot_a * SCALE_BYTES;         \
    READ_COLUMN_SCALES();                                           \
    WGMMA_FENCE();                                                  \
    MULTIPLY(p[0], W, at);                                          \
    WGMMA_COMMIT();                                                 \
    MULTIPLY_SECOND(W);                                             \
    READ_SCALES(0);                                                 \
    ADD_PRODUCTS();                                                 \
    GIVE_BACK(empty_a + 8 * slot_a);                                \
    NEXT_SLOT(slot_a, parity_a, K_GROUPS, SLOTS_A);                 \
  } while (0)
#else
#define MY_TURN() BAR_NAMED(2 + group, WORKERS)
#define YOUR_TURN() BAR_NAMED_ARRIVE(3 - group, WORKERS)
#define K_BLOCK(W, NEXT_W)                                          \
  do {                                                              \
    float q[16];                                                    \
    BAR_WAIT(full_a + 8 * slot_a, parity_a);                        \
    const ulong at = lines_a + slot_a * (A_BYTES >> 4);             \
    const uint scales_here = scales + slot_a * SCALE_BYTES;         \
    MY_TURN();                                                      \
    WGMMA_FENCE();                                                  \
    MULTIPLY(p[0], W, at);                                          \
    WGMMA_COMMIT();                                                 \
    MULTIPLY(p[1], W, at + (LINES_BYTES >> 4));                     \
    WGMMA_COMMIT();                                                 \
    YOUR_TURN();                                                    \
    if (++kb < end) TAKE_CODES(NEXT_W);                             \
    READ_COLUMN_SCALES();                                           \
    READ_SCALES(0);                                                 \
    WGMMA_WAIT(1);                                                  \
    ADD_PRODUCT(0);                                                 \
    READ_SCALES(1);                                                 \
    WGMMA_WAIT(0);                                                  \
    ADD_PRODUCT(1);                                                 \
    GIVE_BACK(empty_a + 8 * slot_a);                                \
    NEXT_SLOT(slot_a, parity_a, K_GROUPS, SLOTS_A);                 \
  } while (0)
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void gemm_wgmma_few_f16(GEMM_ARGS)
{
  __local uchar ring_of_a[SLOTS_A * A_BYTES] __attribute__((aligned(1024)));
  __local uchar ring_of_b[SLOTS_B * B_BYTES] __attribute__((aligned(1024)));
  __local uchar ring_of_scales[SLOTS_A * SCALE_BYTES] __attribute__((aligned(16)));
  __local ulong bars[2 * SLOTS_A + 2 * SLOTS_B];
  PARTS_MEMORY
  if (m <= 0) return;
  const uint ring_a = LOCAL_ADDRESS(ring_of_a), ring_b = LOCAL_ADDRESS(ring_of_b), scales = LOCAL_ADDRESS(ring_of_scales);
  const uint full_a = LOCAL_ADDRESS(bars), empty_a = full_a + 8 * SLOTS_A, full_b = empty_a + 8 * SLOTS_A, empty_b = full_b + 8 * SLOTS_B;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, groups = get_num_groups(0);
  const uint blocks = ((uint)k + 127u) / 128u, all_blocks = (uint)k_pad / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
#ifdef GROUPED
  __global const int *scheduled = schedule_memory + schedule_at;
  const uint m_tiles = (uint)scheduled[SCHEDULED_TILES];
#else
  const uint m_tiles = ((uint)m + TILE_M - 1) / TILE_M;
#endif
  const uint n_tiles = ((uint)n + TILE_N - 1) / TILE_N, tiles = m_tiles * n_tiles;
  if (tid == 0) {
    for (uint i = 0; i < SLOTS_A; ++i) {
      BAR_INIT(full_a + 8 * i, 1u);                  // who sends tokens
      BAR_INIT(empty_a + 8 * i, 4u * COLUMN_GROUPS); // the warps whose K block it is
    }
    for (uint i = 0; i < SLOTS_B; ++i) {
      BAR_INIT(full_b + 8 * i, 1u);
      BAR_INIT(empty_b + 8 * i, 4u * COLUMN_GROUPS);
    }
    BAR_INIT_DONE();
  }
  TAKE_TILE(1)
  barrier(CLK_LOCAL_MEM_FENCE);
  if (t >= tiles) return;
  const uint row = t / n_tiles, col_tile = t % n_tiles;
#ifdef GROUPED
  const scheduled_tile here = tile_of(scheduled, (int)row);
#else
  const scheduled_tile here = {0, (int)(row * TILE_M), m};
#endif

  if (tid >= WORKERS) {
    REGS_LESS(REGISTERS_OF_FEEDERS);
    if (lane != 0) return;
    OF_MATRIX(here)
    uint slot = 0, parity = 1;  // the first wait on each empty barrier passes at once
    if (warp == WORKERS / 32) {
      const ulong column_bytes = (ulong)all_blocks * 8192u;  // From a block of 64 columns to the next.
      __global const uchar *from = b_here + (ulong)(col_tile * COLUMN_GROUPS) * column_bytes + (ulong)first * 8192u;
      _Pragma("unroll 1") for (uint kb = first; kb < end; ++kb, from += 8192) {
        BAR_WAIT(empty_b + 8 * slot, parity);
        BAR_ARRIVE_EXPECT(full_b + 8 * slot, B_BYTES);
        UNROLL for (uint c = 0; c < COLUMN_GROUPS; ++c) BULK_COPY(ring_b + slot * B_BYTES + c * 8192u, from + c * column_bytes, 8192u, full_b + 8 * slot);
        NEXT_SLOT(slot, parity, 1, SLOTS_B);
      }
    } else if (warp == WORKERS / 32 + 1) {
      // Of A only rows that are there, in eights: the others' products are not stored.
      const uint lines = (min((uint)(here.end - here.first), (uint)TILE_M) + 7u) / 8u * 1024u;
      const ulong to_next = (ulong)all_blocks * 16384u;  // From 64 tokens to the next.
      __global const uchar *from = a + a_at * 2 + (ulong)(row * PRODUCTS) * to_next + (ulong)first * 16384u;
      __global const float *row_scales = sa + sa_at + ((ulong)(row * PRODUCTS) * all_blocks + first) * 64u;
      __global const float *column_scales = sb_here + (ulong)(col_tile * TILE_N / 128u) * groups_b * 128u + (UNIFORM ? 0u : col_tile * TILE_N % 128u);
      _Pragma("unroll 1") for (uint kb = first; kb < end; ++kb, from += 16384, row_scales += 64) {
        BAR_WAIT(empty_a + 8 * slot, parity);
        const uint bar = full_a + 8 * slot, to = ring_a + slot * A_BYTES, to_scales = scales + slot * SCALE_BYTES;
        BAR_ARRIVE_EXPECT(bar, 2u * lines + SCALE_BYTES);
        UNROLL for (uint v = 0; v < PRODUCTS; ++v) if (v == 0 || lines > LINES_BYTES) UNROLL for (uint h = 0; h < 2; ++h)
          BULK_COPY(to + h * HALF_BYTES + v * LINES_BYTES, from + v * to_next + h * 8192u, min(lines - v * LINES_BYTES, LINES_BYTES), bar);
        UNROLL for (uint v = 0; v < PRODUCTS; ++v) BULK_COPY(to_scales + v * 256u, row_scales + (ulong)v * all_blocks * 64u, 256u, bar);
        BULK_COPY(to_scales + TILE_M * 4u, column_scales + SCALE_OF(kb) * 128u, COLUMN_SCALES_BYTES, bar);
        NEXT_SLOT(slot, parity, 1, SLOTS_A);
      }
    }
    return;
  }

  REGS_MORE(REGISTERS);
  const uint group = warp >> 2, column_group = group % COLUMN_GROUPS, k_group = group / COLUMN_GROUPS, g = LINE_OF(lane), tl = lane & 3;
  const uint in_b = column_group * 8192u + ((warp & 3) * 16u + g) * 128u + ((tl ^ g) << 4);
#if !UNIFORM
  const uint in_columns = column_group * 64u + (warp & 3) * 16u + 4u * (g >> 1) + (g & 1);
#endif
  const ulong lines_a = DESCRIPTOR | (ulong)(ring_a >> 4);
  uint slot_a = k_group, parity_a = 0, slot_b = k_group, parity_b = 0, kb = first + k_group;
  float sum[PRODUCTS][32], p[PRODUCTS][32];
  UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int i = 0; i < 32; ++i) p[v][i] = sum[v][i] = 0.0f;
#if TILE_N == 64
  uint w[32];
  _Pragma("unroll 1") for (; kb < end; kb += K_GROUPS) K_BLOCK(w);
  // All K blocks are used, so the ring is free: the other groups' sums go there, and the first adds them in order.
  __local float *others = (__local float *)ring_of_a + (tid & 127u);
  BAR_NAMED(1, WORKERS);
  if (k_group > 0) UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int i = 0; i < 32; ++i)
    others[(((k_group - 1) * PRODUCTS + v) * 32 + i) * 128] = sum[v][i];
  BAR_NAMED(1, WORKERS);
  if (k_group > 0) return;
  UNROLL for (int z = 0; z < K_GROUPS - 1; ++z) UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int i = 0; i < 32; ++i)
    sum[v][i] += others[((z * PRODUCTS + v) * 32 + i) * 128];
#else
  uint w[2][32];
  if (group == 1) YOUR_TURN();
  TAKE_CODES(w[0]);
  _Pragma("unroll 1") for (;;) {
    K_BLOCK(w[0], w[1]);
    if (kb >= end) break;
    K_BLOCK(w[1], w[0]);
    if (kb >= end) break;
  }
#endif
  PLACE_IN_D(here, col_tile * TILE_N + column_group * 64u + (warp & 3) * 16u);
#if IN_PARTS
#define PART_AT(Z) (scratch + scratch_at + (((ulong)(get_group_id(0) % rest_) * parts_ + (Z)) * (TILE_M * 32u) + tid) * 4u)
  const uint rest_ = REST, parts_ = PARTS;
  if (parts_ > 1) {
    const uint part = get_group_id(0) / rest_;
    __global float *to = PART_AT(part);
    UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int i = 0; i < 8; ++i)
      STORE_F4(to + (v * 8 + i) * 1024, sum[v][4 * i], sum[v][4 * i + 1], sum[v][4 * i + 2], sum[v][4 * i + 3]);
    asm volatile("fence.acq_rel.gpu; bar.sync 1, %0;" ::"n"(128 * COLUMN_GROUPS) : "memory");
    if (tid == 0) share[2] = shares_to_add(WORD, part, parts_, note_stored(WORD, part));
    asm volatile("bar.sync 1, %0; fence.acq_rel.gpu;" ::"n"(128 * COLUMN_GROUPS) : "memory");
    const uint mine = share[2];
    ADD_SHARES(mine, parts_, PART_AT(0));
    return;
  }
#endif
#ifdef D_SCALE_TYPE
  __local float *lines_of_d = (__local float *)ring_of_b;  // All weights are used.
  UNROLL for (int v = 0; v < PRODUCTS; ++v) OUT_IN_CODES(v, sum[v], col_tile * TILE_N);
#else
  UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int i = 0; i < 8; ++i) OUT(v, i, sum[v] + 4 * i);
#endif
}
#endif  // Without what PTX_SM_90 promises this file is empty.
