// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_mma_tiled.cl: class f32 on tensor cores of compute capability 8.0 and more, many rows. On 9.0
// wgmma is faster where it can be had, so there this kernel is for K groups of 64 and 32.
#include "backends/opencl/split_k.h"
#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

constexpr int kWarpColumns = 32;
constexpr std::int64_t kColumnUnit = 128;  // To which the weights' form pads.

std::int64_t items(const Tuning& t) { return (t["tile_m"] / t["warp_m"] * (t["tile_n"] / kWarpColumns)) * 32; }

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t half = t["half_rows"], rows = t["tile_m"];
  return t["tile_k"] * (t["stages"] * (t["tile_n"] + (1 - half) * rows) + half * 4 * rows) +
         magnitude_bytes(p, t["tile_m"], t["tile_n"]);
}

numerics::Size scratch_bytes(const Tuning& t, const Problem& p, const Features&) {
  return scratch_of_parts(p, t["split_k"], t["tile_m"], numerics::Size(p.n).padded_to(kColumnUnit));
}

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_below_80(f)) return refusal;
  const Problem seen = p.selected();
  constexpr std::int64_t kFewRows = 32;  // Of the largest tile of gemm_mma_stream, which reads weights faster.
  if (!seen.grouped() && seen.m <= kFewRows) {
    return Refusal{backend::Reason::shape, "this kernel takes more than 32 rows; m is " + std::to_string(p.m)};
  }
  return refuse_narrow_groups(p, 32);
}

/// Rows and columns that the warps of a compute unit make at once, as many as its registers hold: one work-group
/// alone takes nearly as long as all of them.
constexpr std::int64_t kOfUnit = std::int64_t{8} * 64 * kWarpColumns;

std::int64_t at_once(const Tuning& t, const Features& f) {
  return std::max<std::int64_t>(1, f.compute_units * (kOfUnit / (t["tile_m"] * t["tile_n"])));
}

/// Multiply-adds a clock of a compute unit, K groups of 128; of 64 and 32 a share of them. The H200's are 460 with
/// integers and 620 with conversions, 360 of groups of 64; nobody has measured smaller devices, so there this guesses
/// in the proportion that it has to gemm_mma_stream on an H200.
constexpr double kIntegers = 280, kConversions = 370, kOf90 = 560, kOf64 = 0.65, kOf32 = 0.5;
constexpr double kAlone = 0.65;           ///< What one work-group of a unit takes of the time of two.
constexpr double kSecondLaunchNs = 13e3;  ///< What parts cost beside the bytes of their sums.

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t together = kOfUnit / (t["tile_m"] * t["tile_n"]);
  const std::int64_t of_unit = numerics::ceil_div(split_work_groups(t, p, t["tile_n"]), f.compute_units);
  const std::int64_t full_rounds = of_unit / together;
  const double in_rounds = full_rounds + (of_unit % together != 0 ? kAlone : 0);
  const double rate = (f.ptx_sm_90   ? kOf90
                       : f.ptx_sm_89 ? kConversions
                                     : kIntegers) *
                      (p.k_group == 128  ? 1
                       : p.k_group == 64 ? kOf64
                                         : kOf32);
  const double multiply_adds = 1.0 * kOfUnit * p.k / t["split_k"];
  const double seconds = in_rounds * multiply_adds / (rate * f.clock_hz);
  const double parts = t["split_k"] == 1 ? 0 : t["split_k"];
  const double sums = parts * 4 * p.m * p.n;
  const double weights = 1.0 * p.n * p.k;
  return 1e9 * (std::max(seconds, memory_seconds(weights, f)) + memory_seconds(sums, f)) +
         (parts > 0 ? kSecondLaunchNs : 0);
}

/// As measured on an H200 held to 8.0 and 8.9 (docs/performance/h200-mma.md).
Tuning rule_of_thumb(const Features& f, const Problem& p) {
  // Where codes are decoded by integers, those of rows are decoded once.
  // A warp of 64 rows has no room for the scales of narrow groups.
  Tuning t{{"tile_m", 64},
           {"warp_m", p.k_group == 128 ? 64 : 32},
           {"tile_n", p.n <= 64 ? 64 : 128},
           {"tile_k", 64},
           {"stages", 3},
           {"half_rows", f.ptx_sm_89 ? 0 : 1},
           {"split_k", 1}};
  constexpr std::int64_t kLeastBlocks = 4;  // Of a part.
  const std::int64_t blocks = numerics::ceil_div(p.k, 128);
  const std::int64_t work_groups = split_work_groups(t, p, t["tile_n"]);
  if (p.grouped()) return t;
  if (4 * work_groups > 3 * f.compute_units) {
    // A work-group for nearly every unit is as fast without parts, which cost a launch more, but where K is long.
    Tuning two = t;
    two["split_k"] = 2;
    const bool fits = 2 * work_groups <= at_once(t, f) && blocks >= 2 * kLeastBlocks;
    return fits && estimate_ns(two, p, f) < 0.9 * estimate_ns(t, p, f) ? two : t;
  }
  for (const int parts : {2, 3, 4, 6, 8, 12, 16})
    if (work_groups * parts <= at_once(t, f) && blocks >= kLeastBlocks * parts) t["split_k"] = parts;
  return t;
}

}  // namespace

Variant gemm_mma_tiled() {
  Variant v = variant_of_tensor_cores(
      "gemm_mma_tiled",
      "many rows on tensor cores from compute capability 8.0 on: tiles of codes in local memory, f16 with f32 sums",
      {70, 72, 1100});
  v.tunables = {{"tile_m", 64, {64, 128}, "rows of D per work-group"},
                {"tile_n", 128, {64, 128}, "columns of D per work-group"},
                {"warp_m", 64, {32, 64}, "rows of a warp; 32 take half of the registers"},
                {"tile_k", 64, {32, 64}, "k of a stage; a K group may be shorter"},
                {"stages", 3, {2, 3, 4}, "stages of the ring"},
                {"half_rows", 1, {0, 1}, "1: rows are f16 in local memory"},
                {"split_k", 1, {1, 2, 3, 4, 6, 8, 12, 16}, "parts of k"}};
  v.constraints = {{"split_k must leave each part a K block of 128",
                    [](const Tuning& t, const Problem& p) { return t["split_k"] <= numerics::ceil_div(p.k, 128); }},
                   {"tile_m and tile_n must be multiples of the lines that are copied at once",
                    [](const Tuning& t, const Problem&) {
                      const std::int64_t lines = items(t) * 16 / t["tile_k"];
                      return t["tile_m"] % lines == 0 && t["tile_n"] % lines == 0;
                    }}};
  v.needs = needs;
  v.local_bytes = local_bytes;
  split_passes(
      v, "gemm_mma_tiled", [](const Tuning& t) { return t["tile_n"]; }, items);
  v.activations = [](const Tuning&, const Problem&) { return rows_form(128); };
  v.gate_run = [](const Tuning& t, const Problem&) { return t["split_k"] == 1 ? 1 : 0; };
  v.scratch_bytes = scratch_bytes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
