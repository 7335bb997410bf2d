// SPDX-License-Identifier: Apache-2.0
// schedule.cl: schedules the rows of a grouped problem before the kernels that read what scheduled.cl describes. One work-group.
//
// Tunable  usual    values   meaning
// LANES    1        1 to 256 work-items
// Set by the host: EVEN_TILES: the tiles of a matrix are as equal as can be, not all full but the last.
// Local memory: LANES * 8 B = 8 B as usual.
#include "schedule_rows.cl"

// As schedule_rows() has them; matrix_rows: from rows_at on; tiles_at, blocks_at: where the lists go.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void schedule(PARAMETERS(SCHEDULE_ROWS_LIST)) {
  __local long sums[LANES];
  if (m == 0) return;
  __global int* scheduled = schedule_memory + schedule_at;
  const int lane = (int)get_local_id(0);
  int first, end;
  const int4 counts = schedule_rows(sums, lane, m, matrices, masked, tile, block, matrix_rows + rows_at, scheduled + SCHEDULED_HEAD, &first, &end);
  list_dealt(scheduled, lane, counts, scheduled + SCHEDULED_HEAD, first, end, tiles_at, blocks_at);
}
