// SPDX-License-Identifier: Apache-2.0
// The oracle of sampled rows, and comparing with it.
#include "host/layer/expected.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/numerics/casts.h"
#include "host/report/units.h"

namespace ironcl::layer {

std::vector<std::int64_t> sample_rows(std::int64_t m, std::int64_t most) {
  const std::int64_t count = std::min(m, std::max<std::int64_t>(most, 2));
  std::vector<std::int64_t> rows;
  // Steps of (m - 1) / (count - 1): not a multiple of a tile's height, so rows fall on all places of a tile.
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(count == 1 ? 0 : i * (m - 1) / (count - 1));
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Expected expect(const report::Problem& problem, const Operands& operands, std::int64_t most_rows) {
  Expected expected{sample_rows(problem.m, most_rows), {}};
  const auto gather = [](const void* from, std::size_t row_bytes, const std::vector<std::int64_t>& rows) {
    std::vector<std::byte> gathered(row_bytes * rows.size());
    for (std::size_t i = 0; row_bytes != 0 && i < rows.size(); ++i)
      std::memcpy(gathered.data() + i * row_bytes,
                  static_cast<const std::byte*>(from) + static_cast<std::size_t>(rows[i]) * row_bytes, row_bytes);
    return gathered;
  };
  // Where rows share no scale, only the sampled ones are quantised.
  report::Problem quantised_problem = problem;
  Operands quantised_operands = operands;
  std::vector<std::int64_t> rows = expected.rows;
  std::vector<std::byte> sources;
  if (plan_quantizes(problem) && problem.a_scale.grid.group_rows == 1) {
    sources = gather(operands.a.data(), bytes_of_matrix(problem.a_source, 1, problem.k), rows);
    quantised_operands.a = sources;
    quantised_problem.m = static_cast<std::int64_t>(rows.size());
    std::iota(rows.begin(), rows.end(), 0);
  }
  const QuantizedA quantized = quantize_a(quantised_problem, quantised_operands);
  const numerics::Operand whole = a_operand(quantised_problem, quantised_operands, quantized);

  // The sampled rows, each with its own row of scales.
  const std::size_t row_bytes = bytes_of_matrix(whole.dtype, 1, problem.k);
  const std::size_t scale_row_bytes = bytes_of_matrix(whole.scale_dtype, 1, whole.scale_ld);
  const std::vector<std::byte> a = gather(whole.data, row_bytes, rows);
  for (std::int64_t& row : rows) row = whole.grid.row_of(row);
  const std::vector<std::byte> a_scale = gather(whole.scales, scale_row_bytes, rows);
  numerics::Operand sampled = whole;
  sampled.data = a.data();
  sampled.rows = static_cast<std::int64_t>(expected.rows.size());
  sampled.scales = a_scale.data();
  sampled.grid.group_rows = 1;
  if (operands.counts.empty()) {
    expected.oracle = numerics::oracle(sampled, b_operand(problem, operands), problem.bias, operands.bias.data(),
                                       problem.weakest_accuracy);
    return expected;
  }
  // Matrix by matrix, those of its rows that were sampled.
  expected.oracle.cols = problem.n;
  std::int64_t end = 0;
  std::size_t first = 0;
  for (std::size_t g = 0; g < operands.counts.size(); ++g) {
    end += operands.counts[g];
    std::size_t last = first;
    while (last < expected.rows.size() && expected.rows[last] < end) ++last;
    if (last == first) continue;
    numerics::Operand here = sampled;
    here.rows = static_cast<std::int64_t>(last - first);
    here.data = a.data() + first * row_bytes;
    here.scales = a_scale.data() + first * scale_row_bytes;
    const Operands matrix = of_matrix(problem, operands, static_cast<std::int64_t>(g));
    const numerics::OracleResult part = numerics::oracle(here, b_operand(problem, matrix), problem.bias,
                                                         matrix.bias.data(), problem.weakest_accuracy);
    expected.oracle.rows += part.rows;
    expected.oracle.value.insert(expected.oracle.value.end(), part.value.begin(), part.value.end());
    expected.oracle.magnitude.insert(expected.oracle.magnitude.end(), part.magnitude.begin(), part.magnitude.end());
    expected.oracle.cut.insert(expected.oracle.cut.end(), part.cut.begin(), part.cut.end());
    first = last;
  }
  return expected;
}

Check check(const report::Problem& problem, const Expected& expected, std::span<const std::byte> d,
            std::int64_t unwritten, numerics::AccuracyClass accuracy, std::int64_t accumulation_length) {
  std::vector<double> got;
  got.reserve(expected.rows.size() * static_cast<std::size_t>(problem.n));
  for (const std::int64_t row : expected.rows)
    for (std::int64_t col = 0; col < problem.n; ++col)
      got.push_back(numerics::load_as_f64(problem.d, d.data(), row * problem.n + col));
  Check check;
  check.unwritten = unwritten;
  check.comparison = numerics::compare(
      got, expected.oracle,
      {.out = problem.d, .accuracy = accuracy, .k = problem.k, .accumulation_length = accumulation_length});
  const auto to_row_of_d = [&](std::int64_t& row) {
    if (row >= 0) row = expected.rows[static_cast<std::size_t>(row)];
  };
  to_row_of_d(check.comparison.worst_row);
  to_row_of_d(check.comparison.first_row);
  check.rows_checked = static_cast<std::int64_t>(expected.rows.size());
  check.pass = check.comparison.pass && unwritten == 0;
  if (unwritten != 0) {
    check.why = fmt::format("{} elements of D were never written", unwritten);
  } else if (!check.comparison.pass) {
    check.why = fmt::format("D[{}, {}] is {}, expected {}", check.comparison.worst_row, check.comparison.worst_col,
                            report::exact_number(check.comparison.worst_got),
                            report::exact_number(check.comparison.worst_want));
  }
  return check;
}

}  // namespace ironcl::layer
