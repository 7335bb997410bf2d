// SPDX-License-Identifier: Apache-2.0
// one_launch.cl: quantising and multiplying in one launch, for gemm_amx.cl and gemm_bf16.cl on processors: which work-group quantises what,
// which makes which block of D, and who adds up parts of k. Next door: quantize_in_tile.cl (how a scale group is quantised), tile.cl (blocks
// in their order, where a step before has quantised).
//
// A panel is a block of rows through a part of k. A work-group takes a panel, quantises it, which leaves it in the caches of this core, and
// makes blocks of it, a block of columns at a time; when all panels are taken, it makes blocks of those of others. Some K groups of a tile
// of rows in a panel, a run, are quantised by whoever comes first. Nobody waits: what another has not finished by then is quantised again,
// to the same bytes. With SPLIT_K parts each is stored, and who stores the last one of a block adds all, in the order of k: which work-group
// does what changes nothing in D.
//
// Words count all this in scratch, where anything may be before: a word has the number of the call above MARK_BITS bits of its count, and
// is zero for a call whose number it has not.
//   word 0: panels taken; 1 + p: blocks taken of panel p; then, of each tile, for each K group that begins a run, who came, and
//   QUANTISED; then, of each block of D, parts stored.
// Set by the including file: TILE_ROWS, BLOCK_M, BLOCK_N, ELEMENT_BYTES, A_TYPE_OF_TILES, SPLIT_K; where that is not 1 BLOCK_SUMS,
// the floats of a block; where it is not 1 TOGETHER. Set by the host: QUANTISE, without which there are parts of k only.
/// The first of `groups` K groups that is in a part.
#define FIRST_GROUP_OF(part, groups) ((int)((long)(part) * (groups) / SPLIT_K))
#ifdef QUANTISE
#ifndef TOGETHER
#define TOGETHER 1
#endif
#define TILE TILE_ROWS
#define TILE_FORM A_TYPE_OF_TILES
#define GROUP_COLS GROUP
#include "quantize_in_tile.cl"

#define LONGEST_RUN_OF_GROUPS 8
#define MARK_BITS 20
#define QUANTISED (1ul << (MARK_BITS - 1))
#define WORD_(word) ((volatile ulong*)(uintptr_t)(word))

/// Counts one more, and returns how many there were in this call.
static inline uint count_in(__global ulong* word, ulong call) {
  for (ulong seen = *WORD_(word);;) {
    const ulong before = seen >> MARK_BITS == call ? seen : call << MARK_BITS;
    const ulong found = __sync_val_compare_and_swap(WORD_(word), seen, before + 1ul);
    if (found == seen) return (uint)(before & ((1ul << MARK_BITS) - 1ul));
    seen = found;
  }
}

/// What a word says in this call.
static inline ulong said_in(__global ulong* word, ulong call) {
  const ulong seen = *WORD_(word);
  return seen >> MARK_BITS == call ? seen & ((1ul << MARK_BITS) - 1ul) : 0ul;
}

/// What a work-group knows of the launch, and where it is.
typedef struct {
  ulong call;
  __global ulong *words, *states, *stored;  // The first; of runs; of blocks of D.
  __global uchar* tiles;
  __global float *scales, *parts;
  int all_tiles, groups, columns, row_blocks, panels;
  int turn, helped, panel;  // The panel of its own, how many of others it has looked at, the one that it is at.
  int next, end;            // Blocks of it that it has taken.
} one_launch;

static inline one_launch begin_launch(int m, int n, int k, __global float* scratch, ulong call) {
  one_launch s;
  s.call = call;
  s.all_tiles = (m + TILE_ROWS - 1) / TILE_ROWS;
  s.groups = (k + GROUP - 1) / GROUP;
  s.columns = (n + BLOCK_N - 1) / BLOCK_N;
  s.row_blocks = (s.all_tiles + BLOCK_M - 1) / BLOCK_M;
  s.panels = s.row_blocks * SPLIT_K;
  s.words = (__global ulong*)scratch;
  s.states = s.words + 1 + s.panels;
  s.stored = s.states + s.all_tiles * s.groups;
  const ulong words = (ulong)(1 + s.panels + s.all_tiles * s.groups + s.row_blocks * s.columns), tile_elements = (ulong)s.all_tiles * TILE_ROWS;
  s.tiles = (__global uchar*)scratch + (words + 7ul) / 8ul * 64ul;
  s.scales = (__global float*)(s.tiles + tile_elements * (ulong)(s.groups * GROUP) * ELEMENT_BYTES);
  s.parts = s.scales + tile_elements * (ulong)s.groups;
  s.turn = (int)count_in(s.words, call);
  s.helped = 0;
  s.panel = -1;
  s.next = s.end = 0;
  return s;
}

#define FIRST_TILE_OF(s, row_block) ((int)((long)(row_block) * (s)->all_tiles / (s)->row_blocks))

/// K groups [first, end) of a tile, one after another: rows are streams.
static inline void quantize_run(const one_launch* s, int tile, int first, int end, int m, int k, __global const uchar* x, ulong x_at,
                                ulong ldx) {
  ulong at[TILE];
  const int row = tile * TILE;
  for (int i = 0; i < TILE; ++i) at[i] = x_at + (ulong)(row + i < m ? row + i : 0) * ldx;
  for (int group = first; group < end; ++group) {
    quantize_group_of_tile(s->tiles, s->scales + (ulong)tile * (ulong)s->groups * TILE, tile, s->all_tiles, s->groups * GROUP, x, at,
                           min(TILE, m - row), group * GROUP, min((group + 1) * GROUP, k), (group + 1) * GROUP, FLOOR_BITS);
  }
}

/// All of the panel, as far as nobody else has done it.
static inline __attribute__((always_inline)) void quantize_panel(const one_launch* s, int m, int k, __global const uchar* x, ulong x_at,
                                                                 ulong ldx) {
  const int row_block = s->panel / SPLIT_K, part = s->panel % SPLIT_K;
  const int first_tile = FIRST_TILE_OF(s, row_block), tiles = FIRST_TILE_OF(s, row_block + 1) - first_tile;
  const int first_group = FIRST_GROUP_OF(part, s->groups), end_group = FIRST_GROUP_OF(part + 1, s->groups);
  // Of a panel that several come to, each has several runs, and they begin at different places.
  const int helpers = (CORES + s->panels - 1) / s->panels, run = clamp((end_group - first_group) * tiles / (8 * helpers), 1, LONGEST_RUN_OF_GROUPS);
  const int runs = (end_group - first_group + run - 1) / run, items = runs * tiles;
  const int begin = s->turn / s->panels * items / helpers;
  for (int again = 0; again < 2; ++again) {
    for (int i = 0; i < items; ++i) {
      const int item = (begin + i) % items, tile = first_tile + item / runs, first = first_group + item % runs * run;
      __global ulong* state = s->states + (ulong)tile * (ulong)s->groups + first;
      const ulong said = said_in(state, s->call);
      if (again != 0 ? (said & QUANTISED) != 0 : said != 0 || count_in(state, s->call) != 0) continue;
      quantize_run(s, tile, first, min(first + run, end_group), m, k, x, x_at, ldx);
      __sync_synchronize();
      *WORD_(state) = s->call << MARK_BITS | QUANTISED;
    }
  }
  __sync_synchronize();
}

/// The next block of this work-group, if any is left: its panel is in s, and quantised; its columns are returned, -1 where there is none.
static inline int next_block(one_launch* s, int m, int k, __global const uchar* x, ulong x_at, ulong ldx) {
  const int together = clamp(s->panels * s->columns / (4 * CORES), 1, TOGETHER);
  for (;;) {
    if (s->next < s->end) return (s->next++ + s->columns * (s->panel % SPLIT_K) / SPLIT_K) % s->columns;
    if (s->panel >= 0) {
      s->next = (int)count_in(s->words + 1 + s->panel, s->call) * together;
      s->end = min(s->next + together, s->columns);
      if (s->next < s->end) continue;
      if (s->turn < s->panels) s->turn = (int)count_in(s->words, s->call);
    }
    // A panel of its own, or the next one that has blocks left.
    do {
      s->panel = s->turn < s->panels ? s->turn : (s->turn + s->helped) % s->panels;
      if (s->turn >= s->panels && s->helped++ == s->panels) return -1;
      if (said_in(s->words + 1 + s->panel, s->call) * (ulong)together < (ulong)s->columns) break;
      if (s->turn < s->panels) s->turn = (int)count_in(s->words, s->call);
    } while (true);
    s->next = s->end = 0;
    quantize_panel(s, m, k, x, x_at, ldx);
  }
}

#if SPLIT_K > 1
/// Stores the `count` sums of a block's part; where all parts of the block are there, sums becomes what they add up to.
static inline bool all_parts_are_added(const one_launch* s, int column, __local float* sums, int count) {
  const int row_block = s->panel / SPLIT_K, part = s->panel % SPLIT_K;
  const ulong block = (ulong)(row_block * s->columns + column), blocks = (ulong)(s->row_blocks * s->columns);
  __global float* parts = s->parts + block * BLOCK_SUMS;
  __global float* mine = parts + (ulong)part * blocks * BLOCK_SUMS;
  for (int i = 0; i < count; i += 16) *(__global float16*)(mine + i) = *(__local const float16*)(sums + i);
  if (count_in(s->stored + block, s->call) + 1 < SPLIT_K) return false;
  for (int i = 0; i < count; i += 16) {
    float16 sum = *(__global const float16*)(parts + i);
#pragma unroll
    for (int p = 1; p < SPLIT_K; ++p) sum += *(__global const float16*)(parts + (ulong)p * blocks * BLOCK_SUMS + i);
    *(__local float16*)(sums + i) = sum;
  }
  return true;
}
#endif

// In place of those of tile.cl: A becomes what this launch makes of it, and a block is one of the panel that the work-group is at.
#undef EACH_UNIT
#undef BLOCK_HERE
#define EACH_UNIT(columns)                                                          \
  if (m == 0) return;                                                               \
  __global const uchar* const floats = a;                                           \
  const ulong floats_at = a_at;                                                     \
  one_launch launch = begin_launch(m, n, k, scratch + scratch_at, call);            \
  a = launch.tiles;                                                                 \
  sa = launch.scales;                                                               \
  a_at = sa_at = 0ul;                                                               \
  sa_ld = (ulong)launch.groups;                                                     \
  for (int column; (column = next_block(&launch, m, k, floats, floats_at, lda)) >= 0;)
#define PART_HERE (launch.panel % SPLIT_K)
#define BLOCK_HERE(tile_rows, columns)                                                                                       \
  const ulong all_tiles = (ulong)launch.all_tiles;                                                                           \
  const int row_block_here = launch.panel / SPLIT_K, tile_here = FIRST_TILE_OF(&launch, row_block_here);                     \
  const scheduled_block here = {0, tile_here * (tile_rows), m, tile_here, FIRST_TILE_OF(&launch, row_block_here + 1) - tile_here, \
                            column, (tile_rows)};
#endif
