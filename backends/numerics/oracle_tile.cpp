// SPDX-License-Identifier: Apache-2.0
// The tile with the widest vectors that the processor has, chosen at run time without ifuncs (sanitizers forbid
// them).
#include "backends/numerics/oracle_tile.h"

#include <cstring>

namespace ironcl::numerics::detail {
namespace {

using Lanes = double __attribute__((vector_size(kTileCols * sizeof(double))));

[[gnu::always_inline]] inline void tile_body(const double* a, const double* b, std::int64_t depth, double* out) {
  Lanes sum[kTileRows] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes b_row;
    std::memcpy(&b_row, b + k * kTileCols, sizeof b_row);
    for (std::int64_t i = 0; i < kTileRows; ++i) sum[i] += a[k * kTileRows + i] * b_row;
  }
  std::memcpy(out, sum, sizeof sum);
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] void tile_avx512(const double* a, const double* b, std::int64_t depth, double* out) {
  tile_body(a, b, depth, out);
}
[[gnu::target("avx2,fma")]] void tile_avx2(const double* a, const double* b, std::int64_t depth, double* out) {
  tile_body(a, b, depth, out);
}
#endif
void tile_portable(const double* a, const double* b, std::int64_t depth, double* out) { tile_body(a, b, depth, out); }

using Tile = void (*)(const double*, const double*, std::int64_t, double*);

Tile choose_tile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return tile_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tile_avx2;
#endif
  return tile_portable;
}

}  // namespace

void tile_product(const double* a, const double* b, std::int64_t depth, double* out) noexcept {
  static const Tile tile = choose_tile();
  tile(a, b, depth, out);
}

}  // namespace ironcl::numerics::detail
