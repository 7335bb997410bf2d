// SPDX-License-Identifier: Apache-2.0
// What the vector unit does to the sum of a K group, in three widths of one loop. Meaning: Microkernel::scale_add.
#pragma once

#include <cstdint>

namespace ironcl::ironwood {

void scale_add_plain(const double* c, int rows, int cols, const float* scale_m, const float* scale_n, float* acc,
                     std::int64_t pitch);
#if defined(__x86_64__)
void scale_add_avx2(const double* c, int rows, int cols, const float* scale_m, const float* scale_n, float* acc,
                    std::int64_t pitch);
void scale_add_avx512(const double* c, int rows, int cols, const float* scale_m, const float* scale_n, float* acc,
                      std::int64_t pitch);
#endif

}  // namespace ironcl::ironwood
