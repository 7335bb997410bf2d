// SPDX-License-Identifier: Apache-2.0
// Operands of many matrices, a call, the verdict by matrix.
#include "tests/ironwood/grouped_harness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ironcl::ironwood::testing {
namespace {

std::size_t bytes_of(DType type, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * numerics::size_of(type);
}

/// The bytes of rows [first, first + rows) of a tight matrix.
std::vector<std::byte> slice(const std::vector<std::byte>& all, std::int64_t first, std::int64_t rows,
                             std::size_t row) {
  if (all.empty()) return {};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * row);
  return {begin, begin + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows) * row)};
}

void append(std::vector<std::byte>& to, const std::vector<std::byte>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::int64_t row_of_x(const GroupedCase& c, std::int64_t row) {
  if (c.a_index.empty()) return row;
  return std::clamp<std::int64_t>(c.a_index[static_cast<std::size_t>(row)], 0, c.x_rows - 1);
}

}  // namespace

std::string print(const GroupedCase& c) {
  std::string text = print(c.one) + (c.grouping == backend::Grouping::masked ? " masked:" : " contiguous:") +
                     fmt::format("{}", c.counts.size()) + " counts ";
  for (std::size_t g = 0; g < std::min<std::size_t>(c.counts.size(), 40); ++g) {
    text += fmt::format("{}{}", g == 0 ? "" : ",", c.counts[g]);
  }
  if (!c.a_index.empty()) text += fmt::format(" gathered from {} rows", c.x_rows);
  return text;
}

backend::GemmDesc desc_of(const GroupedCase& c) {
  backend::GemmDesc desc = desc_of(c.one);
  desc.grouping = c.grouping;
  desc.matrices = c.matrices();
  desc.a_rows = c.a_index.empty() ? 0 : c.x_rows;
  return desc;
}

Data make_data(const GroupedCase& c) {
  Case x = c.one;
  x.m = c.a_index.empty() ? c.rows() : c.x_rows;
  Data data = make_data(x);
  Data all{.x = data.x, .w = {}, .x_scales = data.x_scales, .w_scales = {}, .bias = {}};
  for (std::int64_t g = 0; g < c.matrices(); ++g) {
    Case one = c.one;
    one.m = 1;
    one.seed = c.one.seed * 1000 + static_cast<std::uint64_t>(g) + 1;
    const Data matrix = make_data(one);
    append(all.w, matrix.w);
    append(all.w_scales, matrix.w_scales);
    append(all.bias, matrix.bias);
  }
  return all;
}

std::vector<std::byte> run(const GroupedCase& c, const Data& data) {
  return run(desc_of(c), data, c.rows(), c.counts, c.a_index);
}

std::vector<std::int64_t> matrix_of_rows(const GroupedCase& c) {
  std::vector<std::int64_t> of(static_cast<std::size_t>(c.rows()), -1);
  std::size_t next = 0;
  for (std::size_t g = 0; g < c.counts.size(); ++g) {
    const auto m = static_cast<std::size_t>(c.one.m);
    const bool masked = c.grouping == backend::Grouping::masked;
    if (masked) next = g * m;
    const std::size_t end = masked ? (g + 1) * m : m;
    for (std::int32_t i = 0; i < c.counts[g] && next < end; ++i) of[next++] = static_cast<std::int64_t>(g);
  }
  return of;
}

void expect_right(const GroupedCase& c, const Data& data) {
  const std::vector<std::byte> d = run(c, data);
  const std::vector<std::int64_t> owner = matrix_of_rows(c);
  const std::size_t d_row = bytes_of(c.one.d, c.one.n), x_row = bytes_of(c.one.x, c.one.k);
  const auto info = device().create_gemm(desc_of(c))->info();
  const std::int64_t scale_cols = c.one.x_grid.scale_cols(c.one.k);
  for (std::int64_t g = 0; g < c.matrices(); ++g) {
    Case one = c.one;
    one.m = 0;
    Data part;
    std::vector<std::byte> got;
    for (std::int64_t row = 0; row < c.rows(); ++row) {
      if (owner[static_cast<std::size_t>(row)] != g) continue;
      ++one.m;
      append(part.x, slice(data.x, row_of_x(c, row), 1, x_row));
      append(part.x_scales, slice(data.x_scales, row_of_x(c, row), 1, bytes_of(c.one.x_scale, scale_cols)));
      append(got, slice(d, row, 1, d_row));
    }
    if (one.m == 0) continue;
    part.w = slice(data.w, g, 1, data.w.size() / static_cast<std::size_t>(c.matrices()));
    part.w_scales = slice(data.w_scales, g, 1, data.w_scales.size() / static_cast<std::size_t>(c.matrices()));
    part.bias = slice(data.bias, g, 1, data.bias.size() / static_cast<std::size_t>(c.matrices()));
    const auto result =
        numerics::compare(as_f64(c.one.d, got), want(one, part),
                          {.out = c.one.d, .k = c.one.k, .accumulation_length = info.accumulation_length});
    EXPECT_TRUE(result.pass) << print(c) << ": matrix " << g << ", max_error_over_bound "
                             << result.max_error_over_bound << " at its row " << result.worst_row << " column "
                             << result.worst_col << ", got " << result.worst_got << ", want " << result.worst_want;
  }
  for (std::int64_t row = 0; row < c.rows(); ++row) {
    if (owner[static_cast<std::size_t>(row)] >= 0) continue;
    const auto bytes = slice(d, row, 1, d_row);
    ASSERT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kCanary; }))
        << print(c) << ": row " << row << " belongs to no matrix and was written";
  }
}

void expect_right(const GroupedCase& c) { expect_right(c, make_data(c)); }

}  // namespace ironcl::ironwood::testing
