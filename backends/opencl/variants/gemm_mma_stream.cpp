// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_mma_stream.cl: weights streamed once for few rows, class f32, tensor cores of compute
// capability 9.0.
#include "backends/opencl/forms/rows.h"
#include "backends/opencl/forms/swizzled.h"
#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

constexpr std::int64_t kTileN = 16;

std::uint64_t local_bytes(const Tuning& t, const Problem&) {
  return static_cast<std::uint64_t>(t.at("warps")) * kTileN * (static_cast<std::uint64_t>(t.at("tile_m")) + 1) * 4;
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features&, std::int64_t) {
  return {{"gemm_mma_stream",
           {static_cast<std::size_t>(numerics::ceil_div(p.n, kTileN)), 1},
           static_cast<std::size_t>(t.at("warps")) * 32}};
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t{{"tile_m", p.m <= 8 ? 8 : p.m <= 16 ? 16 : 32}, {"warps", 8}};
  if (numerics::ceil_div(p.n, kTileN) <= 2 * static_cast<std::int64_t>(f.compute_units) && p.k >= 4096)
    t["warps"] = 16;
  return t;
}

double estimate_ns(const Tuning&, const Problem& p, const Features&) {
  return streaming_ns(p) * (p.m <= 16 ? 1 : 1.4);
}

}  // namespace

Variant gemm_mma_stream() {
  Variant v;
  v.name = "gemm_mma_stream";
  v.summary = "few rows: weights streamed once, decoded to f16 in registers, f32 sums on tensor cores";
  v.tunables = {{"tile_m", 8, {8, 16, 32}, "rows of D, at most"}, {"warps", 8, {4, 8, 16}, "warps of a work-group"}};
  v.constraints = {
      {"tile_m must hold all rows", [](const Tuning& t, const Problem& p) { return p.m <= t.at("tile_m"); }}};
  v.needs = refuse_tensor_cores;
  v.trial = Trial{5, 72, 1100};
  v.local_bytes = local_bytes;
  v.work_items = [](const Tuning& t) -> std::uint64_t { return static_cast<std::uint64_t>(t.at("warps")) * 32; };
  v.tile = v.block = [](const Tuning& t) { return Shape{t.at("tile_m"), kTileN}; };
  v.weights = [](const Tuning&, const Problem&) { return swizzled_form(); };
  v.activations = [](const Tuning&, const Problem&) { return rows_form(128); };
  v.passes = passes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
