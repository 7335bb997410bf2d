// SPDX-License-Identifier: Apache-2.0
// Compiled without floating-point contraction: each of the three operations rounds once, on every host.
#include "backends/ironwood/microkernel.h"
#include "backends/numerics/clones.h"

namespace ironcl::ironwood {

IRONCL_CLONES void scale_add(const double* c, int nr, int rows, int cols, const float* scale_m, const float* scale_n,
                             float* acc, std::int64_t pitch) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      acc[i * pitch + j] += (static_cast<float>(c[i * nr + j]) * scale_n[j]) * scale_m[i];
    }
  }
}

}  // namespace ironcl::ironwood
