// SPDX-License-Identifier: Apache-2.0
// lanes.cl: the one work-group of the small kernels between products (choose_experts.cl, schedule.cl, sort_rows.cl).
#ifndef LANES
#define LANES 1
#endif
// One work-item waits for nobody; PoCL 3.1 goes wrong where a work-group returns before a barrier.
#if LANES > 1
#define SYNC(fence) barrier(fence)
#else
#define SYNC(fence)
#endif
