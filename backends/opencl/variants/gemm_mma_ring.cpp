// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_mma_ring.cl: class f32 on compute capability 9.0, up to 32 rows.
#include <algorithm>

#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

constexpr int kMostRows = 32;
constexpr int kFewRows = 4;      ///< Up to so many each work-group makes codes of, which takes less than waiting.
constexpr int kMostOwnRows = 8;  ///< Without `shares`.

/// MEMORY of the kernel.
std::int64_t memory_bytes(const Tuning& t) {
  return std::int64_t{1024} * (t["per_unit"] == 2 ? 96 : t["tile_m"] >= 8 ? 184 : 200);
}

/// What A takes of it: its scales, and its codes where they stay.
std::int64_t a_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t codes = t["shares"] == 1 ? 0 : std::int64_t{128} * t["tile_m"];
  return numerics::ceil_div(p.k, 128) * (codes + numerics::ceil_div(t["tile_m"], 8) * 32);
}

/// What all warps have on its way at once: a K block of a unit each, of A too where codes do not stay.
std::int64_t stage_bytes(const Tuning& t) {
  return std::int64_t{128} * t["warps"] * (t["columns"] + (t["shares"] == 1 ? t["tile_m"] : 0));
}

std::int64_t local_bytes(const Tuning& t, const Problem&) {
  const std::int64_t buffers = t["tile_m"] <= 8 ? 2 : 1;
  const std::int64_t parts = buffers * t["warps"] * t["columns"] * t["tile_m"] * 4;
  return t["per_unit"] * (memory_bytes(t) + parts + memory_bytes(t) / stage_bytes(t) * t["warps"] * 8);
}

/// Of each K group of each row a word, and its codes.
numerics::Size scratch_bytes(const Tuning& t, const Problem& p, const Features&) {
  if (t["shares"] == 0) return {};
  const numerics::Size groups = numerics::Size(numerics::ceil_div(p.k, 128)) * t["tile_m"];
  return (groups * 16).padded_to(128) + groups * 128;
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features& f, std::int64_t) {
  const std::int64_t units = numerics::ceil_div(p.n, t["columns"]);
  return {{"gemm_mma_ring", {std::min<std::int64_t>(units, t["per_unit"] * f.compute_units), 1}, t["warps"] * 32}};
}

/// Whether rows come as they are and become codes in the kernel, in groups of one row by 128 (forms/rows.cpp).
bool quantises(const Problem& p) {
  return p.a_source != backend::DType::none && p.k_group == 128 && is_row_by_k_block(p.a_scale.grid, p.k);
}

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_tensor_cores(f, p)) return refusal;
  const std::int64_t rows = p.selected().m;
  if (rows > kMostRows || p.grouped()) {
    return Refusal(backend::Reason::shape, "this kernel takes one matrix and up to {} rows; m is {}", kMostRows, p.m);
  }
  if (rows > kMostOwnRows && !(quantises(p) && f.has_quick_quotients())) {
    return Refusal(backend::Reason::shape, "of more than {} rows this kernel takes those that it quantises itself",
                   kMostOwnRows);
  }
  return refuse_narrow_scales(p);
}

/// As measured on an H200 (docs/performance/decode.md).
Tuning rule_of_thumb(const Features& f, const Problem& p) {
  constexpr std::int64_t kLongRow = 8192;
  Tuning t{{"tile_m", 8},  {"columns", 32}, {"warps", 16}, {"per_unit", 1},
           {"passes", 16}, {"shares", 0},   {"looks", 256}};
  if (p.m > kFewRows && quantises(p) && f.has_quick_quotients()) {
    t["tile_m"] = p.m <= 16 ? 16 : 32;
    t["warps"] = p.m <= 16 ? 16 : 8;
    t["shares"] = t["passes"] = 1;
    return t;
  }
  for (const int rows : {4, 2, 1})
    if (p.m <= rows) t["tile_m"] = rows;
  if (t["tile_m"] == 1 && p.k < kLongRow) t["warps"] = 8, t["per_unit"] = 2;
  const std::int64_t groups =
      numerics::ceil_div(numerics::ceil_div(p.k, 128) * t["tile_m"], std::int64_t{2} * t["warps"]);
  for (const int passes : {8, 4, 2, 1})
    if (groups <= passes) t["passes"] = passes;
  return t;
}

/// Whether it was seen to take the least of rows that come as they are (docs/performance/decode.md): weights are
/// enough for all compute units and for the waiting. Codes that are given gemm_mma_stream takes as fast, and a D that
/// is activated or quantised it makes by itself.
bool is_best(const Tuning& t, const Problem& p, const Features& f) {
  if (!quantises(p) || p.gated() || p.quantizes_d()) return false;
  if (p.m <= kFewRows) return p.n >= 24 * f.compute_units && p.k >= 2048 && a_bytes(t, p) <= memory_bytes(t) / 3;
  return p.n >= 11 * f.compute_units && (p.m > 8 || p.k >= 4096 || p.n * p.k >= 20'000'000);
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  return streaming_ns(p) * (is_best(t, p, f) ? 0.95 : 1.5);
}

}  // namespace

Variant gemm_mma_ring() {
  Variant v = variant_of_tensor_cores("gemm_mma_ring",
                                      "up to 32 rows on compute capability 9.0: weights streamed once through "
                                      "local memory, decoded to f16, f32 sums",
                                      {5, 72, 1100});
  v.own_local = true;
  v.numbered_calls = true;
  v.scratch_bytes = scratch_bytes;
  v.codes_of_d = false;
  v.gate_run = nullptr;
  v.schedule = nullptr;
  v.tunables = {{"tile_m", 4, {1, 2, 4, 8, 16, 32}, "rows of D"},
                {"columns", 32, {16, 32, 64}, "columns of D of a unit"},
                {"warps", 16, {8, 16}, "warps of a work-group"},
                {"per_unit", 1, {1, 2}, "work-groups that share a multiprocessor's local memory"},
                {"passes", 4, {1, 2, 4, 8, 16}, "groups of A whose values a half-warp asks for together"},
                {"shares", 0, {0, 1}, "1: work-groups make the codes of A together"},
                {"looks", 256, {0, 256}, "with shares: looks for codes before a warp makes them"}};
  v.constraints = {
      {"tile_m must hold all rows", [](const Tuning& t, const Problem& p) { return p.m <= t["tile_m"]; }},
      {"a warp has at most 32 blocks of 128 k",
       [](const Tuning& t, const Problem& p) { return p.k <= std::int64_t{32} * 128 * t["warps"]; }},
      {"local memory must have room for the rows and two blocks of weights for each warp; shared rows: for one",
       [](const Tuning& t, const Problem& p) {
         return a_bytes(t, p) + (t["shares"] == 1 ? 1 : 2) * stage_bytes(t) <= memory_bytes(t);
       }},
      {"shares is for rows that the kernel quantises, one pass at a time; more than eight rows need it",
       [](const Tuning& t, const Problem& p) {
         return t["shares"] == 0 ? t["tile_m"] <= kMostOwnRows : quantises(p) && t["passes"] == 1;
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
