// SPDX-License-Identifier: Apache-2.0
// What activations must give, with bounds: of exact gates and ups, and of a product's totals.
#pragma once

#include <cmath>

#include "backends/numerics/experts_oracle.h"

namespace ironcl::testing {

/// Appends an activation that is rounded to d.dtype.
inline void append(numerics::Bounded& d, const numerics::Within& h) {
  d.value.push_back(h.value);
  d.bound.push_back(h.error + numerics::unit_roundoff(d.dtype) * std::fabs(h.value) +
                    numerics::smallest_subnormal(d.dtype) / 2);
}

/// D in `out` of totals with their bounds.
inline numerics::Bounded activated(numerics::Activation activation, float limit, const numerics::Bounded& totals,
                                   numerics::DType out) {
  numerics::Bounded d{totals.rows, totals.cols / 2, {}, {}, out};
  const auto within = [&](std::int64_t at) {
    const auto i = static_cast<std::size_t>(at);
    return numerics::Within{totals.value[i], totals.bound[i]};
  };
  for (std::int64_t i = 0; i < d.rows * d.cols; ++i) {
    const std::int64_t gate = i / d.cols * totals.cols + i % d.cols;
    append(d,
           numerics::activation_oracle(activation, within(gate), within(gate + d.cols), static_cast<double>(limit)));
  }
  return d;
}

}  // namespace ironcl::testing
