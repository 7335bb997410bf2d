// SPDX-License-Identifier: Apache-2.0
// Spans of calls with guards around them.
#include "tests/conformance/suite/parts.h"

#include <algorithm>

namespace ironcl::conformance {
namespace {

Part placed(Context& c, ironcl_queue queue, std::uint64_t size, std::span<const std::byte> bytes) {
  Part out;
  const std::uint64_t alignment = std::max<std::uint64_t>(props_of(c).buffer_alignment, 16);
  out.offset = (kGuard + alignment - 1) / alignment * alignment;
  out.size = size;
  std::vector<std::byte> whole(out.offset + size + kGuard, kPattern);
  std::copy(bytes.begin(), bytes.end(), whole.begin() + static_cast<std::ptrdiff_t>(out.offset));
  out.buffer = make_buffer(c, whole.size());
  upload(c, queue, out.buffer.get(), 0, whole);
  return out;
}

void expect_pattern(const std::vector<std::byte>& whole, std::uint64_t offset, const char* name) {
  const auto changed = std::find_if(whole.begin(), whole.end(), [](std::byte b) { return b != kPattern; });
  EXPECT_EQ(changed, whole.end()) << "byte " << (changed - whole.begin()) - static_cast<std::ptrdiff_t>(offset)
                                  << " of the span of " << name << " was written, which is not of the matrix";
}

}  // namespace

Part part(Context& c, ironcl_queue queue, std::uint64_t size) {
  return placed(c, queue, std::max<std::uint64_t>(size, 1), {});
}

Part part(Context& c, ironcl_queue queue, std::span<const std::byte> bytes) {
  return placed(c, queue, std::max<std::uint64_t>(bytes.size(), 1), bytes);
}

std::vector<std::byte> fetch(Context& c, ironcl_queue queue, const Part& from, const char* name) {
  std::vector<std::byte> whole = download(c, queue, from.buffer.get(), 0, from.offset + from.size + kGuard);
  const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(from.offset);
  const auto end = begin + static_cast<std::ptrdiff_t>(from.size);
  std::vector<std::byte> out(begin, end);
  std::fill(begin, end, kPattern);
  expect_pattern(whole, from.offset, name);
  return out;
}

std::vector<std::byte> collect(Context& c, ironcl_queue queue, const Part& from, std::int64_t rows, std::int64_t cols,
                               std::int64_t ld, std::size_t element, const char* name) {
  std::vector<std::byte> whole = download(c, queue, from.buffer.get(), 0, from.offset + from.size + kGuard);
  std::vector<std::byte> tight;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin =
        whole.begin() + static_cast<std::ptrdiff_t>(from.offset) + row * ld * static_cast<std::ptrdiff_t>(element);
    const auto end = begin + cols * static_cast<std::ptrdiff_t>(element);
    tight.insert(tight.end(), begin, end);
    std::fill(begin, end, kPattern);
  }
  expect_pattern(whole, from.offset, name);
  return tight;
}

std::uint64_t extent(std::int64_t rows, std::int64_t ld, std::int64_t cols, std::size_t element) {
  return rows == 0 ? element : static_cast<std::uint64_t>((rows - 1) * ld + cols) * element;
}

}  // namespace ironcl::conformance
