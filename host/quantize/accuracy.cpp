// SPDX-License-Identifier: Apache-2.0
#include "host/quantize/accuracy.h"

#include <fmt/format.h>

#include <bit>

#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"

namespace ironcl::quantize {
namespace {

/// Values after going in and out of a scheme.
struct Quantized {
  std::vector<float> values;
  std::int64_t code_bytes = 0, scale_bytes = 0;
};

Quantized in_and_out(const Scheme& scheme, std::span<const float> x, std::int64_t rows, std::int64_t cols) {
  const auto amax = std::bit_cast<float>(numerics::largest_magnitude_bits(x));
  Quantized made{std::vector<float>(x.size()), rows * numerics::bytes_of(scheme.code, cols),
                 scheme.grid.scale_rows(rows) * scheme.grid.scale_cols(cols) * numerics::size_of(scheme.scale)};
  std::vector<std::byte> codes(static_cast<std::size_t>(made.code_bytes)),
      scales(static_cast<std::size_t>(made.scale_bytes));
  encode(scheme, x, rows, cols, amax, {codes, scales});
  decode(scheme, codes, scales, rows, cols, global_scale(scheme, amax), made.values);
  if (scheme.global) made.scale_bytes += 4;
  return made;
}

/// y [m, rows] of x [m, k] and every step-th row of w.
std::vector<double> product(std::span<const float> w, std::span<const float> x, std::int64_t m, std::int64_t k,
                            std::int64_t rows, std::int64_t step) {
  return numerics::oracle({DType::f32, x.data(), m, k, k}, {DType::f32, w.data(), rows, k, step * k}).value;
}

double nmse(const std::vector<double>& got, const std::vector<double>& want) {
  double noise = 0, signal = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    noise += (got[i] - want[i]) * (got[i] - want[i]);
    signal += want[i] * want[i];
  }
  return signal == 0 ? 0 : noise / signal;
}

bool takes(const Scheme& scheme, std::int64_t k) {
  return scheme.code != DType::e2m1 || k % scheme.grid.group_cols == 0;
}

}  // namespace

const std::vector<Method>& methods() {
  static const std::vector<Method> all = [] {
    std::vector<Method> made;
    const auto add = [&made](const std::string& name, DType code, ScaleGrid grid, DType scale = DType::f32) {
      const ScaleGrid tokens = grid == ScaleGrid{0, 0} ? grid : ScaleGrid{1, grid.group_cols};
      made.push_back({name, {code, grid, scale}, {code, tokens, scale}});
    };
    for (const DType code : {DType::e4m3fn, DType::e5m2, DType::i8}) {
      const std::string type = code == DType::e4m3fn ? "e4m3" : code == DType::e5m2 ? "e5m2" : "int8";
      add(type + " per tensor", code, {0, 0});
      add(type + " per channel", code, {1, 0});
      if (code != DType::e5m2) add(type + " 1x128", code, {1, 128});
      for (const std::int64_t block : {512, 256, 128, 64, 32}) {
        if (code == DType::e5m2 && block != 128) continue;
        add(fmt::format("{} {}x{}", type, block, block), code, {block, block});
      }
    }
    add("e4m3 128x128, e8m0", DType::e4m3fn, {128, 128}, DType::e8m0);
    for (const char* name : {"mxfp8", "mxfp4", "nvfp4"}) {
      const Scheme scheme = make_format({.scheme = name}).scheme;
      made.push_back({name, scheme, scheme});
    }
    return made;
  }();
  return all;
}

std::vector<Accuracy> measure(std::span<const float> w, std::int64_t n, std::int64_t k, std::span<const float> x,
                              std::int64_t m, std::int64_t rows) {
  rows = std::min(rows, n);
  const std::int64_t step = rows == 0 ? 1 : n / rows;
  const std::vector<double> want = product(w, x, m, k, rows, step);
  std::vector<Accuracy> results;
  for (const Method& method : methods()) {
    if (!takes(method.weights, k)) continue;
    const Quantized weights = in_and_out(method.weights, w, n, k);
    const Quantized activations = in_and_out(method.activations, x, m, k);
    Accuracy& result = results.emplace_back();
    result.method = &method;
    result.weights.add(w, weights.values);
    result.output = nmse(product(weights.values, x, m, k, rows, step), want);
    result.output_both = nmse(product(weights.values, activations.values, m, k, rows, step), want);
    result.code_bytes = weights.code_bytes;
    result.scale_bytes = weights.scale_bytes;
  }
  return results;
}

}  // namespace ironcl::quantize
