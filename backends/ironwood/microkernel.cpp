// SPDX-License-Identifier: Apache-2.0
// One loop, compiled for three widths. This file is compiled with floating-point contraction, which cannot change a
// bit here (see microkernel.h); scale_add.cpp next door is compiled without, because there it would.
#include "backends/ironwood/microkernel.h"

#include <cstring>

namespace ironcl::ironwood {
namespace {

#define IRONCL_INLINE __attribute__((always_inline)) inline

/// kLanes doubles a vector, kVectors vectors a row of c, kRows rows: kRows * kVectors accumulators live in registers.
template <int kLanes, int kVectors, int kRows>
IRONCL_INLINE void multiply(std::int64_t depth, const double* a, const double* b, double* c, bool accumulate) {
  typedef double Vector __attribute__((vector_size(kLanes * sizeof(double))));
  constexpr std::ptrdiff_t kCols = std::ptrdiff_t{kLanes} * kVectors;
  Vector sum[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      if (accumulate) {
        std::memcpy(&sum[i][v], c + i * kCols + std::ptrdiff_t{v} * kLanes, sizeof(Vector));
      } else {
        sum[i][v] = Vector{};
      }
    }
  }
  for (std::int64_t p = 0; p < depth; ++p, a += kRows, b += kCols) {
    Vector right[kVectors];
    for (int v = 0; v < kVectors; ++v) std::memcpy(&right[v], b + std::ptrdiff_t{v} * kLanes, sizeof(Vector));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] += a[i] * right[v];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v)
      std::memcpy(c + i * kCols + std::ptrdiff_t{v} * kLanes, &sum[i][v], sizeof(Vector));
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void multiply_avx512(std::int64_t depth, const double* a, const double* b,
                                                        double* c, bool accumulate) {
  multiply<8, 2, 12>(depth, a, b, c, accumulate);
}
__attribute__((target("avx2,fma"))) void multiply_avx2(std::int64_t depth, const double* a, const double* b,
                                                       double* c, bool accumulate) {
  multiply<4, 2, 6>(depth, a, b, c, accumulate);
}
#endif
void multiply_plain(std::int64_t depth, const double* a, const double* b, double* c, bool accumulate) {
  multiply<2, 2, 4>(depth, a, b, c, accumulate);
}

constexpr Microkernel kPlain{4, 4, multiply_plain};
#if defined(__x86_64__)
constexpr Microkernel kAvx2{6, 8, multiply_avx2};
constexpr Microkernel kAvx512{12, 16, multiply_avx512};
#endif

}  // namespace

const Microkernel& microkernel() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kPlain;
}

}  // namespace ironcl::ironwood
