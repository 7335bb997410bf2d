// SPDX-License-Identifier: Apache-2.0
// A group at a time: is its scale possible, then are its codes.
#include "backends/numerics/quantized_output.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "backends/numerics/checked.h"
#include "backends/numerics/collector.h"
#include "backends/numerics/quantize.h"

namespace ironcl::numerics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kF32Overflow = 0x1.ffffffp127;

// How far the f32 value that was quantised may be from the reference.
double source_error(const BoundTerms& terms, double reference, const Sizes& sizes) noexcept {
  return accumulation_bound(terms, sizes) + 0x1p-24 * std::fabs(reference);
}

// What is known of a group's largest magnitude in f32.
struct Amax {
  double low = 0, high = 0;
  bool must_be_nan = false, may_be_nan = false;

  void add(double reference, double error) {
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
    const float up = std::nextafter(static_cast<float>(std::min(high, largest(DType::f32))),
                                    std::numeric_limits<float>::infinity());
    const float most = std::isfinite(up) ? up : std::numeric_limits<float>::max();
    return scale >= scale_of(down, type, quantizer, stored) && scale <= scale_of(most, type, quantizer, stored);
  }
};

}  // namespace

double quantized_element_bound(const BoundTerms& terms, double reference, const Sizes& sizes, double scale) noexcept {
  const double error = source_error(terms, reference, sizes);
  return error + (unit_roundoff(terms.out) + 0x1p-23) * (std::fabs(reference) + error) +
         scale * smallest_subnormal(terms.out) / 2;
}

Comparison compare_quantized(std::span<const double> codes, std::span<const float> scales, ScaleGrid grid,
                             const Quantizer& quantizer, const OracleResult& want, const BoundTerms& terms,
                             DType scale_type) {
  const std::int64_t elements = checked_mul(want.rows, want.cols);
  const std::int64_t grid_cols = grid.scale_cols(want.cols);
  const std::int64_t groups = checked_mul(grid.scale_rows(want.rows), grid_cols);
  if (codes.size() != static_cast<std::uint64_t>(elements) || scales.size() != static_cast<std::uint64_t>(groups) ||
      want.value.size() != codes.size() || want.magnitude.size() != codes.size()) {
    throw std::invalid_argument("compare_quantized: the oracle is " + std::to_string(want.rows) + " x " +
                                std::to_string(want.cols) + " with " + std::to_string(groups) + " scales; got " +
                                std::to_string(codes.size()) + " codes and " + std::to_string(scales.size()) +
                                " scales");
  }
  if (!is_quantized(terms.out)) {
    throw std::invalid_argument("compare_quantized: the output is " + std::string(name_of(terms.out)) +
                                "; take e4m3fn, e5m2 or i8");
  }
  detail::Collector collector(want.cols);
  const ScaleGrid block = grid.resolved(want.rows, want.cols);
  const std::int64_t in_a_row = std::max<std::int64_t>(grid_cols, 1);
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t row0 = group / in_a_row * block.group_rows, col0 = group % in_a_row * block.group_cols;
    const std::int64_t row_end = row0 + std::min(block.group_rows, want.rows - row0);
    const std::int64_t col_end = col0 + std::min(block.group_cols, want.cols - col0);
    const auto each = [&](auto visit) {
      for (std::int64_t row = row0; row < row_end; ++row) {
        for (std::int64_t col = col0; col < col_end; ++col) visit(static_cast<std::size_t>(row * want.cols + col));
      }
    };
    Amax amax;
    each([&](std::size_t i) { amax.add(want.value[i], source_error(terms, want.value[i], want.sizes(i))); });
    const float scale = scales[static_cast<std::size_t>(group)];
    const bool scale_right = quantizer.given || amax.allows(scale, terms.out, quantizer, scale_type);
    const double reach = largest(terms.out) * std::fabs(static_cast<double>(scale));
    each([&](std::size_t i) {
      const double got = codes[i] * static_cast<double>(scale);
      const double exact = want.value[i], wanted = quantizer.given ? std::clamp(exact, -reach, reach) : exact;
      double ratio = kInfinity;
      if (quantizer.given && std::isnan(exact)) {
        ratio = terms.out == DType::i8 ? (codes[i] == 0 ? 0 : kInfinity) : std::isnan(codes[i]) ? 0 : kInfinity;
      } else if (scale_right && std::isnan(scale)) {
        // i8 has no NaN; its NaN scale speaks for all of the group.
        ratio = terms.out == DType::i8 || std::isnan(codes[i]) ? 0 : kInfinity;
      } else if (scale_right && std::isfinite(got)) {
        const double bound = quantized_element_bound(terms, wanted, want.sizes(i), scale);
        const double error = std::fabs(got - wanted);
        ratio = error == 0 ? 0 : bound > 0 ? error / bound : kInfinity;
      }
      collector.add(static_cast<std::int64_t>(i), got, wanted, ratio);
    });
  }
  return collector.finish();
}

}  // namespace ironcl::numerics
