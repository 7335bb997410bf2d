// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wgmma_few_f16.cl: class f32 on tensor cores of compute capability 9.0, few rows.
#include <algorithm>
#include <array>

#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t rows = t["tile_m"], columns = t["tile_n"];
  const bool low = rows == 64, narrow = columns == 64;
  const std::int64_t tokens = low ? 9 : 4, weights = low ? 9 : narrow ? 10 : 5;  // SLOTS_A, SLOTS_B
  const std::int64_t column_scales = p.b_scale_rows() % 128 == 0 ? 16 : 4 * columns;
  return tokens * (rows * 260 + column_scales) + weights * columns * 128 + 16 * (tokens + weights) + 16;
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features&, std::int64_t m) {
  return {{"gemm_wgmma_few_f16", {tiles(t, p, m) * t["split_k"], 1}, t["tile_m"] == 64 ? 512 : 384}};
}

numerics::Size scratch_bytes(const Tuning& t, const Problem& p, const Features&) {
  return scratch_of_tiles(tiles(t, p, p.m), t["split_k"], t["tile_m"], 128);
}

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_tensor_cores(f, p)) return refusal;
  return refuse_room_between_matrices(p);
}

/// Tiles with what they cost (docs/performance/h200-many-rows.md, "From 129 rows on").
struct Tile {
  int m, n;
  TileCost cost;
};
constexpr std::array<Tile, 3> kTiles = {
    {{64, 64, {479, 7100, 2000, 600}}, {128, 64, {916, 6900, 7300, 0}}, {128, 128, {1667, 7300, 8300, 0}}}};

double counted_ns(const Tuning& t, const Problem& p, const Features& f) {
  const auto* tile = std::find_if(kTiles.begin(), kTiles.end(),
                                  [&](const Tile& k) { return k.m == t["tile_m"] && k.n == t["tile_n"]; });
  return opencl::counted_ns(tiles(t, p, p.m), t["split_k"], tile->cost, p, f);
}

/// K in parts where tiles do not fill the device, each of eight K blocks at least.
std::int64_t most_parts(const Tuning& t, const Problem& p, const Features& f) {
  return std::min(f.compute_units / tiles(t, p, p.m), numerics::ceil_div(p.k, 128) / 8);
}

/// As measured on an H200 (docs/performance/h200-many-rows.md).
Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning best{{"tile_m", 64}, {"tile_n", 64}, {"split_k", 1}};
  if (p.m > 64 && !p.scheduled) {
    for (const Tile& tile : kTiles) {
      Tuning t{{"tile_m", tile.m}, {"tile_n", tile.n}, {"split_k", 1}};
      for (const int parts : split_k_values()) {
        t["split_k"] = parts;
        if ((parts == 1 || parts <= most_parts(t, p, f)) && counted_ns(t, p, f) < counted_ns(best, p, f)) best = t;
      }
    }
    return best;
  }
  if (p.m > 64 && tiles(best, p, p.m) > f.compute_units) best["tile_m"] = best["tile_n"] = 128;
  for (const int parts : split_k_values())
    if (parts <= most_parts(best, p, f)) best["split_k"] = parts;
  return best;
}

// Fitted to an H200 (docs/performance/h200-many-rows.md): times streaming_ns(), what starts and ends a launch, and
// what each further round of tiles costs, whose rings are filled anew; in ns. The last is an H100's
// (docs/performance/decode.md).
constexpr double kOfStreaming = 0.945, kStart = 3700;        ///< 17 to 64 rows.
constexpr double kOfStreamingHigh = 1.65, kStartHigh = 500;  ///< More.
/// Where gemm_mma_stream is faster: up to 16 rows, up to 32 of weights that stream sooner than a launch starts.
constexpr double kOfStreamingLow = 1.2;
constexpr double kRound = 2000;
constexpr double kRoundScheduled = 4000;  ///< docs/performance/h200-grouped.md.

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  // More rows than were measured are for work-groups that stay.
  if (tiles_are_counted(p)) return counted_ns(t, p, f) * (p.m > 1024 ? 1.2 : 1);
  const bool low = p.m <= 16 || (p.m <= 32 && streaming_ns(p) < kStart);
  const double once = p.m > 64 ? streaming_ns(p, kOfStreamingHigh, kStartHigh)
                               : streaming_ns(p, low ? kOfStreamingLow : kOfStreaming, kStart);
  const std::int64_t in_columns = numerics::ceil_div(p.n, t["tile_n"]);
  // Each further tile of rows reads the weights again; of scheduled rows no more than 128 were measured.
  return (once + (p.scheduled ? kRoundScheduled : kRound) * (rounds(in_columns, f) - 1)) *
         p.mean_over_rows([&](std::int64_t rows) { return 3 * numerics::ceil_div(rows, 128) - 2; });
}

}  // namespace

Variant gemm_wgmma_few_f16() {
  Variant v = variant_of_wgmma(
      "gemm_wgmma_few_f16",
      "few rows on tensor cores of compute capability 9.0: weights streamed once, exact products of f16, f32 sums",
      true);
  v.products = fp8_codes();
  v.tunables = {{"tile_m", 64, {64, 128}, "rows of D per work-group"},
                {"tile_n", 64, {64, 128}, "columns of D per work-group, no more than rows"},
                {"split_k", 1, split_k_values(), "split-K parts"}};
  v.constraints = {{"tile_n must be no more than tile_m",
                    [](const Tuning& t, const Problem&) { return t["tile_n"] <= t["tile_m"]; }},
                   {"split_k must leave each part a K block",
                    [](const Tuning& t, const Problem& p) { return t["split_k"] <= numerics::ceil_div(p.k, 128); }},
                   counters_constraint<tiles>()};
  v.needs = needs;
  v.local_bytes = local_bytes;
  v.passes = passes;
  v.scratch_bytes = scratch_bytes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
