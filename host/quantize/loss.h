// SPDX-License-Identifier: Apache-2.0
// What was lost: values before and after, added up.
#pragma once

#include <cstdint>
#include <span>

namespace ironcl::quantize {

/// Sums over pairs of values. Pairs with a value that is not finite are counted and else left out.
struct Loss {
  std::int64_t count = 0;                   ///< Finite pairs.
  std::int64_t nonfinite = 0;               ///< Others.
  std::int64_t zeroed = 0;                  ///< Values other than 0 that became 0.
  double signal = 0, noise = 0, error = 0;  ///< Sums of x^2, (y - x)^2, |y - x|.
  double largest_error = 0, largest_value = 0;

  void add(std::span<const float> before, std::span<const float> after) noexcept;
  void add(const Loss& other) noexcept;

  double mean_error() const noexcept;    ///< Of |y - x|.
  double snr_db() const noexcept;        ///< 10 log10(signal / noise); infinite where nothing was lost.
  double zeroed_share() const noexcept;  ///< As a share of the finite values.
};

}  // namespace ironcl::quantize
