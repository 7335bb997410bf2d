// SPDX-License-Identifier: Apache-2.0
// The inner product of packed f64 panels, in the widest vectors that this host has. The MXU of the model.
#pragma once

#include <cstdint>

namespace ironcl::ironwood {

/// c[i * nr + j] (+)= sum over p < depth, ascending, of a[p * mr + i] * b[p * nr + j].
/// Every product is exact in f64 (at most 24 + 7 significant bits), so a fused multiply-add and a multiplication
/// followed by an addition round alike: all variants give the same bits.
struct Microkernel {
  int mr, nr;
  void (*run)(std::int64_t depth, const double* a, const double* b, double* c, bool accumulate);
};

inline constexpr int kMaxTile = 12 * 16;  ///< mr * nr of the largest variant.

/// The best variant for this host; the same on every call.
const Microkernel& microkernel() noexcept;

/// acc[i * pitch + j] += (f32(c[i * nr + j]) * scale_n[j]) * scale_m[i] for i < rows, j < cols; each operation
/// rounded.
void scale_add(const double* c, int nr, int rows, int cols, const float* scale_m, const float* scale_n, float* acc,
               std::int64_t pitch);

}  // namespace ironcl::ironwood
