// SPDX-License-Identifier: Apache-2.0
// Loops without branches. casts.cpp has the same conversions for single values; a test compares the two.
#include "backends/numerics/quantize_run.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "backends/numerics/clones.h"
#include "backends/numerics/quantize.h"

namespace ironcl::numerics {
namespace {

constexpr std::int32_t kMagnitude = 0x7fffffff, kF32Infinity = 0x7f800000;

/// A float format of at most eight bits.
struct Narrow {
  int mantissa, bias, sign_shift;
  std::int32_t max_code, nan_code;
};
constexpr Narrow kE4m3fn{3, 7, 7, 0x7e, 0x7f};
constexpr Narrow kE5m2{2, 15, 7, 0x7b, 0x7e};
constexpr Narrow kE2m1{1, 1, 3, 0x7, 0x0};

/// `yes` or `no`, by masks: a branch, into which a compiler would move the sum of floats, makes no vector code.
constexpr std::int32_t choose(bool condition, std::int32_t yes, std::int32_t no) {
  const std::int32_t mask = -static_cast<std::int32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

template <Narrow F>
void float_run(std::span<const float> x, float scale, std::uint8_t* codes) {
  constexpr int shift = 23 - F.mantissa;
  constexpr std::int32_t lowest_normal = (128 - F.bias) << 23;
  constexpr std::int32_t rebias = (127 - F.bias) << F.mantissa;
  // Its last place is F's smallest subnormal: adding it rounds a smaller value to F's grid.
  constexpr std::int32_t grid_bits = (151 - F.bias - F.mantissa) << 23;
  constexpr auto grid = std::bit_cast<float>(grid_bits);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto bits = std::bit_cast<std::int32_t>(x[i] / scale);
    const std::int32_t magnitude = bits & kMagnitude;
    const std::int32_t finite = std::min(magnitude, kF32Infinity);
    const std::int32_t odd = (finite >> shift) & 1;
    const std::int32_t normal = ((finite + (1 << (shift - 1)) - 1 + odd) >> shift) - rebias;
    const std::int32_t subnormal = std::bit_cast<std::int32_t>(std::bit_cast<float>(finite) + grid) - grid_bits;
    const std::int32_t code = choose(finite < lowest_normal, subnormal, std::min(normal, F.max_code));
    const std::int32_t sign = (bits >> 31) & (1 << F.sign_shift);
    codes[i] = static_cast<std::uint8_t>(choose(magnitude > kF32Infinity, F.nan_code, code | sign));
  }
}

void i8_run(std::span<const float> x, float scale, std::uint8_t* codes) {
  constexpr float integers = 0x1.8p23f;  // Its last place is 1.
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto bits = std::bit_cast<std::int32_t>(x[i] / scale);
    const std::int32_t magnitude = bits & kMagnitude;
    const std::int32_t clamped = std::min(magnitude, std::bit_cast<std::int32_t>(127.0f)) | (bits & ~kMagnitude);
    const auto sum = std::bit_cast<std::int32_t>(std::bit_cast<float>(clamped) + integers);
    codes[i] = static_cast<std::uint8_t>(choose(magnitude > kF32Infinity, 0, sum));
  }
}

}  // namespace

IRONCL_CLONES std::uint32_t largest_magnitude_bits(std::span<const float> x, std::uint32_t least) noexcept {
  auto top = static_cast<std::int32_t>(least);
  for (const float value : x) top = std::max(top, std::bit_cast<std::int32_t>(value) & kMagnitude);
  return static_cast<std::uint32_t>(top);
}

IRONCL_CLONES void quantize_run(DType type, std::span<const float> x, float scale, std::uint8_t* codes) noexcept {
  if (scale == 0) {  // 0 / 0 is 0 here
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = quantize_one(x[i], scale, type);
    return;
  }
  switch (type) {
    case DType::e4m3fn:
      return float_run<kE4m3fn>(x, scale, codes);
    case DType::e5m2:
      return float_run<kE5m2>(x, scale, codes);
    case DType::e2m1:
      return float_run<kE2m1>(x, scale, codes);
    case DType::i8:
      return i8_run(x, scale, codes);
    default:
      std::fill_n(codes, x.size(), std::uint8_t{0});
  }
}

}  // namespace ironcl::numerics
