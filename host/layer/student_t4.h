// SPDX-License-Identifier: Apache-2.0
// The heavy tail of made-up weights and activations: Student's t with four degrees of freedom.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

namespace ironcl::layer {

/// In (0, 1), never at its ends. std::uniform_real_distribution differs between standard libraries; this does not.
inline double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

/// The quantile at 0 < p < 1, in closed form: W. T. Shaw, Sampling Student's T distribution, J. Computational Finance
/// 9, 2006.
inline double student_t4(double p) {
  const double root = std::sqrt(4 * p * (1 - p));
  const double q = std::cos(std::acos(std::min(root, 1.0)) / 3) / root;
  return std::copysign(2 * std::sqrt(std::max(q - 1, 0.0)), p - 0.5);
}

}  // namespace ironcl::layer
