// SPDX-License-Identifier: Apache-2.0
// A second definition of the casts to compare with: all values of a format in a list, and a search for the nearest.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/numerics/casts.h"

namespace ironcl::test {

/// The finite magnitudes of a binary format by the formula of its specification; the index is the code without sign.
class NearestTable {
 public:
  /// `codes` finite codes, of `mantissa_bits` and `bias`; `top` is the code of overflow in the plain form.
  NearestTable(std::uint32_t codes, int mantissa_bits, int bias, std::uint32_t top, std::uint32_t sign_bit);

  /// The code with sign of a value that is no NaN: nearest in f64, ties to the even code.
  std::uint32_t operator()(double value, numerics::Overflow overflow) const;

  const std::vector<double>& magnitudes() const { return magnitudes_; }
  /// Values where rounding is decided: every midpoint of neighbours, also the one past the largest.
  std::vector<double> midpoints() const;

 private:
  std::vector<double> magnitudes_;
  double beyond_;  // What would follow the largest finite value.
  std::uint32_t top_, sign_bit_;
};

const NearestTable& nearest_e4m3fn();
const NearestTable& nearest_e5m2();
const NearestTable& nearest_f16();
const NearestTable& nearest_bf16();

/// Floats worth casting: all midpoints of the table with their two neighbours in f32, both signs, zeros, infinities,
/// the ends of f32, and `random` bit patterns of a fixed seed. No NaN.
std::vector<float> hard_values(const NearestTable& table, int random);

}  // namespace ironcl::test
