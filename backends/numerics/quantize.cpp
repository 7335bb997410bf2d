// SPDX-License-Identifier: Apache-2.0
// The quantiser, a band of group_rows rows at a time: largest magnitudes, scales, codes.
#include "backends/numerics/quantize.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/numerics/clones.h"

namespace ironcl::numerics {
namespace {

constexpr std::int32_t kF32Infinity = 0x7f800000;

float power_of_two_at_or_above(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (bits < 0x00800000) return std::bit_cast<float>(std::bit_ceil(bits));  // Subnormal: the mantissa is the number.
  return std::bit_cast<float>((bits + 0x007fffff) & static_cast<std::uint32_t>(kF32Infinity));
}

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument("quantize: " + what); }

void check(DType source, std::int64_t rows, std::int64_t cols, std::int64_t ld, const ScaleGrid& grid,
           const Quantizer& quantizer, const QuantizedMatrix& out) {
  if (!is_float(source)) fail("the source is " + std::string(name_of(source)) + "; take f32, f16 or bf16");
  if (rows < 0 || cols < 0) fail("a matrix of " + std::to_string(rows) + " x " + std::to_string(cols));
  if (ld < cols) fail("the leading dimension is " + std::to_string(ld) + ", a row has " + std::to_string(cols));
  if (!is_quantized(out.type)) fail("the type is " + std::string(name_of(out.type)) + "; take e4m3fn, e5m2 or i8");
  if (bits_of(out.type) != 8) {
    fail("codes of " + std::string(name_of(out.type)) +
         " share bytes, this gives each its own; take e4m3fn, e5m2 or i8");
  }
  if (out.scale_type != DType::f32 && out.scale_type != DType::e8m0)
    fail("scales are stored as " + std::string(name_of(out.scale_type)) + "; take f32 or e8m0");
  if (grid.group_rows < 0 || grid.group_cols < 0) {
    fail("groups of " + std::to_string(grid.group_rows) + " x " + std::to_string(grid.group_cols) +
         "; take 0 (the whole dimension) or more");
  }
  if (out.ld < cols || out.scale_ld < grid.scale_cols(cols)) {
    fail("codes " + std::to_string(out.ld) + " and scales " + std::to_string(out.scale_ld) + " apart, a row has " +
         std::to_string(cols) + " and " + std::to_string(grid.scale_cols(cols)));
  }
  if (!(quantizer.amax_floor >= 0) || std::isinf(quantizer.amax_floor))
    fail("amax_floor must be finite and not negative");
}

// --- Runs: loops without branches. A test compares them with the casts of single values.

constexpr std::int32_t kMagnitude = 0x7fffffff;

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

float scale_of(float amax, DType type, const Quantizer& quantizer, DType stored) noexcept {
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  const float scale = std::max(amax, quantizer.amax_floor) / static_cast<float>(largest(type));
  if (stored == DType::e8m0) return std::max(power_of_two_at_or_above(scale), 0x1p-127f);
  return quantizer.rounding == ScaleRounding::power_of_two ? power_of_two_at_or_above(scale) : scale;
}

std::uint8_t quantize_one(float x, float scale, DType type) noexcept {
  std::uint8_t code = 0;
  quantize_run(type, std::span(&x, 1), scale, &code);
  return code;
}

void quantize(DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, ScaleGrid grid,
              const Quantizer& quantizer, const QuantizedMatrix& out) {
  check(source, rows, cols, ld, grid, quantizer, out);
  if (rows == 0 || cols == 0) return;

  const ScaleGrid groups = grid.resolved(rows, cols);
  const std::int64_t scale_cols = grid.scale_cols(cols);
  const auto width = static_cast<std::size_t>(cols), count = static_cast<std::size_t>(scale_cols);
  std::vector<float> row_values(width), band_scales(count);
  std::vector<std::uint32_t> largest_bits(count);
  const auto load_row = [&](std::int64_t row) {
    decode(source, static_cast<const unsigned char*>(x) + checked_mul(checked_mul(row, ld), size_of(source)),
           std::span<float>(row_values));
  };
  const auto part = [&](std::size_t begin, std::size_t end) {
    return std::span<const float>(row_values).subspan(begin, end - begin);
  };
  // Calls visit(scale column, first column, end column) for each group of a row.
  const auto each_group = [&](auto visit) {
    for (std::int64_t group = 0; group < scale_cols; ++group) {
      const std::int64_t begin = group * groups.group_cols;
      visit(static_cast<std::size_t>(group), static_cast<std::size_t>(begin),
            static_cast<std::size_t>(begin + std::min(groups.group_cols, cols - begin)));
    }
  };

  for (std::int64_t band = 0; band < grid.scale_rows(rows); ++band) {
    const std::int64_t first = band * groups.group_rows;
    const std::int64_t end = first + std::min(groups.group_rows, rows - first);
    std::byte* const stored =
        static_cast<std::byte*>(out.scales) + checked_mul(checked_mul(band, out.scale_ld), size_of(out.scale_type));
    if (quantizer.given) {
      decode(out.scale_type, stored, std::span<float>(band_scales));
    } else {
      std::fill(largest_bits.begin(), largest_bits.end(), 0u);
      for (std::int64_t row = first; row < end; ++row) {
        load_row(row);
        each_group([&](std::size_t group, std::size_t begin, std::size_t stop) {
          largest_bits[group] = largest_magnitude_bits(part(begin, stop), largest_bits[group]);
        });
      }
      for (std::size_t group = 0; group < count; ++group) {
        band_scales[group] = scale_of(std::bit_cast<float>(largest_bits[group]), out.type, quantizer, out.scale_type);
      }
      encode(out.scale_type, std::span<const float>(band_scales), stored);
    }
    for (std::int64_t row = first; row < end; ++row) {
      if (end - first > 1 || quantizer.given) load_row(row);
      auto* const codes = static_cast<std::uint8_t*>(out.codes) + checked_mul(row, out.ld);
      each_group([&](std::size_t group, std::size_t begin, std::size_t stop) {
        quantize_run(out.type, part(begin, stop), band_scales[group], codes + begin);
      });
    }
  }
}

void quantize(DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, DType type,
              ScaleGrid grid, const Quantizer& quantizer, std::span<std::uint8_t> q, std::span<float> scales) {
  QuantizedMatrix out{.type = type, .codes = q.data(), .ld = cols, .scales = scales.data()};
  out.scale_ld = grid.group_cols < 0 || cols < 0 ? 0 : grid.scale_cols(cols);
  check(source, rows, cols, ld, grid, quantizer, out);
  const std::int64_t need_codes = checked_mul(rows, cols);
  const std::int64_t need_scales = checked_mul(grid.scale_rows(rows), grid.scale_cols(cols));
  if (q.size() < static_cast<std::uint64_t>(need_codes)) {
    fail("room for " + std::to_string(q.size()) + " codes, the matrix has " + std::to_string(need_codes));
  }
  if (scales.size() < static_cast<std::uint64_t>(need_scales)) {
    fail("room for " + std::to_string(scales.size()) + " scales, the grid has " + std::to_string(need_scales));
  }
  quantize(source, x, rows, cols, ld, grid, quantizer, out);
}

IRONCL_CLONES std::uint32_t largest_magnitude_bits(std::span<const float> x, std::uint32_t least) noexcept {
  auto top = static_cast<std::int32_t>(least);
  for (const float value : x) top = std::max(top, std::bit_cast<std::int32_t>(value) & kMagnitude);
  return static_cast<std::uint32_t>(top);
}

IRONCL_CLONES void quantize_run(DType type, std::span<const float> x, float scale, std::uint8_t* codes) noexcept {
  if (scale == 0) {  // A zero group without a floor: 0 / 0 is 0 here.
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = quantize_one(x[i] == 0 ? x[i] : x[i] / scale, 1, type);
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
