// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_panel.cl: one work-item a work-group, wide vectors, decoded panels. The kernel of CPUs.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "backends/opencl/estimate.h"
#include "backends/opencl/one_launch.h"

namespace ironcl::opencl {
namespace {

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t group = p.k_group, columns = t["block_n"];
  const std::int64_t rows = rows_of_block(t);
  return (2 * group + rows) * columns * 4;
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features&, std::int64_t m) {
  return {{"gemm_panel", {numerics::ceil_div(p.n, t["block_n"]), most_tiles(p, m, t["tile_m"] * t["block_m"])}, 1}};
}

/// What a block may take of a core's second-level cache: 20 tiles by 256 columns of 2 MiB. More gained nothing there.
constexpr double kOfCache = 0.45;

/// Decoding a column of a panel, as a share of a tile's pass over it.
constexpr double kDecodingShare = 0.43;

/// Time of a call in passes of one register tile over one column, up to a factor; the constants are fitted to
/// measurements on a Sapphire Rapids and an Emerald Rapids Xeon (docs/performance/cpu.md).
double relative_time(const Tuning& t, const Problem& p, std::int64_t tiles, std::uint32_t cores) {
  const std::int64_t blocks_m = numerics::ceil_div(tiles, t["block_m"]);
  const std::int64_t blocks_n = numerics::ceil_div(p.n, t["block_n"]);
  const double width = std::min<double>(t["block_n"], p.n);
  const double height = 1.0 * tiles / blocks_m;
  const double rounds = numerics::ceil_div(blocks_m * blocks_n, cores);
  const double decoding = kDecodingShare / height;  // Once for a block, whatever its height.
  const double reading = 3.0 / width;               // A comes from a far cache once for each block of columns.
  return rounds * height * width * (1 + decoding + reading);
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t;
  t["vector"] = f.vector_width >= 16 ? 16 : f.vector_width >= 8 ? 8 : 4;
  t["tile_n"] = t["vector"] == 16 ? 32 : 16;
  // As many rows as registers hold.
  const std::int64_t most = t["vector"] == 16 ? 14 : t["vector"] == 8 ? 6 : 3;
  const std::int64_t rows = std::max<std::int64_t>(1, p.m);
  // The matrices of a grouped problem have other numbers of rows than the mean: there short tiles are cheap.
  t["tile_m"] = static_cast<int>(p.mean_rows_per_expert > 0 ? std::min(rows, most) : equal_height(rows, most));
  // Most matrices of a grouped problem are to be one block.
  const std::int64_t usual =
      numerics::ceil_div(rows + static_cast<std::int64_t>(2 * std::sqrt(p.mean_rows_per_expert)), t["tile_m"]);
  // The blocks that end first, of those that leave a core's second-level cache room for the rows of A in use and
  // those to come.
  const auto fits = [&](const Tuning& c) {
    // Where a block is one panel, its rows of A are used once and only those to come need room.
    const std::int64_t a_bytes = rows_of_block(c) * p.k_group * 4, times = c["block_n"] > kPanel ? 2 : 1;
    const std::int64_t local = local_bytes(c, p);  // Less than that cache on Intel's runtime.
    return local + times * a_bytes <= kOfCache * f.near_bytes() && local <= f.local_bytes;
  };
  t = cheapest_blocks(t, p, usual, fits,
                      [&](const Tuning& c) { return relative_time(c, p, usual, f.compute_units); });
  while (local_bytes(t, p) > f.local_bytes && t["block_m"] > 1) {
    t["block_m"] = *std::prev(std::find(kBlocksM.begin(), kBlocksM.end(), t["block_m"]));
  }
  return t;
}

/// What decoding a vector of weights into a panel costs, in multiply-adds of a vector; relative_time() has it as a
/// share of a tile of 14 rows.
constexpr double kDecoding = 6;

/// Rows that are multiplied for those of a matrix, as a share of whole tiles of the mean: the last tile of a grouped
/// problem's matrix is one of four heights (cl/gemm_panel.cl).
double of_whole_tiles(const Tuning& t, const Problem& p) {
  if (p.mean_rows_per_expert == 0) return 1;
  const std::int64_t height = t["tile_m"], quarter = numerics::ceil_div(height, 4);
  const double rows = p.mean_over_rows([&](std::int64_t m) {
    const std::int64_t whole = m - m % height;
    return (whole + numerics::round_up(m % height, quarter));
  });
  return rows / (row_tiles(p, height) * height);
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const int rows = t["tile_m"];
  const std::int64_t tiles = row_tiles(p, rows);
  const std::int64_t blocks = numerics::ceil_div(tiles, t["block_m"]) * numerics::ceil_div(p.n, t["block_n"]);
  const double decoded = rounds(blocks, f) * std::min<double>(t["block_n"], p.n);
  const double columns = relative_time(t, p, tiles, f.compute_units) * rows * of_whole_tiles(t, p) +
                         decoded * (kDecoding - kDecodingShare * rows);
  return 1e9 * vector_fma_seconds(columns * p.k / t["vector"], t["vector"], f);
}

}  // namespace

Variant gemm_panel() {
  Variant v = variant_of_panels(
      "gemm_panel",
      "many rows on any device: decoded panels of B in two slots of local memory, register tiles in wide vectors");
  v.tunables = {{"tile_m", 8, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, "rows of the register tile"},
                {"tile_n", 32, {16, 32}, "columns of the register tile"},
                {"block_m", 16, kBlocksM, "tiles of rows per work-group"},
                {"block_n", 64, kBlocksN, "columns of D per work-group"},
                {"vector", 16, {4, 8, 16}, "f32 elements of a vector"}};
  v.schedule = [](const Tuning& t) { return ScheduleShape{t["tile_m"], t["block_m"]}; };
  v.local_bytes = local_bytes;
  v.tile = [](const Tuning& t) { return Shape{t["tile_m"], t["tile_n"]}; };
  v.block = [](const Tuning& t) { return Shape{static_cast<std::int64_t>(rows_of_block(t)), t["block_n"]}; };
  v.activations = [](const Tuning& t, const Problem&) { return tiles_form(t["tile_m"]); };
  v.gate_run = [](const Tuning& t, const Problem&) { return t["tile_n"] == 32 ? 16 : 0; };
  v.passes = passes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
