// SPDX-License-Identifier: Apache-2.0
// Results against bounds; the oracle of sampled rows, and comparing with it.
#include "host/layer/expected.h"

#include "host/report/units.h"

namespace ironcl::layer {

using numerics::DType;

std::vector<std::int64_t> sample_rows(std::int64_t m, std::int64_t most) {
  const std::int64_t count = std::min(m, std::max<std::int64_t>(most, 2));
  std::vector<std::int64_t> rows;
  // Steps of (m - 1) / (count - 1), at least 1: no multiple of a tile's height, so rows fall on all places of a tile.
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(count == 1 ? 0 : i * (m - 1) / (count - 1));
  return rows;
}

Expected expect(const report::Problem& problem, const Operands& operands, std::int64_t most_rows) {
  report::Problem sampled = problem;
  Operands some = operands;
  QuantizedA quantized;
  if (plan_quantizes(problem) && problem.a_scale.grid.group_rows != 1) {
    // Rows share scales: all of them are quantised before some are taken.
    quantized = quantize_a(problem, operands);
    sampled.a_source = DType::none;
    sampled.a_quantizer = {};
    sampled.a_scale.dtype = DType::f32;
    some.a = std::as_bytes(std::span(quantized.codes));
    some.a_scale = std::as_bytes(std::span(quantized.scales));
  }
  return expect(oracle_of(sampled, some), graph_of(sampled), most_rows);
}

Expected expect(Oracle oracle, Graph list, std::int64_t most_rows) {
  std::vector<std::int64_t> rows = sample_rows(oracle.tokens(), most_rows);
  oracle.take(rows, list);
  return {std::move(rows), std::move(list), std::make_shared<Oracle>(std::move(oracle))};
}

std::vector<double> decoded(const Value& value, std::span<const std::byte> bytes, std::span<const std::byte> scales,
                            const std::vector<std::int64_t>& rows) {
  const auto cols = static_cast<std::size_t>(value.cols);
  const bool scaled = value.scales.dtype != DType::none;
  std::vector<double> values(rows.size() * cols);
  std::vector<double> factors(scaled ? static_cast<std::size_t>(value.scales.grid.scale_cols(value.cols)) : 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<double> row = std::span(values).subspan(i * cols, cols);
    numerics::decode(value.dtype, bytes.data(), rows[i] * value.cols, row);
    if (!scaled) continue;
    numerics::decode(value.scales.dtype, scales.data(), rows[i] * std::ssize(factors), std::span(factors));
    for (std::size_t col = 0; col < cols; ++col)
      row[col] *= factors[static_cast<std::size_t>(value.scales.grid.col_of(static_cast<std::int64_t>(col)))];
  }
  return values;
}

Check check(const Expected& expected, std::span<const std::byte> d, std::int64_t unwritten,
            const std::vector<PlanInfo>& plans, std::span<const std::byte> d_scales) {
  const Value& result = expected.list.values[expected.list.result];
  const std::vector<double> got = decoded(result, d, d_scales, expected.rows);
  Check check;
  check.unwritten = unwritten;
  check.comparison = compare(got, expected.oracle->evaluate(expected.list, plans)[expected.list.result]);
  for (std::int64_t* row : {&check.comparison.worst_row, &check.comparison.first_row})
    if (*row >= 0) *row = expected.rows[static_cast<std::size_t>(*row)];
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
