// SPDX-License-Identifier: Apache-2.0
// Branch-free casts by exponent arithmetic.
#include "backends/ironwood/quantize_tile.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "backends/numerics/casts.h"

namespace ironcl::ironwood {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu;
constexpr std::uint32_t kInfinity = 0x7f800000u;

/// f32 bits of a finite magnitude of at most 448 to the e4m3fn code, to nearest even.
inline std::uint32_t encode_magnitude(std::uint32_t bits) noexcept {
  // Normal codes: round at bit 20, then move the exponent bias from 127 to 7.
  const std::uint32_t rounded = (bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20;
  const std::uint32_t normal = rounded - (120u << 3);
  // Codes below 2^-6 count multiples of 2^-9: adding 2^14, whose ulp that is, rounds to them.
  const float shifted = std::bit_cast<float>(bits) + 16384.0f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(16384.0f);
  return bits < (121u << 23) ? subnormal : normal;
}

void quantize_e4m3fn(std::span<const float> x, float scale, std::uint8_t* codes) noexcept {
  constexpr std::uint32_t kLargest = 0x43e00000u;  // 448
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i] / scale);
    const std::uint32_t magnitude = bits & kMagnitude;
    const std::uint32_t code = encode_magnitude(std::min(magnitude, kLargest));
    const std::uint32_t sign = (bits >> 24) & 0x80u;
    codes[i] = static_cast<std::uint8_t>(sign | (magnitude > kInfinity ? 0x7fu : code));
  }
}

}  // namespace

void quantize_run(numerics::DType type, std::span<const float> x, float scale, std::uint8_t* codes) noexcept {
  if (type == numerics::DType::e4m3fn) return quantize_e4m3fn(x, scale, codes);
  for (std::size_t i = 0; i < x.size(); ++i) codes[i] = numerics::quantize_one(x[i], scale, type);
}

float amax_of(std::span<const float> x) noexcept {
  std::uint32_t largest = 0;
  for (const float value : x) largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & kMagnitude);
  return largest >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : std::bit_cast<float>(largest);
}

float merge_amax(float a, float b) noexcept { return b > a || b != b ? b : a; }

void make_scales(numerics::DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                 numerics::DType code, numerics::ScaleGrid grid, const numerics::Quantizer& quantizer, float* scales,
                 std::int64_t row_step, std::int64_t col_step) {
  const numerics::ScaleGrid group = grid.resolved(rows, cols);
  const std::int64_t scale_rows = numerics::ceil_div(rows, group.group_rows);
  const std::int64_t scale_cols = numerics::ceil_div(cols, group.group_cols);
  const auto element = static_cast<std::int64_t>(numerics::size_of(source));
  std::vector<float> row(static_cast<std::size_t>(cols));
  std::vector<float> amax(static_cast<std::size_t>(scale_cols));
  for (std::int64_t i = 0; i < scale_rows; ++i) {
    std::fill(amax.begin(), amax.end(), 0.0f);
    const std::int64_t end = std::min(rows, (i + 1) * group.group_rows);
    for (std::int64_t r = i * group.group_rows; r < end; ++r) {
      numerics::decode(source, static_cast<const std::byte*>(x) + r * ld * element, std::span<float>(row));
      for (std::int64_t j = 0; j < scale_cols; ++j) {
        const std::int64_t first = j * group.group_cols;
        const auto width = static_cast<std::size_t>(std::min(group.group_cols, cols - first));
        const float largest = amax_of(std::span<const float>(row).subspan(static_cast<std::size_t>(first), width));
        float& sum = amax[static_cast<std::size_t>(j)];
        sum = merge_amax(sum, largest);
      }
    }
    for (std::int64_t j = 0; j < scale_cols; ++j) {
      scales[i * row_step + j * col_step] = numerics::scale_of(amax[static_cast<std::size_t>(j)], code, quantizer);
    }
  }
}

}  // namespace ironcl::ironwood
