// SPDX-License-Identifier: Apache-2.0
// The bound of an element, and the walk over two results that applies it.
#include "backends/numerics/bounds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>

#include "backends/numerics/checked.h"
#include "backends/numerics/collector.h"
#include "backends/numerics/elements.h"

namespace ironcl::numerics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double error_over_bound(const BoundTerms& terms, double got, double reference, const Sizes& sizes) noexcept {
  return error_over_bound(terms.out, got, reference, accumulation_bound(terms, sizes),
                          element_bound(terms, reference, sizes));
}

void check_sizes(const OracleResult& oracle, std::size_t got, std::size_t other) {
  const std::int64_t elements = checked_mul(oracle.rows, oracle.cols);
  const auto fits = [elements](std::size_t size) { return size == static_cast<std::uint64_t>(elements); };
  if (fits(got) && fits(other) && fits(oracle.value.size()) && fits(oracle.magnitude.size()) &&
      (oracle.cut.empty() || fits(oracle.cut.size())))
    return;
  throw std::invalid_argument("compare: the oracle is " + std::to_string(oracle.rows) + " x " +
                              std::to_string(oracle.cols) + " (" + std::to_string(oracle.value.size()) +
                              " elements), the results have " + std::to_string(got) + " and " +
                              std::to_string(other));
}

}  // namespace

double accumulation_bound(const BoundTerms& terms, const Sizes& sizes) noexcept {
  const std::int64_t k = std::max<std::int64_t>(terms.k, 0);
  const std::int64_t length = terms.accumulation_length > 0 ? std::min(terms.accumulation_length, k) : k;
  const std::int64_t groups = length > 0 ? ceil_div(k, length) : 0;
  const double factor = (static_cast<double>(length) + static_cast<double>(groups) + 3) * 0x1p-24;
  return factor * sizes.magnitude + (terms.accuracy == AccuracyClass::tensor14 ? sizes.cut : 0);
}

double element_bound(const BoundTerms& terms, double reference, const Sizes& sizes) noexcept {
  return unit_roundoff(terms.out) * std::fabs(reference) + accumulation_bound(terms, sizes) +
         smallest_subnormal(terms.out) / 2;
}

double error_over_bound(DType out, double got, double reference, double slack, double bound) noexcept {
  if (std::isnan(reference)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(reference)) return got == reference ? 0 : kInfinity;
  const double threshold = element_of(out).overflow_threshold;
  if (!std::isfinite(got)) {
    const bool may_overflow = std::fabs(reference) + slack >= threshold;
    // e4m3fn has no infinity: NaN is its overflow, without a sign to check.
    const bool is_overflow = out == DType::e4m3fn ? std::isnan(got) : std::isinf(got) && (got > 0) == (reference > 0);
    return may_overflow && is_overflow ? 0 : kInfinity;
  }
  if (std::fabs(reference) - slack >= threshold) return kInfinity;
  const double error = std::fabs(got - reference);
  if (error == 0) return 0;
  return bound > 0 ? error / bound : kInfinity;
}

Comparison compare(std::span<const double> got, const OracleResult& want, const BoundTerms& terms) {
  check_sizes(want, got.size(), want.value.size());
  detail::Collector collector(want.cols);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double reference = want.value[i];
    collector.add(static_cast<std::int64_t>(i), got[i], reference,
                  error_over_bound(terms, got[i], reference, want.sizes(i)));
  }
  return collector.finish();
}

Comparison compare(std::span<const double> got, const BoundTerms& got_terms, std::span<const double> other,
                   const BoundTerms& other_terms, const OracleResult& oracle) {
  check_sizes(oracle, got.size(), other.size());
  detail::Collector collector(oracle.cols);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double reference = oracle.value[i];
    const Sizes sizes = oracle.sizes(i);
    double ratio = 0;
    if (std::isfinite(got[i]) && std::isfinite(other[i]) && std::isfinite(reference)) {
      const double error = std::fabs(got[i] - other[i]);
      const double bound = element_bound(got_terms, reference, sizes) + element_bound(other_terms, reference, sizes);
      ratio = error == 0 ? 0 : bound > 0 ? error / bound : kInfinity;
    } else {
      // With no distance to measure each result is judged by itself: a NaN or an infinity where it belongs.
      ratio = std::max(error_over_bound(got_terms, got[i], reference, sizes) > 1 ? kInfinity : 0.0,
                       error_over_bound(other_terms, other[i], reference, sizes) > 1 ? kInfinity : 0.0);
    }
    collector.add(static_cast<std::int64_t>(i), got[i], other[i], ratio);
  }
  return collector.finish();
}

}  // namespace ironcl::numerics
