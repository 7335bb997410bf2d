// SPDX-License-Identifier: Apache-2.0
// sort_rows.cl: the slots (token, j) sorted by expert, within an expert in their order: a counting sort whose order is decided by no
// atomic. One work-group takes slots a chunk of LANES at a time; a slot's place is what its expert had before the chunk, and its rank
// among the chunk's slots of that expert.
//
// Tunable  default  values      meaning
// LANES    1        1 to 256    work-items, slots of a chunk
// Local memory: LANES * 12 B = 12 B with the defaults.
#include "arguments.cl"
#include "lanes.cl"

// ids: s32 [slots], top_k a token. first, local_experts: which are here; other slots get row -1. capacity: 0, rows one after another; else
// rows of each expert, the others are dropped. Left behind: rows of each expert, the token of each row, the row of each slot.
// begins: memory for local_experts s32.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sort_rows(PARAMETERS(SORT_LIST)) {
  __local int chunk[LANES];
  __local long sums[LANES];
  const int lane = (int)get_local_id(0);
  __global int *counts = counts_memory + counts_at, *a_index = index_memory + index_at, *rows = rows_memory + rows_at;
  for (int g = lane; g < local_experts; g += LANES) counts[g] = 0;
  SYNC(CLK_GLOBAL_MEM_FENCE);
  for (int start = 0; start < slots; start += LANES) {
    const int slot = start + lane;
    const long id = slot < slots ? (long)ids[ids_at + (ulong)slot] - first : -1;
    const int expert = id >= 0 && id < local_experts ? (int)id : -1;
    chunk[lane] = expert;
    SYNC(CLK_LOCAL_MEM_FENCE);
    int rank = 0;
    bool last = true;
    for (int i = 0; i < LANES; ++i) {
      rank += chunk[i] == expert && i < lane ? 1 : 0;
      last = last && !(chunk[i] == expert && i > lane);
    }
    const int place = expert >= 0 ? counts[expert] + rank : -1;
    if (slot < slots) rows[slot] = place;
    SYNC(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (expert >= 0 && last) counts[expert] = place + 1;
    SYNC(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  }
  // Where each expert's rows begin: lanes have stretches of experts.
  const int share = (local_experts + LANES - 1) / LANES;
  const int from = min(lane * share, local_experts), end = min(from + share, local_experts);
  long sum = 0;
  for (int g = from; g < end; ++g) sum += counts[g];
  sums[lane] = sum;
  SYNC(CLK_LOCAL_MEM_FENCE);
  long begin = 0;
  for (int i = 0; i < lane; ++i) begin += sums[i];
  for (int g = from; g < end; ++g) {
    begins[g] = capacity == 0 ? (int)begin : g * capacity;
    begin += counts[g];
    if (capacity != 0) counts[g] = min(counts[g], capacity);
  }
  SYNC(CLK_GLOBAL_MEM_FENCE);
  for (int slot = lane; slot < slots; slot += LANES) {
    const int place = rows[slot];
    if (place < 0) continue;
    const int expert = ids[ids_at + (ulong)slot] - first;
    const int row = place < counts[expert] ? begins[expert] + place : -1;
    rows[slot] = row;
    if (row >= 0) a_index[row] = slot / top_k;
  }
}
