// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_mma_floats.cl: bf16 by bf16, such as a router's logits, on tensor cores from compute capability
// 8.0 on.
#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

using backend::DType;

constexpr std::int64_t kRows = 16;  // Of a tile: TILE_M of the kernel.

std::int64_t local_bytes(const Tuning& t, const Problem&) { return t["slices"] * kRows * (t["tile_n"] + 1) * 4; }

std::int64_t work_groups(const Tuning& t, const Problem& p) {
  return row_tiles(p, kRows) * numerics::ceil_div(p.n, t["tile_n"]);
}

/// Wide tiles where most compute units have one; else what counts is how much is under way
/// (docs/performance/h200-grouped.md).
Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t{{"tile_n", 64}, {"slices", 4}, {"depth", 1}};
  while (t["tile_n"] > 8 && work_groups(t, p) * 4 < f.compute_units * 3) t["tile_n"] /= 2;
  if (t["tile_n"] < 64) t["slices"] = 16, t["depth"] = 2;
  return t;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  constexpr double kRate = 200;  // Multiply-adds a clock of a compute unit: an H200 at 4096 x 256 x 7168, 165 us.
  const double multiply_adds = 1.0 * work_groups(t, p) * kRows * t["tile_n"] * p.k;
  return 1e9 * std::max(multiply_adds / (kRate * f.clock_hz * f.compute_units), memory_seconds(1.0 * p.n * p.k, f));
}

}  // namespace

Variant gemm_mma_floats() {
  Variant v("gemm_mma_floats", "bf16 by bf16 on tensor cores from compute capability 8.0 on, f32 sums");
  v.products = {{{DType::bf16}, {DType::bf16}}};
  v.needs = [](const Features& f, const Problem& p) {
    auto refusal = refuse_below_80(f);
    return refusal ? refusal : refuse_narrow_groups(p, 1);
  };
  v.trial = Trial{19, 70, 1100};
  v.trial->in_child = v.trial->or_here = true;
  v.weights = [](const Tuning&, const Problem& p) { return blocked_form(0, 16, 64, p.b); };
  v.activations = [](const Tuning&, const Problem&) { return rows_form(64, RowsOfFloats::none, DType::bf16); };
  v.tunables = {{"tile_n", 16, {8, 16, 32, 64}, "columns of D per work-group; rows are 16"},
                {"slices", 16, {4, 8, 16}, "slices of K, a warp each"},
                {"depth", 2, {1, 2}, "times 32 k that a warp loads at once"}};
  v.local_bytes = local_bytes;
  v.tile = v.block = [](const Tuning& t) { return Shape{kRows, t["tile_n"]}; };
  v.passes = [](const Tuning& t, const Problem& p, const Features&, std::int64_t m) {
    return std::vector<Pass>{{"gemm_mma_floats",
                              {numerics::ceil_div(p.n, t["tile_n"]), most_tiles(p, m, kRows)},
                              std::int64_t{32} * t["slices"]}};
  };
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
