// SPDX-License-Identifier: Apache-2.0
// The first step of a grouped plan whose form of A does not deal by itself: deals rows into tiles and blocks,
// cl/deal.cl.
#pragma once

#include "backends/opencl/arguments.h"
#include "backends/opencl/dealing.h"
#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Books the lists for tiles and blocks of `shape`.
Place book_dealt(const DealtShape& shape, const Making& making);
/// The step that fills them.
std::unique_ptr<Step> deal_step(const DealtShape& shape, const Making& making);

/// Binds DEALT_LIST of cl/arguments.cl, from argument `first` on; returns the number of the argument after them.
inline cl_uint set_dealt(cl::Kernel& kernel, cl_uint first, const Call& call, const Place& at) {
  bind_memory<DealtArg::dealt_memory>(kernel, call.at(at), 4, first);
  return first + kCountOf<DealtArg>;
}

/// The same for GATHER_LIST.
inline cl_uint set_gather(cl::Kernel& kernel, cl_uint first, const Call& call) {
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
