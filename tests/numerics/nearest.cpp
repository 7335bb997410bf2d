// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/nearest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace ironcl::test {

NearestTable::NearestTable(std::uint32_t codes, int mantissa_bits, int bias, std::uint32_t top,
                           std::uint32_t sign_bit)
    : top_(top), sign_bit_(sign_bit) {
  const auto value_of = [&](std::uint32_t code) {
    const auto exponent = static_cast<int>(code >> mantissa_bits);
    const double fraction = static_cast<double>(code & ((1u << mantissa_bits) - 1)) / (1u << mantissa_bits);
    return exponent == 0 ? std::pow(2.0, 1 - bias) * fraction : std::pow(2.0, exponent - bias) * (1 + fraction);
  };
  for (std::uint32_t code = 0; code < codes; ++code) magnitudes_.push_back(value_of(code));
  beyond_ = value_of(codes);
}

std::uint32_t NearestTable::operator()(double value, numerics::Overflow overflow) const {
  const std::uint32_t sign = std::signbit(value) ? sign_bit_ : 0;
  const double magnitude = std::fabs(value);
  const auto last = static_cast<std::uint32_t>(magnitudes_.size() - 1);
  // Ties go to even: the midpoint above the largest value is an overflow only where the largest code is odd.
  const double limit = (magnitudes_.back() + beyond_) / 2;
  if (magnitude > limit || (magnitude == limit && last % 2 == 1)) {
    return sign | (overflow == numerics::Overflow::saturate ? last : top_);
  }
  const auto above_it = std::lower_bound(magnitudes_.begin(), magnitudes_.end(), magnitude);
  if (above_it == magnitudes_.end()) return sign | last;
  const auto above = static_cast<std::uint32_t>(above_it - magnitudes_.begin());
  if (above == 0) return sign;
  const double up = magnitudes_[above] - magnitude;
  const double down = magnitude - magnitudes_[above - 1];
  if (up != down) return sign | (up < down ? above : above - 1);
  return sign | (above % 2 == 0 ? above : above - 1);
}

std::vector<double> NearestTable::midpoints() const {
  std::vector<double> points;
  for (std::size_t i = 1; i < magnitudes_.size(); ++i) points.push_back((magnitudes_[i - 1] + magnitudes_[i]) / 2);
  points.push_back((magnitudes_.back() + beyond_) / 2);
  return points;
}

const NearestTable& nearest_e4m3fn() {
  static const NearestTable table(0x7f, 3, 7, 0x7f, 0x80);
  return table;
}
const NearestTable& nearest_e5m2() {
  static const NearestTable table(0x7c, 2, 15, 0x7c, 0x80);
  return table;
}
const NearestTable& nearest_f16() {
  static const NearestTable table(0x7c00, 10, 15, 0x7c00, 0x8000);
  return table;
}
const NearestTable& nearest_bf16() {
  static const NearestTable table(0x7f80, 7, 127, 0x7f80, 0x8000);
  return table;
}

std::vector<float> hard_values(const NearestTable& table, int random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0f,      kInfinity, std::numeric_limits<float>::max(),
                               0x1p-149f, 0x1p-126f, 0x1.fffffcp-127f};
  for (const double point : table.midpoints()) {
    const auto tie = static_cast<float>(point);
    values.insert(values.end(), {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInfinity)});
  }
  for (std::size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
  std::mt19937 bits(20240607);
  while (random > 0) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    if (std::isnan(value)) continue;
    values.push_back(value);
    --random;
  }
  return values;
}

}  // namespace ironcl::test
