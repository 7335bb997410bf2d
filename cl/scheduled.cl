// SPDX-License-Identifier: Apache-2.0
// scheduled.cl: which rows are whose in a grouped problem, as schedule.cl has scheduled them; and the gather of A's rows. Shared by every
// kernel of a grouped plan. A tile is TILE rows of one matrix of B or fewer; a block is some tiles of one matrix, as many as a
// work-group multiplies with the weights that it has decoded. Nothing straddles two matrices, so nothing is padded in D.
//
// scheduled, s32 from schedule_at on:
//   SCHEDULED_TILES, SCHEDULED_BLOCKS, SCHEDULED_TILES_AT, SCHEDULED_BLOCKS_AT: how many there are, and where the lists begin.
//   SCHEDULED_NEXT: with FROM_COUNTER the next share of the product that is to be had.
//   SCHEDULED_HEAD + 8 * g: of matrix g its first row in D, rows, first tile, tiles, first block, blocks, rows of a tile.
//   from SCHEDULED_TILES_AT on: the matrix of each tile; from SCHEDULED_BLOCKS_AT on: the matrix of each block.
#include "arguments.cl"
#define SCHEDULED_TILES 0
#define SCHEDULED_BLOCKS 1
#define SCHEDULED_TILES_AT 2
#define SCHEDULED_BLOCKS_AT 3
#define SCHEDULED_NEXT 4
#define SCHEDULED_HEAD 8
#define OF_ROW 0
#define OF_ROWS 1
#define OF_TILE 2
#define OF_TILES 3
#define OF_BLOCK 4
#define OF_BLOCKS 5
#define OF_HEIGHT 6

/// Tile `tile`, one of scheduled[SCHEDULED_TILES]: rows [first, end) of D.
typedef struct {
  int matrix, first, end;
} scheduled_tile;

#define TILE_IN(of, matrix, tile)                                                           \
  ((scheduled_tile){(matrix), (of)[OF_ROW] + ((tile) - (of)[OF_TILE]) * (of)[OF_HEIGHT],        \
                (of)[OF_ROW] + min(((tile) - (of)[OF_TILE] + 1) * (of)[OF_HEIGHT], (of)[OF_ROWS])})

static inline scheduled_tile tile_of(__global const int* scheduled, int tile) {
  const int matrix = scheduled[scheduled[SCHEDULED_TILES_AT] + tile];
  __global const int* of = scheduled + SCHEDULED_HEAD + 8 * matrix;
  return TILE_IN(of, matrix, tile);
}

/// What a work-group makes at once: `tiles` tiles of `height` rows from first_tile on, rows [first_row, end_row) of D, of which the last
/// tile may have fewer; `column` counts units of columns. Of a problem that is not grouped, matrix is 0.
typedef struct {
  int matrix, first_row, end_row, first_tile, tiles, column, height;
} scheduled_block;

/// Units of work are blocks times `columns`: all blocks of a matrix with its first columns, then with the next, so that weights
/// which were just read are read again from a cache. The blocks of a matrix are as equal as can be.
static inline scheduled_block block_of(__global const int* scheduled, long unit, int columns) {
  scheduled_block b;
  b.matrix = scheduled[scheduled[SCHEDULED_BLOCKS_AT] + (int)(unit / columns)];
  __global const int* of = scheduled + SCHEDULED_HEAD + 8 * b.matrix;
  const int blocks = of[OF_BLOCKS], tiles = of[OF_TILES], at = (int)(unit - (long)of[OF_BLOCK] * columns);
  const int block = at % blocks, first = (int)((long)block * tiles / blocks);
  b.column = at / blocks;
  b.tiles = (int)((long)(block + 1) * tiles / blocks) - first;
  b.first_tile = of[OF_TILE] + first;
  b.height = of[OF_HEIGHT];
  b.first_row = of[OF_ROW] + first * b.height;
  b.end_row = min(b.first_row + b.tiles * b.height, of[OF_ROW] + of[OF_ROWS]);
  return b;
}

// The arguments of a kernel that makes tiles of A, and the statement after them, which is done for each tile of the work-item:
// tile `tile` of `tiles` has the rows `here`. Of a problem that is not grouped they are one after another up to m.
#ifdef GROUPED
#define SCHEDULED_ARGS , PARAMETERS(SCHEDULE_LIST)
#define EACH_TILE(rows)                                            \
  if (m == 0) return;                                              \
  __global const int* scheduled = schedule_memory + schedule_at;             \
  const int tiles = scheduled[SCHEDULED_TILES];                            \
  for (int tile = (int)get_global_id(1); tile < tiles; tile += (int)get_global_size(1))
#define TILE_HERE(rows) tile_of(scheduled, tile)
#else
#define SCHEDULED_ARGS
#define EACH_TILE(rows)                                                              \
  const int tile = (int)get_global_id(1), tiles = (m + (rows) - 1) / (rows);         \
  if (tile < tiles)
#define TILE_HERE(rows) ((scheduled_tile){0, tile * (rows), m})
#endif

// The statement after EACH_UNIT_SCHEDULED(units) is done for each unit of `work` of this work-group.
#define GROUPS_HERE ((ulong)get_num_groups(0) * get_num_groups(1))
#ifdef FROM_COUNTER
// A processor: a work-group for each of its cores takes shares of the units from a counter. A core that another program has a part of
// takes fewer, and a driver that gives a core half of a launch cannot. Shares are stretches of units, for weights are read in streams, and get
// shorter towards the end, by the square, so that cores end together.
#define SHARES ((int)(16 * GROUPS_HERE))
#define BEFORE_SHARE(units, share) \
  ((units) - (long)((ulong)(units) * (ulong)(SHARES - (share)) * (ulong)(SHARES - (share)) / ((ulong)SHARES * (ulong)SHARES)))
#define TAKE_SHARE() atomic_inc((volatile __global int*)(scheduled + SCHEDULED_NEXT))
#define EACH_UNIT_SCHEDULED(units)                                                     \
  for (int share = TAKE_SHARE(); share < SHARES; share = TAKE_SHARE())             \
    for (long work = BEFORE_SHARE(units, share), end_work = BEFORE_SHARE(units, share + 1); work < end_work; ++work)
#else
// A host launches for the most blocks that there could be. What is there is spread evenly over the work-groups launched, in order.
#define PLACE_OF_GROUP (get_group_id(0) + get_group_id(1) * get_num_groups(0))
#define FIRST_UNIT(units, group) ((long)((ulong)(units) * (group) / GROUPS_HERE))
#define EACH_UNIT_SCHEDULED(units)                                                     \
  for (long work = FIRST_UNIT(units, PLACE_OF_GROUP), end_work = FIRST_UNIT(units, PLACE_OF_GROUP + 1ul); work < end_work; ++work)
#endif

/// Row `row` of the problem as a row of A, which has a_rows. An index outside of A means its nearest row.
#ifdef GATHER
#define GATHER_ARGS , PARAMETERS(GATHER_LIST)
#define ROW_OF_A(row) clamp(a_index[a_index_at + (ulong)(row)], 0, a_rows - 1)
#else
#define GATHER_ARGS
#define ROW_OF_A(row) (row)
#endif
