// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_mma_ring.cl: class f32 on compute capability 9.0, up to eight rows.
#include <algorithm>

#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

constexpr int kMostRows = 8;

/// MEMORY of the kernel, and what rows of A take of it: codes and scales.
std::int64_t memory_bytes(const Tuning& t) { return (t["per_unit"] == 2 ? 96 : t["tile_m"] == 8 ? 184 : 200) * 1024; }
std::int64_t a_bytes(const Problem& p, std::int64_t rows) { return numerics::ceil_div(p.k, 128) * (rows * 128 + 32); }

/// Weights of all warps that are on their way: a K block of a unit each.
std::int64_t stage_bytes(const Tuning& t) { return t["warps"] * t["columns"] * 128; }

std::int64_t local_bytes(const Tuning& t, const Problem&) {
  const std::int64_t parts = 2 * t["warps"] * t["columns"] * (t["tile_m"] + 1) * 4;
  return t["per_unit"] * (memory_bytes(t) + parts + memory_bytes(t) / (t["columns"] * 128) * 8);
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features& f, std::int64_t) {
  const std::int64_t units = numerics::ceil_div(p.n, t["columns"]);
  return {{"gemm_mma_ring", {std::min<std::int64_t>(units, t["per_unit"] * f.compute_units), 1}, t["warps"] * 32}};
}

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_tensor_cores(f, p)) return refusal;
  const std::int64_t rows = p.selected().m;
  if (rows > kMostRows || p.grouped()) {
    return Refusal(backend::Reason::shape, "this kernel takes one matrix and up to {} rows; m is {}", kMostRows, p.m);
  }
  return refuse_narrow_scales(p);
}

/// As measured on an H200 (docs/performance/decode.md).
Tuning rule_of_thumb(const Features&, const Problem& p) {
  constexpr std::int64_t kLongRow = 8192;
  Tuning t{{"tile_m", 8}, {"columns", 32}, {"warps", 16}, {"per_unit", 1}, {"passes", 16}};
  for (const int rows : {4, 2, 1})
    if (p.m <= rows) t["tile_m"] = rows;
  if (t["tile_m"] == 1 && p.k < kLongRow) t["warps"] = 8, t["per_unit"] = 2;
  const std::int64_t groups = numerics::ceil_div(numerics::ceil_div(p.k, 128) * t["tile_m"], 2 * t["warps"]);
  for (const int passes : {8, 4, 2, 1})
    if (groups <= passes) t["passes"] = passes;
  return t;
}

/// It takes the least up to four rows that come as they are, where weights are enough for all compute units
/// (docs/performance/decode.md). Codes that are given gemm_mma_stream takes as fast, and a D that is activated or
/// quantised it makes by itself.
double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const bool is_best = p.m <= 4 && p.a_source != backend::DType::none && p.n >= 24 * f.compute_units && p.k >= 2048 &&
                       !p.gated() && !p.quantizes_d() && a_bytes(p, t["tile_m"]) <= memory_bytes(t) / 3;
  return streaming_ns(p) * (is_best ? 0.95 : 1.5);
}

}  // namespace

Variant gemm_mma_ring() {
  Variant v = variant_of_tensor_cores("gemm_mma_ring",
                                      "up to eight rows on compute capability 9.0: weights streamed once through "
                                      "local memory, decoded to f16, f32 sums",
                                      {5, 72, 1100});
  v.own_local = true;
  v.codes_of_d = false;
  v.gate_run = nullptr;
  v.schedule = nullptr;
  v.tunables = {{"tile_m", 4, {1, 2, 4, 8}, "rows of D"},
                {"columns", 32, {16, 32, 64}, "columns of D of a unit"},
                {"warps", 16, {8, 16}, "warps of a work-group"},
                {"per_unit", 1, {1, 2}, "work-groups that share a multiprocessor's local memory"},
                {"passes", 4, {1, 2, 4, 8, 16}, "groups of A whose values a half-warp asks for together"}};
  v.constraints = {
      {"tile_m must hold all rows", [](const Tuning& t, const Problem& p) { return p.m <= t["tile_m"]; }},
      {"a warp has at most 32 blocks of 128 k",
       [](const Tuning& t, const Problem& p) { return p.k <= 32 * 128 * t["warps"]; }},
      {"local memory must have room for the rows and two blocks of weights for each warp",
       [](const Tuning& t, const Problem& p) {
         return a_bytes(p, t["tile_m"]) + 2 * stage_bytes(t) <= memory_bytes(t);
       }}};
  v.needs = needs;
  v.local_bytes = local_bytes;
  v.tile = v.block = [](const Tuning& t) { return Shape{t["tile_m"], t["columns"]}; };
  v.activations = [](const Tuning&, const Problem& p) {
    return rows_form(128, p.k_group == 128 ? RowsOfFloats::quantised : RowsOfFloats::none);
  };
  v.passes = passes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
