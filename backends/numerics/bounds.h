// SPDX-License-Identifier: Apache-2.0
// The per-element error bound, and the verdict it gives on a whole result.
//
//   |d - r| <= u_out * |r| + (G + K/G + 3) * 2^-24 * sum_k |a * b| * sa * sb        (class f32)
//
// r from the oracle; G the accumulation length; u_out of the output type; plus half the smallest subnormal of the
// output type. Worst case of two-level summation (Higham, Accuracy and Stability, 2nd ed., section 4.2), products
// being exact. Class tensor14 adds what 14 bits may cut off the element's own products: `cut` of the oracle.
#pragma once

#include <span>

#include "backends/numerics/formats.h"
#include "backends/numerics/oracle.h"

namespace ironcl::numerics {

/// What the bound of a problem depends on.
struct BoundTerms {
  DType out = DType::f32;
  AccuracyClass accuracy = AccuracyClass::f32;
  std::int64_t k = 0;
  std::int64_t accumulation_length = 0;  ///< G; 0 means k.
};

/// What accumulation alone may add to the error, before rounding to the output type: the terms with the magnitude
/// and, in class tensor14, the cut.
double accumulation_bound(const BoundTerms& terms, const Sizes& sizes) noexcept;

/// The largest allowed |d - r| of one element with oracle value r.
double element_bound(const BoundTerms& terms, double reference, const Sizes& sizes) noexcept;

/// A matrix with a bound for each element: |got - value| <= bound. NaN where a result must have NaN.
struct Bounded {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> value, bound;
  DType dtype = DType::f32;  ///< Of a result, which may have no number for a value.
};

/// What the oracle says, each element with its element_bound(). Throws std::invalid_argument where sizes do not fit.
Bounded bounded(const OracleResult& oracle, const BoundTerms& terms);

/// How a result stands against the oracle. Averages are reported and never decide.
struct Comparison {
  bool pass = false;                            ///< Every element within its bound.
  double max_error_over_bound = 0;              ///< 1 is the limit; infinity where a non-finite value is wrong.
  std::int64_t out_of_bounds = 0;               ///< Elements beyond their bound.
  std::int64_t worst_row = -1, worst_col = -1;  ///< Where max_error_over_bound is; -1 where there are no elements.
  double worst_got = 0, worst_want = 0;
  std::int64_t first_row = -1, first_col = -1;  ///< The first element out of bounds in row-major order, -1 if none.
  double nmse = 0;                              ///< sum (d - r)^2 / sum r^2 over elements finite in both.
  double calc_diff = 0;                         ///< DeepGEMM: 1 - 2 sum(d r) / sum(d^2 + r^2).
  double mean_rel = 0;                          ///< vLLM: mean |d - r| / mean |r|.
};

/// Compares got [rows, cols] (tight, decoded to f64) with what it must be. A NaN is right only where that is NaN; an
/// infinity only where it overflows the output type (or is infinite) with the same sign. Throws
/// std::invalid_argument for a result of another size, as does the next one.
Comparison compare(std::span<const double> got, const Bounded& want);

/// Compares two results of the same problem: they may differ by the sum of their bounds.
Comparison compare(std::span<const double> got, const Bounded& want, std::span<const double> other,
                   const Bounded& other_want);

}  // namespace ironcl::numerics
