// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wgmma_few.cl: class tensor14 on tensor cores of compute capability 9.0, few rows.
#include <algorithm>
#include <array>

#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  return t["stages"] * ((t["tile_m"] + t["tile_n"]) * 128 + 528 + 16) + magnitude_bytes(p, t["tile_m"], t["tile_n"]);
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features&, std::int64_t m) {
  return {{"gemm_wgmma_few", {tiles(t, p, m), 1}, t["tile_m"] / 64 * t["k_groups"] * 128 + 64}};
}

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_tensor_cores(f, p)) return refusal;
  if (auto refusal = refuse_room_between_matrices(p)) return refusal;
  return refuse_narrow_scales(p);
}

// Fitted to an H200 (docs/performance/h200-few-rows.md): times streaming_ns(), and what starts and ends a launch, in
// ns.
constexpr double kOfStreaming = 1, kStart = 700;              ///< Up to 64 rows.
constexpr double kOfStreamingHigh = 1.05, kStartHigh = 1000;  ///< More.

/// Of more than 128 rows: tiles that one work-group after another makes on a unit, and cycles at the device's clock
/// that a K block of 128 takes; those in which a tile leaves (docs/performance/h200-many-rows.md, "Tiles of other
/// widths").
struct Tile {
  int m, n, k_groups, stages;
  double block_cycles;
};
constexpr std::array<Tile, 4> kTiles = {
    {{64, 32, 4, 12, 392}, {64, 64, 2, 8, 424}, {128, 32, 2, 10, 487}, {128, 64, 2, 8, 568}}};
constexpr double kOutCycles = 800;

double counted_ns(const Tuning& t, const Problem& p, const Features& f) {
  const auto* tile = std::find_if(kTiles.begin(), kTiles.end(),
                                  [&](const Tile& k) { return k.m == t["tile_m"] && k.n == t["tile_n"]; });
  const std::int64_t all = tiles(t, p, p.m);
  return std::max({opencl::counted_ns(all, 1, {tile->block_cycles, kOutCycles, 0, 0}, p, f),
                   second_cache_ns(all, t["tile_m"] + t["tile_n"], p, f), streaming_ns(p) * kOfStreamingHigh});
}

/// As measured on an H200 (docs/performance/h200-few-rows.md).
Tuning rule_of_thumb(const Features& f, const Problem& p) {
  const std::int64_t units = f.compute_units;
  if (tiles_are_counted(p)) {
    Tuning best;
    for (const Tile& tile : kTiles) {
      const Tuning t{{"tile_m", tile.m}, {"tile_n", tile.n}, {"k_groups", tile.k_groups}, {"stages", tile.stages}};
      if (best.empty() || counted_ns(t, p, f) < counted_ns(best, p, f)) best = t;
    }
    return best;
  }
  Tuning t{{"tile_m", p.m <= 64 ? 64 : 128}, {"tile_n", 32}, {"k_groups", 2}, {"stages", 10}};
  // Narrow tiles where all of them still run at once, half as high where that still holds.
  if (tiles(t, p, p.m) > units) {
    t["tile_n"] = 64;
    t["stages"] = 8;
  } else if (t["tile_m"] == 64 || 2 * tiles(t, p, p.m) <= units) {
    t["tile_m"] = 64;
    t["k_groups"] = 4;
    t["stages"] = 12;
  }
  // Of many tiles two share a compute unit.
  if (tiles(t, p, p.m) > units) {
    t["k_groups"] = t["tile_m"] == 64 ? 2 : 1;
    t["stages"] = t["tile_m"] == 64 ? 6 : 4;
  }
  return t;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  if (tiles_are_counted(p)) return counted_ns(t, p, f);
  const double once =
      p.m <= 64 ? streaming_ns(p, kOfStreaming, kStart) : streaming_ns(p, kOfStreamingHigh, kStartHigh);
  // Each further tile of rows reads the weights again, from the second cache.
  return once * p.mean_over_rows([&](std::int64_t rows) { return numerics::ceil_div(rows, 128); });
}

}  // namespace

Variant gemm_wgmma_few() {
  Variant v = variant_of_wgmma(
      "gemm_wgmma_few", "few rows on compute capability 9.0: weights streamed once, sums of 128 k in about 14 bits",
      false);
  v.products = fp8_codes();
  v.tunables = {{"tile_m", 64, {64, 128}, "rows of D per work-group"},
                {"tile_n", 64, {32, 64}, "columns of D per work-group"},
                {"k_groups", 2, {1, 2, 4}, "warpgroups of the same rows, which take K blocks in turn"},
                {"stages", 8, {4, 6, 8, 10, 12}, "K blocks on their way or in use"}};
  v.constraints = {{"k_groups must divide stages",
                    [](const Tuning& t, const Problem&) { return t["stages"] % t["k_groups"] == 0; }}};
  v.needs = needs;
  // A block of 128 columns has one scale, and of gates and ups in turns two.
  v.gate_run = [](const Tuning&, const Problem& p) { return p.d_cols() % 64 == 0 ? 1 : 0; };
  v.local_bytes = local_bytes;
  v.passes = passes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
