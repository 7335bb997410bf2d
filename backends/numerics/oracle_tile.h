// SPDX-License-Identifier: Apache-2.0
// The inner loops of the oracle: a small tile of dot products in f64. Next door: oracle.cpp (blocks, scales,
// threads).
#pragma once

#include <array>
#include <cstdint>

namespace ironcl::numerics::detail {

inline constexpr std::int64_t kTileRows = 6;
inline constexpr std::int64_t kTileCols = 8;

/// out[i][j] = sum over k < depth of a[k][i] * b[k][j] in the order of k, for one kTileRows x kTileCols tile.
/// `a` is [depth, kTileRows], `b` [depth, kTileCols], `out` [kTileRows, kTileCols], all tight. The products of the
/// project's formats are exact in f64, so fused and separate multiply-adds agree and so do all processors.
void tile_product(const double* a, const double* b, std::int64_t depth, double* out) noexcept;

/// The orders in which kernels of class tensor14 may hand 128 k to four instructions, as runs of eight k: a row is
/// four instructions of four runs. A kernel that does it in another order has a row here, or no bound.
inline constexpr std::int64_t kRun = 8, kRunsAtOnce = 4, kRuns = 16;
inline constexpr std::array<std::array<int, kRuns>, 2> kOrdersOfRuns = {{
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},  // as they come
    {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15},  // of each sixteen the first eight, then the others
}};

/// The same layout, depth at most 128; out[i][j]: the most that adding these products 32 at a time in 14 bits may
/// lose of their sum, in the worst of the orders. `a_raised` and `b_raised`: magnitudes, those of subnormal numbers
/// raised to the smallest normal one.
void tile_cut(const double* a, const double* b, const double* a_raised, const double* b_raised, std::int64_t depth,
              double* out) noexcept;

}  // namespace ironcl::numerics::detail
