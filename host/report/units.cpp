// SPDX-License-Identifier: Apache-2.0
// Quantities as people read them.
#include "host/report/units.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>

namespace ironcl::report {
namespace {

/// Three significant digits without an exponent, for 0 <= value < 1000 or a little above.
std::string three_digits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

/// `value` divided by `step` until it is below it, with the prefix of the power.
template <std::size_t kCount>
std::string scaled(double value, double step, const std::array<std::string_view, kCount>& prefixes) {
  if (!std::isfinite(value) || value < 0) return exact_number(value);
  std::size_t power = 0;
  while (power + 1 < kCount && value >= step * 0.9995) {
    value /= step;
    ++power;
  }
  const bool whole = power == 0 && value == std::floor(value);
  return fmt::format("{} {}", whole ? fmt::format("{:.0f}", value) : three_digits(value), prefixes[power]);
}

}  // namespace

std::string human_time(double nanoseconds) { return scaled<4>(nanoseconds, 1000, {"ns", "us", "ms", "s"}); }

std::string human_bytes(double bytes) { return scaled<5>(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"}); }

// fmt gives a NaN its sign.
std::string human_number(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.3g}", value); }

std::string exact_number(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

std::string counted(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ironcl::report
