// SPDX-License-Identifier: Apache-2.0
// What the oracle's operations are made of. Private to oracle.cpp.
#pragma once

#include <limits>

#include "backends/numerics/operand.h"
#include "backends/numerics/quantize.h"
#include "host/layer/oracle.h"

namespace ironcl::layer {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kUnit = 0x1p-24;  ///< Half a unit in the last place of an f32 of 1.
/// Room for the products of errors that a bound of first order leaves out.
inline constexpr double kSecondOrder = 1 + 0x1p-10;

/// A matrix as a product takes it: elements and scales.
struct Rows {
  numerics::DType dtype = numerics::DType::none;
  std::vector<std::byte> values, scales;
  report::Scales form{};
  std::int64_t rows = 0, cols = 0;

  numerics::Operand operand() const;
  /// Some rows of it, whose scales are their own.
  Rows gathered(std::span<const std::int64_t> from) const;
};

Rows quantized(const Rows& x, numerics::DType code, const report::Scales& form, const numerics::Quantizer& quantizer);

/// Quantises one group of h: `value` becomes codes times scale, `bound` (of |device - h| before) how far a device's
/// codes times its scale may be from that, which reaches to the neighbouring code where a rounding border lies within
/// the error. A group with anything that is not finite is NaN. `codes` and `scale` are the oracle's own.
void quantize_group(numerics::DType type, const numerics::Quantizer& quantizer, std::span<double> value,
                    std::span<double> bound, std::uint8_t* codes, float& scale);

/// A weighted sum in f32: products and sums, each rounded, as many as there are terms of each.
class WeightedSum {
 public:
  void add(double weight, double weight_error, double value, double error);
  void finish(numerics::DType out, Bounded& to) const;

 private:
  double sum_ = 0, error_ = 0, magnitude_ = 0;
  int terms_ = 0;
  bool undefined_ = false;
};

}  // namespace ironcl::layer
