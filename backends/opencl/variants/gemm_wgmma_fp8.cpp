// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wgmma_fp8.cl: class tensor14 on tensor cores of compute capability 9.0.
#include <algorithm>
#include <array>

#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

constexpr std::int64_t kTileM = 128;
constexpr Sharing kSharing = {8, 14};

// Fitted to an H200 (docs/performance/h200.md, "Today, shape by shape").
constexpr double kHalfRound = 0.6;  ///< Of the time of a round: its tiles have half as many columns.
/// Cycles at the device's clock of a tile, for each of its columns and each k: 0.70 ms for 4096 x 7168 x 16384, as
/// measured.
constexpr double kCycles = 0.047;
/// Times streaming_ns() of tiles of 64 columns, and of wider ones, and what starts and ends a launch, in ns: 48.9 and
/// 16.5 us for 32 x 7168 x 16384 and x 4096 x 4096, which stream in 40.5 and 5.8; 24.8 for 32 x 24576 x 1536, in
/// tiles of 256, which stream in 13.0; 7 us of any launch among them.
constexpr double kOfStreamingNarrow = 1, kOfStreaming = 1.05, kStart = 4000;

/// Of more than 128 rows: cycles at the device's clock that a tile takes for a K block of 128, and those in which
/// each column of it leaves; what the ring of a work-group that has one tile takes to fill; what K in parts costs.
/// Fitted to 84 problems in every width (docs/performance/h200-many-rows.md, "Tiles of other widths").
struct Width {
  int columns;
  double block_cycles;
};
constexpr std::array<Width, 8> kWidths = {
    {{64, 568}, {96, 790}, {128, 806}, {144, 962}, {160, 1022}, {192, 1114}, {256, 1386}, {272, 1566}}};
constexpr double kColumnCycles = 14, kFillCycles = 1600, kPartsCycles = 20000;

/// Whether tiles end within blocks of 64 columns of B; those are made whole, and of fp8 only.
bool uneven(const Tuning& t) { return t["tile_n"] != 64 && t["tile_n"] != 128 && t["tile_n"] != 256; }

/// Whether a tile's two products are gates and the ups of the same columns.
bool activates(const Tuning& t, const Problem& p) {
  return p.gated() && p.d_cols() % 128 == 0 && t["tile_n"] == 256 && t["split_k"] == 1 && t["share"] == 0;
}

/// Of cl/gemm_wgmma_fp8.cl: stages of a K block of A and B, with scales and two barriers each; D on its way out; what
/// parts.cl says.
std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t columns = t["tile_n"], size = numerics::size_of(p.d);
  const std::int64_t stages = columns > 192 ? 3 : columns > 144 ? 4 : columns > 96 ? 5 : columns > 64 ? 6 : 7;
  const std::int64_t scales = columns > 192 && uneven(t) ? 560 : 544;
  const std::int64_t line = size * (columns == 64 || size == 2 ? columns : columns / 64 * 32);
  const std::int64_t out = p.quantizes_d() ? 64 * (4 * columns + 32) : 128 * (line + (line % 64 == 0 ? 32 : 0));
  return stages * ((128 + columns) * 128 + scales + 16) + out + 16;
}

std::int64_t tiles_of(const Tuning& t, const Problem& p, std::int64_t m) {
  return most_tiles(p, std::max<std::int64_t>(1, m), kTileM) * numerics::ceil_div(p.n, t["tile_n"]);
}

/// Rounds of tiles, the last of halves where cl/gemm_wgmma_fp8.cl makes it so.
double unshared_rounds(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t all = tiles_of(t, p, p.m), whole = all / f.compute_units, rest = all % f.compute_units;
  const bool halves = t["tile_n"] == 256 && !activates(t, p) && whole > 0 && rest > 0 && 2 * rest <= f.compute_units;
  if (halves) return whole + kHalfRound;
  return rounds(all, f);
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features& f, std::int64_t m) {
  return passes_in_turn("gemm_wgmma_fp8", tiles_of(t, p, m), t["split_k"] > 1 || t["tile_n"] == 64, t, f);
}

numerics::Size scratch_bytes(const Tuning& t, const Problem& p, const Features& f) {
  if (t["split_k"] == 1 && t["share"] == 1) return scratch_of_tiles(1, f.compute_units, kTileM, t["tile_n"]);
  return scratch_of_tiles(tiles_of(t, p, p.m), t["split_k"], kTileM, t["tile_n"]);
}

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_tensor_cores(f, p)) return refusal;
  return refuse_narrow_scales(p);
}

/// Of dense problems of more than 128 rows, whose tiles can be counted.
double counted_ns(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t columns = t["tile_n"], parts = t["split_k"];
  const Width& width = *std::ranges::find_if(kWidths, [&](const Width& w) { return w.columns == columns; });
  const double blocks = numerics::ceil_div(p.k, 128);
  const double of_tile =
      blocks / parts * width.block_cycles + columns * kColumnCycles + (columns == 64 ? kFillCycles : 0);
  const std::int64_t all = tiles_of(t, p, p.m);
  const double in_rounds = parts > 1        ? rounds(all * parts, f)
                           : t["share"] > 0 ? shared_rounds(all, kSharing, p, f)
                                            : unshared_rounds(t, p, f);
  const double multiply = 1e9 * (in_rounds * of_tile + (parts > 1 ? kPartsCycles : 0)) / f.clock_hz;
  return std::max({multiply, second_cache_ns(all, kTileM + columns, p, f), streaming_ns(p) * kOfStreaming});
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  if (tiles_are_counted(p)) return counted_ns(t, p, f);
  const double in_rounds = t["share"] > 0 && t["split_k"] == 1 ? shared_rounds(tiles_of(t, p, p.m), kSharing, p, f)
                           : t["split_k"] == 1                 ? unshared_rounds(t, p, f)
                                               : rounds(tiles_of(t, p, p.m) * t["split_k"], f) / t["split_k"];
  const double cycles = in_rounds * t["tile_n"] * p.k * kCycles;
  const double multiply = 1e9 * cycles / f.clock_hz;
  return std::max(multiply, streaming_ns(p, t["tile_n"] == 64 ? kOfStreamingNarrow : kOfStreaming, kStart));
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  const int together = p.n <= 4096 ? 8 : p.k <= 2048 ? 32 : 16;
  // To ask the second cache costs power, which is what bounds large tiles, and their stages hold enough.
  Tuning t{{"tile_n", 256}, {"split_k", 1}, {"share", 0}, {"rows_together", together}, {"ahead", 0}};
  if (activates(t, p) && tiles_are_counted(p)) return t;  // Totals that an activation reads cost more.
  const Tuning whole = t;
  if (2 * tiles_of(t, p, p.m) <= f.compute_units) t["tile_n"] = 128, t["ahead"] = 4;
  // Few rows wait for weights, not for the tokens that a narrow tile reads twice as often.
  if (p.m <= kTileM && 2 * tiles_of(t, p, p.m) <= f.compute_units) t["tile_n"] = 64;
  const std::int64_t pairs = numerics::ceil_div(p.k, 256);
  while (t["split_k"] < 16 && 2 * tiles_of(t, p, p.m) * t["split_k"] <= f.compute_units &&
         pairs / 2 / t["split_k"] >= 2) {
    t["split_k"] *= 2;
  }
  t["share"] =
      t["split_k"] == 1 && last_round_is_shared(tiles_of(t, p, p.m), unshared_rounds(t, p, f), kSharing, p, f) ? 1
                                                                                                               : 0;
  if (p.m <= kTileM || p.scheduled) return t;
  // So wide that whole tiles fill whole rounds.
  for (const Width& width : kWidths) {
    Tuning other = whole;
    other["tile_n"] = width.columns;
    other["ahead"] = width.columns <= 128 ? 4 : 0;
    if (uneven(other) && (p.a == backend::DType::i8 || holds_groups_of_d(p, 128))) continue;
    if (counted_ns(other, p, f) < counted_ns(t, p, f)) t = other;
  }
  return t;
}

}  // namespace

Variant gemm_wgmma_fp8() {
  Variant v = variant_of_wgmma(
      "gemm_wgmma_fp8", "many rows on compute capability 9.0: codes as they are, sums of 128 k in 14 bits", false);
  v.products = fp8_codes();
  v.tunables = {
      {"tile_n", 256, {64, 96, 128, 144, 160, 192, 256, 272}, "columns of D per work-group; its rows are 128"},
      {"split_k", 1, split_k_values(), "split-K parts"},
      {"share", 0, {0, 1}, "a last round that is half empty or more in parts of K, unless all tiles are"},
      {"rows_together", 8, {4, 8, 16, 32}, "tiles of rows that are walked together"},
      {"ahead", 4, {0, 2, 4}, "K blocks between asking the second cache for a tile and using it"}};
  v.constraints = {
      share_constraint(),
      {"tiles of other than 64, 128 or 256 columns are made whole: split_k must be 1, share 0",
       [](const Tuning& t, const Problem&) { return !uneven(t) || (t["split_k"] == 1 && t["share"] == 0); }},
      {"split_k must leave each part two K blocks",
       [](const Tuning& t, const Problem& p) { return t["split_k"] <= numerics::ceil_div(p.k, 256); }},
      counters_constraint<tiles_of>()};
  v.needs = needs;
  v.schedule = [](const Tuning&) { return ScheduleShape{kTileM, 1}; };
  v.local_bytes = local_bytes;
  v.tile = v.block = [](const Tuning& t) { return Shape{kTileM, t["tile_n"]}; };
  v.gate_run = [](const Tuning& t, const Problem& p) { return activates(t, p) ? 128 : 0; };
  v.passes = passes;
  v.scratch_bytes = scratch_bytes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

/// The same tiles by the products of int8.
Variant gemm_wgmma_s8() {
  Variant v = gemm_wgmma_fp8();
  v.name = "gemm_wgmma_s8";
  v.file = "gemm_wgmma_fp8.cl";
  v.summary = "many rows on tensor cores of compute capability 9.0: exact sums of 128 k";
  v.accuracy = backend::AccuracyClass::f32;
  v.products = integer_codes();
  v.tunables.front().values = {64, 128, 256};  // Its products have not every number of columns.
  return v;
}

}  // namespace ironcl::opencl
