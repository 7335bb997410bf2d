// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_amx.cl: tiles of bf16 and int8 on CPUs that have the unit.
#include <algorithm>
#include <cmath>

#include "backends/opencl/estimate.h"
#include "backends/opencl/one_launch.h"

namespace ironcl::opencl {
namespace {

constexpr std::int64_t kRows = 16;  ///< TILE_ROWS of cl/amx.cl.

/// UNIT of cl/gemm_amx.cl: columns that are decoded together.
std::int64_t unit(const Tuning& t) { return std::min<std::int64_t>(64, t["block_n"]); }

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t sums = t["split_k"] > 1 ? 2 : 1;  // Of a part of k, and of those before it.
  return (std::int64_t{2} * p.k_group * unit(t) * bytes_of_element(p) +
          sums * t["block_m"] * t["block_n"] * kRows * 4 + 4608);
}

OneLaunch one_launch(const Tuning& t) { return {kRows, t["block_m"], t["block_n"], t["split_k"]}; }

// Clocks of a core, measured on a Xeon (docs/performance/cpu-amx.md).
constexpr int kUnit = 64;       ///< Columns.
constexpr double kTile = 20.5;  ///< A product of 16 rows by 32 k by 16 columns, with all that goes with it; 16 alone.
constexpr double kSums = 153;   ///< Sums of 16 rows of a unit and a K group: stored, scaled and added.
constexpr double kDecode = 12;  ///< 64 codes to bf16.
/// Codes from memory a clock, where that is what bounds a call.
constexpr double kCodes = 5.5;
/// A unit decoded in a grouped problem, beside gemm_stream's price, which leaves out that codes are waited for: so
/// this kernel is taken from about four rows a matrix on, where it is as fast.
constexpr double kDecodeGrouped = 9.5;
constexpr double kNear = 20;           ///< Bytes of A a clock, which each block of columns reads again.
constexpr std::int64_t kFewRows = 64;  ///< One stream of codes is what counts: measured up to here.
constexpr double kStreams = 0.5;       ///< A block twice as wide: codes come as twice as many streams.

/// Of a core, for a unit of columns and one k: all rows of a matrix, which decode the unit again for each block.
double clocks_of_unit(const Tuning& t, const Problem& p, double decode) {
  const double multiply = (kTile * 4 / 32 + kSums / p.k_group) * (bytes_of_element(p) == 1 ? 0.6 : 1.0);
  return p.mean_over_rows([&](std::int64_t rows) {
    const std::int64_t height = numerics::ceil_div(rows, kRows), blocks = numerics::ceil_div(height, t["block_m"]);
    return height * multiply + blocks * decode;
  });
}

/// What the rule of thumb compares blocks by: the same with what depends on their width. `near`: A of a block is in
/// the core's own caches.
double clocks_of_block(const Tuning& t, const Problem& p, bool near) {
  const double clocks = clocks_of_unit(t, p, std::max(kDecode, kUnit / kCodes));
  const double units = 1.0 * t["block_n"] / kUnit;
  // Few rows: codes in one stream are what counts. Many: A comes from a far cache once for each block of columns.
  if (p.mean_rows_per_expert == 0 && p.m <= kFewRows) return clocks + kStreams * std::log2(units);
  if (p.mean_rows_per_expert == 0) return clocks * (1 + (near ? 0.1 : 0.3) / units);
  // Of the matrices of a grouped problem most have few.
  const double a_bytes = p.mean_over_rows([](std::int64_t rows) { return rows; }) * bytes_of_element(p);
  return clocks + a_bytes / units / kNear + kStreams * std::log2(units);
}

// Of calls that quantise.
constexpr double kCacheBytes = 1 << 20;   ///< Of A, that stay in a core's caches while blocks of columns are made.
constexpr double kQuantised = 0.3;        ///< Clocks for an activation that goes through the caches, not past them.
constexpr double kPartBytes = 3;          ///< Of parts of k, stored and read, a clock of a core.
constexpr std::int64_t kLeastGroups = 4;  ///< Of a part.
constexpr std::int64_t kFewColumns = 3;   ///< Units of columns for a core.
constexpr std::int64_t kPanelRows = 256;  ///< Measured up to here; of 1024 rows nothing that is beyond doubt.

/// Whether the kernel may be told to quantise, as far as it was measured: where rows are few, for all of k; else
/// where columns are few, which means that A is read again and again, all of A is too much for a core's caches and a
/// block of rows through a part of k is not.
bool may_quantise(const Tuning& t, const Problem& p, const Features& f) {
  if (!fits_one_launch(p) || !counts_in_one_launch(one_launch(t), p)) return false;
  if (p.m <= kFewRows) return t["split_k"] == 1;
  const double bytes = (p.k * bytes_of_element(p));
  const std::int64_t rows = std::min<std::int64_t>(p.m, kRows * t["block_m"]);
  return p.m <= kPanelRows && t["block_n"] >= kUnit &&
         numerics::ceil_div(p.n, std::int64_t{kUnit}) <= kFewColumns * f.compute_units && p.m * bytes > kCacheBytes &&
         rows * bytes / t["split_k"] <= kCacheBytes;
}

/// Clocks of a core for a call, but for what all tunings have.
double clocks_of_call(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t tiles = row_tiles(p, kRows), parts = t["split_k"];
  const std::int64_t blocks = numerics::ceil_div(tiles, t["block_m"]) * numerics::ceil_div(p.n, t["block_n"]);
  const double cores = f.compute_units;
  // Cores take blocks one by one, and are not equally fast where others have a part of them: the last block is waited
  // for.
  const double each = (blocks * parts) / cores;
  const double k_of_units = 1.0 * p.n / kUnit * p.k / cores;
  const bool near = t["floats"] == 1 && p.m > kFewRows;
  const double product = clocks_of_block(t, p, near) * k_of_units * (1 + 1 / each);
  if (t["floats"] == 0)  // A launch more.
    return product + (p.a_source == backend::DType::none ? 0 : 1e-9 * f.clock_hz * launch_ns(f));
  const double activations = 1.0 * p.m * p.k / cores;
  const double sums = parts == 1 ? 0 : 8.0 * parts * p.m * p.n / cores;
  return product + kQuantised * activations + sums / kPartBytes;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t tiles = row_tiles(p, kRows);
  const std::int64_t blocks_m = numerics::ceil_div(tiles, t["block_m"]);
  const std::int64_t blocks_n = numerics::ceil_div(p.n, t["block_n"]);
  const double units = std::min<double>(1.0 * t["block_n"] / kUnit, numerics::ceil_div(p.n, kUnit));
  const std::int64_t parts = t["split_k"];
  return 1e9 * rounds(blocks_m * blocks_n * parts, f) / parts * units * p.k *
         clocks_of_unit(t, p, p.mean_rows_per_expert > 0 ? kDecodeGrouped : std::max(kDecode, kUnit / kCodes)) /
         (blocks_m * f.clock_hz);
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  const std::vector<int> blocks_m{1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32}, blocks_n{32, 64, 128, 256, 384, 512};
  const std::int64_t tiles = row_tiles(p, kRows);
  const int narrowest = width_for_d(p, blocks_n);
  Tuning best{{"block_m", 1}, {"block_n", 64}, {"floats", 0}, {"split_k", 1}}, candidate = best;
  double least = 0;
  for (const int block_n : blocks_n) {
    if (block_n % narrowest != 0 || (block_n < kUnit && p.mean_rows_per_expert > 0)) continue;  // Not measured.
    candidate["block_n"] = block_n;
    for (const int block_m : blocks_m) {
      candidate["block_m"] = block_m;
      if (local_bytes(candidate, p) > f.local_bytes / 3) break;  // The rest of the cache is for A.
      for (const int split_k : {0, 1, 2, 4, 8}) {                // 0: a step before quantises.
        if (split_k > 1 && p.k_groups() < kLeastGroups * split_k) break;
        candidate["floats"] = split_k > 0 ? 1 : 0;
        candidate["split_k"] = std::max(1, split_k);
        if (split_k > 0 && !may_quantise(candidate, p, f)) continue;
        const double clocks = clocks_of_call(candidate, p, f);
        if (least != 0 && clocks >= least) continue;
        least = clocks;
        best = candidate;
      }
      if (block_m >= tiles && p.mean_rows_per_expert == 0)
        break;  // The matrices of a grouped problem may have more rows than the mean.
    }
  }
  return best;
}

}  // namespace

Variant gemm_amx() {
  Variant v = variant_of_narrow_units("gemm_amx",
                                      "many rows on the tile unit of x86 (AMX): bf16, bytes for int8; decoded panels "
                                      "of B in two slots of local memory");
  v.tunables = {{"block_m", 8, {1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32}, "tiles of 16 rows per work-group"},
                {"block_n", 128, {32, 64, 128, 256, 384, 512}, "columns of D per work-group"},
                {"floats", 0, {0, 1}, "1: floats that are to be quantised are taken as they are"},
                {"split_k", 1, {1, 2, 3, 4, 6, 8, 12, 16}, "parts of k, by cores of their own with floats 1"}};
  set_one_launch<one_launch>(v, "gemm_amx");
  v.schedule = [](const Tuning& t) { return ScheduleShape{kRows, t["block_m"], true}; };
  v.needs = [](const Features& f, const Problem&) { return refuse_without(f.amx_why_not.empty(), f.amx_why_not); };
  v.trial->permission = ask_for_tiles;
  v.local_bytes = local_bytes;
  v.tile = [](const Tuning&) { return Shape{2 * kRows, 32}; };
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

Variant gemm_amx_fp4() {
  return for_weights_of_four_bits(gemm_amx(), "many rows on the tile unit of x86 (AMX), weights of four bits");
}

}  // namespace ironcl::opencl
