// SPDX-License-Identifier: Apache-2.0
// fused_experts.cl: a layer of experts for few tokens in one launch: rows sorted by expert, gate and up with their activation, down, and
// each token's weighted sum. Work-groups stay, all at once, and meet at barriers of the whole grid where a step reads what others made.
//
//   codes of x, shared out; every work-group: rows sorted in local memory        | meet
//   units of gate and up: 16 or 64 columns of h of an expert's rows, f32         | meet
//   codes of h, shared out                                                       | meet
//   units of down: 32, 64 or 128 columns                                         | meet
//   y: each token's rows times their weights, in the order of slots
//
// A work-group asks for the weights of its first unit before it meets the others, so that they are on their way meanwhile. A unit's products
// are those of gemm_mma_stream.cl, whose loads and forms these are.
// Codes of a tile's rows lie in local memory: a work-group's units are neighbours, most of them of one tile, which its teams of four warps
// take in turn. Tiles of eight rows have a team to a work-group, four at once on a multiprocessor; of 16 and 24 rows four teams share the
// codes. Where each work-group has a tile to itself, it makes all of it: nobody waits for others between gate and up, codes of h, and down.
// A shared expert of the same width (SHARED) is one matrix more, before those of the experts, of which every token has a row; these rows and
// tiles are the last here.
// Nobody waits for ever: a work-group that does not meet all others within `waits` looks gives up, and so do then the others; Y becomes
// NaN. The host tries once, with no tokens, whether the device runs so many work-groups at once.
//
// Set by the host: A_TYPE, B_TYPE, PTX_SM_80, PTX_SM_89, PTX_SM_90, ACTIVATION, ACTIVATION_LIMIT, those of quantizer.cl, and
// X_TYPE     3    1 2 3     what x comes as
// IN_TURNS   0    0 1       gates and ups lie in turns, else ups behind gates
// Y_TYPE, ADD_TYPE, WEIGH_ADD  as of combine.cl
// SHARED     not set        the shared expert is computed here; then ADD_TYPE is 0
// TILE_M     8    8 16 24   most rows of a tile; of eight tile_rows says how many
// TEAMS      1    1 4       teams of a work-group
// SLOTS      512            most slots of all tokens: a multiple of 128
// OWN_BYTES  not set        of more than one team the bytes of an array in place of `memory`: arguments have less (docs/opencl.md)
// Local memory: TEAMS * (512 * (TILE_M + 1) + 16) + 8 B, 4 * SLOTS, and `memory`: 8 B for each tile there may be; then the larger of
// 16 * TEAMS B for each matrix, with which rows are sorted, and of a tile's rows of codes of the larger k, with 4 B for each 128.
#define FUSED
#define COLUMNS 32
#define WARPS 4
#define DEPTH 1
#define LINES 0
#define TEAM (32 * WARPS)
#define ALL_WARPS (TEAMS * WARPS)
#define LANES (32 * ALL_WARPS)
#define GROUPED
// Of the rows of a full tile, which those of eight rows need not be.
#if TILE_M == 8
#define TILE_ROWS tile_rows
#else
#define TILE_ROWS TILE_M
#endif
// Whether a tile has the eight rows from 8 u on.
#define HAS(u) ((u) == 0 || has[u])
#if TEAMS == 1
#define TEAM_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define AT_ONCE asm volatile("//at_once 4\n")
#else
#define TEAM_BARRIER() BAR_NAMED(1 + team, TEAM)
#define AT_ONCE asm volatile("//at_once 1\n")
#endif
#include "code_pairs.cl"
#include "gemm_mma_stream.cl"

#if defined(PTX_SM_90)
#define LOAD_MADE(v, p) \
  asm volatile("ld.global.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"((v).x), "=f"((v).y), "=f"((v).z), "=f"((v).w) : "l"(p) : "memory")
#define PADDED(scales) (((ulong)(scales) + 3) & ~(ulong)3)  // So that what lies behind them is aligned.
// The group of 128 of eight neighbours, of those from `begin` to `end`, which `sharers` work-groups share, this one being number `number`; past
// the last one that again.
#define EACH_GROUP_OF_EIGHT(i, begin, end, number, sharers)                                                                          \
  for (uint first_ = (begin) + ((number) * LANES + tid & ~31u) / 8, i; first_ < (end) && (i = min(first_ + lane / 8, (uint)(end) - 1), true); \
       first_ += (sharers) * LANES / 8)

#define MEETINGS 4
#define MEETING_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#include "meeting.cl"

// Eight neighbours of a warp: codes and scale of the 128 values from element `at` on.
#define FOUR_OF_1(x, at) *(__global const float4*)((__global const float*)(x) + (at))
#define FOUR_OF(TYPE, x, at) \
  (float4)(load_element(TYPE, x, at), load_element(TYPE, x, (at) + 1), load_element(TYPE, x, (at) + 2), load_element(TYPE, x, (at) + 3))
#define DEFINE_QUANTISE(NAME, FOUR)                                                                                          \
  static inline void NAME(__global const uchar* x, ulong at, __global uchar* codes, __global float* scale_of, uint lane) {   \
    const uint mine = 4 * (lane & 7);                                                                                        \
    float4 v[4];                                                                                                             \
    UNROLL for (int i = 0; i < 4; ++i) v[i] = FOUR(x, at + mine + 32 * i);                                                   \
    uint amax = 0, other, words[4];                                                                                          \
    UNROLL for (int i = 0; i < 4; ++i) amax = magnitude(magnitude(amax, v[i].xy), v[i].zw);                                  \
    for (int d = 1; d < 8; d *= 2) {                                                                                         \
      SHUFFLE_XOR(other, amax, d);                                                                                           \
      amax = max(amax, other);                                                                                               \
    }                                                                                                                        \
    float scale, reciprocal;                                                                                                 \
    if (scale_and_reach(amax, FLOOR_BITS, &scale, &reciprocal)) {                                                            \
      UNROLL for (int i = 0; i < 4; ++i)                                                                                     \
        words[i] = quick_codes(v[i].xy, scale, reciprocal) | quick_codes(v[i].zw, scale, reciprocal) << 16;                  \
    } else {                                                                                                                 \
      UNROLL for (int i = 0; i < 4; ++i) words[i] = slow_codes(v[i], scale);                                                 \
    }                                                                                                                        \
    UNROLL for (int i = 0; i < 4; ++i) ((__global uint*)codes)[mine / 4 + 8 * i] = words[i];                                 \
    if (mine == 0) *scale_of = scale;                                                                                        \
  }
#define FOUR_OF_X(x, at) FOUR_OF(X_TYPE, x, at)
DEFINE_QUANTISE(quantise_x, FOUR_OF_X)
DEFINE_QUANTISE(quantise_h, FOUR_OF_1)

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
/// rows: matrix, first row, end. counts: ALL_WARPS for each matrix. own_id: of this work-item's first slot, if it has one, which was asked for
/// before. Returns how many tiles there are, after a barrier of the caller's all of them.
static inline uint sort_rows(__local uint* sums, __local int* counts, __local short4* tiles, __local short* row_of, __local short* token_of,
                             __global const int* ids, int slots, int top_k, int first_expert, int matrices, int tile_rows,
                             int own_id, uint tid) {
  const uint warp = tid >> 5, lane = tid & 31;
  for (uint i = tid; i < (uint)(ALL_WARPS * matrices); i += LANES) counts[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const int of_warp = ((slots + LANES - 1) / LANES) * 32;  // A stretch of slots for each warp.
  for (int i = 0; i < of_warp; i += 32) {
    const int slot = (int)warp * of_warp + i + (int)lane;
    const int id = slot < slots ? (i == 0 ? own_id : ids[slot]) - first_expert : -1, expert = id >= 0 && id < matrices ? id : -1;
    uint alike;
    LANES_WITH(alike, (uint)expert);
    const int before = expert >= 0 ? counts[ALL_WARPS * expert + warp] : 0, rank = (int)popcount(alike & ((1u << lane) - 1u));
    SYNC_WARP();
    if (expert >= 0 && rank == 0) counts[ALL_WARPS * expert + warp] = before + (int)popcount(alike);
    if (slot < slots) row_of[slot] = (short)(expert >= 0 ? before + rank : -1);
    SYNC_WARP();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  // Rows of each matrix become places of each warp's: in the upper half of a sum rows, in the lower tiles.
  const int share = (matrices + LANES - 1) / LANES, from = min((int)tid * share, matrices), end = min(from + share, matrices);
  uint own = 0;
  for (int g = from; g < end; ++g) {
    int rows = 0;
    for (int w = 0; w < ALL_WARPS; ++w) rows += counts[ALL_WARPS * g + w];
    own += (uint)rows << 16 | (uint)((rows + tile_rows - 1) / tile_rows);
  }
  const uint sum = sum_to(sums, own, warp, lane);
  int row = (int)((sum - own) >> 16), tile = (int)((sum - own) & 0xffffu);
  for (int g = from; g < end; ++g) {
    int first = row;
    for (int w = 0; w < ALL_WARPS; ++w) {
      const int here = counts[ALL_WARPS * g + w];
      counts[ALL_WARPS * g + w] = row;
      row += here;
    }
    for (; first < row; first += tile_rows) tiles[tile++] = (short4)((short)g, (short)first, (short)min(first + tile_rows, row), 0);
  }
  if (tid == LANES - 1) sums[ALL_WARPS] = sum & 0xffffu;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < of_warp; i += 32) {
    const int slot = (int)warp * of_warp + i + (int)lane;
    if (slot >= slots || row_of[slot] < 0) continue;
    const int place = counts[ALL_WARPS * (ids[slot] - first_expert) + warp] + row_of[slot];
    row_of[slot] = (short)place;
    token_of[place] = (short)(slot / top_k);
  }
  return sums[ALL_WARPS];
}

// The scale of the row that sum e of a work-item is of, of the eight rows from 8 u on.
#define SCALE_OF_ROW(line, u, e) (own_scales + ((line) + min(8u * (u) + 2 * t + (e), (uint)TILE_ROWS - 1u)) * 4)
#undef ROW_OF_A
#define ROW_OF_A(row) (of_down ? (int)(row) : (row) >= slots ? (int)(row) - slots : (int)token_of[row])
// Line groups of a unit: four side by side, or two of gates and two of ups.
#undef GROUP_AT
#define GROUP_AT(j) ((j) * 1024u + ((j) < 2 ? 0u : to_second))
// The same names as in gemm_mma_stream.cl, of a warp that takes every `share`-th K block of part `part` of a unit.
#ifdef SHARED
#define MATRIX_OF(expert) ((expert) == matrices ? 0 : (expert) + 1)
#define TILES_OF_SHARED ((tokens + TILE_ROWS - 1) / TILE_ROWS)
#else
#define MATRIX_OF(expert) (expert)
#define TILES_OF_SHARED 0
#endif
#define IN_MATRIX(down, up, down_stride, up_stride) \
  (of_down ? down + (ulong)matrix_ * down_stride : up + (ulong)matrix_ * up_stride)
#undef ENTER_WEIGHTS
#define ENTER_WEIGHTS(work)                                                                                         \
  {                                                                                                                 \
    const int expert_ = tiles[(work) / columns].x, matrix_ = MATRIX_OF(expert_);                                    \
    const uint column_ = (work) % columns, group_ = (column_ * parts_of_unit + part) * (apart ? 2u : (uint)NG);         \
    pw = IN_MATRIX(down_b, up_b, down_stride, up_stride) +                                                         \
         (ulong)(group_ / 8 * blocks) * 8192u + group_ % 8 * 1024u;                                                 \
    pc = IN_MATRIX(down_sb, up_sb, down_sb_stride, up_sb_stride) +                                                 \
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

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void fused_experts(PARAMETERS(FUSED_EXPERTS_LIST) ADD_PARAMETERS
                                                                                        ADD_WEIGHTS_PARAMETERS) {
  __local float parts[TEAMS][WARPS][COLUMNS][TILE_M + 1];
  __local uint sums[ALL_WARPS + 1];
  __local short row_of[SLOTS], token_of[SLOTS];
  __local uint shared;
#ifdef OWN_BYTES
  __local uint4 own_memory[OWN_BYTES / 16];
  __local uchar* const held_memory = (__local uchar*)own_memory;
#else
  __local uchar* const held_memory = (__local uchar*)memory;
#endif
  AT_ONCE;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3, in_b = IN_B;
  const uint team = warp / WARPS, of_team = warp % WARPS, item = tid % TEAM;
  const uint group = get_group_id(0), grid = get_num_groups(0);
  const int slots = tokens * top_k;
  // As fused_experts.cpp books it.
  __global uint* counters = (__global uint*)workspace;
  const uint of_shared = TILES_OF_SHARED;
  const ulong rows_in_all = slots + (of_shared != 0 ? tokens : 0);
  __global uchar* h_codes = workspace + 64;
  __global uchar* x_codes = h_codes + rows_in_all * width;
  __global float* h_scales = (__global float*)(x_codes + (ulong)tokens * hidden);
  __global float* x_scales = h_scales + PADDED(rows_in_all * (width / 128));
  __global float* h = x_scales + PADDED((ulong)tokens * (hidden / 128));
  __global float* x2 = h + rows_in_all * width;
  const uint most_tiles = (uint)min(slots, matrices + slots / TILE_ROWS) + of_shared;
  __local short4* tiles = (__local short4*)held_memory;
  __local uchar* codes = (__local uchar*)(tiles + (most_tiles + 1) / 2 * 2);
  __local float* scales = (__local float*)(codes + TILE_ROWS * max(hidden, width));
  bool together = true;
  if (tokens == 0) {
    for (uint i = 0; i < 4; ++i) {
      come(counters, i);
      together = together && meet(counters, i, grid, waits, &shared);
    }
    return;
  }
  const int own_slot = (int)(warp * (((uint)slots + LANES - 1) / LANES) * 32 + lane), own_id = own_slot < slots ? ids[ids_at + own_slot] : 0;
  EACH_GROUP_OF_EIGHT(i, 0, (uint)tokens * (hidden / 128), group, grid)
    quantise_x(x, x_at + (ulong)(i / (hidden / 128)) * ldx + i % (hidden / 128) * 128, x_codes + (ulong)i * 128, x_scales + i, lane);
  come(counters, 0);
  uint tiles_in_all = sort_rows(sums, (__local int*)codes, tiles, row_of, token_of, ids + ids_at, slots, top_k, first_expert, matrices,
                                TILE_ROWS, own_id, tid);
  for (uint i = tid; i < of_shared; i += LANES)
    tiles[tiles_in_all + i] = (short4)((short)matrices, (short)(slots + i * TILE_ROWS), (short)(slots + min((int)(i + 1) * TILE_ROWS, tokens)), 0);
  tiles_in_all += of_shared;
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint own_row = min(g, (uint)TILE_ROWS - 1u), own_half = (own_row & 1) * 64;
  const LOCAL_PLACE own_codes = LOCAL_ADDRESS(codes) + own_row * 128 + t * 16, own_scales = LOCAL_ADDRESS(scales);
  // Each work-group has a tile to itself: then nobody waits for others between gate and up and down.
  const bool whole = TEAMS > 1 && tiles_in_all <= grid && 8 * tiles_in_all > 7 * grid;
  for (int of_down = 0; of_down < 2; ++of_down) {
    if (of_down && !whole) come(counters, 2);
    const bool apart = !IN_TURNS && !of_down;
    const uint n = of_down ? hidden : 2 * width, k = of_down ? width : hidden, blocks = k / 128;
    // Warps that share the K blocks of a part of a unit: all four; two where blocks are no multiple of four and there are units for all; of
    // whole tiles one.
    const uint share = whole ? 1
                       : of_down && blocks % 4 != 0 && blocks % 2 == 0 && n % 64 == 0 && tiles_in_all * (n / COLUMNS) > grid * TEAMS ? 2 : 4;
    const uint parts_of_unit = 4 / share, part = of_team / share, first = of_team % share;
    const uint count = blocks > first ? (blocks - first + share - 1) / share : 0, columns = n / (COLUMNS * parts_of_unit);
    const uint to_second = apart ? up_at - 2048u : 0, to_second_scale = of_down ? 0 : up_sb_at;
    const uint units = tiles_in_all * columns, of_all = whole ? tiles_in_all : grid;
    const uint end_work = (uint)((ulong)units * min(group + 1, of_all) / of_all);
    // This work-group's units of one tile, `begin` to `stop`, of which each team takes every TEAMS-th; `asked`: for the weights of `work`.
    uint begin = (uint)((ulong)units * min(group, of_all) / of_all), stop = min(end_work, (begin / columns + 1) * columns), work = begin + team;
    bool asked = work < stop && count > 0;
    __global const uchar* pw;
    __global const float* pc;
    uint wr[1][8 * NG];
    float sum[NG / 2][T][4], cr[1][1][2];
    if (asked) {
      ENTER_WEIGHTS(work)
      LOAD_WEIGHTS_HALF(0, first, 0)
      LOAD_WEIGHTS_HALF(0, first, 1)
      LOAD_SCALES_B(0, first)
    }
    if (!of_down || !whole) together = together && meet(counters, 2 * of_down, grid, waits, &shared);
    if (of_down) {
      uint from = 0, to = (uint)rows_in_all;
      if (whole) {
        const bool has_tile = group < tiles_in_all;
        from = has_tile ? (uint)tiles[group].y : 0, to = has_tile ? (uint)tiles[group].z : 0;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
      }
      EACH_GROUP_OF_EIGHT(i, from * (width / 128), to * (width / 128), whole ? 0 : group, whole ? 1 : grid)
        quantise_h((__global const uchar*)h, (ulong)i * 128, h_codes + (ulong)i * 128, h_scales + i, lane);
      if (whole) {
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
      } else {
        come(counters, 1);
        together = together && meet(counters, 1, grid, waits, &shared);
      }
    }
    for (; begin < end_work && together; begin = stop, stop = min(end_work, begin + columns), work = begin + team) {
      const uint tile = begin / columns, first_row = (uint)tiles[tile].y, rows = (uint)tiles[tile].z - first_row;
      bool has[T];  // Asked of the warp, so that the compiler knows that it is the same for all of it.
      UNROLL for (int u = 0; u < T; ++u) has[u] = u == 0 || ANY_OF_WARP(rows > 8 * u);
      // Of each K block a line of 128 for each row; its halves change places in every other line, so that loads of eight lines do not meet in banks.
      const uint of_row = k / 16;
      for (uint i = tid; i < rows * of_row; i += LANES) {
        const uint row = i / of_row, piece = i % of_row, line = piece / 8 * TILE_ROWS + row, from = (uint)ROW_OF_A((int)(first_row + row));
        COPY16_ASYNC(LOCAL_ADDRESS(codes) + line * 128 + (piece % 8 * 16 ^ (row & 1) * 64), (of_down ? h_codes : x_codes) + (ulong)from * k + piece * 16);
        if (piece % 8 == 0) COPY4_ASYNC(LOCAL_ADDRESS(scales) + line * 4, (of_down ? h_scales : x_scales) + (ulong)from * blocks + piece / 8);
      }
      if (TEAMS > 1 && !asked && work < stop && count > 0) {
        ENTER_WEIGHTS(work)
        LOAD_WEIGHTS_HALF(0, first, 0)
        LOAD_WEIGHTS_HALF(0, first, 1)
        LOAD_SCALES_B(0, first)
      }
      asked = false;
      COPIES_COMMIT();
      COPIES_WAIT(0);
      barrier(CLK_LOCAL_MEM_FENCE);
      for (; work < stop; work += TEAMS) {
        const uint column = work % columns, following = work + TEAMS < stop ? work + TEAMS : stop + team;
        asked = following < (following < stop ? stop : min(end_work, stop + columns));
        UNROLL for (int j = 0; j < NG / 2; ++j) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int e = 0; e < 4; ++e) sum[j][u][e] = 0.f;
        for (uint at = 0; at < count; ++at) {
          const uint line = (first + at * share) * (uint)TILE_ROWS, next = first + (at + 1 < count ? at + 1 : 0) * share;
          const bool more = at + 1 < count || asked;
          if (at + 1 == count && asked) ENTER_WEIGHTS(following)
          float scale[T][2], c[NG / 2][T][4];
          UNROLL for (int j = 0; j < NG / 2; ++j) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int i = 0; i < 4; ++i) c[j][u][i] = 0.f;
          UNROLL for (int of_k = 0; of_k < 2; ++of_k) {
            uint of_row[T][4];
            UNROLL for (int u = 0; u < T; ++u)
              if (HAS(u)) LOCAL16(of_row[u], own_codes + line * 128 + u * 1024 + (own_half ^ of_k * 64));
            UNROLL for (int i = 0; i < 4; ++i) {
              uint lo[T], hi[T];
              UNROLL for (int u = 0; u < T; ++u)
                if (HAS(u)) DECODE_A4(lo[u], hi[u], of_row[u][i]);
              UNROLL for (int j = 0; j < NG / 2; ++j) {
                uint b[4];
                DECODE_B4(b[0], b[2], wr[0][16 * j + 4 * of_k + i]);
                DECODE_B4(b[1], b[3], wr[0][16 * j + 8 + 4 * of_k + i]);
                UNROLL for (int u = 0; u < T; ++u)
                  if (HAS(u)) MMA_M16N8K16(c[j][u], b[0], b[1], b[2], b[3], lo[u], hi[u]);
              }
            }
            if (more) LOAD_WEIGHTS_HALF(0, next, of_k)
          }
          UNROLL for (int u = 0; u < T; ++u) UNROLL for (int e = 0; e < 2; ++e) LOCAL_F(scale[u][e], SCALE_OF_ROW(line, u, e));
          float units_of[NG / 2];  // Of gates or of ups: in turns those are the even and the odd lines.
          UNROLL for (int j = 0; j < NG / 2; ++j) units_of[j] = (IN_TURNS ? g & 1 : (uint)j) ? cr[0][0][1] : cr[0][0][0];
          if (more) {
            LOAD_SCALES_B(0, next)
          }
          UNROLL for (int u = 0; u < T; ++u) UNROLL for (int j = 0; j < NG / 2; ++j) UNROLL for (int e = 0; e < 4; ++e)
            sum[j][u][e] = fma(scale[u][e % 2] * units_of[j], c[j][u][e], sum[j][u][e]);
        }
        UNROLL for (int j = 0; j < NG / 2; ++j) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int e = 0; e < 4; ++e)
          parts[team][of_team][16 * j + 8 * (e / 2) + g][8 * u + 2 * t + e % 2] = sum[j][u][e];
        TEAM_BARRIER();
        const uint wide = of_down ? COLUMNS : COLUMNS / 2;  // Columns of D of a part.
        for (uint o = item; o < wide * parts_of_unit * rows; o += TEAM) {
          const uint place = o % wide, of_part = o / wide % parts_of_unit, row = o / (wide * parts_of_unit), row_of_d = first_row + row;
          const uint line = !of_down && IN_TURNS ? 2 * place : place, of_warps = of_part * share;
          float total = 0.f;
          for (uint i = 0; i < share; ++i) total += parts[team][of_warps + i][line][row];
          const uint of_d = column_of((column * parts_of_unit + of_part) * (apart ? 2 : NG) + line / 8, line % 8);
          if (of_down) {
            x2[(ulong)row_of_d * hidden + of_d] = total;
          } else {
            float up = 0.f;
            for (uint i = 0; i < share; ++i) up += parts[team][of_warps + i][IN_TURNS ? line + 1 : line + 16][row];
            h[(ulong)row_of_d * width + (IN_TURNS ? of_d / 2 : of_d)] = activate_1(total, up, ACTIVATION_LIMIT);
          }
        }
        TEAM_BARRIER();
      }
      if (TEAMS > 1) barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
  come(counters, 3);
  together = together && meet(counters, 3, grid, waits, &shared);
  for (uint i = group * LANES + tid; i < (uint)tokens * (hidden / 4); i += grid * LANES) {
    const uint token = i / (hidden / 4), col = i % (hidden / 4) * 4;
    float4 sum = 0.f, value;
    for (int j = 0; j < top_k; j += 8) {  // What is far is asked for together.
      float4 values[8];
      float factors[8];
      UNROLL for (int e = 0; e < 8; ++e) {
        const int slot = (int)token * top_k + min(j + e, top_k - 1);
        LOAD_MADE(values[e], x2 + (ulong)max((int)row_of[slot], 0) * hidden + col);
        factors[e] = weights[weights_at + slot];
      }
      UNROLL for (int e = 0; e < 8; ++e) {
        if (j + e >= top_k || row_of[token * top_k + j + e] < 0) continue;
        const float4 part = factors[e] * values[e];
        sum = sum + part;
      }
    }
#if defined(SHARED) || ADD_TYPE != 0
#ifdef SHARED
    LOAD_MADE(value, x2 + (ulong)(slots + token) * hidden + col);
#else
    value = FOUR_OF(ADD_TYPE, add, add_at + (ulong)token * ld_add + col);
#endif
    const float4 part = ADD_WEIGHT * value;
    sum = sum + part;
#endif
    const float4 made = together ? sum : (float4)(NAN);
    const ulong to = y_at + (ulong)token * ldy + col;
    store_element(Y_TYPE, y, to, made.x);
    store_element(Y_TYPE, y, to + 1, made.y);
    store_element(Y_TYPE, y, to + 2, made.z);
    store_element(Y_TYPE, y, to + 3, made.w);
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (tid == 0 && atomic_inc(counters + LEFT) == grid - 1)
    for (uint i = 0; i <= GAVE_UP; ++i) counters[i] = 0;
}
#else
// The kernel needs what PTX_SM_90 promises; without it this file is empty.
#endif
