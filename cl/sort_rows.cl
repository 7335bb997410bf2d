// SPDX-License-Identifier: Apache-2.0
// sort_rows.cl: the slots (token, j) sorted by expert, within an expert in their order: a counting sort whose order no atomic decides. One
// work-group takes slots in stretches, one for each 32 of its work-items, and of each stretch 32 at a time: a slot's place is what its
// expert had before in the stretch, and its rank among the 32.
//
// Tunable  usual    values       meaning
// LANES    1        1 to 1024    work-items, a power of two
// Set by the host: PTX_SM_80: a stretch is a warp's, which finds equal experts by one instruction.
// Local memory: LANES * 12 B = 12 B as usual; 4 B an expert and 4 B for each stretch of it besides.
#include "arguments.cl"
#include "lanes.cl"
#if defined(PTX_SM_80)
#include "ptx.cl"
#endif

#define ROLLED _Pragma("unroll 1")  // Most loops run once or twice.
#define WIDTH (LANES < 32 ? LANES : 32)
#define STRETCHES (LANES / WIDTH)
#if LANES >= 32 && defined(PTX_SM_80)
#define BY_WARPS
#define SYNC_STRETCH() SYNC_WARP()
#else
#define SYNC_STRETCH() SYNC(CLK_LOCAL_MEM_FENCE)
#endif

// ids: s32 [slots], top_k per token. first, local_experts: which are here; other slots get row -1. capacity: 0, rows one after another; else
// rows of each expert, the others are dropped. shared_expert: 1: its rows, all tokens', come first. Left behind: rows of each expert, the token
// of each row, the row of each slot.
// begins: where each expert's rows begin; then counts, of each expert here how many each stretch has, then how many those before it have.
// chunk, sums: LANES of each.
static inline void sort_slots(__local int* chunk, __local long* sums, __local int* begins, int lane, __global const int* ids, int slots,
                              int top_k, int first, int local_experts, int capacity, int shared_expert, __global int* counts_out,
                              __global int* a_index, __global int* rows) {
  __local int* counts = begins + local_experts;
  const int stretch = lane / WIDTH, chunk_at = stretch * WIDTH, of_stretch = (slots + LANES - 1) / LANES * WIDTH;
  const int first_slot = stretch * of_stretch + lane % WIDTH, shared_rows = shared_expert != 0 ? slots / top_k : 0;
  __local int* here = counts + stretch * local_experts;
  if (shared_expert != 0) {
    ROLLED for (int i = lane; i < shared_rows; i += LANES) a_index[i] = i;
    if (lane == 0) counts_out[0] = shared_rows;
    counts_out += 1;
  }
  ROLLED for (int i = lane; i < STRETCHES * local_experts; i += LANES) counts[i] = 0;
  SYNC(CLK_LOCAL_MEM_FENCE);
  ROLLED for (int i = 0; i < of_stretch; i += WIDTH) {
    const int slot = first_slot + i;
    const long id = slot < slots ? (long)ids[slot] - first : -1;
    const int expert = id >= 0 && id < local_experts ? (int)id : -1;
    int rank = 0;
#ifdef BY_WARPS
    uint alike;
    LANES_WITH(alike, (uint)expert);
    rank = (int)popcount(alike & ((1u << (lane & 31)) - 1u));
#else
    chunk[lane] = expert;
    SYNC(CLK_LOCAL_MEM_FENCE);
    const int before = expert >= 0 ? lane : chunk_at;
    for (int other = chunk_at; other < before; ++other) rank += chunk[other] == expert ? 1 : 0;
#endif
    const int place = expert >= 0 ? here[expert] + rank : -1;
    if (slot < slots) rows[slot] = place;
    SYNC_STRETCH();
    if (expert >= 0) atomic_max(here + expert, place + 1);  // Whoever comes when, the last slot's stays.
    SYNC_STRETCH();
  }
  SYNC(CLK_LOCAL_MEM_FENCE);
  // Where each expert's rows begin: lanes have stretches of experts.
  const int share = (local_experts + LANES - 1) / LANES;
  const int from = min(lane * share, local_experts), end = min(from + share, local_experts);
  long sum = 0, all;
  ROLLED for (int g = from; g < end; ++g)
    _Pragma("unroll 8") for (int i = 0; i < STRETCHES; ++i) sum += counts[i * local_experts + g];
  long begin = shared_rows + sum_before(sums, lane, min(LANES, local_experts), sum, &all);
  ROLLED for (int g = from; g < end; ++g) {
    int count = 0;
    _Pragma("unroll 4") for (int i = 0; i < STRETCHES; ++i) {
      const int more = counts[i * local_experts + g];
      counts[i * local_experts + g] = count;
      count += more;
    }
    begins[g] = capacity == 0 ? (int)begin : g * capacity;
    begin += count;
    counts_out[g] = capacity == 0 ? count : min(count, capacity);
  }
  SYNC(CLK_LOCAL_MEM_FENCE);
  ROLLED for (int slot = first_slot; slot < min((stretch + 1) * of_stretch, slots); slot += WIDTH) {  // A lane reads what it has written itself.
    if (rows[slot] < 0) continue;
    const int expert = ids[slot] - first, place = here[expert] + rows[slot];
    const int row = capacity == 0 || place < capacity ? begins[expert] + place : -1;
    rows[slot] = row;
    if (row >= 0) a_index[row] = slot / top_k;
  }
}

#define SORT_SLOTS(chunk, sums, lane)                                                                                    \
  sort_slots(chunk, sums, of_experts, lane, ids + ids_at, slots, top_k, first, local_experts, capacity, shared_expert,   \
             counts_memory + counts_at, index_memory + index_at, rows_memory + rows_at)

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sort_rows(PARAMETERS(SORT_LIST), PARAMETERS(SORTED_LIST)) {
  __local int chunk[LANES];
  __local long sums[LANES];
  SORT_SLOTS(chunk, sums, (int)get_local_id(0));
}
