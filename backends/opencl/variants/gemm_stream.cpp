// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_stream.cl: few rows, each weight decoded once in registers, k in parts. The CPU's kernel of small
// M.
#include <algorithm>

#include "backends/opencl/kernels.h"

namespace ironcl::opencl {
namespace {

constexpr std::int64_t kMostRows = 32;  ///< Beyond, decoding once for many rows (gemm_panel) is better.

std::vector<Pass> passes(const Tuning& t, const Problem& p, std::int64_t m) {
  const auto panels = static_cast<std::size_t>(numerics::ceil_div(p.n, kPanel));
  const auto blocks_n = static_cast<std::size_t>(numerics::ceil_div(p.n, kPanel * t.at("block_n")));
  const auto blocks_m = static_cast<std::size_t>(numerics::ceil_div(m, t.at("tile_m") * t.at("block_m")));
  std::vector<Pass> list{{"gemm_stream", {blocks_m * static_cast<std::size_t>(t.at("split_k")), blocks_n}, 1}};
  if (t.at("split_k") > 1) list.push_back({"gemm_stream_reduce", {panels, static_cast<std::size_t>(m)}, 1});
  return list;
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  // Accumulators of 16 f32 each, in the registers that vectors of the device's width leave.
  const std::int64_t rows = std::max<std::int64_t>(1, p.m);
  Tuning t;
  const std::int64_t most = f.vector_width >= 16 ? 16 : f.vector_width >= 8 ? 6 : 3;
  t["tile_m"] = static_cast<int>(numerics::ceil_div(rows, numerics::ceil_div(rows, most)));
  t["tile_n"] = t["tile_m"] > (f.vector_width >= 16 ? 10 : f.vector_width >= 8 ? 3 : 1) ? 16 : 32;
  t["block_m"] = t["block_n"] = t["split_k"] = 1;
  // A few work-groups for every core, each with some K groups to itself.
  const std::int64_t work_groups = numerics::ceil_div(p.n, kPanel) * numerics::ceil_div(rows, t["tile_m"]);
  while (work_groups * t["split_k"] < 4 * f.compute_units && t["split_k"] < 16 && p.groups() >= 4 * t["split_k"]) {
    t["split_k"] *= 2;
  }
  return t;
}

}  // namespace

Variant gemm_stream() {
  Variant v;
  v.name = "gemm_stream";
  v.summary = "few rows: each weight decoded once in registers for all rows, k in parts summed in a fixed order";
  v.tunables = {
      {"tile_m", 8, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, "rows of the register tile"},
      {"tile_n", 32, {16, 32}, "columns of the register tile"},
      {"block_m", 1, {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 16, 20, 24, 32}, "tiles of rows per work-group"},
      {"block_n", 1, {1, 2, 4, 6, 8}, "panels of 32 columns per work-group"},
      {"split_k", 1, {1, 2, 4, 8, 16}, "parts of k"}};
  v.local_bytes = [](const Tuning& t, const Problem&) -> std::uint64_t {
    return static_cast<std::uint64_t>(t.at("block_m") * t.at("tile_m") * t.at("block_n") * kPanel) * sizeof(float);
  };
  v.work_items = [](const Tuning&) -> std::uint64_t { return 1; };
  v.layout = [](const Tuning&) { return Layout{kPanel, 1, 16}; };
  v.activations = [](const Tuning& t) { return Activations{true, t.at("tile_m"), 16}; };
  v.passes = passes;
  v.scratch_bytes = [](const Tuning& t, const Problem& p) -> numerics::Size {
    if (t.at("split_k") == 1) return 0;
    return numerics::Size(t.at("split_k")) * p.m * numerics::Size(p.n).padded_to(kPanel) * 4;
  };
  v.preference = [](const Features& f, const Problem& p) { return f.prefers_vectors() && p.m <= kMostRows ? 3 : 0; };
  v.rule_of_thumb = rule_of_thumb;
  return v;
}

}  // namespace ironcl::opencl
