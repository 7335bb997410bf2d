// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_tiled.cl: tiles in local memory, many work-items per work-group. The kernel of GPUs.
#include "backends/opencl/estimate.h"
#include "backends/opencl/split_k.h"

namespace ironcl::opencl {
namespace {

std::int64_t columns(const Tuning& t) { return t["tile_n"]; }

std::int64_t items(const Tuning& t) { return (t["tile_m"] / t["work_m"]) * (t["tile_n"] / t["work_n"]); }

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t floats =
      (t["slots"] * t["tile_k"] + 2) * (t["tile_m"] + t["tile_n"]) + t["totals"] * t["tile_m"] * t["tile_n"];
  return floats * 4 + magnitude_bytes(p, t["tile_m"], t["tile_n"]);
}

/// Of a device's multiply-adds, as estimate.h counts them: on an H200 (docs/performance/h200-portable.md). Flat tiles
/// decode more for each product.
double efficiency(const Tuning& t) { return t["tile_m"] >= 64 ? 0.62 : t["tile_m"] >= 32 ? 0.42 : 0.3; }

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  return 1e9 * scalar_fma_seconds(split_multiply_adds(t, p, f, t["tile_n"]), efficiency(t), f);
}

/// Work-groups a compute unit that hide each other's waiting.
constexpr std::int64_t kGroupsAUnit = 4;

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t{{"tile_m", 64}, {"tile_n", 128}, {"tile_k", 16}, {"work_m", 8},       {"work_n", 8},
           {"split_k", 1}, {"slots", 1},    {"totals", 1},  {"rows_together", 1}};
  // A small tile builds quickly; where vectors are preferred other kernels are taken.
  constexpr std::int64_t kSmall = 32 << 10;
  if (f.prefers_vectors() || f.local_bytes < kSmall) {
    t["tile_n"] = 64;
    t["work_m"] = t["work_n"] = 4;
    t["slots"] = 2;
  }
  // Where a work-group may have 64 KiB, that is usually all that a unit has: sums there would leave room for one.
  constexpr std::int64_t kWholeUnit = 60 << 10;
  if (f.prefers_vectors() || f.local_bytes < kSmall || f.local_bytes >= kWholeUnit) t["totals"] = 0;
  if (p.m <= 32) t["tile_m"] = 32;
  if (p.m <= 16) t["tile_m"] = 16;
  if (p.m <= 8) t["tile_m"] = 8;
  const auto too_large = [&] { return items(t) > f.max_work_group || local_bytes(t, p) > f.local_bytes; };
  if (local_bytes(t, p) > f.local_bytes) t["totals"] = 0;
  while (too_large() && (t["tile_m"] > 8 || t["tile_n"] > 16)) {
    int& larger = t["tile_m"] >= t["tile_n"] && t["tile_m"] > 8 ? t["tile_m"] : t["tile_n"];
    larger /= 2;
  }
  if (!f.prefers_vectors()) split_for(kGroupsAUnit * f.compute_units, t, p, t["tile_n"]);
  return t;
}

}  // namespace

Variant gemm_tiled() {
  Variant v = variant_of_chunks("gemm_tiled",
                                "many rows on any GPU: tiles of A and B decoded into two slots of local memory each, "
                                "register tiles per work-item",
                                "gemm_tiled", columns, items);
  v.tunables = {{"tile_m", 64, {8, 16, 32, 64, 128}, "rows of D per work-group"},
                {"tile_n", 64, {16, 32, 64, 128}, "columns of D per work-group"},
                {"tile_k", 16, {16, 32, 64}, "step in k"},
                {"work_m", 4, {1, 2, 4, 8}, "rows of D per work-item"},
                {"work_n", 4, {4, 8}, "columns of D per work-item"},
                {"split_k", 1, {1, 2, 3, 4, 6, 8, 12, 16}, "parts of k"},
                {"slots", 2, {1, 2}, "tiles of A and of B in local memory"},
                {"totals", 0, {0, 1}, "1: sums of the K groups done lie in local memory"},
                {"rows_together", 1, {1, 8}, "tiles of rows that are walked together"}};
  v.constraints = {{"tile_k must divide the K group, or a step straddles two scale groups",
                    [](const Tuning& t, const Problem& p) { return p.k_group % t["tile_k"] == 0; }},
                   {"tile_m must be at least work_m: a work-item's rows lie inside the tile",
                    [](const Tuning& t, const Problem&) { return t["tile_m"] >= t["work_m"]; }},
                   {"tile_n must be at least work_n: a work-item's columns lie inside the tile",
                    [](const Tuning& t, const Problem&) { return t["tile_n"] >= t["work_n"]; }},
                   {"rows_together must be 1 where rows are scheduled, or where no more tiles of rows are there",
                    [](const Tuning& t, const Problem& p) {
                      return t["rows_together"] == 1 ||
                             (!p.grouped() && numerics::ceil_div(p.m, t["tile_m"]) >= t["rows_together"]);
                    }}};
  v.local_bytes = local_bytes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
