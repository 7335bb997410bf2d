// SPDX-License-Identifier: Apache-2.0
#include "host/quantize/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ironcl::quantize {

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
    largest_value = std::max(largest_value, std::abs(x));
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
  largest_value = std::max(largest_value, other.largest_value);
}

double Loss::mean_error() const noexcept { return count == 0 ? 0 : error / static_cast<double>(count); }

double Loss::snr_db() const noexcept {
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

double Loss::zeroed_share() const noexcept {
  return count == 0 ? 0 : static_cast<double>(zeroed) / static_cast<double>(count);
}

}  // namespace ironcl::quantize
