// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/problem.h"

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <cmath>

namespace ironcl::opencl {
namespace {

/// Of a priced problem; only times come from it.
constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;

}  // namespace

std::string to_string(const Tuning& tuning) {
  std::vector<std::string> words;
  for (const auto& [name, value] : tuning) words.push_back(name + "=" + std::to_string(value));
  return boost::join(words, ",");
}

Problem Problem::selected() const {
  Problem seen = *this;
  if (matrices == 1 && !(masked && expected_rows != 0)) {
    seen.matrices = seen.expected_rows = 0;
    seen.masked = false;
  }
  return seen;
}

Problem Problem::priced() const {
  Problem one = selected();
  if (!one.grouped()) return one;
  one.matrices = 0;
  one.scheduled = true;
  one.masked = one.gathers = false;
  // Of G matrices of which each row takes one by chance, this many have rows.
  const auto all = static_cast<double>(matrices);
  const double rows = std::max(1.0, static_cast<double>(m));
  double hit = masked ? all : all * (1 - std::pow(1 - 1 / all, rows));
  one.m = masked ? m : static_cast<std::int64_t>(std::ceil(rows / std::max(1.0, hit)));
  one.mean_rows_per_expert = masked ? 0 : rows / all;
  if (expected_rows != 0) {
    one.m = std::min(expected_rows, m);
    one.mean_rows_per_expert = static_cast<double>(one.m);
    if (!masked) hit = std::clamp(rows / one.mean_rows_per_expert, 1.0, all);
  }
  one.n = std::min(static_cast<std::int64_t>(static_cast<double>(n) * std::max(1.0, hit)), kMostColumns);
  return one;
}

std::vector<Problem::Likely> Problem::likely_rows() const {
  if (mean_rows_per_expert == 0) return {{std::max<std::int64_t>(1, m), 1}};
  const double width = 4 * std::sqrt(mean_rows_per_expert) + 4;
  const std::int64_t first = std::max<std::int64_t>(1, static_cast<std::int64_t>(mean_rows_per_expert - width));
  const std::int64_t last = static_cast<std::int64_t>(mean_rows_per_expert + width);
  const std::int64_t step = (last - first) / 64 + 1;  // Of many rows a sample does.
  std::vector<Likely> all;
  double sum = 0;
  for (std::int64_t rows = first; rows <= last; rows += step) {
    const auto count = static_cast<double>(rows);
    all.push_back(
        {rows, std::exp(count * std::log(mean_rows_per_expert) - mean_rows_per_expert - std::lgamma(count + 1))});
    sum += all.back().share;
  }
  for (Likely& likely : all) likely.share /= sum;
  return all;
}

}  // namespace ironcl::opencl
