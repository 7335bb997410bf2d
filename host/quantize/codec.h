// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix in and out of a scheme's codes and scales, and what is lost by it. Next door: scheme.h (what they
// are called in a folder), backends/numerics/quantize.h (the quantiser of activations, with the same rules).
//
//   s = amax / largest(code)            in f32, amax at least 1e-10; then as the scale's type stores it:
//   f32, f16, bf16                      rounded to nearest even
//   e8m0                                2^ceil(log2 s), which never saturates. Beside e2m1: of 2^(e - 2) for the e of
//                                       amax, one more from 1.75 * 2^e on (compressed-tensors, quark)
//   e4m3fn beside a global scale        rounded; 0 becomes 0.125. Global: 2688 / amax of the tensor, or amax / 2688
//
//   q = RNE(x / s)                      s as stored (and with the global one), in f32; saturated
//
// A group with a NaN or an infinity has a NaN scale; see docs/quantize.md.
#pragma once

#include <cstddef>
#include <span>

#include "host/quantize/scheme.h"

namespace ironcl::quantize {

/// Codes and scales of whole rows, as they lie in a file: rows of codes tight (two of e2m1 to a byte, the first in
/// its lower half), scales row by row.
struct Encoded {
  std::span<std::byte> codes, scales;
};

/// The global scale of a tensor whose largest magnitude is `amax`; 1 where the scheme has none.
float global_scale(const Scheme& scheme, float amax) noexcept;

/// Encodes x [rows, cols], tight, whose first row begins a block. `amax` is the whole tensor's where the scheme
/// needs_tensor_amax(), and else not read. cols is even for e2m1.
void encode(const Scheme& scheme, std::span<const float> x, std::int64_t rows, std::int64_t cols, float amax,
            Encoded out) noexcept;

/// The values of `rows` rows of codes, the first of which begins a block.
void decode(const Scheme& scheme, std::span<const std::byte> codes, std::span<const std::byte> scales,
            std::int64_t rows, std::int64_t cols, float global, std::span<float> x) noexcept;

/// Sums over pairs of values. Pairs with a value that is not finite are counted and else left out.
struct Loss {
  std::int64_t count = 0;                   ///< Finite pairs.
  std::int64_t nonfinite = 0;               ///< Others.
  std::int64_t zeroed = 0;                  ///< Values other than 0 that became 0.
  double signal = 0, noise = 0, error = 0;  ///< Sums of x^2, (y - x)^2, |y - x|.
  double largest_error = 0;

  void add(std::span<const float> before, std::span<const float> after) noexcept;
  void add(const Loss& other) noexcept;

  double mean_error() const noexcept;  ///< Of |y - x|.
  double snr_db()
      const noexcept;  ///< 10 log10(signal / noise); infinite where nothing was lost, NaN where nothing is left.
  double zeroed_share() const noexcept;  ///< As a share of the finite values.
};

}  // namespace ironcl::quantize
