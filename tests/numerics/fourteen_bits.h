// SPDX-License-Identifier: Apache-2.0
// Sums as the fp8 instructions of compute capability 9.0 make them, bit for bit: docs/numerics.md, class tensor14.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "backends/numerics/casts.h"
#include "backends/numerics/formats.h"

namespace ironcl::testing {

/// A product of two codes, and the exponent by which the hardware aligns it: the sum of the exponents that are
/// written in the codes. That of a subnormal is the smallest exponent, so it may be well above the product's leading
/// one.
struct Fp8Product {
  static constexpr int kNone = std::numeric_limits<int>::min();  ///< Of a product that is zero.

  double value = 0;
  int exponent = kNone;

  /// Of codes of e4m3fn or e5m2, finite.
  static Fp8Product of(numerics::DType a_type, std::uint8_t a, numerics::DType b_type, std::uint8_t b) {
    const auto value_of = [](numerics::DType type, std::uint8_t code) {
      return static_cast<double>(type == numerics::DType::e5m2 ? numerics::decode_e5m2(code)
                                                               : numerics::decode_e4m3fn(code));
    };
    const auto exponent_of = [](numerics::DType type, std::uint8_t code) {
      const bool e5m2 = type == numerics::DType::e5m2;
      return std::max(1, e5m2 ? code >> 2 & 31 : code >> 3 & 15) - (e5m2 ? 15 : 7);
    };
    const double value = value_of(a_type, a) * value_of(b_type, b);
    return {value, value == 0 ? kNone : exponent_of(a_type, a) + exponent_of(b_type, b)};
  }
};

/// How a kernel hands its products to the instructions, and what those keep.
struct FourteenBits {
  std::size_t step = 32;  ///< Products an instruction.
  int bits = 13;          ///< After the leading one of the largest term.
};

/// The sum of `products` in this order: every `step` of them and the sum so far are aligned to the largest exponent,
/// each is cut below 2^-bits of it, and what they add up to is cut below 2^-bits of its own leading one.
inline double sum_in_fourteen_bits(std::span<const Fp8Product> products, const FourteenBits& unit = {}) {
  const auto cut = [](double x, int last_place) {
    return std::ldexp(std::trunc(std::ldexp(x, -last_place)), last_place);
  };
  double sum = 0;
  for (std::size_t first = 0; first < products.size(); first += unit.step) {
    const auto terms = products.subspan(first, std::min(unit.step, products.size() - first));
    int largest = sum == 0 ? Fp8Product::kNone : std::ilogb(sum);
    for (const Fp8Product& term : terms) largest = std::max(largest, term.exponent);
    if (largest == Fp8Product::kNone) continue;
    double next = cut(sum, largest - unit.bits);
    for (const Fp8Product& term : terms) next += cut(term.value, largest - unit.bits);  // Exact: a few bits more.
    sum = next == 0 ? 0 : cut(next, std::ilogb(next) - unit.bits);
  }
  return sum;
}

}  // namespace ironcl::testing
