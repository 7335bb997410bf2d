// SPDX-License-Identifier: Apache-2.0
// A layer of a checkpoint as a problem.
#include "host/layer/layer_problem.h"

namespace ironcl::layer {

using checkpoint::ActivationScheme;
using checkpoint::LinearLayer;
using numerics::DType;

namespace {

/// [rows, cols] of elements of `width` bytes, from [cols, rows].
std::vector<std::byte> turn(std::span<const std::byte> from, std::size_t rows, std::size_t cols, std::size_t width) {
  constexpr std::size_t kTile = 64;  // both sides of a tile stay in a cache
  std::vector<std::byte> to(from.size());
  for (std::size_t row = 0; row < rows; row += kTile)
    for (std::size_t col = 0; col < cols; col += kTile)
      for (std::size_t r = row; r < std::min(row + kTile, rows); ++r)
        for (std::size_t c = col; c < std::min(col + kTile, cols); ++c)
          std::copy_n(from.data() + (c * rows + r) * width, width, to.data() + (r * cols + c) * width);
  return to;
}

/// Codes of compressed-tensors' weight_packed: 128 less, without the bytes that fill a row's last word.
std::vector<std::byte> unpack(std::span<const std::byte> from, std::size_t rows, std::size_t cols) {
  const std::size_t stride = rows == 0 ? 0 : from.size() / rows;
  std::vector<std::byte> to(rows * cols);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t col = 0; col < cols; ++col) to[row * cols + col] = from[row * stride + col] ^ std::byte{0x80};
  return to;
}

/// What zero points leave of codes [n, k]: whole numbers up to 256, which bf16 holds.
std::vector<std::byte> less_zero_points(std::span<const std::byte> codes, const LinearLayer& layer) {
  std::vector<std::byte> to(codes.size() * 2);
  std::vector<float> row(static_cast<std::size_t>(layer.k));
  const numerics::ScaleGrid grid = layer.weight_grid;
  for (std::int64_t n = 0; n < layer.n; ++n) {
    numerics::decode(DType::i8, codes.data() + n * layer.k, std::span<float>(row));
    for (std::int64_t k = 0; k < layer.k; ++k)
      row[static_cast<std::size_t>(k)] -=
          static_cast<float>(layer.zero_points->number(grid.row_of(n) * grid.scale_cols(layer.k) + grid.col_of(k)));
    numerics::encode(DType::bf16, std::span<const float>(row), to.data() + n * layer.k * 2);
  }
  return to;
}

}  // namespace

LayerWeights weights_of(const LinearLayer& layer) {
  LayerWeights weights;
  weights.codes = layer.weight.data;
  weights.scales.assign(layer.scale.data.begin(), layer.scale.data.end());
  const auto n = static_cast<std::size_t>(layer.n), k = static_cast<std::size_t>(layer.k);
  const auto replace_codes = [&weights](std::vector<std::byte> codes) {
    weights.turned = std::move(codes);
    weights.codes = weights.turned;
  };
  if (layer.packed) replace_codes(unpack(layer.weight.data, n, k));
  if (layer.zero_points) replace_codes(less_zero_points(weights.codes, layer));
  if (layer.transposed) {
    replace_codes(turn(layer.weight.data, n, k, 1));
    if (layer.weight_grid_known)
      weights.scales =
          turn(layer.scale.data, static_cast<std::size_t>(layer.weight_grid.scale_rows(layer.n)),
               static_cast<std::size_t>(layer.weight_grid.scale_cols(layer.k)), numerics::size_of(layer.scale.dtype));
  }
  if (layer.bias) weights.bias.assign(layer.bias->data.begin(), layer.bias->data.end());
  if (layer.global) weights.global = {static_cast<float>(*layer.global)};
  return weights;
}

report::Problem describe(const LinearLayer& layer, const ProblemChoices& choices) {
  report::Problem problem;
  problem.m = choices.m;
  problem.n = layer.n;
  problem.k = layer.k;
  problem.a = choices.x;
  problem.b = layer.multiplied();
  problem.d = choices.out;
  problem.bias = layer.bias ? layer.bias->dtype : DType::none;
  problem.b_scale = layer.scales();
  problem.weakest_accuracy = choices.weakest_accuracy;
  if (layer.activations == ActivationScheme::none && !choices.x_block) return problem;
  if (layer.zero_points)
    throw checkpoint::Error(checkpoint::ErrorKind::unsupported, *layer.zero_points,
                            "has zero points other than 0, beside which activations stay unquantised");
  problem.a_source = choices.x;
  problem.a = layer.weight.dtype == DType::i8 ? DType::i8 : DType::e4m3fn;
  problem.a_scale = {DType::f32, choices.x_block.value_or(layer.activation_grid)};
  problem.a_quantizer.rounding = layer.activation_rounding;
  if (layer.activations != ActivationScheme::fixed || choices.x_block) return problem;
  if (!layer.input_scale || layer.input_scale->elements() != 1)
    throw checkpoint::Error(checkpoint::ErrorKind::not_found, layer.weight.file(), layer.name,
                            "its activations have a fixed scale, but there is no input_scale of one element");
  problem.a_scale.grid = {0, 0};
  problem.a_quantizer = {.given = true};
  return problem;
}

}  // namespace ironcl::layer
