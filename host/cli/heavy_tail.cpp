// SPDX-License-Identifier: Apache-2.0
// Made-up activations.
#include "host/cli/heavy_tail.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"

namespace ironcl::cli {
namespace {

constexpr double kOutlierShare = 0.01;
constexpr double kOutlierFactor = 20;

/// In (0, 1), never at its ends. std::uniform_real_distribution differs between standard libraries.
double uniform(std::mt19937_64* generator) { return (static_cast<double>((*generator)() >> 11) + 0.5) * 0x1p-53; }

/// The quantile of Student's t with four degrees of freedom, in closed form (W. T. Shaw, Sampling Student's T
/// distribution, J. Computational Finance 9, 2006).
double student_t4(double p) {
  const double root = std::sqrt(4 * p * (1 - p));
  const double q = std::cos(std::acos(std::min(root, 1.0)) / 3) / root;
  return std::copysign(2 * std::sqrt(std::max(q - 1, 0.0)), p - 0.5);
}

}  // namespace

std::vector<std::uint16_t> heavy_tailed_activations(std::int64_t m, std::int64_t k, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<double> factors(static_cast<std::size_t>(k));
  for (double& factor : factors) factor = uniform(&generator) < kOutlierShare ? kOutlierFactor : 1;
  std::vector<std::uint16_t> x(static_cast<std::size_t>(numerics::checked_mul(m, k)));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = student_t4(uniform(&generator)) * factors[i % factors.size()];
    x[i] = numerics::encode_bf16(static_cast<float>(value));
  }
  return x;
}

}  // namespace ironcl::cli
