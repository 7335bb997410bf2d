// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share: bytes taken apart into choices, and claims that end the process where they are broken.
// A target is one file that defines LLVMFuzzerTestOneInput; libFuzzer runs it, or replay.cpp without libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ironcl::fuzz {

/// The input as a stream of choices; what is past its end is zero.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  std::uint8_t byte() { return at_ < size_ ? data_[at_++] : std::uint8_t{0}; }
  /// 0 to `count` - 1.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : byte() % count; }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  template <class T, std::size_t N>
  T of(const T (&menu)[N]) {
    return menu[below(N)];
  }
  std::string_view rest() {
    const std::size_t from = at_ < size_ ? at_ : size_;
    at_ = size_;
    return {reinterpret_cast<const char*>(data_) + from, size_ - from};
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

/// Ends the process where `claim` is not true; `what` says what was claimed.
inline void must(bool claim, const std::string& what) {
  if (claim) return;
  std::fprintf(stderr, "fuzz: broken: %s\n", what.c_str());
  std::abort();
}

}  // namespace ironcl::fuzz
