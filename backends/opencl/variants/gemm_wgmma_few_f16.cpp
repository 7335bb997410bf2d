// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wgmma_few_f16.cl: class f32 on tensor cores of compute capability 9.0, few rows.
#include "backends/opencl/forms/swizzled.h"
#include "backends/opencl/forms/wgmma_tokens.h"
#include "backends/opencl/tensor_cores.h"
#include "backends/opencl/toolchains/two_step.h"

namespace ironcl::opencl {
namespace {

std::int64_t tiles(const Tuning& t, const Problem& p, std::int64_t m) {
  return static_cast<std::int64_t>(row_blocks(p, std::max<std::int64_t>(1, m), t.at("tile_m"))) *
         numerics::ceil_div(p.n, std::int64_t{t.at("tile_m")});
}

std::uint64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::uint64_t side = static_cast<std::uint64_t>(t.at("tile_m"));
  const std::uint64_t tokens = side == 64 ? 9 : 4, weights = side == 64 ? 9 : 5;  // SLOTS_A, SLOTS_B
  const std::uint64_t column_scales = p.b_scale_rows % 128 == 0 ? 16 : 4 * side;
  return tokens * (side * 260 + column_scales) + weights * side * 128 + 16 * (tokens + weights) + 16;
}

std::uint64_t work_items(const Tuning& t) { return t.at("tile_m") == 64 ? 512 : 384; }

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features&, std::int64_t m) {
  return {{"gemm_wgmma_few_f16", {static_cast<std::size_t>(tiles(t, p, m) * t.at("split_k")), 1}, work_items(t)}};
}

numerics::Size scratch_bytes(const Tuning& t, const Problem& p, const Features&) {
  if (t.at("split_k") == 1) return 0;
  return numerics::Size(tiles(t, p, p.m)) * t.at("split_k") * t.at("tile_m") * 128 * 4;
}

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_tensor_cores(f, p)) return refusal;
  if (p.a == backend::DType::i8 || p.b == backend::DType::i8)
    return Refusal{backend::Reason::dtype, "this kernel multiplies fp8 codes, not i8"};
  return refuse_room_between_matrices(p);
}

/// As measured on an H200 (docs/performance/h200-f32.md).
Tuning rule_of_thumb(const Features& f, const Problem& p) {
  const std::int64_t units = f.compute_units;
  Tuning t{{"tile_m", 64}, {"split_k", 1}};
  // More rows in tiles half as high where those still run at once.
  if (p.m > 64 && tiles(t, p, p.m) > units) t["tile_m"] = 128;
  // K in parts where tiles do not fill the device, each of eight K blocks at least.
  const std::int64_t most = std::min(units / tiles(t, p, p.m), numerics::ceil_div(p.k, std::int64_t{128}) / 8);
  for (const int parts : parts_of_k())
    if (parts <= most) t["split_k"] = parts;
  return t;
}

// Fitted to an H200 (docs/performance/h200-f32.md): times streaming_ns(), what starts and ends a launch, and what
// each further round of tiles costs, whose rings are filled anew; in ns.
constexpr double kOfStreaming = 0.945, kStart = 3700;        ///< 17 to 64 rows.
constexpr double kOfStreamingHigh = 1.65, kStartHigh = 500;  ///< More.
/// Where gemm_mma_stream is faster: up to 16 rows, up to 32 of weights that stream sooner than a launch starts.
constexpr double kOfStreamingLow = 1.2;
constexpr double kRound = 10000;

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const bool low = p.m <= 16 || (p.m <= 32 && streaming_ns(p) < kStart);
  const double once = p.m > 64 ? streaming_ns(p, kOfStreamingHigh, kStartHigh)
                               : streaming_ns(p, low ? kOfStreamingLow : kOfStreaming, kStart);
  const std::int64_t in_columns = numerics::ceil_div(p.n, std::int64_t{t.at("tile_m")});
  // Each further tile of rows reads the weights again, and no more than 128 rows were measured.
  return (once + kRound * (rounds(in_columns, f) - 1)) * p.mean_over_rows([&](std::int64_t rows) {
    return 3 * static_cast<double>(numerics::ceil_div(rows, std::int64_t{128})) - 2;
  });
}

}  // namespace

Variant gemm_wgmma_few_f16() {
  Variant v;
  v.name = "gemm_wgmma_few_f16";
  v.summary =
      "few rows in class f32: weights streamed once through a deep ring of codes, exact products of f16, f32 sums";
  v.tunables = {{"tile_m", 64, {64, 128}, "rows and columns of D per work-group"},
                {"split_k", 1, parts_of_k(), "parts of K that work-groups share"}};
  v.constraints = {{"split_k must leave each part a K block",
                    [](const Tuning& t, const Problem& p) {
                      return t.at("split_k") <= numerics::ceil_div(p.k, std::int64_t{128});
                    }},
                   counters_constraint<tiles>()};
  v.needs = needs;
  v.trial = Trial{70, 200, 1100};
  v.trial->in_child = v.trial->or_here = true;
  v.toolchain = &ptx_sm_90a();
  v.deal = [](const Tuning& t) { return DealtShape{t.at("tile_m"), 1}; };
  v.local_bytes = local_bytes;
  v.own_local = true;
  v.work_items = work_items;
  v.tile = v.block = [](const Tuning& t) { return Shape{t.at("tile_m"), t.at("tile_m")}; };
  v.weights = [](const Tuning&, const Problem&) { return swizzled_form(); };
  v.activations = [](const Tuning&, const Problem&) { return tokens_f16_form(); };
  v.passes = passes;
  v.scratch_bytes = scratch_bytes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
