// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/large_pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cstddef>

namespace ironcl::opencl {

void advise_large_pages(void* first, std::uint64_t bytes) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(first), end = begin + bytes;
  const std::uintptr_t first_page = (begin + page - 1) / page * page, end_page = end / page * page;
  if (first_page < end_page)
    madvise(static_cast<std::byte*>(first) + (first_page - begin), end_page - first_page, MADV_HUGEPAGE);
#else
  static_cast<void>(first);
  static_cast<void>(bytes);
#endif
}

}  // namespace ironcl::opencl
