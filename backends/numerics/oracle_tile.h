// SPDX-License-Identifier: Apache-2.0
// The inner loop of the oracle: a small tile of dot products in f64. Next door: oracle.cpp (blocks, scales, threads).
#pragma once

#include <cstdint>

namespace ironcl::numerics::detail {

inline constexpr std::int64_t kTileRows = 6;
inline constexpr std::int64_t kTileCols = 8;

/// out[i][j] = sum over k < depth of a[k][i] * b[k][j] in the order of k, for one kTileRows x kTileCols tile.
/// `a` is [depth, kTileRows], `b` [depth, kTileCols], `out` [kTileRows, kTileCols], all tight. The products of the
/// project's formats are exact in f64, so fused and separate multiply-adds agree and so do all processors.
void tile_product(const double* a, const double* b, std::int64_t depth, double* out) noexcept;

}  // namespace ironcl::numerics::detail
