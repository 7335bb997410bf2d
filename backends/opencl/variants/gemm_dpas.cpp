// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_dpas.cl: class f32, and i8, by the matrix products of Intel's sub-groups.
#include "backends/opencl/estimate.h"
#include "backends/opencl/split_k.h"

namespace ironcl::opencl {
namespace {

std::int64_t columns(const Tuning& t) { return t["sub_groups"] * t["work_n"] * t["lanes"]; }

std::int64_t items(const Tuning& t) { return t["lanes"] * t["sub_groups"]; }

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  return t["tile_m"] * (4 * p.k_group + 8) + magnitude_bytes(p, t["tile_m"], columns(t));
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t{{"tile_m", 32}, {"work_n", 2}, {"sub_groups", 4}, {"lanes", 16}, {"split_k", 1}};
  if (f.dpas_lanes != 0) t["lanes"] = f.dpas_lanes;
  if (p.m <= 16) t["tile_m"] = 16;
  if (p.m <= 8) t["tile_m"] = 8;
  const auto too_large = [&] { return items(t) > f.max_work_group || local_bytes(t, p) > f.local_bytes; };
  while (too_large() && (t["sub_groups"] > 1 || t["tile_m"] > 8)) {
    int& larger = t["sub_groups"] > 1 && items(t) > f.max_work_group ? t["sub_groups"] : t["tile_m"];
    larger /= 2;
  }
  split_for(f.compute_units, t, p, columns(t));
  return t;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  // Nobody has measured it: on paper the products are sixteen times the multiply-adds, and decoding leaves a half.
  return 1e9 * scalar_fma_seconds(split_multiply_adds(t, p, f, columns(t)), 2, f);
}

}  // namespace

Variant gemm_dpas() {
  Variant v = variant_of_chunks("gemm_dpas",
                                "any rows by matrix products of Intel's sub-groups: fp8 as bf16 with f32 sums, i8 "
                                "with s32 sums; never run there",
                                "gemm_dpas", columns, items);
  v.tunables = {{"tile_m", 16, {8, 16, 32}, "rows of D per work-group"},
                {"work_n", 2, {1, 2, 4}, "blocks of columns per sub-group"},
                {"sub_groups", 4, {1, 2, 4, 8}, "sub-groups per work-group, side by side in columns"},
                {"lanes", 16, {8, 16}, "work-items of a sub-group, as many as the device's products take"},
                {"split_k", 1, {1, 2, 3, 4, 6, 8, 12, 16}, "parts of k"}};
  v.products = fp8_codes();
  v.products.push_back(integer_codes().front());
  v.needs = [](const Features& f, const Problem&) {
    return refuse_without(f.dpas_lanes != 0,
                          "this kernel needs cl_intel_subgroup_matrix_multiply_accumulate, which the device lacks");
  };
  v.trial = Trial{19, 72, 600};
  v.trial->in_child = v.trial->or_here = true;
  v.local_bytes = local_bytes;
  v.lanes = &Features::dpas_lanes;
  v.gate_run = [](const Tuning& t, const Problem&) {
    return t["split_k"] == 1 && t["work_n"] > 1 ? t.at("lanes") : 0;
  };
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace ironcl::opencl
