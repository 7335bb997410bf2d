// SPDX-License-Identifier: Apache-2.0
// What the benchmarks of experts share: a device with its queue, products of a layer, random operands.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/opencl/backend.h"

namespace ironcl::bench {

using backend::DType;
using backend::Grouping;

constexpr std::int64_t kBlock = 128;

struct Model {
  std::string name;
  std::int64_t experts, top_k, hidden, inner;
};
inline const std::vector<Model> kModels{{"qwen3-30b-a3b", 128, 8, 2048, 768},
                                        {"qwen3-235b-a22b", 128, 8, 4096, 1536},
                                        {"deepseek-v3", 256, 8, 7168, 2048}};

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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

inline backend::GemmDesc grouped(backend::GemmDesc d, std::int64_t matrices, std::int64_t a_rows = 0) {
  d.grouping = Grouping::contiguous;
  d.matrices = matrices;
  d.a_rows = a_rows;
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

inline std::vector<std::uint8_t> random_codes(std::int64_t count, std::uint32_t seed) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  std::mt19937_64 random(seed);
  std::size_t i = 0;
  for (; i + 8 <= codes.size(); i += 8) {
    const std::uint64_t bits = random() & 0xb7b7b7b7b7b7b7b7ull;  // No NaN, magnitudes of at most 15.
    std::memcpy(codes.data() + i, &bits, 8);
  }
  return codes;
}

inline std::vector<std::uint16_t> random_bf16(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (auto& v : values) v = static_cast<std::uint16_t>((random() & 0x807fu) | 0x3f00u);
  return values;
}

/// The largest difference of two bf16 matrices in units of the largest value.
inline double difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size() / 2; ++i) {
    const double x = numerics::load_as_f64(DType::bf16, a.data(), static_cast<std::int64_t>(i));
    const double y = numerics::load_as_f64(DType::bf16, b.data(), static_cast<std::int64_t>(i));
    largest = std::max(largest, std::fabs(x));
    apart = std::max(apart, std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : INFINITY);
  }
  return apart / std::max(largest, 1e-30);
}

using Options = std::vector<std::pair<std::string, std::string>>;

struct LayerSettings {
  Model model;
  std::int64_t experts = 0;  ///< That are there, of the model's.
  std::vector<std::int64_t> tokens;
  int rounds = 9;
  Options options;  ///< Of the grouped products' plans.
};

/// The products of a layer beside a loop of dense plans, and the whole layer, for each number of tokens.
void compare_layer(Run& run, const LayerSettings& settings);

}  // namespace ironcl::bench
