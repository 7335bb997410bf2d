// SPDX-License-Identifier: Apache-2.0
// lanes.cl: what the work-items of a work-group find out together, in the small kernels between products (activate.cl, choose_experts.cl,
// quantize.cl, schedule.cl, sort_rows.cl). Set by the including file or the host: LANES, how many they are, a power of two; PTX_SM_80.
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
#if LANES >= 32 && defined(PTX_SM_80)
  long sum = lane < lanes ? value : 0;
  for (int step = 1; step < 32; step *= 2) {
    long before;
    asm volatile("{.reg .b32 l,h; mov.b64 {l,h},%1; shfl.sync.up.b32 l,l,%2,0,0xffffffff; shfl.sync.up.b32 h,h,%2,0,0xffffffff; mov.b64 %0,{l,h};}"
                 : "=l"(before) : "l"(sum), "r"(step));
    if ((lane & 31) >= step) sum += before;
  }
  if ((lane & 31) == 31) sums[lane / 32] = sum;
  SYNC(CLK_LOCAL_MEM_FENCE);
  long warps_before = 0;
  *all = 0;
  for (int warp = 0; warp < LANES / 32; ++warp) {
    if (warp == lane / 32) warps_before = *all;
    *all += sums[warp];
  }
  return warps_before + sum - value;
#else
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
#endif
}

/// The largest of what the lanes have given as `value`. All lanes call it; values: LANES of them.
static inline uint largest_of_lanes(__local uint* values, int lane, uint value) {
#if LANES == 32 && defined(PTX_SM_80)
  uint all;  // The work-group is a warp.
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(all) : "r"(value));
  value = all;
#elif LANES > 1
  SYNC(CLK_LOCAL_MEM_FENCE);  // The values before these have been read.
  values[lane] = value;
  SYNC(CLK_LOCAL_MEM_FENCE);
  for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
    if (lane < lanes) values[lane] = max(values[lane], values[lane + lanes]);
    SYNC(CLK_LOCAL_MEM_FENCE);
  }
  value = values[0];
#endif
  return value;
}
