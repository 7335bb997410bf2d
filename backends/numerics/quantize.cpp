// SPDX-License-Identifier: Apache-2.0
// The quantiser, a band of group_rows rows at a time: largest magnitudes, scales, codes.
#include "backends/numerics/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"
#include "backends/numerics/elements.h"

namespace ironcl::numerics {
namespace {

constexpr std::uint32_t kF32Infinity = 0x7f800000;

float power_of_two_at_or_above(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (bits < 0x00800000) return std::bit_cast<float>(std::bit_ceil(bits));  // Subnormal: the mantissa is the number.
  return std::bit_cast<float>((bits + 0x007fffff) & kF32Infinity);
}

void check(std::int64_t rows, std::int64_t cols, std::int64_t ld, DType type, const ScaleGrid& grid,
           const Quantizer& quantizer, std::size_t codes, std::size_t scales) {
  const auto fail = [](const std::string& what) { throw std::invalid_argument("quantize: " + what); };
  if (rows < 0 || cols < 0) fail("a matrix of " + std::to_string(rows) + " x " + std::to_string(cols));
  if (ld < cols) fail("the leading dimension is " + std::to_string(ld) + ", a row has " + std::to_string(cols));
  if (!is_quantized(type)) fail("the type is " + std::string(name_of(type)) + "; take e4m3fn, e5m2 or i8");
  if (bits_of(type) != 8) {
    fail("codes of " + std::string(name_of(type)) + " share bytes, this gives each its own; take e4m3fn, e5m2 or i8");
  }
  if (grid.group_rows < 0 || grid.group_cols < 0) {
    fail("groups of " + std::to_string(grid.group_rows) + " x " + std::to_string(grid.group_cols) +
         "; take 0 (the whole dimension) or more");
  }
  if (!(quantizer.amax_floor >= 0) || std::isinf(quantizer.amax_floor))
    fail("amax_floor must be finite and not negative");
  const std::int64_t need_codes = checked_mul(rows, cols);
  const std::int64_t need_scales = checked_mul(grid.scale_rows(rows), grid.scale_cols(cols));
  if (codes < static_cast<std::uint64_t>(need_codes)) {
    fail("room for " + std::to_string(codes) + " codes, the matrix has " + std::to_string(need_codes));
  }
  if (scales < static_cast<std::uint64_t>(need_scales)) {
    fail("room for " + std::to_string(scales) + " scales, the grid has " + std::to_string(need_scales));
  }
}

}  // namespace

float scale_of(float amax, DType type, const Quantizer& quantizer) noexcept {
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  const float scale = std::max(amax, quantizer.amax_floor) / static_cast<float>(largest(type));
  return quantizer.rounding == ScaleRounding::power_of_two ? power_of_two_at_or_above(scale) : scale;
}

std::uint8_t quantize_one(float x, float scale, DType type) noexcept {
  // A scale of 0 (a zero group without a floor) must not turn 0 / 0 into NaN.
  const float quotient = x == 0 && scale == 0 ? x : x / scale;
  const auto code_of = element_of(type).code_of;
  return code_of == nullptr ? std::uint8_t{0} : code_of(quotient);
}

void quantize(DType source, const void* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, DType type,
              ScaleGrid grid, const Quantizer& quantizer, std::span<std::uint8_t> q, std::span<float> scales) {
  if (!is_float(source)) {
    throw std::invalid_argument("quantize: the source is " + std::string(name_of(source)) +
                                "; take f32, f16 or bf16");
  }
  check(rows, cols, ld, type, grid, quantizer, q.size(), scales.size());
  if (rows == 0 || cols == 0) return;

  const ScaleGrid groups = grid.resolved(rows, cols);
  const std::int64_t scale_cols = grid.scale_cols(cols);
  const auto width = static_cast<std::size_t>(cols);
  std::vector<float> row_values(width);
  std::vector<std::uint32_t> largest_bits(static_cast<std::size_t>(scale_cols));
  const auto load_row = [&](std::int64_t row) {
    decode(source, static_cast<const unsigned char*>(x) + checked_mul(checked_mul(row, ld), size_of(source)),
           std::span<float>(row_values));
  };
  // Calls visit(scale column, first column, end column) for each group of a row.
  const auto each_group = [&](auto visit) {
    for (std::int64_t group = 0; group < scale_cols; ++group) {
      const std::int64_t begin = group * groups.group_cols;
      visit(group, begin, begin + std::min(groups.group_cols, cols - begin));
    }
  };

  for (std::int64_t band = 0; band < grid.scale_rows(rows); ++band) {
    const std::int64_t first = band * groups.group_rows;
    const std::int64_t end = first + std::min(groups.group_rows, rows - first);
    std::fill(largest_bits.begin(), largest_bits.end(), 0u);
    for (std::int64_t row = first; row < end; ++row) {
      load_row(row);
      // The order of the magnitudes is that of their bits, with NaN above infinity: nothing non-finite gets lost.
      each_group([&](std::int64_t group, std::int64_t begin, std::int64_t stop) {
        std::uint32_t top = largest_bits[static_cast<std::size_t>(group)];
        for (std::int64_t col = begin; col < stop; ++col) {
          top = std::max(top, std::bit_cast<std::uint32_t>(row_values[static_cast<std::size_t>(col)]) & 0x7fffffffu);
        }
        largest_bits[static_cast<std::size_t>(group)] = top;
      });
    }
    float* const band_scales = scales.data() + band * scale_cols;
    for (std::int64_t group = 0; group < scale_cols; ++group) {
      band_scales[group] =
          scale_of(std::bit_cast<float>(largest_bits[static_cast<std::size_t>(group)]), type, quantizer);
    }
    for (std::int64_t row = first; row < end; ++row) {
      if (end - first > 1) load_row(row);
      std::uint8_t* const out = q.data() + row * cols;
      each_group([&](std::int64_t group, std::int64_t begin, std::int64_t stop) {
        for (std::int64_t col = begin; col < stop; ++col) {
          out[col] = quantize_one(row_values[static_cast<std::size_t>(col)], band_scales[group], type);
        }
      });
    }
  }
}

void quantize(MatrixView<const float> x, DType type, ScaleGrid grid, const Quantizer& quantizer,
              std::span<std::uint8_t> q, std::span<float> scales) {
  quantize(DType::f32, x.data, x.rows, x.cols, x.ld, type, grid, quantizer, q, scales);
}

}  // namespace ironcl::numerics
