// SPDX-License-Identifier: Apache-2.0
// Spans of calls with guards around them, for the steps that are no plans. Next door: rig.h (plans).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/conformance/suite/rig.h"

namespace ironcl::conformance {

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// `size` bytes in a buffer, with guards of kPattern on both sides.
struct Part {
  Buffer buffer;
  std::uint64_t offset = 0, size = 0;
  ironcl_span span() const { return {buffer.get(), offset, size}; }
};

inline constexpr std::byte kPattern{0x5a};

/// Of kPattern alone: what nobody writes stays that. At least one byte.
Part part(Context& c, ironcl_queue queue, std::uint64_t size);
/// Of these bytes.
Part part(Context& c, ironcl_queue queue, std::span<const std::byte> bytes);

/// The bytes of a part; adds a failure where a guard has changed. `name` says whose.
std::vector<std::byte> fetch(Context& c, ironcl_queue queue, const Part& from, const char* name);

/// The tight matrix in a part; everything else there must still be the pattern.
std::vector<std::byte> collect(Context& c, ironcl_queue queue, const Part& from, std::int64_t rows, std::int64_t cols,
                               std::int64_t ld, std::size_t element, const char* name);

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  // memcpy refuses a null pointer even for no bytes.
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Bytes of rows x cols elements with `ld` between rows; at least one element.
std::uint64_t extent(std::int64_t rows, std::int64_t ld, std::int64_t cols, std::size_t element);

}  // namespace ironcl::conformance
