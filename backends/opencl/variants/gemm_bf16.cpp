// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_bf16.cl: dot products of bf16 and bytes on vectors of 512 bits, on CPUs that have them.
#include <algorithm>

#include "backends/opencl/estimate.h"
#include "backends/opencl/one_launch.h"

namespace ironcl::opencl {
namespace {

constexpr int kMostRows = 14;  ///< Of a register tile: 28 of 32 registers are sums.

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  return std::int64_t{64} * p.k_group * bytes_of_element(p) + rows_of_block(t) * t["block_n"] * 4 + 256;
}

OneLaunch one_launch(const Tuning& t) { return {t["tile_m"], t["block_m"], t["block_n"]}; }

// In multiply-adds of a vector; measured on an AMD core of family 25 (docs/performance/cpu-bf16.md).
constexpr double kDecoding = 7;        ///< 32 codes of weights into a slot, beside products.
constexpr double kFetching = 11.5;     ///< The same where nothing else takes as long: codes come from memory.
constexpr double kScaling = 4;         ///< A vector of sums scaled and added to its total.
constexpr double kEnoughColumns = 96;  ///< Of a block: wider ones gain nothing where A is in the last cache.
constexpr int kFewTiles = 3;           ///< Of rows, whose A a core keeps: FEW_TILES of the kernel.

/// What a tile of `rows` rows costs, in rows of a high one: the sums of three and fewer are too few to hide the
/// latency of a product.
double as_rows(double rows) { return std::max(rows, 1.5 + 0.65 * rows) + 0.15; }

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t height = t["tile_m"];
  const std::int64_t tiles = row_tiles(p, height);
  const std::int64_t blocks_m = numerics::ceil_div(tiles, t["block_m"]);
  const std::int64_t blocks_n = numerics::ceil_div(p.n, t["block_n"]);
  const double panels = numerics::ceil_div(std::min<std::int64_t>(t["block_n"], p.n), kPanel);
  const double k_of_product = 4.0 / bytes_of_element(p);
  // Of a panel of 32 columns, two vectors, and each k.
  const double rate = bytes_of_element(p) == 1 ? f.dot_products_of_bytes : f.dot_products_of_bf16;
  const double a_row = 2 * (1 / (k_of_product * rate) + kScaling / p.k_group);
  // A is read once for each block of columns, two bytes per clock at most: the last cache gives that, and costs a
  // little, memory does not. That of few tiles stays near a core: there narrow blocks are best, whose codes are one
  // stream.
  const bool from_memory = 1.0 * p.m * p.k * bytes_of_element(p) > 0.5 * f.cache_bytes;
  const double columns = panels * kPanel;
  const auto reading = [&](std::int64_t of_matrix) {
    if (from_memory) return 1 + 3 / columns;
    return of_matrix > kFewTiles ? 1 + 1 / std::min(columns, kEnoughColumns) : 1;
  };
  // Of all rows of a matrix; a panel is decoded again for each block. Tiles cost what their rows do; those that are
  // scheduled are as equal as can be, others are whole but for the last.
  const double of_panel = p.mean_over_rows([&](std::int64_t rows) {
    const std::int64_t of_matrix = numerics::ceil_div(rows, height);
    const std::int64_t blocks = numerics::ceil_div(of_matrix, t["block_m"]);
    const std::int64_t whole = p.scheduled ? 0 : rows / height, rest = rows - whole * height,
                       others = of_matrix - whole;
    double multiplied = whole * as_rows(height);
    if (others > 0) multiplied += others * as_rows(1.0 * rest / others);
    const double products = multiplied * a_row * reading(of_matrix);
    return std::max(products + blocks * kDecoding, kFetching);
  });
  const double work = rounds(blocks_m * blocks_n, f) * panels * p.k * of_panel / blocks_m;
  return 1e9 * vector_fma_seconds(work, 16, f);
}

/// The best blocks of tiles of that height.
Tuning blocks_for(int tile_m, const Features& f, const Problem& p) {
  // The matrices of a grouped problem may have more rows.
  const std::int64_t tiles = p.mean_rows_per_expert == 0 ? row_tiles(p, tile_m) : kBlocksM.back();
  const auto fits = [&](const Tuning& t) {
    const std::int64_t local = local_bytes(t, p), a_bytes = rows_of_block(t) * p.k_group * bytes_of_element(p);
    // The slots, the totals and the rows of A in use and to come stay near a core.
    return local <= f.local_bytes && local + 2 * a_bytes <= 0.45 * f.near_bytes();
  };
  return cheapest_blocks({{"tile_m", tile_m}, {"floats", 0}}, p, tiles, fits,
                         [&](const Tuning& t) { return estimate_ns(t, p, f); });
}

/// Tiles as high as registers allow and as equal as can be: 17 rows are tiles of 9 and 8, not 14 and 3. One row less
/// where the last tile is fuller then: 1024 are 78 tiles of 13 and one of 10, not 73 of 14 and one of 2.
int tile_of(std::int64_t rows) {
  const std::int64_t highest = equal_height(rows, kMostRows), lower = highest - 1;
  const auto padded = [&](std::int64_t height) { return numerics::round_up(rows, height); };
  const bool fewer = lower >= kMostRows - 1 && padded(lower) < padded(highest);
  return static_cast<int>(fewer ? lower : highest);
}

// Quantising and multiplying in one launch: on two cores as fast as two launches, but for the launch that is spared.
constexpr double kLaunch = 0.04;           ///< Of a call, from which on that is more than noise.
constexpr std::int64_t kMostFloats = 128;  ///< Rows; measured up to here.

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  if (p.mean_rows_per_expert == 0) {
    Tuning t = blocks_for(tile_of(std::max<std::int64_t>(1, p.m)), f, p);
    const bool can = fits_one_launch(p) && counts_in_one_launch(one_launch(t), p) && p.m <= kMostFloats;
    t["floats"] = can && launch_ns(f) > kLaunch * estimate_ns(t, p, f) ? 1 : 0;
    return t;
  }
  // The matrices of a grouped problem have other numbers of rows than the mean.
  Tuning best = blocks_for(kMostRows, f, p);
  for (int tile_m = kMostRows - 1; tile_m > 0; --tile_m) {
    const Tuning candidate = blocks_for(tile_m, f, p);
    if (estimate_ns(candidate, p, f) < 0.99 * estimate_ns(best, p, f)) best = candidate;
  }
  return best;
}

}  // namespace

Variant gemm_bf16() {
  Variant v = variant_of_narrow_units("gemm_bf16", "many rows by dot products of x86 (AVX512-BF16, VNNI for int8)");
  v.tunables = {{"tile_m", 8, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, "rows of the register tile"},
                {"block_m", 16, kBlocksM, "tiles of rows per work-group"},
                {"block_n", 64, kBlocksN, "columns of D per work-group"},
                {"floats", 0, {0, 1}, "1: floats that are to be quantised are taken as they are"}};
  set_one_launch<one_launch>(v, "gemm_bf16");
  v.schedule = [](const Tuning& t) { return ScheduleShape{t["tile_m"], t["block_m"], true}; };
  v.last_rows = true;
  v.local_bytes = local_bytes;
  v.tile = [](const Tuning& t) { return Shape{t["tile_m"], kPanel}; };
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
