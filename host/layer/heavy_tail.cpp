// SPDX-License-Identifier: Apache-2.0
// Made-up activations.
#include "host/layer/heavy_tail.h"

#include <random>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"
#include "host/layer/student_t4.h"

namespace ironcl::layer {
namespace {

constexpr double kOutlierShare = 0.01;
constexpr double kOutlierFactor = 20;

}  // namespace

std::vector<std::uint16_t> heavy_tailed_activations(std::int64_t m, std::int64_t k, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<double> factors(static_cast<std::size_t>(k));
  for (double& factor : factors) factor = uniform(generator) < kOutlierShare ? kOutlierFactor : 1;
  std::vector<std::uint16_t> x(static_cast<std::size_t>(numerics::checked_mul(m, k)));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = student_t4(uniform(generator)) * factors[i % factors.size()];
    x[i] = numerics::encode_bf16(static_cast<float>(value));
  }
  return x;
}

}  // namespace ironcl::layer
