// SPDX-License-Identifier: Apache-2.0
// Kernels for few rows whose work-groups stay, one for each core (cl/stretches.cl): each quantises all activations
// once and keeps them. Next door: variants/gemm_stream.cpp, variants/gemm_stream_bf16.cpp.
#pragma once

#include <bit>

#include "backends/opencl/variant.h"

namespace ironcl::opencl {

constexpr int kMostPersistentGroups = 128;
constexpr std::int64_t kMostPersistentBytes =
    128 << 10;  ///< Well within a core's second cache, and any local memory of one.

/// For how many K groups of `rows` rows, `group_bytes` each, a work-group of `p` has room: a power of two, so that
/// problems share programs; 0 where it does not stay. Of several tiles of rows each is multiplied with columns that
/// are decoded once; activations that come quantised need no keeping.
inline int persistent_groups(const Problem& p, std::int64_t rows, std::int64_t group_bytes) {
  const std::int64_t groups = p.k_groups();
  if (p.a_source == backend::DType::none || p.m > rows || p.mean_rows_per_expert > 0 || p.grouped() || p.gathers)
    return 0;
  if (groups < 1 || groups > kMostPersistentGroups) return 0;
  const auto room = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(groups)));
  return rows * room * group_bytes <= kMostPersistentBytes ? static_cast<int>(room) : 0;
}

/// The one pass of such a kernel.
inline Pass pass_of_cores(const char* kernel, const Features& f) {
  return {kernel, {1, static_cast<std::size_t>(f.compute_units)}, 1};
}

}  // namespace ironcl::opencl
