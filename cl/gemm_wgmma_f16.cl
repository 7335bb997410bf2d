// SPDX-License-Identifier: Apache-2.0
// gemm_wgmma_f16.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] on the tensor cores of compute capability 9.0,
// in class f32: codes become f16, exactly, and wgmma adds their exact products in f32 (docs/numerics.md has the bound).
//
// D is made transposed, weights by tokens. Two warpgroups hold 64 columns of D each: their weights are the register operand, loaded
// one K block ahead and decoded in registers, so weights stay one byte in memory. The tokens are f16 in memory (they are a plan's
// scratch) and come by bulk copies into a ring that both warpgroups read: in tiles of 256 rows of four slots, 64 tokens by 128 k each, so
// that there is one to wait for a product; else of five, 64 tokens by 64 k, free again when half a product is made.
//
//                 tokens (f16, ring)        A third warpgroup feeds: one work-item sends bulk copies and asks the L2 for tiles that
//                +------+------+------+     come AHEAD K blocks later; one warp multiplies the scales of rows and columns.
//   weights  64  |  D^T |      |      |     A product is 64 columns of D by 64 tokens by 128 k, eight instructions; its sums are
//   (codes,      +------+------+------+     then added, scaled, to the sums that stay in registers. The two warpgroups start
//   registers)64 |      |      |      |     their products in turn, so that one adds while the other multiplies; the
//                +------+------+------+     turn passes when half a product is issued, since issuing waits as well.
// Work-groups stay: each walks tiles of D, ROWS_TOGETHER tiles of tokens beside one another, so that the L2 serves most of them.
// With SPLIT_K or SHARE tiles are made in parts of K (parts.cl): same bits every run.
//
// Tunable        default  values      meaning
// TILE_M         256      64 128 256  rows of D (tokens) per work-group; its columns are 128
// SPLIT_K        1        1 to 16     parts of K that work-groups share
// SHARE          0        0 1         a last round that is half empty or more in parts of K, unless all tiles are
// ROWS_TOGETHER  8        4 8 16      tiles of rows that are walked together
// AHEAD          2        0 2 4       K blocks between asking the L2 for a tile and using it
// Set by the host: those of tile.cl, PTX_SM_90, and
// A: f16 as forms/forms.h lays it out, with its scales, before which lie the counters of parts. B: forms/forms.h.
// Local memory, all of it of arrays of the kernel's own (docs/opencl.md): ring 65536 (40960 with five slots), scales 3 * TILE_M * 5,
// barriers 112 (128), parts 16 B = 69504 B with the defaults; with D of 16 bits 4096 B of lines besides, and of scales and their
// barriers two stages, not three, if TILE_M is 256: 72304 B. With D in codes 33792 B of its values.
// Origin: layouts and barriers as the PTX manual describes wgmma, mbarrier and cp.async.bulk; two-level sums after DeepGEMM.
#include "tile.cl"

#if defined(PTX_SM_90)
#define SHARED_BLOCKS 4
#define LAST_ADDS (SPLIT_K > 1 && TILE_M == 64)
#include "parts.cl"
#include "ptx.cl"
#include "tile_order.cl"
#ifdef ACTIVATION
#undef B_SCALE_ROWS
#define B_SCALE_ROWS 1  // The columns of a block have two scales, of gates and of ups.
#endif
#define COLUMNS_HELD 128
#define THREADS_HELD 256
#include "transposed_d.cl"

#define TOKENS TILE_M
// A slot has a whole K block where a tile has all of K, or a fixed part of it, in its rounds.
#define WHOLE (TOKENS == 256 && !SHARE)
#define SLOTS (WHOLE ? 4 : 5)
#define SLOT_BYTES (WHOLE ? 16384u : 8192u)
// D of 16 bits leaves whole tiles by lines of 128 bytes, through local memory.
#if defined(ACTIVATION) || defined(D_SCALE_TYPE)
#define STAGED 0  // Lines of D have half as many columns, or leave in codes.
#else
#define STAGED (D_TYPE != TYPE_F32)
#endif
#define LINES_BYTES 2048u  // sixteen lines, of each warpgroup
#define STAGES (STAGED && TILE_M == 256 ? 2 : 3)
#define STAGE_FLOATS (TOKENS / 64 * 80)  // Of 64 tokens: four runs of 16, 20 apart, so that reads do not meet in a bank.
#define THREADS 384
#define PRODUCTS (TOKENS / 64)
#define IN_TURN (TOKENS == 256)
#define DECODE4 JOIN(DECODE4_, B_TYPE)

// Of tile tm of tokens: where the weights of its matrix and their scales begin, the matrix, rows [first, end) of D.
#ifdef GROUPED
#define OF_TILE_OF_TOKENS(tm) tile_of(scheduled, (int)(tm))
#define B_OF(here) (b + (ulong)(here).matrix * b_stride)
#define SB_OF(here) (sb + (ulong)(here).matrix * sb_stride)
#else
#define OF_TILE_OF_TOKENS(tm) ((scheduled_tile){0, (int)((tm) * TOKENS), m})
#define B_OF(here) b
#define SB_OF(here) sb
#endif

// Products of 64 tokens that a tile needs. Of a grouped problem the last rows of many tiles are padding.
#ifdef GROUPED
static inline uint products_of(scheduled_tile here) { return min((uint)(here.end - here.first + 63) / 64u, (uint)PRODUCTS); }
#else
#define products_of(here) PRODUCTS
#endif

// Scales that come from memory arrive later than a K block of few rows ends: they are asked of the L2 so many K blocks at a time.
#define SCALES_AHEAD 8u
#define ASK_SCALES(KB)                                                                                                            \
  do {                                                                                                                            \
    UNROLL for (uint u_ = 0; u_ < TOKENS / 64; ++u_)                                                                              \
      BULK_PREFETCH(sa + sa_at + ((ulong)(tm * (TOKENS / 64) + u_) * blocks + (KB)) * 64u, 256u * min(SCALES_AHEAD, end - (KB))); \
    if (UNIFORM) BULK_PREFETCH(weight_scales + SCALE_OF(KB) * 128u, 512u * min(SCALES_AHEAD, groups_b - SCALE_OF(KB)));           \
  } while (0)
// The scale group of B that K block kb lies in; padding takes the last one's.
#define SCALE_OF(kb) min((uint)(kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
#define NEXT_SLOT() do { if (++slot == SLOTS) { slot = 0; parity ^= 1; } } while (0)
#define LOAD_RAW(P)                                                                              \
  do {                                                                                           \
    LOAD16_IN_ORDER(raw, (P) + in_b);                                                                     \
    LOAD16_IN_ORDER(raw + 4, (P) + (in_b ^ 64u));                                                         \
    LOAD16_IN_ORDER(raw + 8, (P) + in_b + 1024u);                                                         \
    LOAD16_IN_ORDER(raw + 12, (P) + (in_b ^ 64u) + 1024u);                                                \
  } while (0)

// the products of half a K block, HALF 0 or 1, of the tokens from line LINE of a slot on
#define MULTIPLY_HALF(P, HALF, LINE)                                                                      \
  do {                                                                                                    \
    const ulong d_ = DESCRIPTOR | (ulong)((ring + slot * SLOT_BYTES + (LINE) * 128u) >> 4);               \
    UNROLL for (int q_ = 0; q_ < 4; ++q_) {                                                               \
      const int at_ = (HALF) * 16 + 4 * q_;                                                               \
      if ((HALF) == 0 && q_ == 0) WGMMA_M64N64K16_F16(P, w[at_], w[at_ + 1], w[at_ + 2], w[at_ + 3], d_, 0);            \
      else WGMMA_M64N64K16_F16(P, w[at_], w[at_ + 1], w[at_ + 2], w[at_ + 3], d_ + 2 * q_, 1);                          \
    }                                                                                                     \
  } while (0)

#define READ_SCALES(V) \
    UNROLL for (int i_ = 0; i_ < 4; ++i_) LOCAL_F4(q[4 * i_], q[4 * i_ + 1], q[4 * i_ + 2], q[4 * i_ + 3], stage_at + (V) * 320u + i_ * 16u)
#define PROMOTE(V, P) UNROLL for (int j = 0; j < 8; ++j) ADD_SCALED((sum[V] + 4 * j), ((P) + 4 * j), q[2 * j + 1], q[2 * j])
#if IN_TURN
#define MY_TURN() BAR_NAMED(2 + group, 256)
#define YOUR_TURN() BAR_NAMED_ARRIVE(3 - group, 256)
#else
#define MY_TURN()
#define YOUR_TURN()
#endif
// The second half of a K block of tokens: in the same slot, or in the next.
#if WHOLE
#define TO_SECOND_HALF()
#define SECOND_LINE 64
#define FIRST_HALF_BACK()
#else
#define TO_SECOND_HALF() do { NEXT_SLOT(); BAR_WAIT(full + 8 * slot, parity); } while (0)
#define SECOND_LINE 0
#define FIRST_HALF_BACK() do { WGMMA_WAIT(1); if (lane == 0) BAR_ARRIVE(empty + 8 * s0); } while (0)
#endif
// The products of a K block, those that are NEEDED, each added scaled to its sums.
#define MULTIPLY_AND_ADD(NEEDED)                             \
  UNROLL for (int v = 0; v < PRODUCTS; ++v) if (NEEDED) {    \
    float q[16];                                             \
    const uint s0 = slot;                                    \
    MY_TURN();                                               \
    BAR_WAIT(full + 8 * slot, parity);                       \
    WGMMA_FENCE();                                           \
    MULTIPLY_HALF(p, 0, 0);                                  \
    WGMMA_COMMIT();                                          \
    YOUR_TURN();                                             \
    TO_SECOND_HALF();                                        \
    const uint s1 = slot;                                    \
    WGMMA_FENCE();                                           \
    MULTIPLY_HALF(p, 1, SECOND_LINE);                        \
    WGMMA_COMMIT();                                          \
    NEXT_SLOT();                                             \
    if (v == 0) BAR_WAIT(scales_full + 8 * stage, stage_parity); \
    READ_SCALES(v);                                          \
    FIRST_HALF_BACK();                                       \
    WGMMA_WAIT(0);                                           \
    if (lane == 0) BAR_ARRIVE(empty + 8 * s1);               \
    PROMOTE(v, p);                                           \
  }

// Where tile T lies in D, for this work-item.
#define PLACE_OF(T)                       \
  uint tm_, tn_;                          \
  tile_at(T, m_tiles, n_tiles, &tm_, &tn_); \
  PLACE_IN_D(OF_TILE_OF_TOKENS(tm_), tn_ * 128u + warp * 16u)
#define STORE_ROWS()                                                                    \
  UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int j = 0; j < 8; ++j) {        \
    OUT(v, j, sum[v] + 4 * j);                                                          \
    sum[v][4 * j] = sum[v][4 * j + 1] = sum[v][4 * j + 2] = sum[v][4 * j + 3] = 0.0f;   \
  }
#if STAGED
// Four columns of row 8 * J + row8_ of the sixteen that this warpgroup stores next, which begin with D's row ROW.
#define STAGE(J, S, ROW)                                                                                                   \
  do {                                                                                                                \
    uint xs_, ys_, other_, q0_, q1_;                                                                                  \
    TO_PAIR(xs_, VALUE_0(S, (ROW) + 8 * (J) + 2 * tl, col + odd), VALUE_2(S, (ROW) + 8 * (J) + 2 * tl, col + odd));                                                 \
    TO_PAIR(ys_, VALUE_1(S, (ROW) + 8 * (J) + 2 * tl, col + odd), VALUE_3(S, (ROW) + 8 * (J) + 2 * tl, col + odd));                                                 \
    const uint own_ = odd ? ys_ : xs_, sent_ = odd ? xs_ : ys_;                                                       \
    SHUFFLE_XOR(other_, sent_, 4);                                                                                    \
    asm("prmt.b32 %0,%1,%2,%3;" : "=r"(q0_) : "r"(own_), "r"(other_), "r"(low_));                                     \
    asm("prmt.b32 %0,%1,%2,%3;" : "=r"(q1_) : "r"(own_), "r"(other_), "r"(high_));                                    \
    asm volatile("st.shared.v2.u32 [%0],{%1,%2};" ::"r"(to_line_ + (J) * 1024u), "r"(q0_), "r"(q1_) : "memory");      \
  } while (0)
// The way out of a tile. A warp has 32 bytes of a row of D: of whole tiles sixteen rows at a time change hands in local memory, where
// 16 bytes of line r lie at their place xor r % 8, and leave as lines of 128 bytes.
#define LEAVE_TILE()                                                                                                            \
  do {                                                                                                                          \
    PLACE_OF(t);                                                                                                                \
    if (d_m + TOKENS <= d_end && tn_ * 128u + 128u <= (uint)n && ((d_at | ldd) & 7) == 0) {                                     \
      const uint low_ = odd ? 0x1054u : 0x5410u, high_ = odd ? 0x3276u : 0x7632u; /* bytes of columns 0 and 1, 2 and 3 */       \
      const uint row8_ = 2 * tl + odd, chunk_ = (warp & 3) * 2 + (g >> 2), mine_ = lines + group * LINES_BYTES;                 \
      const uint to_line_ = mine_ + row8_ * 128u + ((chunk_ ^ row8_) << 4) + (g >> 1 & 1) * 8u;                                 \
      const uint line_ = (tid & 127) >> 3, from_line_ = mine_ + line_ * 128u + (((tid ^ line_) & 7) << 4);                      \
      __global ushort *to_ = (__global ushort *)d + d_at + (ulong)(d_m + line_) * ldd + tn_ * 128u + group * 64u + (tid & 7) * 8u; \
      UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int j = 0; j < 8; j += 2) {                                         \
        STAGE(0, sum[v] + 4 * j, d_m + v * 64 + 8 * j);                                                                                               \
        STAGE(1, sum[v] + 4 * j + 4, d_m + v * 64 + 8 * j);                                                                                           \
        BAR_NAMED(4 + group, 128);                                                                                              \
        uint r0_, r1_, r2_, r3_;                                                                                                \
        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(r0_), "=r"(r1_), "=r"(r2_), "=r"(r3_) : "r"(from_line_) : "memory"); \
        STORE16(to_, r0_, r1_, r2_, r3_);                                                                                       \
        to_ += 16 * ldd;                                                                                                        \
        BAR_NAMED(4 + group, 128);                                                                                              \
        UNROLL for (int i = 0; i < 8; ++i) sum[v][4 * j + i] = 0.0f;                                                            \
      }                                                                                                                         \
    } else {                                                                                                                    \
      STORE_ROWS();                                                                                                             \
    }                                                                                                                           \
  } while (0)
#elif defined(D_SCALE_TYPE)
#define LEAVE_TILE()                                           \
  do {                                                         \
    PLACE_OF(t);                                               \
    UNROLL for (int v = 0; v < PRODUCTS; ++v) {                \
      OUT_IN_CODES(v, sum[v], tn_ * 128u);                     \
      UNROLL for (int i = 0; i < 32; ++i) sum[v][i] = 0.0f;    \
    }                                                          \
  } while (0)
#else
#define LEAVE_TILE() \
  do {               \
    PLACE_OF(t);     \
    STORE_ROWS();    \
  } while (0)
#endif
#define STORE_PART()                                                                                               \
  do {                                                                                                             \
    const uint rest_ = REST, parts_ = PARTS, part_ = get_group_id(0) / rest_;                                      \
    __global float *to_ = PART_AT(part_);                                                                          \
    UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int j = 0; j < 8; ++j) {                                 \
      STORE_F4(to_ + (v * 8 + j) * 1024u, sum[v][4 * j], sum[v][4 * j + 1], sum[v][4 * j + 2], sum[v][4 * j + 3]); \
      sum[v][4 * j] = sum[v][4 * j + 1] = sum[v][4 * j + 2] = sum[v][4 * j + 3] = 0.0f;                            \
    }                                                                                                              \
  } while (0)
#define NOTE_PART()                                                      \
  do {                                                                   \
    asm volatile("fence.acq_rel.gpu; bar.sync 1, 256;" ::: "memory");    \
    const uint rest_ = REST;                                             \
    if (tid == 0) share[2] = note_stored(WORD, get_group_id(0) / rest_); \
  } while (0)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void gemm_wgmma_f16(GEMM_ARGS)
{
  __local uchar slots[SLOTS * SLOT_BYTES] __attribute__((aligned(1024)));
  __local float products[STAGES * STAGE_FLOATS] __attribute__((aligned(16)));
  __local ulong bars[2 * SLOTS + 2 * STAGES];
#if STAGED
  __local uchar of_lines[2 * LINES_BYTES] __attribute__((aligned(128)));
  const uint lines = LOCAL_ADDRESS(of_lines);
#elif defined(D_SCALE_TYPE)
  __local float lines_of_d[64 * LINE_FLOATS] __attribute__((aligned(16)));
#endif
  PARTS_MEMORY
  const uint ring = LOCAL_ADDRESS(slots), scales = LOCAL_ADDRESS(products);
  const uint full = LOCAL_ADDRESS(bars), empty = full + 8 * SLOTS, scales_full = empty + 8 * SLOTS, scales_empty = scales_full + 8 * STAGES;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, groups = get_num_groups(0);
  const uint blocks = (uint)k_pad / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
#ifdef GROUPED
  if (m == 0) return;
  __global const int *scheduled = schedule_memory + schedule_at;
  const uint m_tiles = (uint)scheduled[SCHEDULED_TILES];
#else
  const uint m_tiles = ((uint)m + TOKENS - 1) / TOKENS;
#endif
  const uint n_tiles = (uint)n_pad / 128u, tiles = m_tiles * n_tiles;
  if (tid == 0) {
    for (uint i = 0; i < SLOTS; ++i) {
      BAR_INIT(full + 8 * i, 1u);
      BAR_INIT(empty + 8 * i, 8u);
    }
    for (uint i = 0; i < STAGES; ++i) {
      BAR_INIT(scales_full + 8 * i, 32u);
      BAR_INIT(scales_empty + 8 * i, 8u);
    }
    BAR_INIT_DONE();
  }
  TAKE_TILE(1)
  uint tm, tn;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (t >= tiles) return;

  if (warp >= 8) {
    REGS_LESS(40);
    if (warp == 9) { // this warp multiplies the scales of rows and columns, a few K blocks ahead
      uint stage = 0, stage_parity = 1;
      for (; t < tiles; NEXT_TILE()) {
        tile_at(t, m_tiles, n_tiles, &tm, &tn);
        // of each 64 tokens this lane takes two
        __global const float *token_scales = sa + sa_at + ((ulong)(tm * (TOKENS / 64)) * blocks + first) * 64u + 2u * lane;
        __global const float *weight_scales = SB_OF(OF_TILE_OF_TOKENS(tm)) + (ulong)tn * groups_b * 128u;
        const uint to = scales + ((lane & 3) * 20u + 2u * (lane >> 2)) * 4u;
        float x[TOKENS / 64], y[TOKENS / 64], f = 1.0f;
        if (lane == 0) ASK_SCALES(first);
        UNROLL for (uint u = 0; u < TOKENS / 64; ++u) LOAD_F2(x[u], y[u], token_scales + (ulong)u * blocks * 64u);
        if (UNIFORM) LOAD_F(f, weight_scales + SCALE_OF(first) * 128u);
        for (uint kb = first; kb < end; ++kb) {
          if (lane == 0 && (kb - first) % SCALES_AHEAD == 0 && kb + SCALES_AHEAD < end) ASK_SCALES(kb + SCALES_AHEAD);
          BAR_WAIT(scales_empty + 8 * stage, stage_parity);
          // The odd token's scale first: sums of even tokens lie in even registers, and with an even scale all operands were of one bank.
          UNROLL for (uint u = 0; u < TOKENS / 64; ++u) STORE_LOCAL_F2(to + stage * (STAGE_FLOATS * 4u) + u * 320u, y[u] * f, x[u] * f);
          BAR_ARRIVE(scales_full + 8 * stage);
          if (++stage == STAGES) { stage = 0; stage_parity ^= 1; }
          if (kb + 1 < end) {
            token_scales += 64;
            UNROLL for (uint u = 0; u < TOKENS / 64; ++u) LOAD_F2(x[u], y[u], token_scales + (ulong)u * blocks * 64u);
            if (UNIFORM) LOAD_F(f, weight_scales + SCALE_OF(kb + 1) * 128u);
          }
        }
      }
      return;
    }
    if (warp != 8 || lane != 0) return;
    // Neighbours want the same tokens or weights: each asks for its share of them.
    const uint share_a = share_of(n_tiles), share_b = share_of(m_tiles);
    uint slot = 0, parity = 1;
    for (; t < tiles; NEXT_TILE()) {
      tile_at(t, m_tiles, n_tiles, &tm, &tn);
      __global const uchar *tokens = a + a_at * 2 + (ulong)(tm * (TOKENS / 64)) * blocks * 16384u;
      const scheduled_tile here = OF_TILE_OF_TOKENS(tm);
      const uint products = products_of(here);
      __global const uchar *b_here = B_OF(here);
      for (uint kb = first; kb < end; ++kb) {
        UNROLL for (uint u = 0; u < TOKENS / 64; ++u) if (u < products) {
          BAR_WAIT(empty + 8 * slot, parity);
          uint bar = full + 8 * slot;
          BAR_ARRIVE_EXPECT(bar, SLOT_BYTES);
          BULK_COPY(ring + slot * SLOT_BYTES, tokens + ((ulong)u * blocks + kb) * 16384u, SLOT_BYTES, bar);
          NEXT_SLOT();
#if !WHOLE
          BAR_WAIT(empty + 8 * slot, parity);
          bar = full + 8 * slot;
          BAR_ARRIVE_EXPECT(bar, SLOT_BYTES);
          BULK_COPY(ring + slot * SLOT_BYTES, tokens + ((ulong)u * blocks + kb) * 16384u + 8192u, SLOT_BYTES, bar);
          NEXT_SLOT();
#endif
        }
        if (AHEAD > 0 && kb + AHEAD < end) {
          const uint p = kb + AHEAD;
          if (((kb ^ tn) & (share_a - 1)) == 0)
            UNROLL for (uint u = 0; u < TOKENS / 64; ++u) if (u < products) BULK_PREFETCH(tokens + ((ulong)u * blocks + p) * 16384u, 16384u);
          if (((kb ^ tm) & (share_b - 1)) == 0) {
            BULK_PREFETCH(b_here + ((ulong)(tn * 2) * blocks + p) * 8192u, 8192u);
            BULK_PREFETCH(b_here + ((ulong)(tn * 2 + 1) * blocks + p) * 8192u, 8192u);
          }
        }
      }
    }
    return;
  }

  REGS_MORE(232);
  const uint group = warp >> 2, g = lane >> 2, tl = lane & 3;
  const uint in_b = ((warp & 3) * 16u + g) * 128u + ((tl ^ g) << 4);
  uint slot = 0, parity = 0, stage = 0, stage_parity = 0, left = end - first;
#if IN_PARTS
#define PART_AT(Z) (scratch + scratch_at + (((ulong)(get_group_id(0) % rest_) * parts_ + (Z)) * (PRODUCTS * 8 * 256u) + tid) * 4u)
#endif
  float sum[PRODUCTS][32], p[32];
  uint w[32], raw[16];
  UNROLL for (int v = 0; v < PRODUCTS; ++v) UNROLL for (int i = 0; i < 32; ++i) sum[v][i] = 0.0f;
  UNROLL for (int i = 0; i < 32; ++i) p[i] = 0.0f;
  tile_at(t, m_tiles, n_tiles, &tm, &tn);
  scheduled_tile here = OF_TILE_OF_TOKENS(tm);
  __global const uchar *pb = B_OF(here) + ((ulong)(tn * 2 + group) * blocks + first) * 8192u;
  LOAD_RAW(pb);
#if !UNIFORM
  uint kb = first;
  const uint in_columns = warp * 16u + 4u * (g >> 1) + (g & 1);
  __global const float *pc = SB_OF(here) + ((ulong)tn * groups_b + SCALE_OF(kb)) * 128u + in_columns;
  float next_sw0, next_sw1;
  LOAD_F(next_sw0, pc);
  LOAD_F(next_sw1, pc + 2);
#endif
#if IN_TURN
  if (group == 1) BAR_NAMED_ARRIVE(2, 256);
#endif
  for (;;) {
    // pieces: raw 0..3 row g first half, 4..7 row g second half, 8..15 row g + 8
    UNROLL for (int i = 0; i < 8; ++i) {
      DECODE4(w[4 * i], w[4 * i + 2], raw[i]);
      DECODE4(w[4 * i + 1], w[4 * i + 3], raw[8 + i]);
    }
    const uint products = products_of(here);
    const bool last = left == 1;
    bool more = true;
    if (!last) {
      pb += 8192u;
      --left;
    } else {
      const uint t_next = AFTER_THIS;
      more = t_next < tiles;
      if (more) {
        left = blocks;
        tile_at(t_next, m_tiles, n_tiles, &tm, &tn);
        here = OF_TILE_OF_TOKENS(tm);
        pb = B_OF(here) + (ulong)(tn * 2 + group) * blocks * 8192u;
      }
    }
#if !UNIFORM
    if (!last) ++kb;
    else if (more) kb = 0;
    const float sw0 = next_sw0, sw1 = next_sw1;
    pc = SB_OF(here) + ((ulong)tn * groups_b + SCALE_OF(kb)) * 128u + in_columns;
    LOAD_F(next_sw0, pc);
    LOAD_F(next_sw1, pc + 2);
#endif
    LOAD_RAW(pb);
    const uint stage_at = scales + stage * (STAGE_FLOATS * 4u) + tl * 80u;
#ifdef GROUPED
    if (products < PRODUCTS) {
      MULTIPLY_AND_ADD((uint)v < products);
    } else
#endif
    {
      MULTIPLY_AND_ADD(true);
    }
    if (lane == 0) BAR_ARRIVE(scales_empty + 8 * stage);
    if (++stage == STAGES) { stage = 0; stage_parity ^= 1; }
    if (last) {
#if IN_PARTS
      if (t < REST) { STORE_PART(); t = REST + get_group_id(0); }
      else
#endif
      {
#if IN_PARTS
        if (PART_IS_TO_NOTE) NOTE_PART();
#endif
        LEAVE_TILE();
        t += groups;
      }
    }
    if (!more) break;
  }
#if IN_PARTS
  if (PART_IS_TO_NOTE) NOTE_PART();
  const uint rest_ = REST, parts_ = PARTS;
  if (parts_ > 1 && get_group_id(0) < rest_ * parts_) {
    const uint part = get_group_id(0) / rest_;
    if (tid == 0) share[2] = shares_to_add(WORD, part, parts_, share[2]);
    asm volatile("bar.sync 1, 256; fence.acq_rel.gpu;" ::: "memory");
    const uint mine = share[2];
    PLACE_OF(get_group_id(0) - part * rest_);
    ADD_SHARES(mine, parts_, PART_AT(0));
  }
#endif
}
#endif  // Without what PTX_SM_90 promises this file is empty.
