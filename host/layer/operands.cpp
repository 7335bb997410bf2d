// SPDX-License-Identifier: Apache-2.0
// Operands as the oracle takes them.
#include "host/layer/operands.h"

#include "backends/numerics/checked.h"
#include "backends/numerics/quantize.h"

namespace ironcl::layer {

using numerics::DType;

std::size_t bytes_of_matrix(DType type, std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(
      numerics::checked_mul(numerics::checked_mul(rows, cols), std::int64_t{numerics::size_of(type)}));
}

std::int64_t matrices_of(const report::Problem& problem) noexcept {
  return problem.grouping == IRONCL_GROUPING_NONE ? 1 : static_cast<std::int64_t>(problem.matrices);
}

Operands of_matrix(const report::Problem& problem, const Operands& operands, std::int64_t matrix) {
  const auto part = [&](std::span<const std::byte> all) {
    const std::size_t one = all.size() / static_cast<std::size_t>(matrices_of(problem));
    return all.subspan(static_cast<std::size_t>(matrix) * one, one);
  };
  return {operands.a, operands.a_scale, part(operands.b), part(operands.b_scale), part(operands.bias), {}};
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

QuantizedA quantize_a(const report::Problem& problem, const Operands& operands) {
  QuantizedA quantized;
  if (!plan_quantizes(problem)) return quantized;
  const numerics::ScaleGrid grid = problem.a_scale.grid;
  quantized.codes.resize(bytes_of_matrix(problem.a, problem.m, problem.k));
  quantized.scales.resize(
      static_cast<std::size_t>(numerics::checked_mul(grid.scale_rows(problem.m), grid.scale_cols(problem.k))));
  numerics::quantize(problem.a_source, operands.a.data(), problem.m, problem.k, problem.k, problem.a, grid,
                     problem.a_quantizer, quantized.codes, quantized.scales);
  return quantized;
}

numerics::Operand a_operand(const report::Problem& problem, const Operands& operands, const QuantizedA& quantized) {
  const bool made = plan_quantizes(problem);
  numerics::Operand a;
  a.dtype = problem.a;
  a.data = made ? static_cast<const void*>(quantized.codes.data()) : operands.a.data();
  a.rows = problem.m;
  a.cols = problem.k;
  a.ld = problem.k;
  a.scale_dtype = made ? DType::f32 : problem.a_scale.dtype;
  a.scales = made ? static_cast<const void*>(quantized.scales.data()) : operands.a_scale.data();
  a.grid = problem.a_scale.grid;
  a.scale_ld = problem.a_scale.grid.scale_cols(problem.k);
  return a;
}

numerics::Operand b_operand(const report::Problem& problem, const Operands& operands) {
  numerics::Operand b;
  b.dtype = problem.b;
  b.data = operands.b.data();
  b.rows = problem.n;
  b.cols = problem.k;
  b.ld = problem.k;
  b.scale_dtype = problem.b_scale.dtype;
  b.scales = operands.b_scale.data();
  b.grid = problem.b_scale.grid;
  b.scale_ld = problem.b_scale.grid.scale_cols(problem.k);
  return b;
}

}  // namespace ironcl::layer
