// SPDX-License-Identifier: Apache-2.0
// The bound of an element, and the walk over two results that applies it.
#include "backends/numerics/bounds.h"

#include <string>

#include "backends/numerics/collector.h"

namespace ironcl::numerics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double rounding_bound(DType out, double reference) noexcept {
  return unit_roundoff(out) * std::fabs(reference) + smallest_subnormal(out) / 2;
}

double ratio_of(double error, double bound) noexcept {
  return error == 0 ? 0 : bound > 0 ? error / bound : kInfinity;
}

/// The error over its bound where both are finite; for the rest, and where the output type has no number for the
/// reference, 0 (right) or infinity (wrong).
double ratio_of(double got, const Bounded& want, std::size_t at) noexcept {
  const double reference = want.value[at], bound = want.bound[at];
  if (std::isnan(reference)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(reference)) return got == reference ? 0 : kInfinity;
  const double threshold = overflow_threshold(want.dtype);
  // What of the bound comes before the rounding to the output type.
  const double slack = std::max(bound - rounding_bound(want.dtype, reference), 0.0);
  if (!std::isfinite(got)) {
    const bool may_overflow = std::fabs(reference) + slack >= threshold;
    // e4m3fn has no infinity: NaN is its overflow, without a sign to check.
    const bool is_overflow =
        want.dtype == DType::e4m3fn ? std::isnan(got) : std::isinf(got) && (got > 0) == (reference > 0);
    return may_overflow && is_overflow ? 0 : kInfinity;
  }
  if (std::fabs(reference) - slack >= threshold) return kInfinity;
  return ratio_of(std::fabs(got - reference), bound);
}

void expect_size(const Bounded& want, std::size_t size) {
  if (want.value.size() == size && want.bound.size() == size) return;
  throw std::invalid_argument("compare: expected " + std::to_string(want.rows) + " x " + std::to_string(want.cols) +
                              " elements (" + std::to_string(want.value.size()) + "), the result has " +
                              std::to_string(size));
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
  return rounding_bound(terms.out, reference) + accumulation_bound(terms, sizes);
}

Bounded bounded(const OracleResult& oracle, const BoundTerms& terms) {
  const auto size = static_cast<std::size_t>(checked_mul(oracle.rows, oracle.cols));
  if (oracle.value.size() != size || oracle.magnitude.size() != size ||
      (!oracle.cut.empty() && oracle.cut.size() != size))
    throw std::invalid_argument("bounded: an oracle of " + std::to_string(oracle.rows) + " x " +
                                std::to_string(oracle.cols) + " with " + std::to_string(oracle.value.size()) +
                                " elements");
  Bounded all{oracle.rows, oracle.cols, oracle.value, {}, terms.out};
  for (std::size_t i = 0; i < size; ++i) all.bound.push_back(element_bound(terms, oracle.value[i], oracle.sizes(i)));
  return all;
}

Comparison compare(std::span<const double> got, const Bounded& want) {
  expect_size(want, got.size());
  detail::Collector collector(want.cols);
  for (std::size_t i = 0; i < got.size(); ++i)
    collector.add(static_cast<std::int64_t>(i), got[i], want.value[i], ratio_of(got[i], want, i));
  return collector.finish();
}

Comparison compare(std::span<const double> got, const Bounded& want, std::span<const double> other,
                   const Bounded& other_want) {
  expect_size(want, got.size());
  expect_size(other_want, other.size());
  expect_size(want, other.size());
  detail::Collector collector(want.cols);
  for (std::size_t i = 0; i < got.size(); ++i) {
    double ratio = 0;
    if (std::isfinite(got[i]) && std::isfinite(other[i]) && std::isfinite(want.value[i])) {
      ratio = ratio_of(std::fabs(got[i] - other[i]), want.bound[i] + other_want.bound[i]);
    } else {  // With no distance to measure each is judged by itself: a NaN or an infinity where it belongs.
      ratio = std::max(ratio_of(got[i], want, i), ratio_of(other[i], other_want, i)) > 1 ? kInfinity : 0;
    }
    collector.add(static_cast<std::int64_t>(i), got[i], other[i], ratio);
  }
  return collector.finish();
}

}  // namespace ironcl::numerics
