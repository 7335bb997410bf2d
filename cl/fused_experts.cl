// SPDX-License-Identifier: Apache-2.0
// fused_experts.cl: a layer of experts for few tokens in one launch: rows sorted by expert, gate and up with their activation, down, and
// each token's weighted sum. Work-groups stay, all at once, and meet at barriers of the whole grid where a step reads what others made.
//
//   codes of x, shared out; every work-group: rows sorted in local memory        | meet
//   units of gate and up: 16 columns of h of an expert's 8 rows, f32             | meet
//   codes of h, shared out                                                       | meet
//   units of down: 32 or 64 columns                                              | meet
//   y: each token's rows times their weights, in the order of slots
//
// A work-group asks for the weights of its first unit before it meets the others, so that they are on their way meanwhile. A unit's products
// are those of gemm_mma_stream.cl, whose loads and forms these are.
// Codes of a tile's rows lie in local memory: a work-group's units are neighbours, most of them of one tile. A shared expert of the same
// width (SHARED) is one matrix more, which every token has a row of, behind those of the experts.
// Nobody waits for ever: a work-group that does not meet all others within `waits` looks gives up, and so do then the others; Y becomes
// NaN. The host tries once, with no tokens, whether the device runs so many work-groups at once.
//
// Set by the host: A_TYPE, B_TYPE, PTX_SM_80, PTX_SM_89, PTX_SM_90, ACTIVATION, ACTIVATION_LIMIT, those of quantizer.cl, and
// X_TYPE     3    1 2 3     what x comes as
// IN_TURNS   0    0 1       gates and ups lie in turns, else ups behind gates
// Y_TYPE, ADD_TYPE, WEIGH_ADD  as of combine.cl
// SHARED     not set        the shared expert is computed here; then ADD_TYPE is 0
// SLOTS      512            most slots of all tokens: a multiple of 128
// Local memory: 4632 B, 4 * SLOTS, and `memory`: 8 B for each tile; then the larger of 16 B for each matrix, with which rows are sorted, and of
// tile_rows rows of codes of the larger k, with 4 B for each 128.
#define FUSED
#define TILE_M 8
#define COLUMNS 32
#define WARPS 4
#define DEPTH 1
#define LINES 0
#define LANES (32 * WARPS)
#define GROUPED
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
#define LOAD_ACQUIRED(a, p) asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(a) : "l"(p) : "memory")
#define ADD_RELEASED(p) asm volatile("red.release.gpu.global.add.u32 [%0],1;" ::"l"(p) : "memory")
#define LANES_WITH(mask, value) asm volatile("match.any.sync.b32 %0,%1,0xffffffff;" : "=r"(mask) : "r"(value))
#define LOAD_MADE(a, p) asm volatile("ld.global.f32 %0,[%1];" : "=f"(a) : "l"(p) : "memory")

// counters[0..3]: how many work-groups have come to a meeting; [6]: how many have left; [7]: one gave up.
#define GAVE_UP 7
/// Says that this work-group has come: what it has stored can be read by those that meet it. Loads that are asked for between this and
/// meet() hold nothing up; before it a release would wait for them.
static inline void come(__global uint* counters, uint number) {
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (get_local_id(0) == 0) ADD_RELEASED(counters + number);
}
/// Until all `groups` work-groups have come. False: one gave up.
static inline bool meet(__global uint* counters, uint number, uint groups, int waits, __local uint* shared) {
  if (get_local_id(0) == 0) {
    uint here = 0, broken = 0;
    for (int i = 0; i < waits && here < groups && broken == 0; ++i) {
      LOAD_ACQUIRED(here, counters + number);
      if ((i & 1023) == 1023) LOAD_ACQUIRED(broken, counters + GAVE_UP);
    }
    if (here < groups) atomic_xchg(counters + GAVE_UP, 1u);
    *shared = here < groups ? 1u : 0u;
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

/// The sum of `value` of the lanes up to this one, and of the warps before.
static inline uint sum_to(__local uint* sums, uint value, uint warp, uint lane) {
  for (uint d = 1; d < 32; d *= 2) {
    uint other;
    SHUFFLE(other, value, lane - d);
    value += lane >= d ? other : 0;
  }
  if (lane == 31) sums[warp] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint w = 0; w < warp; ++w) value += sums[w];
  return value;
}

/// Slots sorted by expert, each work-group for itself: row_of[slot], -1 of another's experts, and token_of[row]; tiles of at most tile_rows
/// rows: matrix, first row, end. counts: WARPS for each matrix. own_id: of this work-item's first slot, if it has one, which was asked for
/// before. Returns how many tiles there are, after a barrier of the caller's all of them.
static inline uint sort_rows(__local uint* sums, __local int* counts, __local short4* tiles, __local short* row_of, __local short* token_of,
                             __global const int* ids, int slots, int top_k, int first_expert, int matrices, int tile_rows,
                             int own_id, uint tid) {
  const uint warp = tid >> 5, lane = tid & 31;
  for (uint i = tid; i < (uint)(WARPS * matrices); i += LANES) counts[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const int of_warp = ((slots + LANES - 1) / LANES) * 32;  // A stretch of slots for each warp.
  for (int i = 0; i < of_warp; i += 32) {
    const int slot = (int)warp * of_warp + i + (int)lane;
    const int id = slot < slots ? (i == 0 ? own_id : ids[slot]) - first_expert : -1, expert = id >= 0 && id < matrices ? id : -1;
    uint alike;
    LANES_WITH(alike, (uint)expert);
    const int before = expert >= 0 ? counts[WARPS * expert + warp] : 0, rank = (int)popcount(alike & ((1u << lane) - 1u));
    SYNC_WARP();
    if (expert >= 0 && rank == 0) counts[WARPS * expert + warp] = before + (int)popcount(alike);
    if (slot < slots) row_of[slot] = (short)(expert >= 0 ? before + rank : -1);
    SYNC_WARP();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  // Rows of each matrix become places of each warp's: in the upper half of a sum rows, in the lower tiles.
  const int share = (matrices + LANES - 1) / LANES, from = min((int)tid * share, matrices), end = min(from + share, matrices);
  uint own = 0;
  for (int g = from; g < end; ++g) {
    int rows = 0;
    for (int w = 0; w < WARPS; ++w) rows += counts[WARPS * g + w];
    own += (uint)rows << 16 | (uint)((rows + tile_rows - 1) / tile_rows);
  }
  const uint sum = sum_to(sums, own, warp, lane);
  int row = (int)((sum - own) >> 16), tile = (int)((sum - own) & 0xffffu);
  for (int g = from; g < end; ++g) {
    int first = row;
    for (int w = 0; w < WARPS; ++w) {
      const int here = counts[WARPS * g + w];
      counts[WARPS * g + w] = row;
      row += here;
    }
    for (; first < row; first += tile_rows) tiles[tile++] = (short4)((short)g, (short)first, (short)min(first + tile_rows, row), 0);
  }
  if (tid == LANES - 1) sums[WARPS] = sum & 0xffffu;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < of_warp; i += 32) {
    const int slot = (int)warp * of_warp + i + (int)lane;
    if (slot >= slots || row_of[slot] < 0) continue;
    const int place = counts[WARPS * (ids[slot] - first_expert) + warp] + row_of[slot];
    row_of[slot] = (short)place;
    token_of[place] = (short)(slot / top_k);
  }
  return sums[WARPS];
}

#undef ROW_OF_A
#define ROW_OF_A(row) (of_down ? (int)(row) : (row) >= slots ? (int)(row) - slots : (int)token_of[row])
// Line groups of a unit: four side by side, or two of gates and two of ups.
#undef GROUP_AT
#define GROUP_AT(j) ((j) * 1024u + ((j) < 2 ? 0u : to_second))
#define IS_LAST (work + 1 >= end_work)
// The same names as in gemm_mma_stream.cl, of a warp that takes every `share`-th K block of part `part` of a unit.
#ifdef SHARED
#define OF_EXPERT(matrix, down, up, shared_down, shared_up, down_stride, up_stride) \
  ((matrix) == matrices ? (of_down ? shared_down : shared_up) : EXPERT(matrix, down, up, down_stride, up_stride))
#define SHARED_PARAMETERS , PARAMETERS(FUSED_SHARED_LIST)
#define TILES_OF_SHARED ((tokens + tile_rows - 1) / tile_rows)
#else
#define OF_EXPERT(matrix, down, up, shared_down, shared_up, down_stride, up_stride) EXPERT(matrix, down, up, down_stride, up_stride)
#define SHARED_PARAMETERS
#define TILES_OF_SHARED 0
#endif
#define EXPERT(matrix, down, up, down_stride, up_stride) \
  (of_down ? down + (ulong)(matrix) * down_stride : up + (ulong)(matrix) * up_stride)
#undef ENTER_WEIGHTS
#define ENTER_WEIGHTS(work)                                                                                         \
  {                                                                                                                 \
    const int matrix_ = tiles[(work) / columns].x;                                                                  \
    const uint column_ = (work) % columns, group_ = apart ? 2 * column_ : (column_ * parts_of_unit + part) * NG;    \
    pw = OF_EXPERT(matrix_, down_b, up_b, shared_down_b, shared_up_b, down_stride, up_stride) +                     \
         (ulong)(group_ / 8 * blocks) * 8192u + group_ % 8 * 1024u;                                                 \
    pc = OF_EXPERT(matrix_, down_sb, up_sb, shared_down_sb, shared_up_sb, down_sb_stride, up_sb_stride) +           \
         (ulong)(group_ / 16 * blocks) * 128u;                                                                      \
  }
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

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void fused_experts(PARAMETERS(FUSED_EXPERTS_LIST) SHARED_PARAMETERS
                                                                                        ADD_PARAMETERS ADD_WEIGHTS_PARAMETERS) {
  __local float parts[WARPS][COLUMNS][8 + 1];
  __local uint sums[WARPS + 1];
  __local short row_of[SLOTS], token_of[SLOTS];
  __local uint shared;
  asm volatile("//at_once 4\n");
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3, in_b = IN_B;
  const uint group = get_group_id(0), grid = get_num_groups(0);
  const int slots = tokens * top_k;
  // As fused_experts.cpp books it.
  __global uint* counters = (__global uint*)workspace;
  const uint of_shared = TILES_OF_SHARED;
  const ulong rows_in_all = slots + (of_shared != 0 ? tokens : 0);
  __global uchar* h_codes = workspace + 64;
  __global uchar* x_codes = h_codes + rows_in_all * width;
  __global float* h_scales = (__global float*)(x_codes + (ulong)tokens * hidden);
  __global float* x_scales = h_scales + rows_in_all * (width / 128);
  __global float* h = x_scales + (ulong)tokens * (hidden / 128);
  __global float* x2 = h + rows_in_all * width;
  __local short4* tiles = (__local short4*)memory;
  __local uchar* codes = (__local uchar*)(tiles + ((uint)slots + of_shared + 1) / 2 * 2);
  __local float* scales = (__local float*)(codes + tile_rows * max(hidden, width));
  bool together = true;
  if (tokens == 0) {
    for (uint i = 0; i < 4; ++i) {
      come(counters, i);
      together = together && meet(counters, i, grid, waits, &shared);
    }
    return;
  }
  const int own_slot = (int)(warp * (((uint)slots + LANES - 1) / LANES) * 32 + lane), own_id = own_slot < slots ? ids[ids_at + own_slot] : 0;
  for (uint i = group * WARPS + warp; i < (uint)tokens * (hidden / 128); i += grid * WARPS)
    quantise_x(x, x_at + (ulong)(i / (hidden / 128)) * ldx + i % (hidden / 128) * 128, x_codes + (ulong)i * 128, x_scales + i, lane);
  come(counters, 0);
  uint tiles_in_all = sort_rows(sums, (__local int*)codes, tiles, row_of, token_of, ids + ids_at, slots, top_k, first_expert, matrices,
                                tile_rows, own_id, tid);
  for (uint i = tid; i < of_shared; i += LANES)
    tiles[tiles_in_all + i] = (short4)((short)matrices, (short)(slots + i * tile_rows), (short)(slots + min((int)(i + 1) * tile_rows, tokens)), 0);
  tiles_in_all += of_shared;
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint own_row = min(g, (uint)tile_rows - 1u), own_half = (own_row & 1) * 64;
  const LOCAL_PLACE own_codes = LOCAL_ADDRESS(codes) + own_row * 128 + t * 16, own_scales = LOCAL_ADDRESS(scales) + own_row * 4;
  for (int of_down = 0; of_down < 2; ++of_down) {
    if (of_down) come(counters, 2);
    const bool apart = !IN_TURNS && !of_down;
    const uint n = of_down ? hidden : 2 * width, k = of_down ? width : hidden, blocks = k / 128;
    // Where K blocks are no multiple of four, two warps have half of a unit of twice the columns each, if there are units for all.
    const uint share = of_down && blocks % 4 != 0 && blocks % 2 == 0 && n % 64 == 0 && tiles_in_all * (n / COLUMNS) > grid ? 2 : 4;
    const uint parts_of_unit = 4 / share, part = warp / share, first = warp % share;
    const uint count = blocks > first ? (blocks - first + share - 1) / share : 0, columns = n / (COLUMNS * parts_of_unit);
    const uint to_second = apart ? up_at - 2048u : 0, to_second_scale = of_down ? 0 : up_sb_at;
    const uint units = tiles_in_all * columns, end_work = (uint)((ulong)units * (group + 1) / grid);
    uint work = (uint)((ulong)units * group / grid), held = tiles_in_all;
    __global const uchar* pw;
    __global const float* pc;
    uint wr[1][8 * NG];
    float sum[NG][1][2], cr[1][1][2];
    if (work < end_work && count > 0) {
      ENTER_WEIGHTS(work)
      LOAD_WEIGHTS_HALF(0, first, 0)
      LOAD_WEIGHTS_HALF(0, first, 1)
      LOAD_SCALES_B(0, first)
    }
    together = together && meet(counters, 2 * of_down, grid, waits, &shared);
    if (of_down) {
      for (uint i = group * WARPS + warp; i < (uint)rows_in_all * (width / 128); i += grid * WARPS)
        quantise_h((__global const uchar*)h, (ulong)i * 128, h_codes + (ulong)i * 128, h_scales + i, lane);
      come(counters, 1);
      together = together && meet(counters, 1, grid, waits, &shared);
    }
    for (; work < end_work && together; ++work) {
      const uint tile = work / columns, column = work % columns, first_row = (uint)tiles[tile].y, rows = (uint)tiles[tile].z - first_row;
      if (tile != held) {
        held = tile;
        // Of each K block a line of 128 for each row; its halves change places in every other line, so that loads of eight lines do not meet in banks.
        const uint of_row = k / 16;
        for (uint i = tid; i < rows * of_row; i += LANES) {
          const uint row = i / of_row, piece = i % of_row, line = piece / 8 * tile_rows + row, from = (uint)ROW_OF_A((int)(first_row + row));
          COPY16_ASYNC(LOCAL_ADDRESS(codes) + line * 128 + (piece % 8 * 16 ^ (row & 1) * 64), (of_down ? h_codes : x_codes) + (ulong)from * k + piece * 16);
          if (piece % 8 == 0) COPY4_ASYNC(LOCAL_ADDRESS(scales) + line * 4, (of_down ? h_scales : x_scales) + (ulong)from * blocks + piece / 8);
        }
        COPIES_COMMIT();
        COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      ZERO_SUMS
      for (uint at = 0; at < count; ++at) {
        const uint line = (first + at * share) * (uint)tile_rows, next = first + (at + 1 < count ? at + 1 : 0) * share;
        const bool more = at + 1 < count || !IS_LAST;
        if (at + 1 == count && !IS_LAST) ENTER_WEIGHTS(work + 1)
        float scale;
        LOCAL_F(scale, own_scales + line * 4);
        float c[1][NG][T16][4];
        UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int i = 0; i < 4; ++i) c[0][j][0][i] = 0.f;
        UNROLL for (int of_k = 0; of_k < 2; ++of_k) {
          uint of_row[4];
          LOCAL16(of_row, own_codes + line * 128 + (own_half ^ of_k * 64));
          UNROLL for (int i = 0; i < 4; ++i) {
            uint lo, hi;
            DECODE_A4(lo, hi, of_row[i]);
            UNROLL for (int j = 0; j < NG; ++j) {
              uint b0, b1;
              DECODE_B4(b0, b1, wr[0][8 * j + 4 * of_k + i]);
              MMA_M16N8K16(c[0][j][0], lo, 0u, hi, 0u, b0, b1);
            }
          }
          if (more) LOAD_WEIGHTS_HALF(0, next, of_k)
        }
        const float gate_scale = scale * cr[0][0][0], up_scale = scale * cr[0][0][1];
        if (more) {
          LOAD_SCALES_B(0, next)
        }
        UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int e = 0; e < 2; ++e)
          sum[j][0][e] = fma((IN_TURNS ? e : j / 2) == 0 ? gate_scale : up_scale, HALF_SUM(0, j, 0, e), sum[j][0][e]);
      }
      UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int e = 0; e < 2; ++e) parts[warp][8 * j + LINE_OF(e)][g] = SUM(j, 0, e);
      barrier(CLK_LOCAL_MEM_FENCE);
      const uint wide = of_down ? COLUMNS * parts_of_unit : COLUMNS / 2;
      for (uint o = tid; o < wide * rows; o += LANES) {
        const uint place = o % wide, row = o / wide, row_of_d = first_row + row;
        const uint line = of_down ? place % COLUMNS : IN_TURNS ? 2 * place : place, of_warps = of_down ? place / COLUMNS * share : 0;
        float total = 0.f;
        for (uint i = 0; i < share; ++i) total += parts[of_warps + i][line][row];
        const uint first_group = column * (apart ? 2 : NG * parts_of_unit) + place / COLUMNS * NG;
        const uint of_d = column_of(first_group + line / 8, line % 8);
        if (of_down) {
          x2[(ulong)row_of_d * hidden + of_d] = total;
        } else {
          float up = 0.f;
          for (uint i = 0; i < share; ++i) up += parts[i][IN_TURNS ? line + 1 : line + 16][row];
          h[(ulong)row_of_d * width + (IN_TURNS ? of_d / 2 : of_d)] = activate_1(total, up, ACTIVATION_LIMIT);
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
  come(counters, 3);
  together = together && meet(counters, 3, grid, waits, &shared);
  for (uint i = group * LANES + tid; i < (uint)tokens * hidden; i += grid * LANES) {
    const uint token = i / hidden, col = i % hidden;
    float sum = 0.f, value;
    for (int j = 0; j < top_k; j += 8) {  // What is far is asked for together.
      float values[8], factors[8];
      UNROLL for (int e = 0; e < 8; ++e) {
        const int slot = (int)token * top_k + min(j + e, top_k - 1);
        LOAD_MADE(values[e], x2 + (ulong)max((int)row_of[slot], 0) * hidden + col);
        factors[e] = weights[weights_at + slot];
      }
      UNROLL for (int e = 0; e < 8; ++e) {
        if (j + e >= top_k || row_of[token * top_k + j + e] < 0) continue;
        const float part = factors[e] * values[e];
        sum = sum + part;
      }
    }
#if defined(SHARED) || ADD_TYPE != 0
#ifdef SHARED
    LOAD_MADE(value, x2 + (ulong)(slots + token) * hidden + col);
#else
    value = load_element(ADD_TYPE, add, add_at + (ulong)token * ld_add + col);
#endif
    const float part = ADD_WEIGHT * value;
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
