// SPDX-License-Identifier: Apache-2.0
// Operands as the oracle takes them.
#include "host/layer/operands.h"

namespace ironcl::layer {

using numerics::DType;

numerics::Operand operand_of(DType dtype, const void* data, std::int64_t rows, std::int64_t cols,
                             const report::Scales& form, const void* scales) {
  return {dtype, data, rows, cols, cols, form.dtype, scales, form.grid, form.grid.scale_cols(cols)};
}

std::size_t bytes_of_matrix(DType type, std::int64_t rows, std::int64_t cols) {
  if (numerics::bits_of(type) < 8 && type != DType::none)
    return static_cast<std::size_t>(numerics::checked_mul(rows, numerics::bytes_of(type, cols)));
  return static_cast<std::size_t>(
      numerics::checked_mul(numerics::checked_mul(rows, cols), std::int64_t{numerics::size_of(type)}));
}

std::int64_t matrices_of(const report::Problem& problem) noexcept {
  return problem.grouping == Grouping::none ? 1 : problem.matrices;
}

Operands of_matrix(const report::Problem& problem, const Operands& operands, std::int64_t matrix) {
  const auto part = [&](std::span<const std::byte> all) {
    const std::size_t one = all.size() / static_cast<std::size_t>(matrices_of(problem));
    return all.subspan(static_cast<std::size_t>(matrix) * one, one);
  };
  Operands one{operands.a, operands.a_scale, part(operands.b), part(operands.b_scale), part(operands.bias)};
  if (!operands.b_global.empty()) one.b_global = operands.b_global.subspan(static_cast<std::size_t>(matrix), 1);
  return one;
}

Operands of_first_rows(const report::Problem& problem, const Operands& operands) {
  Operands first = operands;
  first.a = operands.a.first(
      bytes_of_matrix(problem.a_source != DType::none ? problem.a_source : problem.a, problem.m, problem.k));
  if (!operands.a_scale.empty()) {
    const numerics::ScaleGrid grid = problem.a_scale.grid;
    first.a_scale = operands.a_scale.first(
        bytes_of_matrix(problem.a_scale.dtype, grid.scale_rows(problem.m), grid.scale_cols(problem.k)));
  }
  return first;
}

bool plan_quantizes(const report::Problem& problem) noexcept {
  return problem.a_source != DType::none && numerics::is_quantized(problem.a);
}

bool plan_makes_scales(const report::Problem& problem) noexcept {
  return plan_quantizes(problem) && !problem.a_quantizer.given;
}

QuantizedA quantize_a(const report::Problem& problem, const Operands& operands) {
  QuantizedA quantized;
  if (!plan_quantizes(problem)) return quantized;
  const numerics::ScaleGrid grid = problem.a_scale.grid;
  quantized.codes.resize(bytes_of_matrix(problem.a, problem.m, problem.k));
  quantized.scales.resize(
      static_cast<std::size_t>(numerics::checked_mul(grid.scale_rows(problem.m), grid.scale_cols(problem.k))));
  if (problem.a_quantizer.given)
    numerics::decode(problem.a_scale.dtype, operands.a_scale.data(), std::span<float>(quantized.scales));
  numerics::quantize(problem.a_source, operands.a.data(), problem.m, problem.k, problem.k, problem.a, grid,
                     problem.a_quantizer, quantized.codes, quantized.scales);
  return quantized;
}

}  // namespace ironcl::layer
