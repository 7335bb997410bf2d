// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wgmma_f16.cl: class f32 on tensor cores of compute capability 9.0, from 17 rows on.
#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

constexpr std::int64_t kTileN = 128;
constexpr Sharing kSharing = {4, 10};
constexpr std::int64_t kTokensInCache = std::int64_t{20} << 20;  // codes of A, two bytes each, of 50 MiB

// Fitted to an H200 (docs/performance/h200.md, "Today, shape by shape").
/// Cycles at the device's clock of a tile, for each of its rows and each k: 1.26 ms for 4096 x 7168 x 16384, measured
/// are 1.36.
constexpr double kCycles = 0.085;
constexpr double kHalfTile = 0.55;  ///< Of the time of 256 rows, 128 take.
/// Of few rows times streaming_ns() and what starts and ends a launch, in ns: 54.4, 26.2 and 18.3 us for 32 x 7168 x
/// 16384, x 24576 x 1536, x 4096 x 4096, which stream in 40.5, 13.0 and 5.8, 7 us of any launch among them; and times
/// streaming_ns() of more: 75.1 us for 128 x 7168 x 16384. Of few rows that are scheduled, 1.3 to 1.7
/// (docs/performance/h200-grouped.md).
constexpr double kOfStreamingFew = 1.05, kOfStreamingScheduled = 1.5, kStart = 5000, kOfStreaming = 1.9;

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const bool lines = p.d != backend::DType::f32;
  const std::int64_t rows = t["tile_m"], stages = lines && rows == 256 ? 2 : 3;
  const bool whole = rows == 256 && t["share"] == 0;
  const std::int64_t slots = whole ? 4 : 5, slot = whole ? 16384 : 8192;
  return slots * slot + stages * rows * 5 + 16 * (slots + stages) + 16 + (lines ? 4096 : 0) +
         (p.quantizes_d() ? 33792 : 0);
}

std::int64_t tiles_of(const Tuning& t, const Problem& p, std::int64_t m) {
  return most_tiles(p, std::max<std::int64_t>(1, m), t["tile_m"]) * numerics::ceil_div(p.n, kTileN);
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features& f, std::int64_t m) {
  return passes_in_turn("gemm_wgmma_f16", tiles_of(t, p, m), t["split_k"] > 1, t, f);
}

numerics::Size scratch_bytes(const Tuning& t, const Problem& p, const Features& f) {
  if (t["split_k"] == 1 && t["share"] == 1) return scratch_of_tiles(1, f.compute_units, t["tile_m"], kTileN);
  return scratch_of_tiles(tiles_of(t, p, p.m), t["split_k"], t["tile_m"], kTileN);
}

bool shares_last_round(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t count = tiles_of(t, p, p.m);
  return last_round_is_shared(count, rounds(count, f), kSharing, p, f);
}

/// Rounds of whole tiles that the device works. Of a grouped problem only the products of 64 rows that a tile needs
/// are made, and each matrix has half a product of padding on average.
double rounds_of(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t count = tiles_of(t, p, p.m);
  const double whole = shares_last_round(t, p, f) ? shared_rounds(count, kSharing, p, f) : rounds(count, f);
  if (p.mean_rows_per_expert == 0 || whole <= 3) return whole;
  const double products = 1.0 * p.m / 64 + 0.5;
  return products * 64 / t["tile_m"] * numerics::ceil_div(p.n, kTileN) / f.compute_units + 0.5;
}

/// Of 256 rows and of 128 ("From 129 rows on" there).
constexpr TileCost kHigh = {3004, 4750, 29700, 0}, kLow = {1923, 3960, 11300, 0};

/// Of dense problems of more than 128 rows, whose tiles can be counted; a tile of 64 rows as one of 128.
double counted_ns(const Tuning& t, const Problem& p, const Features& f) {
  const TileCost& c = t["tile_m"] == 256 ? kHigh : kLow;
  const double whole = opencl::counted_ns(tiles_of(t, p, p.m), t["split_k"], c, p, f);
  if (t["share"] == 0) return whole;
  return whole * shared_rounds(tiles_of(t, p, p.m), kSharing, p, f) / rounds(tiles_of(t, p, p.m), f);
}

/// Of int8 codes gemm_wgmma_s8 took 0.96 of this kernel's time, the median of 49 problems of 129 to 768 rows on an
/// H100 whose estimates were as good as equal (docs/performance/decode.md).
constexpr double kOfIntegers = 1.15;

/// Into how many parts K may be cut, each of four K blocks at least, where tiles do not fill the device.
bool may_be_cut(const Tuning& t, const Problem& p, const Features& f, int parts) {
  return parts * tiles_of(t, p, p.m) <= f.compute_units && numerics::ceil_div(p.k, 128) / parts >= 4;
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  // Of few columns more tokens together, where the second cache holds them all as f16.
  const int together = p.n <= 4096 && p.m * p.k <= kTokensInCache ? 16 : 8;
  Tuning t{{"tile_m", 256}, {"split_k", 1}, {"share", 0}, {"rows_together", together}, {"ahead", 2}};
  if (tiles_are_counted(p)) {
    Tuning best;
    for (const int rows : {256, 128}) {
      t["tile_m"] = rows;
      if (rows == 256 && local_bytes(t, p) > f.own_local_bytes) continue;
      for (const int parts : split_k_values()) {
        t["split_k"] = parts;
        // Of tiles of 128 rows sharing has cost more than it gave.
        t["share"] = parts == 1 && rows == 256 && shares_last_round(t, p, f) ? 1 : 0;
        if ((parts == 1 || may_be_cut(t, p, f, parts)) &&
            (best.empty() || counted_ns(t, p, f) < counted_ns(best, p, f)))
          best = t;
      }
    }
    return best;
  }
  if (p.m <= 64) {
    t["tile_m"] = 64;
  } else if (p.m <= 128) {
    t["tile_m"] = 128;
  } else {
    // Half as high is faster where the last round is better filled.
    Tuning half = t;
    half["tile_m"] = 128;
    if (kHalfTile * rounds_of(half, p, f) < rounds_of(t, p, f) || local_bytes(t, p) > f.own_local_bytes) t = half;
  }
  for (int parts = 2; parts <= 16 && may_be_cut(t, p, f, parts); parts *= 2) t["split_k"] = parts;
  t["share"] = t["split_k"] == 1 && shares_last_round(t, p, f) ? 1 : 0;
  return t;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  if (tiles_are_counted(p)) return counted_ns(t, p, f) * (p.b == backend::DType::i8 ? kOfIntegers : 1);
  const double in_rounds =
      t["split_k"] == 1 ? rounds_of(t, p, f) : rounds(tiles_of(t, p, p.m) * t["split_k"], f) / t["split_k"];
  const double cycles = in_rounds * t["tile_m"] * p.k * kCycles;
  const double multiply = 1e9 * cycles / f.clock_hz;
  const double of_few = p.scheduled ? kOfStreamingScheduled : kOfStreamingFew;
  return std::max(multiply, p.m <= 64 ? streaming_ns(p, of_few, kStart) : streaming_ns(p) * kOfStreaming);
}

}  // namespace

Variant gemm_wgmma_f16() {
  Variant v = variant_of_wgmma(
      "gemm_wgmma_f16", "many rows on tensor cores of compute capability 9.0: codes as f16, exact products, f32 sums",
      true);
  v.tunables = {{"tile_m", 256, {64, 128, 256}, "rows of D per work-group; its columns are 128"},
                {"split_k", 1, split_k_values(), "split-K parts"},
                {"share", 0, {0, 1}, "a last round that is half empty or more in parts of K, unless all tiles are"},
                {"rows_together", 8, {4, 8, 16}, "tiles of rows that are walked together"},
                {"ahead", 2, {0, 2, 4}, "K blocks between asking the second cache for a tile and using it"}};
  v.constraints = {
      share_constraint(),
      {"split_k must leave each part a K block",
       [](const Tuning& t, const Problem& p) { return t["split_k"] <= numerics::ceil_div(p.k, 256) * 2; }},
      counters_constraint<tiles_of>()};
  v.local_bytes = local_bytes;
  v.tile = v.block = [](const Tuning& t) { return Shape{t["tile_m"], kTileN}; };
  v.passes = passes;
  v.scratch_bytes = scratch_bytes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
