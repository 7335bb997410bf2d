// SPDX-License-Identifier: Apache-2.0
// Operands, a call through the interface, the verdict.
#include "tests/ironwood/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backends/ironwood/backend.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"

namespace ironcl::ironwood::testing {
namespace {

using backend::Span;

std::vector<std::byte> encoded(DType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * numerics::size_of(type));
  numerics::encode(type, values, bytes.data(), numerics::Overflow::saturate);
  return bytes;
}

std::vector<float> scales(const ScaleGrid& grid, std::int64_t rows, std::int64_t cols, std::mt19937_64& random) {
  std::vector<float> values(static_cast<std::size_t>(grid.scale_rows(rows) * grid.scale_cols(cols)));
  for (float& value : values) {
    value = std::ldexp(1.0f + static_cast<float>(random() % 1024) / 1024.0f, static_cast<int>(random() % 20) - 12);
  }
  return values;
}

std::vector<std::byte> scale_bytes(DType type, const std::vector<float>& values) {
  if (type != DType::e8m0) return encoded(type, values);
  std::vector<std::byte> bytes;
  for (const float value : values) bytes.push_back(static_cast<std::byte>(numerics::encode_e8m0(value)));
  return bytes;
}

}  // namespace

backend::Device& device() {
  static const auto backend = make_backend(nullptr);
  static const auto only = backend->devices().at(0);
  return *only;
}

std::string print(const Case& c) {
  std::string text = fmt::format(
      "{}x{}x{} x={}{}{} {}x{}:{} w={} {}x{}:{} d={} bias={} seed={}", c.m, c.n, c.k, numerics::name_of(c.x),
      c.quantize ? " quantised to " : "", c.quantize ? numerics::name_of(c.code) : "", c.x_grid.group_rows,
      c.x_grid.group_cols, numerics::name_of(c.x_scale), numerics::name_of(c.w), c.w_grid.group_rows,
      c.w_grid.group_cols, numerics::name_of(c.w_scale), numerics::name_of(c.d), numerics::name_of(c.bias), c.seed);
  for (const auto& [key, value] : c.options) text += fmt::format(" {}={}", key, value);
  return text;
}

backend::GemmDesc desc_of(const Case& c) {
  backend::GemmDesc desc;
  desc.m = c.m, desc.n = c.n, desc.k = c.k;
  desc.lda = c.k, desc.ldd = c.n;
  desc.a_source = c.quantize ? c.x : DType::none;
  desc.a = c.quantize ? c.code : c.x;
  desc.b = c.w;
  desc.d = c.d;
  desc.bias = c.bias;
  if (c.quantize || numerics::is_quantized(c.x)) {
    desc.a_scale = {.dtype = c.quantize ? DType::f32 : c.x_scale, .grid = c.x_grid, .ld = c.x_grid.scale_cols(c.k)};
  }
  desc.b_scale = {.dtype = c.w_scale, .grid = c.w_grid, .ld = c.w_grid.scale_cols(c.k)};
  desc.options = c.options;
  return desc;
}

Data make_data(const Case& c) {
  std::mt19937_64 random(c.seed);
  std::normal_distribution<float> normal;
  Data data;
  std::vector<float> x(static_cast<std::size_t>(c.m * c.k)), w(static_cast<std::size_t>(c.n * c.k));
  for (float& value : x) value = normal(random) * (numerics::is_quantized(c.x) ? 50.0f : 1.0f);
  for (float& value : w) value = normal(random) * 50.0f;
  if (!numerics::is_quantized(c.x)) {  // outliers, so that groups differ
    for (std::size_t i = 0; i < x.size(); i += 97) x[i] *= 64.0f;
  }
  data.x = encoded(c.x, x);
  data.w = encoded(c.w, w);
  if (numerics::is_quantized(c.x)) data.x_scales = scale_bytes(c.x_scale, scales(c.x_grid, c.m, c.k, random));
  data.w_scales = scale_bytes(c.w_scale, scales(c.w_grid, c.n, c.k, random));
  if (c.bias != DType::none) {
    std::vector<float> bias(static_cast<std::size_t>(c.n));
    for (float& value : bias) value = normal(random);
    data.bias = encoded(c.bias, bias);
  }
  return data;
}

std::shared_ptr<backend::Weights> prepare(const Case& c, const Data& data, std::optional<ScaleGrid> grid) {
  backend::WeightsDesc weights;
  weights.dtype = c.w;
  weights.n = c.n, weights.k = c.k, weights.ld = c.k;
  weights.scale = desc_of(c).b_scale;
  if (grid) weights.scale = {.dtype = c.w_scale, .grid = *grid};
  weights.data = data.w.data();
  weights.scales = data.w_scales.data();
  return device().prepare_weights(weights);
}

std::vector<std::byte> run(const Case& c, const Data& data) { return run(desc_of(c), data, c.m); }

std::vector<std::byte> run(const backend::GemmDesc& desc, const Data& data, std::int64_t rows,
                           const std::vector<std::int32_t>& counts, const std::vector<std::int32_t>& a_index) {
  const auto queue = device().create_queue();
  const auto upload = [&]<class T>(const std::vector<T>& values) -> Span {
    if (values.empty()) return {};
    const auto size = values.size() * sizeof(T);
    Span span{.buffer = device().create_buffer(size), .offset = 0, .size = size};
    queue->write(span, values.data(), backend::HostSemantics::copied_before_return);
    return span;
  };
  const auto gemm = device().create_gemm(desc);
  backend::WeightsDesc weights;
  weights.dtype = desc.b;
  weights.n = desc.n, weights.k = desc.k, weights.ld = desc.k;
  weights.matrices = std::max<std::int64_t>(1, desc.matrices);
  weights.scale = desc.b_scale;
  weights.data = data.w.data();
  weights.scales = data.w_scales.data();
  weights.plan = gemm;
  backend::GemmArgs args;
  args.m = desc.m;
  args.a_rows = desc.a_rows;
  args.weights = device().prepare_weights(weights);
  args.a = upload(data.x);
  args.a_scale = upload(data.x_scales);
  args.bias = upload(data.bias);
  args.matrix_rows = upload(counts);
  args.a_index = upload(a_index);
  std::vector<std::byte> d(static_cast<std::size_t>(rows * desc.n) * numerics::size_of(desc.d), kCanary);
  args.d = upload(d);
  gemm->enqueue(queue, args)->wait(std::chrono::nanoseconds::max());
  if (!d.empty()) queue->read(args.d, d.data())->wait(std::chrono::nanoseconds::max());
  return d;
}

numerics::OracleResult want(const Case& c, const Data& data) {
  numerics::Operand a{.dtype = c.x, .data = data.x.data(), .rows = c.m, .cols = c.k, .ld = c.k};
  std::vector<std::uint8_t> q;
  std::vector<float> q_scales;
  if (c.quantize) {
    q.resize(static_cast<std::size_t>(c.m * c.k));
    q_scales.resize(static_cast<std::size_t>(c.x_grid.scale_rows(c.m) * c.x_grid.scale_cols(c.k)));
    numerics::quantize(c.x, data.x.data(), c.m, c.k, c.k, c.code, c.x_grid, {}, q, q_scales);
    a.dtype = c.code;
    a.data = q.data();
    a.scale_dtype = DType::f32;
    a.scales = q_scales.data();
  } else if (numerics::is_quantized(c.x) && c.x_scale != DType::none) {
    a.scale_dtype = c.x_scale;
    a.scales = data.x_scales.data();
  }
  a.grid = c.x_grid;
  a.scale_ld = c.x_grid.scale_cols(c.k);
  const numerics::Operand b{.dtype = c.w,
                            .data = data.w.data(),
                            .rows = c.n,
                            .cols = c.k,
                            .ld = c.k,
                            .scale_dtype = c.w_scale,
                            .scales = data.w_scales.data(),
                            .grid = c.w_grid,
                            .scale_ld = c.w_grid.scale_cols(c.k)};
  return numerics::oracle(a, b, c.bias, data.bias.data());
}

std::vector<double> as_f64(DType type, const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / numerics::size_of(type));
  numerics::decode(type, bytes.data(), std::span<double>(values));
  return values;
}

numerics::Comparison check(const Case& c, const Data& data) {
  const auto info = device().create_gemm(desc_of(c))->info();
  return numerics::compare(as_f64(c.d, run(c, data)), want(c, data),
                           {.out = c.d, .k = c.k, .accumulation_length = info.accumulation_length});
}

numerics::Comparison check(const Case& c) { return check(c, make_data(c)); }

}  // namespace ironcl::ironwood::testing
