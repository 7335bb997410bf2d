// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_tiled.cl: tiles in local memory, many work-items a work-group. The kernel of GPUs.
#include "backends/opencl/estimate.h"
#include "backends/opencl/forms/blocked.h"
#include "backends/opencl/forms/rows.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {
namespace {

std::uint64_t items(const Tuning& t) {
  return static_cast<std::uint64_t>(t.at("tile_m") / t.at("work_m")) *
         static_cast<std::uint64_t>(t.at("tile_n") / t.at("work_n"));
}

std::uint64_t local_bytes(const Tuning& t, const Problem&) {
  return 2ull * static_cast<std::uint64_t>(t.at("tile_k")) *
         static_cast<std::uint64_t>(t.at("tile_m") + t.at("tile_n")) * sizeof(float);
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features&, std::int64_t m) {
  return {{"gemm_tiled",
           {static_cast<std::size_t>(numerics::ceil_div(p.n, t.at("tile_n"))), row_blocks(p, m, t.at("tile_m"))},
           items(t)}};
}

/// Of a device's multiply-adds: 55 % on an H200 (docs/performance/h200.md).
constexpr double kEfficiency = 0.55;

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t tiles =
      numerics::ceil_div(std::max<std::int64_t>(1, p.m), t.at("tile_m")) * numerics::ceil_div(p.n, t.at("tile_n"));
  const double in_rounds = rounds(tiles, f) * f.compute_units;  // Units without a tile wait for those with one.
  const double count = in_rounds * t.at("tile_m") * t.at("tile_n") * static_cast<double>(p.k);
  return 1e9 * scalar_fma_seconds(count, kEfficiency, f);
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t{{"tile_m", 64}, {"tile_n", 64}, {"tile_k", 16}, {"work_m", 4}, {"work_n", 4}};
  if (p.m <= 16) {
    t = {{"tile_m", p.m <= 8 ? 8 : 16}, {"tile_n", 32}, {"tile_k", 32}, {"work_m", p.m <= 8 ? 1 : 2}, {"work_n", 4}};
  } else if (p.m <= 32) {
    t["tile_m"] = 32;
  } else if (p.m >= 96 && f.max_work_group >= 256 &&
             numerics::ceil_div(p.m, 128) * numerics::ceil_div(p.n, 128) >= f.compute_units) {
    t = {{"tile_m", 128}, {"tile_n", 128}, {"tile_k", 16}, {"work_m", 8}, {"work_n", 8}};
  }
  // A small device: halve the tile until it fits; the smallest needs 2 KiB and 16 work-items.
  const auto too_large = [&] { return items(t) > f.max_work_group || local_bytes(t, p) > f.local_bytes; };
  while (too_large() && (t["tile_m"] > 8 || t["tile_n"] > 16)) {
    int& larger = t["tile_m"] >= t["tile_n"] && t["tile_m"] > 8 ? t["tile_m"] : t["tile_n"];
    larger /= 2;
  }
  if (too_large()) t["tile_k"] = 16;
  return t;
}

}  // namespace

Variant gemm_tiled() {
  Variant v;
  v.name = "gemm_tiled";
  v.summary = "tiles of A and B decoded into two slots of local memory a stream, register tiles per work-item";
  v.tunables = {{"tile_m", 64, {8, 16, 32, 64, 128}, "rows of D per work-group"},
                {"tile_n", 64, {16, 32, 64, 128}, "columns of D per work-group"},
                {"tile_k", 16, {16, 32, 64}, "step in k"},
                {"work_m", 4, {1, 2, 4, 8}, "rows of D per work-item"},
                {"work_n", 4, {4, 8}, "columns of D per work-item"}};
  v.constraints = {{"tile_k must divide the K group, or a step straddles two scale groups",
                    [](const Tuning& t, const Problem& p) { return p.k_group % t.at("tile_k") == 0; }},
                   {"tile_m must be at least work_m: a work-item's rows lie inside the tile",
                    [](const Tuning& t, const Problem&) { return t.at("tile_m") >= t.at("work_m"); }},
                   {"tile_n must be at least work_n: a work-item's columns lie inside the tile",
                    [](const Tuning& t, const Problem&) { return t.at("tile_n") >= t.at("work_n"); }}};
  v.deal = [](const Tuning& t) { return DealtShape{t.at("tile_m"), 1}; };
  v.local_bytes = local_bytes;
  v.work_items = items;
  v.tile = v.block = [](const Tuning& t) { return Shape{t.at("tile_m"), t.at("tile_n")}; };
  v.weights = [](const Tuning&, const Problem&) { return blocked_form(0, 16, 64); };
  v.activations = [](const Tuning&, const Problem&) { return rows_form(64); };
  v.passes = passes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
