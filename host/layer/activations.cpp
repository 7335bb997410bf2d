// SPDX-License-Identifier: Apache-2.0
// Bringing A into the form that a layer wants, and reading it.
#include "host/layer/activations.h"

#include <cmath>

#include "host/checkpoint/matrix.h"
#include "host/layer/synthetic.h"

namespace ironcl::layer {
namespace {

using checkpoint::ActivationScheme;
using checkpoint::ErrorKind;
using checkpoint::LinearLayer;
using checkpoint::Matrix;
using numerics::DType;
using numerics::ScaleGrid;

constexpr std::int64_t kMadeUpRows = 16;

std::vector<std::byte> bytes_of_rows(const checkpoint::Tensor& tensor, std::int64_t rows, std::int64_t cols) {
  const std::size_t bytes = bytes_of_matrix(tensor.dtype, rows, cols);
  return {tensor.data.begin(), tensor.data.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

/// The rows of `matrix` that are used; checks both dimensions.
std::int64_t rows_of(const Matrix& matrix, const ActivationSource& source, const LinearLayer& layer) {
  if (matrix.cols != layer.k)
    throw checkpoint::Error(ErrorKind::shape, matrix.tensor,
                            "is {}, but layer {} takes K = {} columns; name a layer that fits with --layer",
                            matrix.tensor.shape_text(), layer.name, layer.k);
  if (source.m && *source.m > matrix.rows)
    throw checkpoint::Error(ErrorKind::shape, matrix.tensor, "is {}, which has fewer rows than --m {}",
                            matrix.tensor.shape_text(), *source.m);
  return source.m.value_or(matrix.rows);
}

/// What devices are given of values of `type`: the same where they take it, else what holds them best.
DType type_for(DType type) noexcept {
  if (numerics::is_float(type)) return type;
  return type == DType::f64 ? DType::f32 : DType::bf16;  // eight bits fit bf16 exactly
}

/// Values of type `from`, rounded to nearest even to `to` where that is narrower.
std::vector<std::byte> in_type(std::vector<std::byte> values, DType from, DType to) {
  if (from == to) return values;
  const std::vector<float> decoded = values_of<float>(from, values);
  std::vector<std::byte> encoded(decoded.size() * numerics::size_of(to));
  numerics::encode(to, decoded, encoded.data());
  return encoded;
}

Activations from_file(const ActivationSource& source, const LinearLayer& layer) {
  const auto ref = checkpoint::parse_tensor_ref(source.input, 1);
  const Matrix x = checkpoint::load_matrix(ref.file, ref.tensors[0]);
  const std::int64_t m = rows_of(x, source, layer);
  const DType type = source.x_dtype.value_or(type_for(x.tensor.dtype));
  return activations_of_values(layer, {.m = m, .x = type, .x_block = source.x_block},
                               in_type(bytes_of_rows(x.tensor, m, layer.k), x.tensor.dtype, type),
                               fmt::format("{} of {}", ref.tensors[0], ref.file.filename().string()));
}

/// The grid of given scales: what the caller, the file or the layer says.
ScaleGrid grid_of_scales(const ActivationSource& source, const Matrix& codes, const std::string& name,
                         const LinearLayer& layer) {
  if (source.x_block) return *source.x_block;
  if (const std::string* said = codes.tensor.metadata("x_group")) {
    try {
      return report::parse_grid(*said);
    } catch (const report::ProblemError& error) {
      throw checkpoint::Error(ErrorKind::config, codes.file.path(), {}, "metadata x_group: {}", error.what());
    }
  }
  if (layer.activations == ActivationScheme::dynamic) return layer.activation_grid;
  throw checkpoint::Error(ErrorKind::ambiguous, codes.file.path(), name,
                          "has scales of a block that neither the file nor the layer says; say it with --x-block, "
                          "such as --x-block 1x128");
}

Activations from_codes(const ActivationSource& source, const LinearLayer& layer) {
  const auto ref = checkpoint::parse_tensor_ref(source.input_q, 2);
  const Matrix codes = checkpoint::load_matrix(ref.file, ref.tensors[0]);
  if (!numerics::is_quantized(codes.tensor.dtype))
    throw checkpoint::Error(ErrorKind::dtype, codes.tensor,
                            "is {}; --input-q takes e4m3fn, e5m2 or i8 (--input takes f32, f16, bf16)",
                            numerics::name_of(codes.tensor.dtype));
  Activations a;
  a.problem = describe(layer, {.m = rows_of(codes, source, layer)});
  a.origin = fmt::format("{} and {} of {}", ref.tensors[0], ref.tensors[1], ref.file.filename().string());
  a.data = bytes_of_rows(codes.tensor, a.problem.m, layer.k);
  const ScaleGrid grid = grid_of_scales(source, codes, ref.tensors[1], layer);
  const Matrix scales = checkpoint::load_scales(ref.file, ref.tensors[1], codes.rows, codes.cols, grid);
  a.problem.a_source = DType::none;
  a.problem.a = codes.tensor.dtype;
  a.problem.a_scale = {scales.tensor.dtype, grid};
  a.problem.a_quantizer = {};
  a.scales = bytes_of_rows(scales.tensor, grid.scale_rows(a.problem.m), grid.scale_cols(layer.k));
  return a;
}

/// A scheme that clips the largest magnitude of a group is the plain one only up to there.
void check_limit(const LinearLayer& layer, const Activations& a) {
  if (!layer.activation_limit || a.problem.a_source == DType::none) return;
  const std::vector<float> values = values_of<float>(a.problem.a_source, a.data);
  const auto beyond =
      std::ranges::find_if(values, [&](float value) { return std::fabs(value) > *layer.activation_limit; });
  if (beyond == values.end()) return;
  const std::int64_t at = beyond - values.begin();
  throw checkpoint::Error(checkpoint::ErrorKind::unsupported, layer.weight.file(), layer.name,
                          "activation [{}, {}] is {}, beyond the {} at which its scheme clips (activation_scale_ub), "
                          "which is not computed here; scale the input down",
                          at / layer.k, at % layer.k, *beyond, *layer.activation_limit);
}

}  // namespace

Activations activations_of_values(const LinearLayer& layer, const ProblemChoices& choices,
                                  std::vector<std::byte> values, std::string origin) {
  Activations a{std::move(origin), describe(layer, choices), std::move(values), {}};
  check_limit(layer, a);
  if (a.problem.a_quantizer.given) {
    const auto scale = static_cast<float>(layer.input_scale->number(0));
    a.scales = bytes_of(std::span(&scale, 1));
  }
  return a;
}

Operands operands_of(const Activations& a, const LayerWeights& weights) noexcept {
  return {a.data, a.scales, weights.codes, weights.scales, weights.bias, {}, weights.global};
}

Activations load_activations(const ActivationSource& source, const LinearLayer& layer) {
  if (source.weight_only && layer.activations != ActivationScheme::none) {
    LinearLayer unquantized = layer;
    unquantized.activations = ActivationScheme::none;
    return load_activations(source, unquantized);
  }
  if (!source.input.empty()) return from_file(source, layer);
  if (!source.input_q.empty()) return from_codes(source, layer);
  const std::int64_t m = source.m.value_or(kMadeUpRows);
  const DType type = source.x_dtype.value_or(DType::bf16);
  std::vector<std::byte> x = bytes_of(heavy_tailed_activations(m, layer.k, source.seed));
  return activations_of_values(
      layer, {.m = m, .x = type, .x_block = source.x_block}, in_type(std::move(x), DType::bf16, type),
      fmt::format("random (heavy-tailed {}, seed {})", numerics::name_of(type), source.seed));
}

Expectation load_expectation(const std::string& text, std::int64_t m, std::int64_t n) {
  const auto ref = checkpoint::parse_tensor_ref(text, 1);
  const Matrix matrix = checkpoint::load_matrix(ref.file, ref.tensors[0]);
  if (matrix.rows != m || matrix.cols != n)
    throw checkpoint::Error(ErrorKind::shape, matrix.tensor,
                            "is {}, but the result is [{}, {}]; an expectation has the shape of the result",
                            matrix.tensor.shape_text(), m, n);
  if (matrix.tensor.dtype != DType::f64 && !numerics::is_float(matrix.tensor.dtype))
    throw checkpoint::Error(ErrorKind::dtype, matrix.tensor, "is {}; an expectation is f64, f32, bf16 or f16",
                            numerics::name_of(matrix.tensor.dtype));
  return {ref.tensors[0], matrix.tensor.dtype, matrix.to_f64()};
}

}  // namespace ironcl::layer
