// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_skinny.cl: few rows, weights streamed once and decoded in registers by many work-items a
// work-group. The kernel of GPUs for small M.
#include <algorithm>

#include "backends/opencl/estimate.h"
#include "backends/opencl/split_k.h"

namespace ironcl::opencl {
namespace {

std::int64_t columns(const Tuning& t) { return t["lanes"] * t["work_n"]; }

std::int64_t items(const Tuning& t) { return t["lanes"] * t["slices"]; }

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t rows = t["tile_m"], slices = t["slices"];
  const std::int64_t busy = std::max<std::int64_t>(1, slices / t["work_n"]);
  const std::int64_t rows_at_once = t["totals"] == 1 ? rows : std::min(rows, busy);
  const std::int64_t floats = rows * (t["depth"] * 32 + 2) + rows_at_once * columns(t);
  return floats * slices * 4 + magnitude_bytes(p, t["tile_m"], columns(t));
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t{{"tile_m", 16}, {"work_n", 4}, {"lanes", 8}, {"slices", 16}, {"depth", 1}, {"split_k", 1}, {"totals", 0}};
  for (const int rows : {8, 4, 2, 1})
    if (p.m <= rows) t["tile_m"] = rows;
  if (t["tile_m"] <= 4 && p.k_group > 16) t["depth"] = 2;
  if (t["tile_m"] <= 2) {
    // Bound by memory: many small work-groups, with much on its way.
    t["lanes"] = 4;
    t["slices"] = 32;
  }
  // Sixteen rows of large weights: each A read for 128 columns at once, sums in local memory to leave registers for
  // waiting, and parts of k that fill the device three times (docs/performance/h200-portable.md).
  constexpr std::int64_t kLarge = std::int64_t{64} << 20;
  const std::int64_t parts = 3 * f.compute_units / numerics::ceil_div(p.n, 128);
  if (!f.prefers_vectors() && t["tile_m"] == 16 && p.n * p.k >= kLarge && parts >= 4) {
    Tuning wide = t;
    wide["lanes"] = 32;
    wide["slices"] = 4;
    wide["totals"] = 1;
    wide["split_k"] = static_cast<int>(std::min<std::int64_t>(parts, 8));
    if (local_bytes(wide, p) <= f.local_bytes && items(wide) <= f.max_work_group) return wide;
  }
  // Few columns: narrower work-groups, then parts of k, so that no compute unit is without work.
  const auto work_groups = [&] { return split_work_groups(t, p, columns(t)); };
  if (work_groups() * 2 <= f.compute_units) {
    t["lanes"] = 4;
  }
  if (numerics::is_float(p.b)) {
    // A router: what counts is how many wait for memory at once, and a kernel that adds parts would be another
    // launch.
    const auto few = [&] { return work_groups() < 3 * f.compute_units; };
    if (few()) t["lanes"] = 4;
    while (few() && t["tile_m"] > 1) t["tile_m"] /= 2;
    while (few() && t["work_n"] > 1) t["work_n"] /= 2;
    if (t["tile_m"] <= 4) t["depth"] = 2;
  }
  while (!f.prefers_vectors() && !numerics::is_float(p.b) && work_groups() * 2 <= f.compute_units &&
         t["split_k"] < 16 && p.k_groups() >= std::int64_t{t["slices"]} * t["split_k"]) {
    t["split_k"] *= 2;
  }
  if (f.prefers_vectors()) {  // Other kernels are taken there: small, so that it builds quickly.
    t["tile_m"] = std::min(t["tile_m"], 4);
    t["lanes"] = t["slices"] = 4;
    t["depth"] = 1;
  }
  // Slices without a K group would idle.
  while (t["slices"] > 1 && t["slices"] / 2 >= p.k_groups()) {
    t["slices"] /= 2;
    if (items(t) < 32 && !f.prefers_vectors()) t["lanes"] *= 2;
  }
  // A small device: fewer slices, then fewer rows, until the work-group and its memory fit.
  const auto too_large = [&] { return items(t) > f.max_work_group || local_bytes(t, p) > f.local_bytes; };
  if (local_bytes(t, p) > f.local_bytes) t["totals"] = 0;
  while (too_large() && t["slices"] > 1) t["slices"] /= 2;
  while (too_large() && t["lanes"] > 4) t["lanes"] /= 2;
  while (too_large() && t["tile_m"] > 1) t["tile_m"] /= 2;
  return t;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t tiles = row_tiles(p, t["tile_m"]);
  const std::int64_t work_groups = split_work_groups(t, p, columns(t));
  const double in_rounds = rounds(work_groups, f) * f.compute_units / work_groups;
  const double weights = 1.0 * p.n * p.k;
  // Decoding a weight costs as much as three multiply-adds.
  const double count = in_rounds * tiles * (t["tile_m"] + 3) * weights;
  constexpr double kEfficiency = 0.42;  // On an H200, 1 to 16 rows (docs/performance/h200-portable.md).
  return 1e9 * std::max(scalar_fma_seconds(count, kEfficiency, f), memory_seconds(weights, f));
}

}  // namespace

Variant gemm_skinny() {
  Variant v =
      variant_of_chunks("gemm_skinny", "few rows on any GPU: 16 bytes of weights per load, decoded once for all rows",
                        "gemm_skinny", columns, items);
  v.products.push_back(unquantised());
  v.activations = [](const Tuning&, const Problem&) { return rows_form(64, RowsOfFloats::multiplied); };
  v.tunables = {{"tile_m", 1, {1, 2, 4, 8, 16}, "rows of D per work-group"},
                {"work_n", 4, {1, 2, 4}, "columns of D per work-item"},
                {"lanes", 8, {4, 8, 16, 32, 64}, "work-items side by side in columns"},
                {"slices", 16, {1, 2, 4, 8, 16, 32, 64}, "K groups that a work-group has under way"},
                {"depth", 2, {1, 2, 4, 8}, "chunks of 16 k that a work-item loads at once"},
                {"split_k", 1, {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32}, "parts of k"},
                {"totals", 0, {0, 1}, "1: sums of the K groups done lie in local memory"}};
  v.constraints = {{"depth must divide the chunks of 16 k in a K group, or a step straddles two scale groups",
                    [](const Tuning& t, const Problem& p) { return p.k_group / 16 % t["depth"] == 0; }}};
  // PoCL 5.0 (LLVM 16) makes loops of work-items that keep one of a work-item's sums for all of them: D was wrong in
  // one column of four, with these tunables. PoCL 3.1 and 6.0 are right. GPUs, for which the kernel is, have no such
  // loops.
  v.trial = Trial{19, 70, 1100};
  v.trial->tunables = {{"tile_m", 2}, {"lanes", 4}, {"slices", 2}, {"split_k", 2}};
  v.trial->needs_trial = [](const Features& f) { return f.type == backend::DeviceType::cpu; };
  v.local_bytes = local_bytes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
