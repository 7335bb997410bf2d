// SPDX-License-Identifier: Apache-2.0
// tile.cl: what every GEMM kernel shares: its settings, and which blocks of D a work-group makes. Next door: arguments.cl, fp8.cl (formats),
// scales.cl, epilogue.cl (the way out to D).
// Set by the host:
// A_TYPE     4    1 4 5 7     what A comes as: f32 or codes
// B_TYPE     4    1 to 5, 7, 10  the packed weights: codes, or f32, f16, bf16 (gemm_panel and gemm_stream only)
// D_TYPE     1    1 2 3       f32, f16, bf16
// BIAS_TYPE  0    0 1 2 3     0: no bias
// GROUP      128  16 to 128   K group: no scale of either operand changes inside one
// B_SCALE_ROWS 128            scale group of B: columns of D
// B_SCALE_COLS 128            and k; a multiple of GROUP, or past k
// B_SCALE_TYPE 1    1 4 6     what its scales are held as: f32, or bytes (scales.cl)
// A_SCALE_ROWS 1              scale group of A's scales as they are given, for kernels that read rows of codes: rows
// A_SCALE_COLS 128            and k
// A_SCALE_TYPE 1              0: A has no scales
// CORES      1                of the device, where it is a processor
// GROUPED                     many matrices B; rows are scheduled to them as scheduled.cl says
// SCHEDULES                   the kernel schedules them itself, one tile a block, as schedule_rows.cl says
// GATHER                      rows of A are found through a_index
// D_SCALE_TYPE                D leaves in codes with scales (codes_of_d.cl)
// NUMBERED_CALLS              each call has a number that no other has (one_launch.cl)
#include "cache_hints.cl"
#include "scheduled.cl"
#include "fp8.cl"

#ifndef A_TYPE
#define A_TYPE 4
#endif
#ifndef B_TYPE
#define B_TYPE 4
#endif
#ifndef GROUP
#define GROUP 128
#endif
#ifndef B_SCALE_ROWS
#define B_SCALE_ROWS 128
#endif
#ifndef B_SCALE_COLS
#define B_SCALE_COLS 128
#endif
#ifndef B_SCALE_TYPE
#define B_SCALE_TYPE TYPE_F32
#endif
#ifndef CORES
#define CORES 1
#endif
#ifndef A_SCALE_ROWS
#define A_SCALE_ROWS 1
#endif
#ifndef A_SCALE_TYPE
#define A_SCALE_TYPE TYPE_F32
#endif
#ifndef A_SCALE_COLS
#define A_SCALE_COLS 128
#endif

// arguments.cl says what each is; the memory of an operand begins at the element that the argument after it says.
#define GEMM_ARGS PARAMETERS(GEMM_LIST) GROUPED_ARGS GATHER_ARGS NUMBER_ARGS D_SCALES_ARGS
#ifdef D_SCALE_TYPE
#define D_SCALES_ARGS , PARAMETERS(D_SCALES_LIST)
#else
#define D_SCALES_ARGS
#endif
#ifdef NUMBERED_CALLS
#define NUMBER_ARGS , PARAMETERS(NUMBER_LIST)
#else
#define NUMBER_ARGS
#endif
#ifdef GROUPED
#ifndef SCHEDULES
#define SCHEDULES_ARGS SCHEDULED_ARGS
#endif
#define GROUPED_ARGS SCHEDULES_ARGS, PARAMETERS(MATRICES_LIST)
/// The statement after it is done for each unit of `work` of this work-group: a block by one of `columns` units of columns.
#define EACH_UNIT(columns)                                    \
  if (m == 0) return;                                         \
  __global const int* scheduled = schedule_memory + schedule_at;        \
  const long units = (long)scheduled[SCHEDULED_BLOCKS] * (columns);   \
  EACH_UNIT_SCHEDULED(units)
#define OF_MATRIX(at) \
  __global const uchar* b_here = b + (ulong)(at).matrix * b_stride;         \
  __global const float* sb_here = sb + (ulong)(at).matrix * sb_stride;      \
  const ulong bias_here = bias_at + (ulong)(at).matrix * (ulong)n;
// Of a kernel that makes blocks of tiles of rows: the block `here`, `columns` being units of columns, and how many tiles there are.
#define BLOCK_HERE(tile_rows, columns)                                          \
  const scheduled_block here = block_of(scheduled, work, columns);                      \
  const ulong all_tiles = (ulong)scheduled[SCHEDULED_TILES];
#else
#define GROUPED_ARGS
#ifdef TAKEN
// A kernel that defines TAKEN, the place of a word that is zero when it is launched, takes its blocks one by one, so that a core that is
// slow for a while takes fewer. Which work-group makes a block changes nothing in it. TOGETHER: neighbours that it takes at once, where each
// core has four times as many; what it fetches past the end of a block is then its own.
#ifndef TOGETHER
#define TOGETHER 1
#endif
#define EACH_UNIT(columns)                                                                                 \
  if (m == 0) return;                                                                                      \
  const uint units = (uint)(get_num_groups(0) * get_num_groups(1));                                        \
  const uint together = clamp(units / (4u * CORES), 1u, (uint)TOGETHER);                                   \
  for (uint first_work = atomic_inc(TAKEN) * together; first_work < units; first_work = atomic_inc(TAKEN) * together) \
    for (uint work = first_work; work < min(first_work + together, units); ++work)
#define NEXT_UNIT continue
#define COLUMN_HERE (work % (uint)get_num_groups(0))
#define ROW_BLOCK_HERE (work / (uint)get_num_groups(0))
#else
#define EACH_UNIT(columns)
#define NEXT_UNIT return
#define COLUMN_HERE get_group_id(0)
#define ROW_BLOCK_HERE get_group_id(1)
#endif
// Blocks of rows are as equal as can be: a device that gives each core one stretch of the work-groups would else give the last core the
// short ones.
#define BLOCK_HERE(tile_rows, columns)                                                                                                \
  const ulong all_tiles = (ulong)((m + (tile_rows)-1) / (tile_rows)), block = ROW_BLOCK_HERE, blocks = get_num_groups(1);             \
  const int of_block = (int)(block * all_tiles / blocks);                                                                             \
  const scheduled_block here = {0, of_block * (tile_rows), m, of_block, (int)((block + 1) * all_tiles / blocks) - of_block,               \
                            (int)COLUMN_HERE, (tile_rows)};                                                                           \
  if (here.tiles == 0 || here.column >= (columns)) NEXT_UNIT;
#define OF_MATRIX(at) \
  __global const uchar* b_here = b; \
  __global const float* sb_here = sb; \
  const ulong bias_here = bias_at;
#endif

/// The column of D that line `line` of eight of line group `group` is in the form of weights of tensor-core kernels (forms/forms.h).
static inline uint column_of_line(uint group, uint line) { return 16 * (group / 2) + 2 * (group % 2) + 4 * (line >> 1) + (line & 1); }

#include "epilogue.cl"
#include "scales.cl"
