// SPDX-License-Identifier: Apache-2.0
// The operands of a problem in host memory. Next door: synthetic.h (random, from a seed), activations.h and
// layer_problem.h (of a layer), execution.h (on a device).
#pragma once

#include "backends/numerics/casts.h"
#include "host/report/problem.h"

namespace ironcl::layer {

/// Everything is row-major and tight, and borrowed: it outlives whatever is made from it.
struct Operands {
  std::span<const std::byte> a;        ///< [m, k] of a_source where the plan quantises A, else of a.
  std::span<const std::byte> a_scale;  ///< Empty where the plan makes them, or A has none.
  std::span<const std::byte> b;        ///< [problem.b_rows(), k].
  std::span<const std::byte> b_scale;  ///< Aligned for its type.
  std::span<const std::byte> bias;     ///< [problem.b_rows()], aligned for its type; empty where there is none.
  /// Of a grouped problem (contiguous): rows of each matrix, together m. b, b_scale and bias then hold the matrices
  /// one after another.
  std::span<const std::int32_t> counts{};
  std::span<const float> b_global{};  ///< A factor for each matrix, where problem.b_scale.global.
};

/// The matrices of B: those of a grouped problem, else 1.
std::int64_t matrices_of(const report::Problem& problem) noexcept;

/// The operands of matrix `matrix` of a grouped problem; its A is all of it. Borrows.
Operands of_matrix(const report::Problem& problem, const Operands& operands, std::int64_t matrix);

/// The operands of `problem`, whose A is the first rows of that of `operands`. Not of grouped problems. Borrows.
Operands of_first_rows(const report::Problem& problem, const Operands& operands);

/// The result of a plan that quantises A, bit for bit.
struct QuantizedA {
  std::vector<std::uint8_t> codes;  ///< [m, k]
  std::vector<float> scales;        ///< Tight, on problem.a_scale.grid.
};

/// Whether the plan quantises A, rather than taking it as it is; and whether it makes the scales for that.
bool plan_quantizes(const report::Problem& problem) noexcept;
bool plan_makes_scales(const report::Problem& problem) noexcept;

/// Quantises A as every device must; empty where the plan does not quantise. Throws std::overflow_error for sizes.
QuantizedA quantize_a(const report::Problem& problem, const Operands& operands);

/// A tight [rows, cols] matrix as the oracle takes it, with its scales. Borrows.
numerics::Operand operand_of(numerics::DType dtype, const void* data, std::int64_t rows, std::int64_t cols,
                             const report::Scales& form = {}, const void* scales = nullptr);

/// Bytes of a tight [rows, cols] matrix; of none: 0. Throws std::overflow_error.
std::size_t bytes_of_matrix(numerics::DType type, std::int64_t rows, std::int64_t cols);

/// The bytes of values, copied.
template <class Values>
std::vector<std::byte> bytes_of(const Values& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Elements of whole bytes as numbers.
template <class T>
std::vector<T> values_of(numerics::DType type, std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / numerics::size_of(type));
  numerics::decode(type, bytes.data(), std::span<T>(values));
  return values;
}

}  // namespace ironcl::layer
