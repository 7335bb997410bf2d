// SPDX-License-Identifier: Apache-2.0
// stretches.cl: how work-groups that stay share columns of D. Each takes stretches of neighbouring units from a counter: long ones
// first, so that it reads weights in one stream, short ones at last, so that all end together and a core that comes late or is slow
// takes less. Which work-group makes a unit changes nothing in it. Next door: tile.cl (EACH_UNIT, blocks one by one).
// The counter is two words in place of scratch, zero before a launch and after it: units taken, and work-groups that are done. Words that
// count a call by its number (one_launch.cl) need not be zero, but are of 64 bits, for which atomics are an extension that not every
// processor's driver has.
// Set by the host: CORES.

#define COUNTER ((volatile __global uint*)(scratch + scratch_at))

/// Units [first, end); none where they are equal.
typedef struct {
  uint first, end;
} stretch;

/// The next stretch of `units`: half of what is left, shared among the cores.
static inline stretch take_stretch(volatile __global uint* counter, uint units) {
  uint at = 0;
  while (at < units) {
    const uint count = max(1u, (units - at) / (2u * CORES));
    const uint found = atomic_cmpxchg(counter, at, at + count);
    if (found == at) return (stretch){at, at + count};
    at = found;
  }
  return (stretch){units, units};
}

/// After a work-group's last stretch: the last one leaves the counter as it was found.
static inline void end_of_stretches(volatile __global uint* counter) {
  if (atomic_inc(counter + 1) + 1 < (uint)(get_num_groups(0) * get_num_groups(1))) return;
  atomic_xchg(counter, 0u);
  atomic_xchg(counter + 1, 0u);
}

/// The statement after it is done for each `column` of `taken`, the first stretch of this work-group, and of those that it takes then.
#define EACH_COLUMN_FROM(taken, columns)                                                      \
  for (; (taken).first < (taken).end; taken = take_stretch(COUNTER, (uint)(columns)))         \
    for (uint column = (taken).first; column < (taken).end; ++column)
