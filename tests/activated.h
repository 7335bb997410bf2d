// SPDX-License-Identifier: Apache-2.0
// What a product that activates its D must give, of the oracle's answer for its totals.
#pragma once

#include "backends/numerics/experts_oracle.h"

namespace ironcl::testing {

/// D of totals that are judged by `terms`; its magnitudes make activation_terms() what the errors of both come to.
inline numerics::OracleResult activated(numerics::Activation activation, float limit,
                                        const numerics::OracleResult& totals, const numerics::BoundTerms& terms) {
  numerics::OracleResult d;
  d.rows = totals.rows;
  d.cols = totals.cols / 2;
  const auto within = [&](std::int64_t at) {
    const auto i = static_cast<std::size_t>(at);
    return numerics::Within{totals.value[i], numerics::element_bound(terms, totals.value[i], totals.sizes(i))};
  };
  for (std::int64_t i = 0; i < d.rows * d.cols; ++i) {
    const std::int64_t gate = i / d.cols * totals.cols + i % d.cols;
    const numerics::Within h =
        numerics::activation_oracle(activation, within(gate), within(gate + d.cols), static_cast<double>(limit));
    d.value.push_back(h.value);
    d.magnitude.push_back(numerics::activation_magnitude(h));
  }
  return d;
}

}  // namespace ironcl::testing
