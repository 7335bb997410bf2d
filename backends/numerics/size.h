// SPDX-License-Identifier: Apache-2.0
// Sizes whose arithmetic cannot wrap, by construction: bytes of memory, counts of elements. Next door: checked.h (the
// same for bare integers).
#pragma once

#include <cstdint>

#include "backends/numerics/checked.h"

namespace ironcl::numerics {

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
