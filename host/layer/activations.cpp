// SPDX-License-Identifier: Apache-2.0
// Bringing A into the form that a layer wants.
#include "host/layer/activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "backends/numerics/casts.h"

namespace ironcl::layer {
namespace {

using checkpoint::LinearLayer;
using numerics::DType;

/// Codes of the layer's fixed scale in place of the values.
void apply_fixed_scale(DType x, float scale, Activations& a) {
  std::vector<std::byte> codes(bytes_of_matrix(a.rule.dtype, a.m, a.k));
  quantize_fixed(x, a.data.data(), scale, a.rule.dtype, codes);
  a.data = std::move(codes);
  a.scales.resize(sizeof scale);
  std::memcpy(a.scales.data(), &scale, sizeof scale);
}

/// A scheme that clips the largest magnitude of a group is the plain one only up to there.
void check_limit(const LinearLayer& layer, DType x, const Activations& a) {
  if (!layer.activation_limit || a.rule.source == DType::none) return;
  std::vector<float> values(static_cast<std::size_t>(a.m * a.k));
  numerics::decode(x, a.data.data(), std::span<float>(values));
  const auto beyond = std::find_if(values.begin(), values.end(),
                                   [&](float value) { return std::fabs(value) > *layer.activation_limit; });
  if (beyond == values.end()) return;
  const std::int64_t at = beyond - values.begin();
  throw checkpoint::Error(
      checkpoint::ErrorKind::unsupported, layer.weight_file, layer.name,
      fmt::format(
          "activation [{}, {}] is {}, beyond the {} at which its scheme clips (activation_scale_ub), which is "
          "not computed here; scale the input down",
          at / a.k, at % a.k, *beyond, *layer.activation_limit));
}

}  // namespace

Activations activations_of_values(const LinearLayer& layer, DType x, std::int64_t m, std::vector<std::byte> values,
                                  std::string origin, std::optional<numerics::ScaleGrid> x_block) {
  if (!numerics::is_float(x)) {
    throw std::invalid_argument(
        fmt::format("activations are {}; those of f32, f16 and bf16 are taken", numerics::name_of(x)));
  }
  if (m < 0 || values.size() != bytes_of_matrix(x, m, layer.k)) {
    throw std::invalid_argument(fmt::format("activations have {} bytes, which is not [{}, {}] of {}", values.size(),
                                            m, layer.k, numerics::name_of(x)));
  }
  Activations a;
  a.m = m;
  a.k = layer.k;
  a.origin = std::move(origin);
  a.rule = activation_rule(layer, x, x_block);
  a.data = std::move(values);
  check_limit(layer, x, a);
  if (a.rule.fixed_scale) apply_fixed_scale(x, *a.rule.fixed_scale, a);
  return a;
}

report::Problem problem_of(const LinearLayer& layer, const Activations& a, DType out,
                           numerics::AccuracyClass weakest) {
  return describe(layer, a.rule, a.m, out, weakest);
}

Operands operands_of(const Activations& a, const LayerWeights& weights) noexcept {
  return {a.data, a.scales, weights.codes, weights.scales, weights.bias};
}

}  // namespace ironcl::layer
