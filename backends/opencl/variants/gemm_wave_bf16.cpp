// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wave_bf16.cl: fp8 codes of which some are e5m2, class f32, by the matrix products of waves that
// AMD's GPUs have. Everything but types is gemm_wave's; a variant of its own, so that its products have a trial of
// their own.
#include "backends/opencl/waves.h"

namespace ironcl::opencl {

Variant gemm_wave();

namespace {

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  using backend::DType;
  if (auto refusal = refuse_without_waves(f)) return refusal;
  const auto fp8 = [](DType type) { return type == DType::e4m3fn || type == DType::e5m2; };
  if (!fp8(p.a) || !fp8(p.b) || (p.a == DType::e4m3fn && p.b == DType::e4m3fn))
    return Refusal{backend::Reason::dtype, "this kernel multiplies fp8 codes of which some are e5m2"};
  return std::nullopt;
}

}  // namespace

Variant gemm_wave_bf16() {
  Variant v = gemm_wave();
  v.name = "gemm_wave_bf16";
  v.summary = "matrix products of waves (AMD's MFMA and WMMA): fp8 as bf16 with f32 sums; not run on one yet";
  v.needs = needs;
  v.trial->code = backend::DType::e5m2;
  return v;
}

}  // namespace ironcl::opencl
