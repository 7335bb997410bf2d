// SPDX-License-Identifier: Apache-2.0
#include "host/quantize/codec.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/clones.h"
#include "backends/numerics/quantize.h"

namespace ironcl::quantize {
namespace {

using numerics::bytes_of;

/// Calls visit(index of the scale, first column, end) for each group of a row.
void each_group(std::int64_t width, std::int64_t cols, auto visit) {
  for (std::int64_t group = 0, begin = 0; begin < cols; ++group, begin += width)
    visit(group, begin, std::min(begin + width, cols));
}

/// The MXFP4 scale of compressed-tensors and quark, and the OCP rule but for its largest quarter.
float power_for_e2m1(float amax) noexcept {
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(amax) + 0x200000u) & 0x7f800000u;
  return std::max(std::bit_cast<float>(power) / 4, 0x1p-127f);
}

/// Writes the scale of a group of that amax to `at` and gives what the codes are divided by.
float store_scale(const Scheme& scheme, float amax, float global, std::byte* at) noexcept {
  if (scheme.global) {
    // In this order, as compressed-tensors: a global scale that multiplies divides here.
    const float part = amax / static_cast<float>(numerics::largest(scheme.code));
    float local = numerics::decode_e4m3fn(
        numerics::encode_e4m3fn(scheme.global_divides ? global * part : part / global, numerics::Overflow::saturate));
    if (local == 0) local = 0.125f;
    numerics::encode(scheme.scale, {&local, 1}, at);
    return scheme.global_divides ? local / global : local * global;
  }
  const bool mxfp4 = scheme.scale == DType::e8m0 && scheme.code == DType::e2m1;
  const float scale = mxfp4 ? power_for_e2m1(amax) : numerics::scale_of(amax, scheme.code, {});
  numerics::encode(scheme.scale, {&scale, 1}, at);
  float stored = 0;
  numerics::decode(scheme.scale, at, std::span<float>(&stored, 1));
  return stored;
}

/// Codes of a run whose first element begins a byte.
void encode_run(DType type, std::span<const float> x, float scale, std::byte* at) noexcept {
  auto* out = reinterpret_cast<std::uint8_t*>(at);
  if (type != DType::e2m1) return numerics::quantize_run(type, x, scale, out);
  std::array<std::uint8_t, 256> codes{};
  for (std::size_t first = 0; first < x.size(); first += codes.size()) {
    const auto part = x.subspan(first, std::min(codes.size(), x.size() - first));
    numerics::quantize_run(type, part, scale, codes.data());
    for (std::size_t i = 0; i + 1 < part.size(); i += 2)
      *out++ = static_cast<std::uint8_t>(codes[i] | codes[i + 1] << 4);
  }
}

/// A row whose groups are of at most 64: its values are divided group by group, and become codes many at a time.
IRONCL_CLONES void encode_short_groups(const Scheme& scheme, std::int64_t width, std::span<const float> x,
                                       float global, Encoded out) noexcept {
  std::array<float, 512> scaled;
  std::byte* scale_at = out.scales.data();
  for (std::size_t first = 0; first < x.size(); first += scaled.size()) {
    const auto part = x.subspan(first, std::min(scaled.size(), x.size() - first));
    each_group(width, static_cast<std::int64_t>(part.size()), [&](auto, auto begin, auto end) {
      const auto group = part.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      const float amax = std::bit_cast<float>(numerics::largest_magnitude_bits(group));
      const float scale = store_scale(scheme, amax, global, scale_at);
      scale_at += numerics::size_of(scheme.scale);
      float* to = scaled.data() + begin;
      for (const float value : group) *to++ = scale == 0 && value == 0 ? value : value / scale;
    });
    encode_run(scheme.code, std::span(scaled).first(part.size()), 1,
               out.codes.data() + bytes_of(scheme.code, static_cast<std::int64_t>(first)));
  }
}

}  // namespace

float global_scale(const Scheme& scheme, float amax) noexcept {
  if (!scheme.global) return 1;
  const float whole = 448 * static_cast<float>(numerics::largest(scheme.code));
  const float magnitude = std::isnan(amax) ? amax : std::max(amax, 1e-10f);
  // By the reciprocal, as PyTorch divides a number by a tensor: compressed-tensors' very bits.
  return scheme.global_divides ? whole * (1 / magnitude) : magnitude / whole;
}

void encode(const Scheme& scheme, std::span<const float> x, std::int64_t rows, std::int64_t cols, float amax,
            Encoded out) noexcept {
  if (!scheme.quantized()) return numerics::encode(scheme.code, x, out.codes.data());
  const ScaleGrid grid = scheme.grid.resolved(rows, cols);
  const std::int64_t scale_cols = scheme.grid.scale_cols(cols), row_bytes = bytes_of(scheme.code, cols);
  const std::size_t scale_bytes = numerics::size_of(scheme.scale);
  const float global = global_scale(scheme, amax);
  const auto run = [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
    return x.subspan(static_cast<std::size_t>(row * cols + begin), static_cast<std::size_t>(end - begin));
  };
  std::byte* scale_at = out.scales.data();
  for (std::int64_t first = 0; first < rows; first += grid.group_rows) {
    if (scheme.grid.group_rows == 1 && grid.group_cols <= 64 && 512 % grid.group_cols == 0) {
      encode_short_groups(scheme, grid.group_cols, run(first, 0, cols), global,
                          {out.codes.subspan(static_cast<std::size_t>(first * row_bytes)),
                           out.scales.subspan(static_cast<std::size_t>(first * scale_cols) * scale_bytes)});
      continue;
    }
    const std::int64_t last = std::min(first + grid.group_rows, rows);
    each_group(grid.group_cols, cols, [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
      std::uint32_t top = 0;
      if (scheme.grid == ScaleGrid{0, 0}) {
        top = std::bit_cast<std::uint32_t>(amax);
      } else {
        for (std::int64_t row = first; row < last; ++row)
          top = numerics::largest_magnitude_bits(run(row, begin, end), top);
      }
      const float scale = store_scale(scheme, std::bit_cast<float>(top), global,
                                      scale_at + static_cast<std::size_t>(group) * scale_bytes);
      for (std::int64_t row = first; row < last; ++row)
        encode_run(scheme.code, run(row, begin, end), scale,
                   out.codes.data() + row * row_bytes + bytes_of(scheme.code, begin));
    });
    scale_at += static_cast<std::size_t>(scale_cols) * scale_bytes;
  }
}

void decode(const Scheme& scheme, std::span<const std::byte> codes, std::span<const std::byte> scales,
            std::int64_t rows, std::int64_t cols, float global, std::span<float> x) noexcept {
  const ScaleGrid grid = scheme.grid.resolved(rows, cols);
  const std::int64_t scale_cols = scheme.grid.scale_cols(cols), row_bytes = bytes_of(scheme.code, cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto values = x.subspan(static_cast<std::size_t>(row * cols), static_cast<std::size_t>(cols));
    numerics::decode(scheme.code, codes.data() + row * row_bytes, values);
    if (!scheme.quantized()) continue;
    each_group(grid.group_cols, cols, [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
      auto scale = static_cast<float>(
          numerics::load_as_f64(scheme.scale, scales.data(), row / grid.group_rows * scale_cols + group));
      if (scheme.global) scale = scheme.global_divides ? scale / global : scale * global;
      for (std::int64_t col = begin; col < end; ++col) values[static_cast<std::size_t>(col)] *= scale;
    });
  }
}

void Loss::add(std::span<const float> before, std::span<const float> after) noexcept {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double x = before[i], y = after[i], difference = std::abs(y - x);
    if (!std::isfinite(difference)) {
      ++nonfinite;
      continue;
    }
    ++count;
    zeroed += y == 0 && x != 0 ? 1 : 0;
    signal += x * x;
    noise += difference * difference;
    error += difference;
    largest_error = std::max(largest_error, difference);
  }
}

void Loss::add(const Loss& other) noexcept {
  count += other.count;
  nonfinite += other.nonfinite;
  zeroed += other.zeroed;
  signal += other.signal;
  noise += other.noise;
  error += other.error;
  largest_error = std::max(largest_error, other.largest_error);
}

double Loss::mean_error() const noexcept { return count == 0 ? 0 : error / static_cast<double>(count); }

double Loss::snr_db() const noexcept {
  if (count == 0 && nonfinite != 0) return std::numeric_limits<double>::quiet_NaN();
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

double Loss::zeroed_share() const noexcept {
  return count == 0 ? 0 : static_cast<double>(zeroed) / static_cast<double>(count);
}

}  // namespace ironcl::quantize
