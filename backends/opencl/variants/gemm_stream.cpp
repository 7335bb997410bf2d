// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_stream.cl: few rows, each weight decoded once in registers, k in parts. The CPU's kernel of small
// M.
#include <algorithm>

#include "backends/opencl/estimate.h"
#include "backends/opencl/one_launch.h"

namespace ironcl::opencl {
namespace {

/// What decoding a vector of weights in registers costs, in multiply-adds of a vector. Fitted where gemm_panel, which
/// decodes once for many tiles, becomes as fast: between two tiles of 16 rows and three, on the Xeons and EPYCs of
/// docs/performance/cpu.md.
constexpr double kDecoding = 3;

const std::vector<int> kWidths{32, 64, 128, 192, 256};

/// In local memory, of one row.
std::int64_t bytes_of_group(const Problem& p) { return (std::int64_t{p.k_group} + 1) * 4; }

int persistent(const Tuning& t, const Problem& p) {
  if (t["floats"] == 0 || t["split_k"] > 1 || t["block_m"] > 1) return 0;
  return persistent_groups(p, t["tile_m"], bytes_of_group(p));
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features& f, std::int64_t m) {
  if (persistent(t, p) > 0) return {pass_of_cores("gemm_stream", f)};
  const std::int64_t panels = numerics::ceil_div(p.n, kPanel);
  const std::int64_t blocks_n = numerics::ceil_div(p.n, t["block_n"]);
  const std::int64_t blocks_m = most_tiles(p, m, t["tile_m"] * t["block_m"]);
  std::vector<Pass> list{{"gemm_stream", {blocks_m * t["split_k"], blocks_n}, 1}};
  if (t["split_k"] > 1) {
    list.push_back({"gemm_stream_reduce", {panels, most_tiles(p, m, p.grouped() ? t["tile_m"] : 1)}, 1});
  }
  return list;
}

/// Multiply-adds of a vector, and what is decoded beside them, for each k of 16 columns: what all rows of a matrix
/// cost in tiles of `height`. Tiles of a grouped problem cost what their rows do, the dense ones are as equal as can
/// be.
double of_rows(const Problem& p, std::int64_t height) {
  return p.mean_over_rows([&](std::int64_t rows) {
    const std::int64_t tiles = numerics::ceil_div(rows, height);
    return (p.mean_rows_per_expert > 0 ? rows : tiles * height) + tiles * kDecoding;
  });
}

/// What a call costs with its kernels: one that quantises A or, FLOATS, none; this one; one that adds parts of k.
double with_launches_ns(const Tuning& t, std::int64_t work_groups, const Problem& p, const Features& f) {
  constexpr double kVector = 1.8;  // Nanoseconds; sixteen codes from memory, decoded, where few rows are multiplied.
  constexpr double kQuantised = 0.17;  // An activation.
  const std::int64_t parts = t["split_k"];
  const bool floats = t["floats"] == 1 && p.a_source != backend::DType::none;
  const double k = 1.0 * p.k / parts;
  const double fma = 1e9 * vector_fma_seconds(of_rows(p, t["tile_m"]), 16, f);
  const std::int64_t vectors = kPanel / 16;
  const double quantised = floats ? k * kQuantised * t["tile_m"] : 0;
  const bool once = persistent(t, p) > 0;
  const double work = k * vectors * std::max(kVector, fma) + (once ? 0 : quantised);
  const int kernels = 1 + (parts > 1 ? 1 : 0) + (p.a_source != backend::DType::none && !floats ? 1 : 0);
  return kernels * launch_ns(f) + rounds(work_groups * parts, f) * work + (once ? quantised : 0);
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  // Accumulators of 16 f32 each, in the registers that vectors of the device's width leave.
  const std::int64_t rows = std::max<std::int64_t>(1, p.m);
  Tuning t;
  const int most = f.vector_width >= 16 ? 16 : f.vector_width >= 8 ? 6 : 3;
  t["tile_m"] = p.mean_rows_per_expert > 0 ? least_height(most, [&](int height) { return of_rows(p, height); })
                                           : static_cast<int>(equal_height(rows, most));
  t["tile_n"] = t["tile_m"] > (f.vector_width >= 16 ? 10 : f.vector_width >= 8 ? 3 : 1) ? 16 : 32;
  t["block_m"] = t["split_k"] = 1;
  t["floats"] = 0;
  t["block_n"] = width_for_d(p, kWidths);
  const bool whole_k = t["block_n"] > kPanel;  // Where groups of D are held, whose parts another kernel would add.
  const std::int64_t work_groups = numerics::ceil_div(p.n, t["block_n"]) * numerics::ceil_div(rows, t["tile_m"]);
  if (f.prefers_vectors() && p.mean_rows_per_expert == 0) {
    double least = 0;
    Tuning candidate = t;
    for (const int split_k : {1, 2, 4, 8, 16}) {
      if (split_k > 1 && (whole_k || p.k_groups() < std::int64_t{2} * split_k)) break;
      for (const int floats : {0, 1}) {
        candidate["split_k"] = split_k;
        candidate["floats"] = floats;
        // A launch costs less on some drivers than is said here, quantising more on some processors: what is gained
        // must be more than nothing.
        const double ns = with_launches_ns(candidate, work_groups, p, f);
        if (least != 0 && ns >= (floats == 1 ? 0.99 : 1.0) * least) continue;
        least = ns;
        t = candidate;
      }
    }
    return t;
  }
  // A few work-groups for every core, each with some K groups to itself.
  while (!whole_k && work_groups * t["split_k"] < 4 * f.compute_units && t["split_k"] < 16 &&
         p.k_groups() >= std::int64_t{4} * t["split_k"]) {
    t["split_k"] *= 2;
  }
  return t;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t tiles = row_tiles(p, t["tile_m"]);
  const std::int64_t blocks =
      numerics::ceil_div(tiles, t["block_m"]) * numerics::ceil_div(p.n, t["block_n"]) * t["split_k"];
  const double columns = (numerics::Size(p.n).padded_to(kPanel).value());
  const double vectors = of_rows(p, t["tile_m"]) * columns / 16 * p.k / blocks * rounds(blocks, f);
  return 1e9 * vector_fma_seconds(vectors, 16, f);
}

}  // namespace

Variant gemm_stream() {
  Variant v = variant_of_panels(
      "gemm_stream",
      "few rows on any device: each weight decoded in registers for all rows, parts of k added in order");
  v.tunables = {{"tile_m", 8, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, "rows of the register tile"},
                {"tile_n", 32, {16, 32}, "columns of the register tile"},
                {"block_m", 1, kBlocksM, "tiles of rows per work-group"},
                {"block_n", 32, kWidths, "columns of D per work-group"},
                {"split_k", 1, {1, 2, 4, 8, 16}, "parts of k"},
                {"floats", 0, {0, 1}, "1: activations that are to be quantised are taken as they are"}};
  v.persistent_groups = persistent;
  v.schedule = [](const Tuning& t) { return ScheduleShape{t["tile_m"], t["block_m"]}; };
  v.local_bytes = [](const Tuning& t, const Problem& p) -> std::int64_t {
    const std::int64_t groups = t["floats"] == 1 ? std::max(1, persistent(t, p)) : 0;
    return (t["block_m"] * t["tile_m"] * (t["block_n"] * 4 + groups * bytes_of_group(p)));
  };
  v.tile = [](const Tuning& t) { return Shape{t["tile_m"], t["tile_n"]}; };
  v.block = [](const Tuning& t) { return Shape{t["tile_m"] * t["block_m"], t["block_n"]}; };
  v.activations = [](const Tuning& t, const Problem&) { return tiles_form(t["tile_m"], t["floats"] == 1); };
  v.passes = passes;
  v.scratch_bytes = [](const Tuning& t, const Problem& p, const Features&) -> numerics::Size {
    return scratch_of_parts(p, t["split_k"], t["tile_m"], numerics::Size(p.n).padded_to(kPanel));
  };
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
