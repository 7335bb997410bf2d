// SPDX-License-Identifier: Apache-2.0
// Large pages: weights, which are read once from end to end, are read faster where a page of memory is 2 MiB and not
// 4 KiB (docs/performance/cpu-experts.md).
#pragma once

#include <cstdint>

namespace ironcl::opencl {

/// Advises the system to back those of `bytes` bytes from `first` on that nobody has touched yet with large pages. A
/// hint: where there is no such thing, or no page is free, nothing happens.
void advise_large_pages(void* first, std::uint64_t bytes) noexcept;

}  // namespace ironcl::opencl
