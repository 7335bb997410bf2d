// SPDX-License-Identifier: Apache-2.0
// What the benchmarks of kernels and of grouped products share: a device with its queue, and products in fp8.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/opencl/backend.h"

namespace ironcl::bench {

using backend::DType;

inline constexpr std::int64_t kBlock = 128;

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

inline backend::GemmDesc product(std::int64_t m, std::int64_t n, std::int64_t k, DType source) {
  backend::GemmDesc d;
  d.m = m;
  d.n = d.ldd = n;
  d.k = d.lda = k;
  d.a_source = source;
  d.a = d.b = DType::e4m3fn;
  d.d = DType::bf16;
  d.a_scale = {DType::f32, {1, kBlock}, numerics::ceil_div(k, kBlock)};
  d.b_scale = {DType::f32, {kBlock, kBlock}, numerics::ceil_div(k, kBlock)};
  return d;
}

class Run {
 public:
  explicit Run(std::shared_ptr<backend::Device> device)
      : device_(std::move(device)), queue_(device_->create_queue()) {}

  backend::Span buffer(std::int64_t bytes) {
    return {device_->create_buffer(static_cast<std::uint64_t>(bytes)), 0, static_cast<std::uint64_t>(bytes)};
  }
  template <class T>
  backend::Span upload(const std::vector<T>& values) {
    backend::Span span = buffer(static_cast<std::int64_t>(values.size() * sizeof(T)));
    queue_->write(span, values.data(), backend::HostSemantics::copied_before_return);
    return span;
  }
  std::vector<std::uint8_t> read(const backend::Span& span) {
    std::vector<std::uint8_t> bytes(span.size);
    queue_->read(span, bytes.data());
    queue_->finish();
    return bytes;
  }
  /// Weights [matrices, n, k]: random codes without NaN, or those of one matrix of them.
  std::shared_ptr<backend::Weights> weights(const std::shared_ptr<backend::Gemm>& plan,
                                            const std::vector<std::uint8_t>& codes, const std::vector<float>& scales,
                                            std::int64_t matrix = -1) {
    const backend::GemmDesc& d = plan->desc();
    backend::WeightsDesc w;
    w.dtype = d.b;
    w.n = d.n;
    w.k = w.ld = d.k;
    w.matrices = matrix < 0 ? std::max<std::int64_t>(1, d.matrices) : 1;
    w.scale = d.b_scale;
    const std::int64_t first = std::max<std::int64_t>(matrix, 0);
    w.data = reinterpret_cast<const std::byte*>(codes.data() + first * d.n * d.k);
    w.scales =
        reinterpret_cast<const std::byte*>(scales.data() + first * d.b_scale.grid.scale_rows(d.n) * d.b_scale.ld);
    w.plan = plan;
    return device_->prepare_weights(w);
  }
  backend::Device& device() { return *device_; }
  const std::shared_ptr<backend::Queue>& queue() { return queue_; }

 private:
  std::shared_ptr<backend::Device> device_;
  std::shared_ptr<backend::Queue> queue_;
};

}  // namespace ironcl::bench
