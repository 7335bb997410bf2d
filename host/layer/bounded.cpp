// SPDX-License-Identifier: Apache-2.0
// Results against bounds.
#include "host/layer/bounded.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "backends/numerics/casts.h"
#include "backends/numerics/collector.h"

namespace ironcl::layer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double ratio_of(double error, double bound) { return error == 0 ? 0 : bound > 0 ? error / bound : kInfinity; }

double ratio_of(double got, const Bounded& all, std::size_t i) {
  const double rounding =
      numerics::unit_roundoff(all.dtype) * std::fabs(all.value[i]) + numerics::smallest_subnormal(all.dtype) / 2;
  return numerics::error_over_bound(all.dtype, got, all.value[i], std::max(all.bound[i] - rounding, 0.0),
                                    all.bound[i]);
}

}  // namespace

numerics::Comparison compare(std::span<const double> got, const Bounded& want) {
  if (got.size() != want.value.size()) throw std::invalid_argument("compare: a result of another size");
  numerics::detail::Collector collector(want.cols);
  for (std::size_t i = 0; i < got.size(); ++i)
    collector.add(static_cast<std::int64_t>(i), got[i], want.value[i], ratio_of(got[i], want, i));
  return collector.finish();
}

numerics::Comparison compare(std::span<const double> got, const Bounded& want, std::span<const double> other,
                             const Bounded& other_want) {
  if (got.size() != want.value.size() || other.size() != got.size())
    throw std::invalid_argument("compare: results of different sizes");
  numerics::detail::Collector collector(want.cols);
  for (std::size_t i = 0; i < got.size(); ++i) {
    double ratio = 0;
    if (std::isfinite(got[i]) && std::isfinite(other[i]) && std::isfinite(want.value[i])) {
      ratio = ratio_of(std::fabs(got[i] - other[i]), want.bound[i] + other_want.bound[i]);
    } else {  // With no distance to measure each is judged by itself.
      ratio = std::max(ratio_of(got[i], want, i), ratio_of(other[i], other_want, i)) > 1 ? kInfinity : 0;
    }
    collector.add(static_cast<std::int64_t>(i), got[i], other[i], ratio);
  }
  return collector.finish();
}

}  // namespace ironcl::layer
