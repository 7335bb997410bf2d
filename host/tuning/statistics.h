// SPDX-License-Identifier: Apache-2.0
// What is said of several timings of one thing: the median, and how far the middle half lies apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ironcl::tuning {

/// Of nanoseconds, or of anything else.
struct Summary {
  std::size_t count = 0;
  double median = 0;
  double low = 0, high = 0;  ///< First and third quartile.
  double best = 0;

  /// (high - low) / median: what a difference must exceed to mean something.
  double spread() const noexcept { return median > 0 ? (high - low) / median : 0; }
};

/// The value below which a fraction `q` of the sorted values lies, interpolated. `sorted` is not empty.
inline double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const std::size_t below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

inline Summary summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.size(), quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), values.front()};
}

}  // namespace ironcl::tuning
