// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_wgmma_s8.cl: int8 on tensor cores of compute capability 9.0, class f32. Everything but types and
// class is gemm_wgmma_fp8's.
#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {

Variant gemm_wgmma_fp8();

namespace {

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_tensor_cores(f, p)) return refusal;
  if (p.a != backend::DType::i8 || p.b != backend::DType::i8)
    return Refusal{backend::Reason::dtype, "this kernel multiplies i8 codes only"};
  return refuse_narrow_scales(p);
}

}  // namespace

Variant gemm_wgmma_s8() {
  Variant v = gemm_wgmma_fp8();
  v.name = "gemm_wgmma_s8";
  v.summary = "tensor cores of compute capability 9.0 on int8 codes, exact sums of 128 k";
  v.accuracy = backend::AccuracyClass::f32;
  v.needs = needs;
  v.trial->code = backend::DType::i8;
  v.tunables.front().values = {64, 128, 256};  // Its products have not every number of columns.
  return v;
}

}  // namespace ironcl::opencl
