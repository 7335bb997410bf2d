// SPDX-License-Identifier: Apache-2.0
// Sizes that do not wrap: ceil-division, rounding up, and products and sums that throw instead of overflowing, of
// bare integers and of a type of their own.
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

/// A number of bytes or elements, 0 to 2^63 - 1. Sums and products that would be larger throw std::overflow_error, so
/// a size that was computed with this type is the true one. Take it out with value() only where it is used.
class Size {
 public:
  constexpr Size() noexcept = default;
  /// Throws std::overflow_error for a negative count.
  constexpr Size(std::int64_t count) : value_(count) {  // NOLINT(google-explicit-constructor): 2 * size reads well
    if (count < 0) throw std::overflow_error("a size is negative");
  }

  constexpr std::int64_t value() const noexcept { return value_; }
  constexpr std::uint64_t bytes() const noexcept { return static_cast<std::uint64_t>(value_); }

  /// The next multiple of `unit` (at least 1), or this where it is one.
  constexpr Size padded_to(std::int64_t unit) const { return checked_mul(ceil_div(value_, unit), unit); }

  friend constexpr Size operator+(Size a, Size b) { return checked_add(a.value_, b.value_); }
  friend constexpr Size operator*(Size a, Size b) { return checked_mul(a.value_, b.value_); }
  constexpr Size& operator+=(Size other) { return *this = *this + other; }
  // clang-tidy 14 takes the 0 of comparisons that the compiler writes for a pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend constexpr auto operator<=>(const Size&, const Size&) = default;

 private:
  std::int64_t value_ = 0;
};

}  // namespace ironcl::numerics
