// SPDX-License-Identifier: Apache-2.0
// Gathers the elements of a comparison into its verdict. Next door: bounds.h.
#pragma once

#include <cmath>
#include <limits>

#include "backends/numerics/bounds.h"

namespace ironcl::numerics::detail {

/// Takes elements in any order; the first one out of bounds is the first in row-major order all the same.
class Collector {
 public:
  explicit Collector(std::int64_t cols) : cols_(cols) {}

  /// `ratio` is error over bound: 0 where a non-finite value is right, infinity where it is wrong.
  void add(std::int64_t index, double got, double want, double ratio) {
    if (out_.worst_row < 0 || ratio > out_.max_error_over_bound) {
      out_.max_error_over_bound = ratio;
      out_.worst_row = index / cols_;
      out_.worst_col = index % cols_;
      out_.worst_got = got;
      out_.worst_want = want;
    }
    if (ratio > 1) {
      ++out_.out_of_bounds;
      if (first_ < 0 || index < first_) first_ = index;
    }
    if (std::isfinite(got) && std::isfinite(want)) {
      const double difference = got - want;
      square_error_ += difference * difference;
      square_want_ += want * want;
      square_both_ += got * got + want * want;
      absolute_error_ += std::fabs(difference);
      absolute_want_ += std::fabs(want);
    }
  }

  Comparison finish() {
    const auto over = [](double error, double norm) {
      return error == 0 ? 0 : norm > 0 ? error / norm : std::numeric_limits<double>::infinity();
    };
    out_.pass = out_.out_of_bounds == 0;
    if (first_ >= 0) {
      out_.first_row = first_ / cols_;
      out_.first_col = first_ % cols_;
    }
    out_.nmse = over(square_error_, square_want_);
    out_.calc_diff = over(square_error_, square_both_);
    out_.mean_rel = over(absolute_error_, absolute_want_);
    return out_;
  }

 private:
  std::int64_t cols_;
  std::int64_t first_ = -1;
  Comparison out_;
  double square_error_ = 0, square_want_ = 0, square_both_ = 0, absolute_error_ = 0, absolute_want_ = 0;
};

}  // namespace ironcl::numerics::detail
