// SPDX-License-Identifier: Apache-2.0
// Every block of every expert beside the same block of the others, by the logarithm of its weights' mean square.
#include "host/layer/odd_scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/numerics/casts.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

constexpr std::int64_t kFewestExperts = 5;
/// In logarithms to the base 2.
constexpr double kLeast = 1;
constexpr double kDeviations = 8;
/// Of a normal distribution: standard deviation over median absolute deviation.
constexpr double kOfMad = 1.4826;
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

/// The median of what is no NaN, which is kNothing where there is nothing.
double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return kNothing;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Squares of the 256 codes; 0 for those that are no number.
std::array<double, 256> squares_of(DType code) {
  std::array<double, 256> squares{};
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const auto byte = static_cast<std::byte>(i);
    double value = 0;
    numerics::decode(code, &byte, std::span<double>(&value, 1));
    squares[i] = std::isfinite(value) ? value * value : 0;
  }
  return squares;
}

/// Of each block, log2 of scale times root of the mean square of its codes; nothing where all codes are 0.
std::vector<double> sizes_of(const MatrixForm& form, const StackedMatrices& matrix,
                             const std::array<double, 256>& squares) {
  const numerics::ScaleGrid grid = form.scale.grid.resolved(matrix.n, matrix.k);
  const std::int64_t rows = grid.scale_rows(matrix.n), cols = grid.scale_cols(matrix.k);
  std::vector<double> scales(static_cast<std::size_t>(rows * cols)), sizes;
  numerics::decode(form.scale.dtype, matrix.scales.data(), std::span<double>(scales));
  // A mean of a quarter of a large block is as good as one of all of it.
  const std::int64_t stride = grid.group_rows >= 32 ? 4 : 1;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      double sum = 0;
      std::int64_t count = 0;
      const std::int64_t first = col * grid.group_cols, end = std::min(first + grid.group_cols, matrix.k);
      for (std::int64_t n = row * grid.group_rows; n < std::min((row + 1) * grid.group_rows, matrix.n); n += stride) {
        const auto* codes = reinterpret_cast<const std::uint8_t*>(matrix.codes.data()) + n * matrix.k;
        for (std::int64_t k = first; k < end; ++k) sum += squares[codes[k]];
        count += end - first;
      }
      const double scale = std::fabs(scales[static_cast<std::size_t>(row * cols + col)]);
      sizes.push_back(sum == 0 ? kNothing : std::log2(scale) + std::log2(sum / static_cast<double>(count)) / 2);
    }
  }
  return sizes;
}

void search(const ExpertsSource& source, Projection projection, std::vector<OddScale>& found) {
  const GatedForm& gated = source.form().experts;
  const MatrixForm& form = projection == Projection::down ? gated.down : gated.gate;
  if (form.scale.dtype == DType::none || !numerics::is_quantized(form.code) || numerics::size_of(form.code) != 1)
    return;
  const std::array<double, 256> squares = squares_of(form.code);
  std::vector<std::vector<double>> sizes;
  for (std::int64_t expert = 0; expert < gated.count; ++expert)
    sizes.push_back(sizes_of(form, source.matrix(false, projection, expert), squares));
  const std::size_t blocks = sizes.front().size();
  std::vector<double> all;
  for (std::size_t block = 0; block < blocks; ++block) {
    std::vector<double> there;
    there.reserve(sizes.size());
    for (const auto& own : sizes) there.push_back(own[block]);
    const double middle = median(there);
    for (auto& own : sizes) {
      own[block] -= middle;
      all.push_back(std::fabs(own[block]));
    }
  }
  const double deviation = median(all), limit = std::max(kLeast, kDeviations * kOfMad * deviation);
  const std::int64_t k = shape_of(source.form(), gated, projection).second;
  const std::int64_t cols = form.scale.grid.scale_cols(k);
  for (std::size_t expert = 0; expert < sizes.size(); ++expert) {
    const std::vector<double>& own = sizes[expert];
    const auto odd = [limit](double size) { return std::fabs(size) > limit; };
    const auto count = static_cast<std::size_t>(std::count_if(own.begin(), own.end(), odd));
    const bool whole = own.size() > 1 && 2 * count > own.size();
    for (std::size_t block = 0; block < own.size(); ++block) {
      if (!odd(own[block])) continue;
      found.push_back({static_cast<std::int64_t>(expert), projection, static_cast<std::int64_t>(block) / cols,
                       static_cast<std::int64_t>(block) % cols, whole, std::exp2(whole ? median(own) : own[block]),
                       std::exp2(deviation)});
      if (whole) break;
    }
  }
}

}  // namespace

std::string OddScale::text() const {
  return fmt::format(
      "expert {}: {} of its {} make{} the weights {:.3g} times as large as those of the other experts there, which "
      "differ by {:.3g}",
      expert, whole ? "the scales" : fmt::format("scale [{}, {}]", row, col), name_of(matrix), whole ? "" : "s",
      factor, usual);
}

std::vector<OddScale> find_odd_scales(const ExpertsSource& source) {
  std::vector<OddScale> found;
  const GatedForm& gated = source.form().experts;
  if (gated.count < kFewestExperts) return found;
  if (gated.stored_fused) {
    search(source, Projection::gate_up, found);
  } else {
    search(source, Projection::gate, found);
    search(source, Projection::up, found);
  }
  search(source, Projection::down, found);
  std::stable_sort(found.begin(), found.end(), [](const OddScale& a, const OddScale& b) {
    return std::fabs(std::log2(a.factor)) > std::fabs(std::log2(b.factor));
  });
  return found;
}

}  // namespace ironcl::layer
