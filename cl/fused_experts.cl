// SPDX-License-Identifier: Apache-2.0
// fused_experts.cl: a layer of experts for few tokens in one launch: rows sorted by expert, gate and up with their activation, down, and
// each token's weighted sum. Work-groups stay, all at once, and meet at barriers of the whole grid where a step reads what others made.
//
//   every work-group: rows sorted in local memory; codes of x, shared out        | meet
//   units of gate and up: 16 columns of h of an expert's 8 rows, f32             | meet
//   codes of h, shared out                                                       | meet
//   units of down: 32 or 64 columns                                              | meet
//   y: each token's rows times their weights, in the order of slots
//
// A work-group asks for the weights of its first unit before it meets the others, so that they are on their way meanwhile. A unit's products
// are those of gemm_mma_stream.cl, whose loads and forms these are.
// Nobody waits for ever: a work-group that does not meet all others within `waits` looks gives up, and so do then the others; Y becomes
// NaN. The host tries once, with no tokens, whether the device runs so many work-groups at once.
//
// Set by the host: A_TYPE, B_TYPE, PTX_SM_80, PTX_SM_89, PTX_SM_90, ACTIVATION, ACTIVATION_LIMIT, those of quantizer.cl, and
// X_TYPE     3    1 2 3     what x comes as
// IN_TURNS   0    0 1       gates and ups lie in turns, else ups behind gates
// Y_TYPE, ADD_TYPE, WEIGH_ADD  as of combine.cl
// SLOTS      512            most slots of all tokens: a multiple of 128
// Local memory: 7684 B, and `table` of 48 B for each matrix.
#define FUSED
#define TILE_M 8
#define COLUMNS 32
#define WARPS 4
#define DEPTH 1
#define LINES 0
#define LANES (32 * WARPS)
#define TABLE __local
#define GROUPED
#define SCHEDULES
#include "code_pairs.cl"
#include "gemm_mma_stream.cl"
#ifndef X_TYPE
#define X_TYPE 3
#endif
#ifndef IN_TURNS
#define IN_TURNS 0
#endif
#ifndef Y_TYPE
#define Y_TYPE 1
#endif
#ifndef ADD_TYPE
#define ADD_TYPE 0
#endif
#ifndef WEIGH_ADD
#define WEIGH_ADD 0
#endif
#ifndef SLOTS
#define SLOTS 512
#endif

#if defined(PTX_SM_90)
#undef LOAD16
#define LOAD16(r, p) LOAD16_IN_ORDER(r, p)  // Codes that this launch has made.
#define LOAD_ACQUIRED(a, p) asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(a) : "l"(p) : "memory")
#define ADD_RELEASED(p) asm volatile("fence.acq_rel.gpu;\nred.release.gpu.global.add.u32 [%0],1;" ::"l"(p) : "memory")
#define FENCE_DEVICE() asm volatile("fence.acq_rel.gpu;" ::: "memory")
#define LANES_WITH(mask, value) asm volatile("match.any.sync.b32 %0,%1,0xffffffff;" : "=r"(mask) : "r"(value))
#define LOAD_MADE(a, p) asm volatile("ld.global.f32 %0,[%1];" : "=f"(a) : "l"(p) : "memory")

// counters[0..3]: how many work-groups have come to a meeting; [6]: how many have left; [7]: somebody gave up.
#define GAVE_UP 7
/// Until all `groups` work-groups have come. False: somebody gave up.
static inline bool meet(__global uint* counters, uint number, uint groups, int waits, __local uint* shared) {
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (get_local_id(0) == 0) {
    uint come = 0, broken = 0;
    ADD_RELEASED(counters + number);
    for (int i = 0; i < waits && come < groups && broken == 0; ++i) {
      LOAD_ACQUIRED(come, counters + number);
      if ((i & 1023) == 1023) LOAD_ACQUIRED(broken, counters + GAVE_UP);
    }
    if (come < groups) atomic_xchg(counters + GAVE_UP, 1u);
    FENCE_DEVICE();
    *shared = come < groups ? 1u : 0u;
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  return *shared == 0;
}

// A warp: codes and scale of the 128 values from element `at` on.
#define DEFINE_QUANTISE(NAME, TYPE)                                                                                          \
  static inline void NAME(__global const uchar* x, ulong at, __global uchar* codes, __global float* scale_of, uint lane) {   \
    const ulong first = at + 4 * lane;                                                                                       \
    const float2 v = (float2)(load_element(TYPE, x, first), load_element(TYPE, x, first + 1));                               \
    const float2 w = (float2)(load_element(TYPE, x, first + 2), load_element(TYPE, x, first + 3));                           \
    uint amax = magnitude(magnitude(0u, v), w), other, word;                                                                 \
    for (int d = 1; d < 32; d *= 2) {                                                                                        \
      SHUFFLE_XOR(other, amax, d);                                                                                           \
      amax = max(amax, other);                                                                                               \
    }                                                                                                                        \
    float scale, reciprocal;                                                                                                 \
    if (scale_and_reach(amax, FLOOR_BITS, &scale, &reciprocal))                                                              \
      word = quick_codes(v, scale, reciprocal) | quick_codes(w, scale, reciprocal) << 16;                                    \
    else                                                                                                                     \
      word = slow_codes(v, scale, amax < 0x7f800000u) | slow_codes(w, scale, amax < 0x7f800000u) << 16;                      \
    ((__global uint*)codes)[lane] = word;                                                                                    \
    if (lane == 0) *scale_of = scale;                                                                                        \
  }
DEFINE_QUANTISE(quantise_x, X_TYPE)
DEFINE_QUANTISE(quantise_h, TYPE_F32)

/// Slots sorted by expert, each work-group for itself: row_of[slot] and token_of[row]; the table of schedule_rows.cl of tiles of TILE_M rows.
/// counts: WARPS for each matrix. Returns how many tiles there are.
static inline int sort_and_schedule(__local long* sums, __local int* counts, __local int* table, __local short* row_of, __local short* token_of,
                                    __global const int* ids, int slots, int top_k, int first_expert, int matrices, uint tid) {
  const uint warp = tid >> 5, lane = tid & 31;
  for (uint i = tid; i < (uint)(WARPS * matrices); i += LANES) counts[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const int of_warp = ((slots + LANES - 1) / LANES) * 32;  // A stretch of slots for each warp.
  for (int i = 0; i < of_warp; i += 32) {
    const int slot = (int)warp * of_warp + i + (int)lane;
    const int id = slot < slots ? ids[slot] - first_expert : -1, expert = id >= 0 && id < matrices ? id : -1;
    uint alike;
    LANES_WITH(alike, (uint)expert);
    const int before = expert >= 0 ? counts[WARPS * expert + warp] : 0, rank = (int)popcount(alike & ((1u << lane) - 1u));
    SYNC_WARP();
    if (expert >= 0 && rank == 0) counts[WARPS * expert + warp] = before + (int)popcount(alike);
    if (slot < slots) row_of[slot] = (short)(expert >= 0 ? before + rank : -1);
    SYNC_WARP();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int share = (matrices + LANES - 1) / LANES, from = min((int)tid * share, matrices), end = min(from + share, matrices);
  long sum = 0, all;
  for (int g = from; g < end; ++g) {
    int rows = 0;
    for (int w = 0; w < WARPS; ++w) {
      const int here = counts[WARPS * g + w];
      counts[WARPS * g + w] = rows;
      rows += here;
    }
    table[8 * g + OF_ROWS] = rows;
    sum += rows | (long)((rows + TILE_M - 1) / TILE_M) << 32;
  }
  long before = sum_before(sums, (int)tid, LANES, sum, &all);
  for (int g = from; g < end; ++g) {
    __local int* of = table + 8 * g;
    const int rows = of[OF_ROWS], tiles = (rows + TILE_M - 1) / TILE_M;
    of[OF_ROW] = (int)(before & 0x7fffffff), of[OF_TILE] = (int)(before >> 32), of[OF_TILES] = tiles, of[OF_HEIGHT] = TILE_M;
    before += rows | (long)tiles << 32;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < of_warp; i += 32) {
    const int slot = (int)warp * of_warp + i + (int)lane;
    if (slot >= slots || row_of[slot] < 0) continue;
    const int expert = ids[slot] - first_expert, row = table[8 * expert + OF_ROW] + counts[WARPS * expert + warp] + row_of[slot];
    row_of[slot] = (short)row;
    token_of[row] = (short)(slot / top_k);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return (int)(all >> 32);
}

#undef ROW_OF_A
#define ROW_OF_A(row) (of_down ? (int)(row) : (int)token_of[row])
// Line groups of a unit: four side by side, or two of gates and two of ups.
#undef GROUP_AT
#define GROUP_AT(j) ((j) * 1024u + ((j) < 2 ? 0u : to_second))
#define IS_LAST (work + 1 >= end_work)
// The same names as in gemm_mma_stream.cl, of a warp that takes every `share`-th K block of part `part` of a unit.
#undef ENTER_WEIGHTS
#define ENTER_WEIGHTS(now, of)                                                                                      \
  if (now) {                                                                                                        \
    const uint group_ = apart ? 2 * (uint)(of).column : ((uint)(of).column * parts_of_unit + part) * NG;            \
    pw = (of_down ? down_b + (ulong)(of).matrix * down_stride : up_b + (ulong)(of).matrix * up_stride) +            \
         (ulong)(group_ / 8 * blocks) * 8192u + group_ % 8 * 1024u;                                                 \
    pc = (of_down ? down_sb + (ulong)(of).matrix * down_sb_stride : up_sb + (ulong)(of).matrix * up_sb_stride) +    \
         (ulong)(group_ / 16 * blocks) * 128u;                                                                      \
  }
#undef ENTER_TOKENS
#define ENTER_TOKENS(now, of)                                                                                       \
  if (now) {                                                                                                        \
    rows = (uint)((of).end_row - (of).first_row);                                                                   \
    const uint row_ = (uint)ROW_OF_A((uint)(of).first_row + TOKEN_ROW(0));                                          \
    pa = (of_down ? h_codes + (ulong)row_ * width : x_codes + (ulong)row_ * hidden) + t * 16u;                        \
    ps = of_down ? h_scales + (ulong)row_ * blocks : x_scales + (ulong)row_ * blocks;                           \
  }
#undef LOAD_TOKENS_HALF
#define LOAD_TOKENS_HALF(S, K, h) if (g < rows) LOAD16(&ar[S][4 * (h)], pa + (K) * 128u + 64u * (h));
#undef LOAD_TOKENS_SCALES
#define LOAD_TOKENS_SCALES(S, K) if (g < rows) LOAD_MADE(sr[S][0][0], ps + (K));
// Scales of two kinds of columns: gates and ups, or twice the same.
#undef LOAD_SCALES_B
#define LOAD_SCALES_B(S, K)                  \
  LOAD_F(cr[S][0][0], pc + (K) * 128u);      \
  LOAD_F(cr[S][0][1], pc + to_second_scale + (K) * 128u);

#if ADD_TYPE != 0
#define ADD_PARAMETERS , PARAMETERS(FUSED_ADD_LIST)
#else
#define ADD_PARAMETERS
#endif
#if WEIGH_ADD
#define ADD_WEIGHTS_PARAMETERS , PARAMETERS(FUSED_ADD_WEIGHTS_LIST)
#define ADD_WEIGHT add_weights[add_weights_at + token]
#else
#define ADD_WEIGHTS_PARAMETERS
#define ADD_WEIGHT 1.0f
#endif

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void fused_experts(PARAMETERS(FUSED_EXPERTS_LIST)
                                                                                        ADD_PARAMETERS ADD_WEIGHTS_PARAMETERS) {
  __local float parts[WARPS][COLUMNS][8 + 1];
  __local long sums[LANES];
  __local short row_of[SLOTS], token_of[SLOTS];
  __local uint shared;
  asm volatile("//at_once 4\n");
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3, in_b = IN_B;
  const uint group = get_group_id(0), grid = get_num_groups(0);
  const int slots = tokens * top_k;
  // As fused_experts.cpp books it.
  __global uint* counters = (__global uint*)workspace;
  __global uchar* h_codes = workspace + 64;
  __global uchar* x_codes = h_codes + (ulong)slots * width;
  __global float* h_scales = (__global float*)(x_codes + (ulong)tokens * hidden);
  __global float* x_scales = h_scales + (ulong)slots * (width / 128);
  __global float* h = x_scales + (ulong)tokens * (hidden / 128);
  __global float* x2 = h + (ulong)slots * width;
  bool together = true;
  if (tokens == 0) {
    for (uint i = 0; i < 4; ++i) together = together && meet(counters, i, grid, waits, &shared);
    return;
  }
  for (uint i = group * WARPS + warp; i < (uint)tokens * (hidden / 128); i += grid * WARPS)
    quantise_x(x, x_at + (ulong)(i / (hidden / 128)) * ldx + i % (hidden / 128) * 128, x_codes + (ulong)i * 128, x_scales + i, lane);
  const int tiles = sort_and_schedule(sums, table + 8 * matrices, table, row_of, token_of, ids + ids_at, slots, top_k, first_expert, matrices, tid);
  for (int of_down = 0; of_down < 2; ++of_down) {
    const bool apart = !IN_TURNS && !of_down;
    const uint n = of_down ? hidden : 2 * width, k = of_down ? width : hidden, blocks = k / 128;
    // Where K blocks are no multiple of four, two warps have half of a unit of twice the columns each.
    const uint share = of_down && blocks % 4 != 0 && blocks % 2 == 0 && n % 64 == 0 ? 2 : 4, parts_of_unit = 4 / share, part = warp / share;
    const uint first = warp % share, count = blocks > first ? (blocks - first + share - 1) / share : 0;
    const int columns = (int)(n / (COLUMNS * parts_of_unit));
    const uint to_second = apart ? up_at - 2048u : 0, to_second_scale = of_down ? 0 : up_sb_at;
    const uint units = (uint)(tiles * columns);
    int work = (int)((ulong)units * group / grid);
    const int end_work = (int)((ulong)units * (group + 1) / grid);
    const bool works = work < end_work && count > 0;
    scheduled_block coming;
    __global const uchar* pw;
    __global const float* pc;
    __global const uchar* pa;
    __global const float* ps;
    uint rows, wr[1][8 * NG], ar[1][8];
    float sr[1][1][1], sum[NG][1][2], cr[1][1][2];
    if (works) {
      coming = block_in_table(table, matrices, work, columns);
      ENTER_WEIGHTS(true, coming)
      LOAD_WEIGHTS_HALF(0, first, 0)
      LOAD_WEIGHTS_HALF(0, first, 1)
      LOAD_SCALES_B(0, first)
    }
    together = together && meet(counters, 2 * of_down, grid, waits, &shared);
    if (of_down) {
      for (uint i = group * WARPS + warp; i < (uint)slots * (width / 128); i += grid * WARPS)
        quantise_h((__global const uchar*)h, (ulong)i * 128, h_codes + (ulong)i * 128, h_scales + i, lane);
      together = together && meet(counters, 1, grid, waits, &shared);
    }
    UNROLL for (int i = 0; i < 8; ++i) ar[0][i] = 0;
    sr[0][0][0] = 0.f;
    if (works && together) {
      ENTER_TOKENS(true, coming)
      LOAD_TOKENS_HALF(0, first, 0)
      LOAD_TOKENS_HALF(0, first, 1)
      LOAD_TOKENS_SCALES(0, first)
    }
    for (; work < end_work && together; ++work) {
      const scheduled_block here = coming;
      coming = block_in_table(table, matrices, min(work + 1, end_work - 1), columns);
      ZERO_SUMS
      for (uint at = 0; at < count; ++at) {
        ENTER_WEIGHTS(!IS_LAST && at == LAST_SETS_AT, coming)
        ENTER_TOKENS(!IS_LAST && at == LAST_SETS_AT, coming)
        const bool more = at + 1 < count || !IS_LAST;
        const uint next = first + (at + 1 < count ? at + 1 : 0) * share;
        float c[1][NG][T16][4];
        UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int i = 0; i < 4; ++i) c[0][j][0][i] = 0.f;
        UNROLL for (int of_k = 0; of_k < 2; ++of_k) {
          UNROLL for (int i = 4 * of_k; i < 4 * of_k + 4; ++i) {
            uint lo, hi;
            DECODE_A4(lo, hi, ar[0][i]);
            UNROLL for (int j = 0; j < NG; ++j) {
              uint b0, b1;
              DECODE_B4(b0, b1, wr[0][8 * j + i]);
              MMA_M16N8K16(c[0][j][0], lo, 0u, hi, 0u, b0, b1);
            }
          }
          if (more) {
            LOAD_WEIGHTS_HALF(0, next, of_k)
            LOAD_TOKENS_HALF(0, next, of_k)
          }
        }
        const float gate_scale = sr[0][0][0] * cr[0][0][0], up_scale = sr[0][0][0] * cr[0][0][1];
        if (more) {
          LOAD_TOKENS_SCALES(0, next)
          LOAD_SCALES_B(0, next)
        }
        UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int e = 0; e < 2; ++e)
          sum[j][0][e] = fma((IN_TURNS ? e : j / 2) == 0 ? gate_scale : up_scale, HALF_SUM(0, j, 0, e), sum[j][0][e]);
      }
      UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int e = 0; e < 2; ++e) parts[warp][8 * j + LINE_OF(e)][g] = SUM(j, 0, e);
      barrier(CLK_LOCAL_MEM_FENCE);
      const uint wide = of_down ? COLUMNS * parts_of_unit : COLUMNS / 2;
      for (uint o = tid; o < wide * 8; o += LANES) {
        const uint place = o % wide, row = o / wide, row_of_d = (uint)here.first_row + row;
        if (row_of_d >= (uint)here.end_row) continue;
        const uint line = of_down ? place % COLUMNS : IN_TURNS ? 2 * place : place, of_warps = of_down ? place / COLUMNS * share : 0;
        float total = 0.f;
        for (uint i = 0; i < share; ++i) total += parts[of_warps + i][line][row];
        const uint first_group = (uint)here.column * (apart ? 2 : NG * parts_of_unit) + place / COLUMNS * NG;
        const uint column = column_of(first_group + line / 8, line % 8);
        if (of_down) {
          x2[(ulong)row_of_d * hidden + column] = total;
        } else {
          float up = 0.f;
          for (uint i = 0; i < share; ++i) up += parts[i][IN_TURNS ? line + 1 : line + 16][row];
          h[(ulong)row_of_d * width + (IN_TURNS ? column / 2 : column)] = activate_1(total, up, ACTIVATION_LIMIT);
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
  together = together && meet(counters, 3, grid, waits, &shared);
  for (uint i = group * LANES + tid; i < (uint)tokens * hidden; i += grid * LANES) {
    const uint token = i / hidden, col = i % hidden;
    float sum = 0.f;
    for (int j = 0; j < top_k; ++j) {
      const int slot = token * top_k + j, row = row_of[slot];
      if (row < 0) continue;
      float value;
      LOAD_MADE(value, x2 + (ulong)row * hidden + col);
      const float part = weights[weights_at + slot] * value;
      sum = sum + part;
    }
#if ADD_TYPE != 0
    const float part = ADD_WEIGHT * load_element(ADD_TYPE, add, add_at + (ulong)token * ld_add + col);
    sum = sum + part;
#endif
    store_element(Y_TYPE, y, y_at + (ulong)token * ldy + col, together ? sum : NAN);
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (tid == 0 && atomic_inc(counters + 6) == grid - 1)
    for (uint i = 0; i < 8; ++i) counters[i] = 0;
}
#else
// The kernel needs what PTX_SM_90 promises; without it this file is empty.
#endif
