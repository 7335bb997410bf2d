// SPDX-License-Identifier: Apache-2.0
// A matrix with a bound for each element, and results against it. Next door: oracle.h (where bounds come from).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/numerics/bounds.h"

namespace ironcl::layer {

/// A matrix with a bound for each element: |device - value| <= bound. NaN where a device must have NaN.
struct Bounded {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> value, bound;
  numerics::DType dtype = numerics::DType::f32;  ///< What a device has it in, which may have no number for a value.
};

/// got [rows, cols] against a bound for each element.
numerics::Comparison compare(std::span<const double> got, const Bounded& want);

/// Two devices: they may differ by the sum of their bounds.
numerics::Comparison compare(std::span<const double> got, const Bounded& want, std::span<const double> other,
                             const Bounded& other_want);

}  // namespace ironcl::layer
