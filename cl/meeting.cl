// SPDX-License-Identifier: Apache-2.0
// meeting.cl: barriers of the whole grid, of work-groups that all run at once (fused_experts.cl, fused_products.cl, fused_products_wgmma.cl).
// OpenCL does not promise that: nobody waits for ever, and the host tries it before.
// Set by the including file, which includes ptx.cl before: MEETINGS, how many counters of meetings there are; two follow them, of how many
// work-groups have left, and whether one gave up. MEETING_BARRIER(): of the work-items that meet.
#if defined(PTX_SM_90)
#define LEFT MEETINGS
#define GAVE_UP (MEETINGS + 1)
#define LOAD_ACQUIRED(a, p) asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(a) : "l"(p) : "memory")
#define ADD_RELEASED(p) asm volatile("red.release.gpu.global.add.u32 [%0],1;" ::"l"(p) : "memory")

/// Says that this work-group has come: what it has stored can be read by those that meet it. Loads that are asked for between this and
/// meet() hold nothing up; before it a release would wait for them.
static inline void come(__global uint* counters, uint number) {
  MEETING_BARRIER();
  if (get_local_id(0) == 0) ADD_RELEASED(counters + number);
}
/// Until all `groups` work-groups have come. False: one gave up.
static inline bool meet(__global uint* counters, uint number, uint groups, int waits, __local uint* shared) {
  if (get_local_id(0) == 0) {
    uint here = 0, broken = 0;
    for (int i = 0; i < waits && here < groups && broken == 0; ++i) {
      LOAD_ACQUIRED(here, counters + number);
      if ((i & 1023) == 1023) LOAD_ACQUIRED(broken, counters + GAVE_UP);
    }
    if (here < groups) atomic_xchg(counters + GAVE_UP, 1u);
    *shared = here < groups ? 1u : 0u;
  }
  MEETING_BARRIER();
  return *shared == 0;
}
#endif
