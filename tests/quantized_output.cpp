// SPDX-License-Identifier: Apache-2.0
// A group at a time: is its scale possible, then are its codes.
#include "tests/quantized_output.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "backends/numerics/collector.h"

namespace ironcl::numerics {
namespace {

/// What is known of a group's largest magnitude in f32.
struct Amax {
  double low = 0, high = 0;
  bool must_be_nan = false, may_be_nan = false;

  void add(double reference, double error) {
    constexpr double kF32Overflow = 0x1.ffffffp127;
    const double size = std::fabs(reference);
    must_be_nan = must_be_nan || !std::isfinite(reference) || size - error >= kF32Overflow;
    may_be_nan = may_be_nan || must_be_nan || size + error >= kF32Overflow;
    low = std::max(low, size - error);
    high = std::max(high, size + error);
  }

  bool allows(float scale, DType type, const Quantizer& quantizer, DType stored) const {
    if (std::isnan(scale)) return may_be_nan;
    if (must_be_nan) return false;
    // Rounded outwards: to f32 here, and once more by the division of the quantiser.
    const auto down = std::nextafter(static_cast<float>(low), 0.0f);
    const float up = std::nextafter(static_cast<float>(std::min(high, largest(DType::f32))), HUGE_VALF);
    const float most = std::isfinite(up) ? up : std::numeric_limits<float>::max();
    return scale >= scale_of(down, type, quantizer, stored) && scale <= scale_of(most, type, quantizer, stored);
  }
};

}  // namespace

Comparison compare_quantized(std::span<const double> codes, DType type, std::span<const float> scales, ScaleGrid grid,
                             const Quantizer& quantizer, const Bounded& want, DType scale_type) {
  const std::int64_t grid_cols = grid.scale_cols(want.cols), groups = grid.scale_rows(want.rows) * grid_cols;
  if (std::ssize(codes) != want.rows * want.cols || std::ssize(scales) != groups ||
      want.value.size() != codes.size() || want.bound.size() != codes.size() || !is_quantized(type))
    throw std::invalid_argument("compare_quantized: sizes or types do not fit");
  detail::Collector collector(want.cols);
  const ScaleGrid block = grid.resolved(want.rows, want.cols);
  const std::int64_t in_a_row = std::max<std::int64_t>(grid_cols, 1);
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t row0 = group / in_a_row * block.group_rows, col0 = group % in_a_row * block.group_cols;
    const std::int64_t row_end = row0 + std::min(block.group_rows, want.rows - row0);
    const std::int64_t col_end = col0 + std::min(block.group_cols, want.cols - col0);
    const auto each = [&](auto visit) {
      for (std::int64_t row = row0; row < row_end; ++row)
        for (std::int64_t col = col0; col < col_end; ++col) visit(static_cast<std::size_t>(row * want.cols + col));
    };
    Amax amax;
    each([&](std::size_t i) { amax.add(want.value[i], want.bound[i]); });
    const float scale = scales[static_cast<std::size_t>(group)];
    const bool scale_right = quantizer.given || amax.allows(scale, type, quantizer, scale_type);
    const double reach = largest(type) * std::fabs(static_cast<double>(scale));
    each([&](std::size_t i) {
      const double got = codes[i] * static_cast<double>(scale);
      const double exact = want.value[i], wanted = quantizer.given ? std::clamp(exact, -reach, reach) : exact;
      double ratio = HUGE_VAL;
      if (quantizer.given && std::isnan(exact)) {
        ratio = (type == DType::i8 ? codes[i] == 0 : std::isnan(codes[i])) ? 0 : HUGE_VAL;
      } else if (scale_right && std::isnan(scale)) {
        // i8 has no NaN; its NaN scale speaks for all of the group.
        ratio = type == DType::i8 || std::isnan(codes[i]) ? 0 : HUGE_VAL;
      } else if (scale_right && std::isfinite(got)) {
        const double slack = want.bound[i], error = std::fabs(got - wanted);
        const double bound = slack + (unit_roundoff(type) + 0x1p-23) * (std::fabs(wanted) + slack) +
                             static_cast<double>(scale) * smallest_subnormal(type) / 2;
        ratio = error == 0 ? 0 : bound > 0 ? error / bound : HUGE_VAL;
      }
      collector.add(static_cast<std::int64_t>(i), got, wanted, ratio);
    });
  }
  return collector.finish();
}

}  // namespace ironcl::numerics
