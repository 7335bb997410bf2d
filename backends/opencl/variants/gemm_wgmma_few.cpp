// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wgmma_few.cl: class tensor14 on tensor cores of compute capability 9.0, few rows.
#include <algorithm>
#include <array>

#include "backends/opencl/forms/swizzled.h"
#include "backends/opencl/forms/wgmma_tokens.h"
#include "backends/opencl/tensor_cores.h"
#include "backends/opencl/toolchains/two_step.h"

namespace ironcl::opencl {
namespace {

std::int64_t tiles(const Tuning& t, const Problem& p, std::int64_t m) {
  return static_cast<std::int64_t>(row_blocks(p, std::max<std::int64_t>(1, m), t.at("tile_m"))) *
         numerics::ceil_div(p.n, std::int64_t{t.at("tile_n")});
}

std::uint64_t local_bytes(const Tuning& t, const Problem&) {
  return static_cast<std::uint64_t>(t.at("stages")) *
         (static_cast<std::uint64_t>(t.at("tile_m") + t.at("tile_n")) * 128 + 528 + 16);
}

std::uint64_t work_items(const Tuning& t) {
  return static_cast<std::uint64_t>(t.at("tile_m") / 64 * t.at("k_groups") * 128 + 64);
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features&, std::int64_t m) {
  return {{"gemm_wgmma_few", {static_cast<std::size_t>(tiles(t, p, m)), 1}, work_items(t)}};
}

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_tensor_cores(f, p)) return refusal;
  if (p.a == backend::DType::i8 || p.b == backend::DType::i8)
    return Refusal{backend::Reason::dtype, "this kernel multiplies fp8 codes, not i8"};
  if (auto refusal = refuse_room_between_matrices(p)) return refusal;
  return refuse_narrow_scales(p);
}

// Fitted to an H200 (docs/performance/h200-few-rows.md): times streaming_ns(), and what starts and ends a launch, in
// ns.
constexpr double kOfStreaming = 1, kStart = 700;              ///< Up to 64 rows.
constexpr double kOfStreamingHigh = 1.05, kStartHigh = 1000;  ///< More.

/// Of more than 128 rows: tiles that one work-group after another makes on a unit, and cycles at the device's clock
/// that a K block of 128 takes; those in which a tile leaves (docs/performance/h200-tensor14.md, "Tiles of other
/// widths").
struct Tile {
  int m, n, k_groups, stages;
  double block_cycles;
};
constexpr std::array<Tile, 4> kTiles = {
    {{64, 32, 4, 12, 392}, {64, 64, 2, 8, 424}, {128, 32, 2, 10, 487}, {128, 64, 2, 8, 568}}};
constexpr double kOutCycles = 800;

/// Dense problems of more rows than this variant has tiles for once, whose tiles can be counted.
bool counted(const Problem& p) { return p.m > 128 && !p.scheduled; }

double counted_ns(const Tuning& t, const Problem& p, const Features& f) {
  const auto* tile = std::find_if(kTiles.begin(), kTiles.end(),
                                  [&](const Tile& k) { return k.m == t.at("tile_m") && k.n == t.at("tile_n"); });
  const std::int64_t all = tiles(t, p, p.m);
  const double blocks = static_cast<double>(numerics::ceil_div(p.k, std::int64_t{128}));
  const double multiply = 1e9 * rounds(all, f) * (blocks * tile->block_cycles + kOutCycles) / f.clock_hz;
  return std::max(
      {multiply, second_cache_ns(all, t.at("tile_m") + t.at("tile_n"), p, f), streaming_ns(p) * kOfStreamingHigh});
}

/// As measured on an H200 (docs/performance/h200-few-rows.md).
Tuning rule_of_thumb(const Features& f, const Problem& p) {
  const std::int64_t units = f.compute_units;
  if (counted(p)) {
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
  if (counted(p)) return kBesideEstimatesOfParts * counted_ns(t, p, f);
  const double once =
      p.m <= 64 ? streaming_ns(p, kOfStreaming, kStart) : streaming_ns(p, kOfStreamingHigh, kStartHigh);
  // Each further tile of rows reads the weights again, from the second cache.
  return once * p.mean_over_rows([&](std::int64_t rows) {
    return static_cast<double>(numerics::ceil_div(rows, std::int64_t{128}));
  });
}

}  // namespace

Variant gemm_wgmma_few() {
  Variant v;
  v.name = "gemm_wgmma_few";
  v.summary = "few rows on fp8 codes: weights streamed once through a deep ring, sums of 128 k in about 14 bits";
  v.accuracy = backend::AccuracyClass::tensor14;
  v.tunables = {{"tile_m", 64, {64, 128}, "rows of D per work-group"},
                {"tile_n", 64, {32, 64}, "columns of D per work-group"},
                {"k_groups", 2, {1, 2, 4}, "warpgroups of the same rows, which take K blocks in turn"},
                {"stages", 8, {4, 6, 8, 10, 12}, "K blocks on their way or in use"}};
  v.constraints = {{"k_groups must divide stages",
                    [](const Tuning& t, const Problem&) { return t.at("stages") % t.at("k_groups") == 0; }}};
  v.needs = needs;
  v.trial = Trial{70, 200, 1100};
  v.trial->in_child = v.trial->or_here = true;
  v.toolchain = &ptx_sm_90a();
  v.schedule = [](const Tuning& t) { return ScheduleShape{t.at("tile_m"), 1}; };
  v.local_bytes = local_bytes;
  v.own_local = true;
  v.work_items = work_items;
  v.tile = v.block = [](const Tuning& t) { return Shape{t.at("tile_m"), t.at("tile_n")}; };
  v.weights = [](const Tuning&, const Problem&) { return swizzled_form(); };
  v.activations = [](const Tuning&, const Problem&) { return tokens_fp8_form(); };
  v.passes = passes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
