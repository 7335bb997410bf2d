// SPDX-License-Identifier: Apache-2.0
// Sizes that do not wrap: ceil-division, rounding up, and products and sums that throw instead of overflowing.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace ironcl::numerics {

/// ceil(a / b) for a >= 0, b > 0; never overflows.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return a / b + (a % b != 0 ? 1 : 0); }

/// The least multiple of `b` that is at least a, for a >= 0, b > 0.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) noexcept { return ceil_div(a, b) * b; }

/// a * b for sizes. Throws std::overflow_error where the product does not fit.
constexpr std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw std::overflow_error("a size is beyond 2^63 - 1");
  return product;
}

/// a + b for sizes. Throws std::overflow_error where the sum does not fit.
constexpr std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw std::overflow_error("a size is beyond 2^63 - 1");
  return sum;
}

}  // namespace ironcl::numerics
