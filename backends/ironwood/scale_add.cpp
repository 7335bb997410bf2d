// SPDX-License-Identifier: Apache-2.0
// Compiled without floating-point contraction: each of the three operations rounds once, on every host.
#include "backends/ironwood/microkernel.h"

namespace ironcl::ironwood {
namespace {

template <int kCols>
__attribute__((always_inline)) inline void scale_add(const double* c, int rows, int cols, const float* scale_m,
                                                     const float* scale_n, float* acc, std::int64_t pitch) {
  if (cols == kCols) {  // the usual case, with a trip count that the compiler can use
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < kCols; ++j) {
        acc[i * pitch + j] += (static_cast<float>(c[i * kCols + j]) * scale_n[j]) * scale_m[i];
      }
    }
    return;
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      acc[i * pitch + j] += (static_cast<float>(c[i * kCols + j]) * scale_n[j]) * scale_m[i];
    }
  }
}

}  // namespace

void scale_add_plain(const double* c, int rows, int cols, const float* scale_m, const float* scale_n, float* acc,
                     std::int64_t pitch) {
  scale_add<4>(c, rows, cols, scale_m, scale_n, acc, pitch);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) void scale_add_avx2(const double* c, int rows, int cols, const float* scale_m,
                                                    const float* scale_n, float* acc, std::int64_t pitch) {
  scale_add<8>(c, rows, cols, scale_m, scale_n, acc, pitch);
}
__attribute__((target("avx512f"))) void scale_add_avx512(const double* c, int rows, int cols, const float* scale_m,
                                                         const float* scale_n, float* acc, std::int64_t pitch) {
  scale_add<16>(c, rows, cols, scale_m, scale_n, acc, pitch);
}
#endif

}  // namespace ironcl::ironwood
