// SPDX-License-Identifier: Apache-2.0
// sort_rows.cl: the slots (token, j) sorted by expert, within an expert in their order: a counting sort whose order no atomic decides. One
// work-group takes slots a chunk of LANES at a time; a slot's place is what its expert had before the chunk, and its rank among the chunk's
// slots of that expert.
//
// Tunable  usual    values      meaning
// LANES    1        1 to 256    work-items, slots of a chunk
// Local memory: LANES * 12 B = 12 B as usual; 8 B an expert besides.
#include "arguments.cl"
#include "lanes.cl"

// ids: s32 [slots], top_k per token. first, local_experts: which are here; other slots get row -1. capacity: 0, rows one after another; else
// rows of each expert, the others are dropped. Left behind: rows of each expert, the token of each row, the row of each slot.
// counts: of each expert here how many, then where its rows begin. chunk, sums: LANES of each.
static inline void sort_slots(__local int* chunk, __local long* sums, __local int* counts, int lane, __global const int* ids, int slots,
                              int top_k, int first, int local_experts, int capacity, __global int* counts_out, __global int* a_index,
                              __global int* rows) {
  __local int* begins = counts + local_experts;
  for (int g = lane; g < local_experts; g += LANES) counts[g] = 0;
  SYNC(CLK_LOCAL_MEM_FENCE);
  for (int start = 0; start < slots; start += LANES) {
    const int slot = start + lane;
    const long id = slot < slots ? (long)ids[slot] - first : -1;
    const int expert = id >= 0 && id < local_experts ? (int)id : -1;
    chunk[lane] = expert;
    SYNC(CLK_LOCAL_MEM_FENCE);
    const int before = expert >= 0 ? lane : 0;
    int rank = 0;
    for (int i = 0; i < before; ++i) rank += chunk[i] == expert ? 1 : 0;
    const int place = expert >= 0 ? counts[expert] + rank : -1;
    if (slot < slots) rows[slot] = place;
    SYNC(CLK_LOCAL_MEM_FENCE);
    if (expert >= 0) atomic_max(counts + expert, place + 1);  // Whoever comes when, the last slot's stays.
    SYNC(CLK_LOCAL_MEM_FENCE);
  }
  // Where each expert's rows begin: lanes have stretches of experts.
  const int share = (local_experts + LANES - 1) / LANES;
  const int from = min(lane * share, local_experts), end = min(from + share, local_experts);
  long sum = 0, all;
  for (int g = from; g < end; ++g) sum += counts[g];
  long begin = sum_before(sums, lane, LANES, sum, &all);
  for (int g = from; g < end; ++g) {
    begins[g] = capacity == 0 ? (int)begin : g * capacity;
    begin += counts[g];
    if (capacity != 0) counts[g] = min(counts[g], capacity);
    counts_out[g] = counts[g];
  }
  SYNC(CLK_LOCAL_MEM_FENCE);
  for (int slot = lane; slot < slots; slot += LANES) {  // A lane reads what it has written itself.
    const int place = rows[slot];
    if (place < 0) continue;
    const int expert = ids[slot] - first;
    const int row = place < counts[expert] ? begins[expert] + place : -1;
    rows[slot] = row;
    if (row >= 0) a_index[row] = slot / top_k;
  }
}

#define SORT_SLOTS(chunk, sums, lane)                                                                                    \
  sort_slots(chunk, sums, of_experts, lane, ids + ids_at, slots, top_k, first, local_experts, capacity,                  \
             counts_memory + counts_at, index_memory + index_at, rows_memory + rows_at)

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sort_rows(PARAMETERS(SORT_LIST), PARAMETERS(SORTED_LIST)) {
  __local int chunk[LANES];
  __local long sums[LANES];
  SORT_SLOTS(chunk, sums, (int)get_local_id(0));
}
