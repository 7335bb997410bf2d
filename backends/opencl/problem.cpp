// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/problem.h"

#include <cmath>

#include "backends/words.h"

namespace ironcl::opencl {

using backend::Error;
using backend::Grouping;
using backend::Status;

std::string to_string(const Tuning& tuning) {
  std::string text;
  for (const auto& [name, value] : tuning) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

int k_group_of(const backend::GemmDesc& desc) {
  std::int64_t group = 128;
  for (const backend::ScaleDesc* scale : {&desc.a_scale, &desc.b_scale}) {
    const std::int64_t cols = scale->grid.group_cols;
    if (scale->dtype != backend::DType::none && cols != 0 && cols < desc.k) group = std::gcd(group, cols);
  }
  return group >= (numerics::bits_of(desc.b) < 8 ? 16 : 32) ? static_cast<int>(group) : 0;
}

/// The rows that a matrix of a grouped problem has to be expected to have: of a masked one nobody else knows. A wrong
/// number makes it slower, not wrong.
static std::int64_t expected_rows_of(const backend::GemmDesc& desc) {
  std::int64_t rows = 0;
  for (const auto& [key, value] : desc.options) {
    if (key != kExpectedRows) continue;
    rows = words::number<std::int64_t>(value).value_or(0);
    if (rows < 1 || rows > kLargestSize)
      throw Error(
          Status::invalid_argument,
          "option expected_rows={} is out of range; it takes 1 to {}, the rows that a matrix is likely to have",
          value, kLargestSize);
    if (desc.grouping == Grouping::none)
      throw Error(Status::invalid_argument,
                  "option expected_rows is for grouped problems; this one has m = {} rows, no others", desc.m);
  }
  return rows;
}

Problem::Problem(const backend::GemmDesc& desc) : backend::GemmDesc(desc), expected_rows(expected_rows_of(desc)) {
  if (grouping == Grouping::none) matrices = 0;
  if (const int group = k_group_of(desc); group != 0) k_group = group;
  if (a_quantizer.given) {
    given_source = std::exchange(a_source, backend::DType::none);
    given_ld = std::exchange(lda, k);
  }
  n = desc.b_rows();
  gate = std::exchange(activation, backend::Activation::none);
  if (numerics::is_quantized(d) || gated()) d_later = std::exchange(d, backend::DType::f32);
  // Said once, for the kernels that make D's codes and for the step after the others: e8m0 has no other scales.
  if (d_scale.dtype == backend::DType::e8m0) d_quantizer.rounding = numerics::ScaleRounding::power_of_two;
}

std::int64_t Problem::d_group() const noexcept {
  // Kernels hand on totals in runs of 32 columns or parts of that.
  constexpr std::int64_t kRun = 32;
  if (!quantizes_d()) return 0;
  if (d_quantizer.given) return d_scale.grid.group_cols % kRun == 0 ? kRun : 0;
  const std::int64_t cols = d_scale.grid.group_cols;
  return d_scale.grid.group_rows == 1 && cols != 0 && cols % kRun == 0 ? cols : 0;
}

Problem::Problem(std::int64_t m, std::int64_t n, std::int64_t k, int k_group, backend::DType a, backend::DType b,
                 backend::DType d)
    : k_group(k_group) {
  this->m = m;
  this->n = ldd = n;
  this->k = lda = k;
  this->a = a;
  this->b = b;
  this->d = d;
}

Problem Problem::selected() const {
  Problem seen = *this;
  if (matrices == 1 && !(masked() && expected_rows != 0)) {
    seen.matrices = seen.expected_rows = 0;
    seen.grouping = Grouping::none;
  }
  return seen;
}

Problem Problem::priced() const {
  constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;  // Only times come from them.
  Problem one = selected();
  if (!one.grouped()) return one;
  one.matrices = one.a_rows = 0;
  one.grouping = Grouping::none;
  one.scheduled = true;
  // Of G matrices of which each row takes one by chance, this many have rows.
  const double all = matrices, rows = std::max<std::int64_t>(1, m);
  double hit = masked() ? all : all * (1 - std::pow(1 - 1 / all, rows));
  one.m = masked() ? m : static_cast<std::int64_t>(std::ceil(rows / std::max(1.0, hit)));
  one.mean_rows_per_expert = masked() ? 0 : rows / all;
  if (expected_rows != 0) {
    one.m = std::min(expected_rows, m);
    one.mean_rows_per_expert = one.m;
    if (!masked()) hit = std::clamp(rows / one.mean_rows_per_expert, 1.0, all);
  }
  one.n = static_cast<std::int64_t>(std::min<double>(n * std::max(1.0, hit), kMostColumns));
  return one;
}

std::vector<std::pair<std::int64_t, double>> Problem::likely_rows() const {
  const double mean = mean_rows_per_expert;
  if (mean == 0) return {{std::max<std::int64_t>(1, m), 1}};
  const double width = 4 * std::sqrt(mean) + 4;
  const std::int64_t first = std::max<std::int64_t>(1, static_cast<std::int64_t>(mean - width));
  const std::int64_t last = static_cast<std::int64_t>(mean + width);
  const std::int64_t step = (last - first) / 64 + 1;  // Of many rows a sample does.
  std::vector<std::pair<std::int64_t, double>> all;
  double sum = 0;
  for (std::int64_t rows = first; rows <= last; rows += step) {
    int sign = 0;  // lgamma() writes it to a variable of the process.
    const double count = rows, likely = std::exp(count * std::log(mean) - mean - ::lgamma_r(count + 1, &sign));
    all.emplace_back(rows, likely);
    sum += likely;
  }
  for (auto& [rows, share] : all) share /= sum;
  return all;
}

}  // namespace ironcl::opencl
