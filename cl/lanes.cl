// SPDX-License-Identifier: Apache-2.0
// lanes.cl: the one work-group of the small kernels between products (choose_experts.cl, schedule.cl, sort_rows.cl).
// One work-item waits for nobody; PoCL 3.1 goes wrong where a work-group returns before a barrier.
#if LANES > 1
#define SYNC(fence) barrier(fence)
#else
#define SYNC(fence)
#endif

/// The sum of what the lanes before this one have given as `value`, and of all in *all; of lanes from `lanes` on nothing is added. All
/// lanes call it.
static inline long sum_before(__local long* sums, int lane, int lanes, long value, long* all) {
  SYNC(CLK_LOCAL_MEM_FENCE);  // The sums before these have been read.
  sums[lane] = value;
  SYNC(CLK_LOCAL_MEM_FENCE);
  for (int step = 1; step < lanes; step *= 2) {
    const long before = lane >= step ? sums[lane - step] : 0;
    SYNC(CLK_LOCAL_MEM_FENCE);
    sums[lane] += before;
    SYNC(CLK_LOCAL_MEM_FENCE);
  }
  *all = sums[lanes - 1];
  return sums[lane] - value;
}
