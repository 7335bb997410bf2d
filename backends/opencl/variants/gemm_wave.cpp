// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wave.cl: class f32, by the matrix products of waves that AMD's GPUs have; a variant for each type
// of product, so that each has a trial of its own. Next door: gemm_dpas.cpp (Intel's).
#include "backends/opencl/estimate.h"
#include "backends/opencl/split_k.h"

namespace ironcl::opencl {
namespace {

/// Rows, and columns, of a product: SIDE of cl/wave_products.cl.
int side(const Tuning& t) { return t["lanes"] == 64 ? 32 : 16; }

using backend::DType;

std::int64_t columns(const Tuning& t) { return t["waves"] * t["work_n"] * side(t); }

std::int64_t items(const Tuning& t) { return t["lanes"] * t["waves"]; }

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const int bytes_a_k = p.a == DType::i8 ? 2 : 4;  // Of two slots.
  return t["tile_m"] * (bytes_a_k * t["tile_k"] + 8) + magnitude_bytes(p, t["tile_m"], columns(t));
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t{{"tile_m", 128}, {"work_n", 1}, {"waves", 4}, {"lanes", 64}, {"tile_k", 32}, {"split_k", 1}};
  if (f.wave_lanes == 32) {
    t["lanes"] = 32;
    t["work_n"] = 2;
    t["tile_m"] = 64;  // Half as many sums a work-item have room in its registers.
  }
  while (t["tile_m"] > side(t) && p.m <= t["tile_m"] / 2) t["tile_m"] /= 2;
  while (t["waves"] > 1 && items(t) > f.max_work_group) t["waves"] /= 2;
  while (t["tile_m"] > side(t) && local_bytes(t, p) > f.local_bytes) t["tile_m"] /= 2;
  split_for(f.compute_units, t, p, columns(t));
  return t;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  // Nobody has measured it. On paper (AMD's Matrix Instruction Calculator) the products of f16 are four to eight
  // times the 128 multiply-adds that estimate.h counts with 64 lanes, two to four times with 32; decoding leaves a
  // half.
  return 1e9 * scalar_fma_seconds(split_multiply_adds(t, p, f, columns(t)), t["lanes"] == 64 ? 2 : 1, f);
}

/// The variant for `products` of codes, which become `as`.
Variant of_codes(const char* name, std::vector<Products> products, const std::string& as) {
  Variant v =
      variant_of_chunks(name, "any rows by matrix products of AMD's waves (MFMA, WMMA): " + as + "; never run there",
                        "gemm_wave", columns, items);
  v.file = "gemm_wave.cl";
  v.tunables = {{"tile_m", 64, {16, 32, 64, 128}, "rows of D per work-group"},
                {"work_n", 1, {1, 2, 4}, "blocks of columns per wave: of 32 with 64 lanes, of 16 with 32"},
                {"waves", 4, {1, 2, 4, 8}, "waves per work-group, side by side in columns"},
                {"lanes", 64, {32, 64}, "work-items of a wave, as many as the device has"},
                {"tile_k", 32, {32, 64}, "step in k"},
                {"split_k", 1, {1, 2, 3, 4, 6, 8, 12, 16}, "parts of k"}};
  v.constraints = {{"tile_k must divide the K group, or a step straddles two scale groups",
                    [](const Tuning& t, const Problem& p) { return p.k_group % t["tile_k"] == 0; }},
                   {"tile_m must be at least the 32 rows of a product of 64 lanes",
                    [](const Tuning& t, const Problem&) { return t["tile_m"] >= side(t); }}};
  v.products = std::move(products);
  v.needs = [](const Features& f, const Problem&) {
    return refuse_without(f.wave_lanes != 0,
                          "this kernel needs waves of 32 or 64 work-items, of which the device says nothing "
                          "(cl_amd_device_attribute_query)");
  };
  // Compilers have ended their process over a product that they know and the device has not: a child or nobody.
  v.trial = Trial{19, 72, 600};
  v.trial->in_child = true;
  v.local_bytes = local_bytes;
  v.lanes = &Features::wave_lanes;
  v.gate_run = [](const Tuning& t, const Problem&) { return t["split_k"] == 1 && t["work_n"] > 1 ? side(t) : 0; };
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

}  // namespace

Variant gemm_wave() {
  return of_codes("gemm_wave", {{{DType::e4m3fn}, {DType::e4m3fn}}}, "e4m3fn as f16 with f32 sums");
}
// The least of e5m2 are denormals of f16, which some units take for zero, so that where one operand is e5m2 both
// become bf16.
Variant gemm_wave_bf16() {
  return of_codes("gemm_wave_bf16", {{{DType::e5m2}, {DType::e4m3fn, DType::e5m2}}, {{DType::e4m3fn}, {DType::e5m2}}},
                  "fp8 as bf16 with f32 sums");
}
Variant gemm_wave_s8() { return of_codes("gemm_wave_s8", integer_codes(), "i8 with s32 sums"); }

}  // namespace ironcl::opencl
