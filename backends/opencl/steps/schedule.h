// SPDX-License-Identifier: Apache-2.0
// The first step of a grouped plan whose form of A does not schedule by itself: schedules rows into tiles and blocks,
// cl/schedule.cl.
#pragma once

#include "backends/opencl/arguments.h"
#include "backends/opencl/form.h"
#include "backends/opencl/schedule.h"

namespace ironcl::opencl {

/// Books the lists for tiles and blocks of `shape`.
Place book_schedule(const ScheduleShape& shape, const PlanContext& plan);
/// The step that fills them.
std::unique_ptr<Step> schedule_step(const ScheduleShape& shape, const PlanContext& plan);

/// Binds SCHEDULE_LIST of cl/arguments.cl, from argument `first` on; returns the number of the argument after them.
inline cl_uint bind_schedule(cl::Kernel& kernel, cl_uint first, const Call& call, const Place& at) {
  bind_memory<ScheduleArg::schedule_memory>(kernel, call.at(at), 4, first);
  return first + kCountOf<ScheduleArg>;
}

/// The same for GATHER_LIST.
inline cl_uint bind_gather(cl::Kernel& kernel, cl_uint first, const Call& call) {
  bind_memory<GatherArg::a_index>(kernel, call.at({Source::a_index, 0}), 4, first);
  bind<GatherArg::a_rows>(kernel, call.a_rows, first);
  return first + kCountOf<GatherArg>;
}

/// Work-groups that are launched beside `width` others for so many tiles or blocks, 65536 in all if that leaves one.
/// Kernels of a grouped problem take several in turn: what could be there and is not costs no launch of its own.
inline std::size_t at_once(const Problem& p, std::int64_t count, std::size_t width) {
  constexpr std::int64_t kMost = 65536;
  if (!p.grouped()) return static_cast<std::size_t>(count);
  return static_cast<std::size_t>(
      std::min(count, std::max<std::int64_t>(1, kMost / static_cast<std::int64_t>(width))));
}

}  // namespace ironcl::opencl
