// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wave_s8.cl: i8 by the matrix products of waves that AMD's GPUs have. Everything but types is
// gemm_wave's; a variant of its own, so that its products have a trial of their own.
#include "backends/opencl/waves.h"

namespace ironcl::opencl {

Variant gemm_wave();

namespace {

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_without_waves(f)) return refusal;
  if (p.a != backend::DType::i8 || p.b != backend::DType::i8)
    return Refusal{backend::Reason::dtype, "this kernel multiplies i8 codes only"};
  return std::nullopt;
}

}  // namespace

Variant gemm_wave_s8() {
  Variant v = gemm_wave();
  v.name = "gemm_wave_s8";
  v.summary = "matrix products of waves (AMD's MFMA and WMMA): i8 with s32 sums; not run on one yet";
  v.needs = needs;
  v.trial->code = backend::DType::i8;
  return v;
}

}  // namespace ironcl::opencl
