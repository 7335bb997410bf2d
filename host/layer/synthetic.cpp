// SPDX-License-Identifier: Apache-2.0
// Operands drawn from a table of the distribution.
#include "host/layer/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"
#include "backends/numerics/quantize.h"
#include "host/layer/student_t4.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

constexpr std::size_t kTable = 1u << 16;

/// The distribution at 65536 equal steps of its distribution function.
std::array<float, kTable> quantiles() {
  std::array<float, kTable> table{};
  for (std::size_t i = 0; i < kTable; ++i)
    table[i] = static_cast<float>(student_t4((static_cast<double>(i) + 0.5) / kTable));
  return table;
}

/// Writes `count` elements of `Width` bytes, each from the place of the table that 16 bits say: four for each number
/// drawn. A width that the compiler knows makes this several times as fast.
template <std::size_t Width>
void pick(const std::byte* table, std::size_t count, std::mt19937_64& random, std::byte* to) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i, bits >>= 16) {
    if (i % 4 == 0) bits = random();
    std::memcpy(to + i * Width, table + (bits & 0xffffu) * Width, Width);
  }
}

/// Fills [elements] of `type` by drawing 16 bits for each from a table of the distribution in that type.
std::vector<std::byte> draw(DType type, std::int64_t elements, std::mt19937_64& random) {
  static const std::array<float, kTable> t4 = quantiles();
  const std::size_t width = numerics::size_of(type);
  std::vector<std::byte> table(kTable * width);
  if (numerics::is_quantized(type)) {
    // As a quantised group looks: its largest member uses the largest code.
    const float scale = t4.back() / static_cast<float>(numerics::largest(type));
    for (std::size_t i = 0; i < kTable; ++i) table[i] = std::byte{numerics::quantize_one(t4[i] * 8.0f, scale, type)};
  } else if (numerics::is_float(type)) {
    numerics::encode(type, t4, table.data());
  } else {
    throw std::invalid_argument("operands do not come in " + std::string(numerics::name_of(type)));
  }
  std::vector<std::byte> values(
      static_cast<std::size_t>(numerics::checked_mul(elements, static_cast<std::int64_t>(width))));
  const auto count = static_cast<std::size_t>(elements);
  if (width == 1)
    pick<1>(table.data(), count, random, values.data());
  else if (width == 2)
    pick<2>(table.data(), count, random, values.data());
  else
    pick<4>(table.data(), count, random, values.data());
  return values;
}

std::vector<std::byte> draw_scales(const report::Scales& scales, std::int64_t rows, std::int64_t cols,
                                   std::mt19937_64& random) {
  if (scales.dtype == DType::none) return {};
  const std::int64_t count = numerics::checked_mul(scales.grid.scale_rows(rows), scales.grid.scale_cols(cols));
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * numerics::size_of(scales.dtype));
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(std::exp2(-10 + 4 * uniform(random)));
  if (scales.dtype == DType::e8m0)
    for (std::size_t i = 0; i < values.size(); ++i) bytes[i] = std::byte{numerics::encode_e8m0(values[i])};
  else
    numerics::encode(scales.dtype, values, bytes.data());
  return bytes;
}

}  // namespace

MadeOperands make_operands(const report::Problem& problem, std::uint64_t seed) {
  std::mt19937_64 random(seed), random_b(seed ^ 0x9e3779b97f4a7c15u);
  if (problem.grouping == Grouping::masked)
    throw std::invalid_argument(
        "operands of a masked problem are not made up: how many rows a matrix has is not part of it");
  const auto plain = [](const report::Scales& scales) {
    return !scales.global && scales.grid.row_origin == 0 && scales.grid.col_origin == 0;
  };
  if (problem.a_rows != 0 || problem.a_quantizer.given || numerics::bits_of(problem.a) < 8 ||
      numerics::bits_of(problem.b) < 8 || !plain(problem.a_scale) || !plain(problem.b_scale))
    throw std::invalid_argument(
        "operands are not made up for gathered rows, types of four bits, static or global scales, or a grid that "
        "begins inside a block");
  MadeOperands operands;
  const std::int64_t matrices = matrices_of(problem);
  const bool dynamic = problem.a_source != DType::none;
  operands.a = draw(dynamic ? problem.a_source : problem.a, numerics::checked_mul(problem.m, problem.k), random);
  if (!dynamic) operands.a_scale = draw_scales(problem.a_scale, problem.m, problem.k, random);
  operands.b =
      draw(problem.b, numerics::checked_mul(matrices, numerics::checked_mul(problem.n, problem.k)), random_b);
  for (std::int64_t g = 0; g < matrices; ++g) {
    const std::vector<std::byte> scales = draw_scales(problem.b_scale, problem.n, problem.k, random_b);
    operands.b_scale.insert(operands.b_scale.end(), scales.begin(), scales.end());
  }
  if (problem.bias != DType::none)
    operands.bias = draw(problem.bias, numerics::checked_mul(matrices, problem.n), random_b);
  if (problem.grouping != Grouping::none) {
    std::mt19937_64 dealt(seed ^ 0x636f756e7473u);
    operands.counts.resize(static_cast<std::size_t>(matrices));
    for (std::int64_t row = 0; row < problem.m; ++row) ++operands.counts[dealt() % operands.counts.size()];
  }
  return operands;
}

}  // namespace ironcl::layer
