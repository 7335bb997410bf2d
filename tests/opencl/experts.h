// SPDX-License-Identifier: Apache-2.0
// What the tests of the steps of a layer of experts share: buffers of one test on one device, full of canaries.
#pragma once

#include "backends/numerics/casts.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {

constexpr std::uint8_t kCanary = 0xee;

/// Buffers of one test on one device.
class Bench {
 public:
  explicit Bench(backend::Device& device) : device_(device), queue_(device.create_queue()) {}

  template <class T>
  backend::Span put(const std::vector<T>& values) {
    const std::uint64_t at = device_.props().buffer_alignment;
    const backend::Span span{device_.create_buffer(at + values.size() * sizeof(T) + 1), at,
                             values.size() * sizeof(T)};
    if (!values.empty()) queue_->write(span, values.data(), backend::HostSemantics::copied_before_return);
    return span;
  }
  template <class T>
  std::vector<T> get(const backend::Span& span) {
    std::vector<T> values(span.size / sizeof(T));
    if (!values.empty()) queue_->read(span, values.data());
    queue_->finish();
    return values;
  }
  template <class T>
  backend::Span canaries(std::size_t count) {
    return put(std::vector<std::uint8_t>(count * sizeof(T), kCanary));
  }
  const std::shared_ptr<backend::Queue>& queue() const { return queue_; }

 private:
  backend::Device& device_;
  std::shared_ptr<backend::Queue> queue_;
};

inline std::vector<std::uint8_t> typed(backend::DType type, const std::vector<float>& values) {
  std::vector<std::uint8_t> bytes(values.size() * numerics::size_of(type));
  numerics::encode(type, values, bytes.data());
  return bytes;
}

}  // namespace ironcl::opencl::testing
