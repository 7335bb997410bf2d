// SPDX-License-Identifier: Apache-2.0
// What the variants for tensor cores of compute capability 9.0 share: what they need, and the rates of their
// estimates.
#pragma once

#include <algorithm>

#include "backends/opencl/estimate.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// Why a tensor-core kernel cannot run; empty where its trial may decide.
inline std::optional<Refusal> refuse_tensor_cores(const Features& f, const Problem& p) {
  using backend::Reason;
  if (!f.ptx_sm_90) {
    return Refusal{Reason::device_feature, "this kernel is PTX for compute capability 9.0, which the device has not"};
  }
  if (p.k < 1) return Refusal{Reason::shape, "k is 0"};
  if (p.k_group != 128) {
    return Refusal{Reason::scale_layout,
                   "the scale groups along k must be multiples of 128, or span k; their common "
                   "K group is " +
                       std::to_string(p.k_group)};
  }
  const auto code = [](backend::DType type) {
    return type == backend::DType::e4m3fn || type == backend::DType::e5m2 || type == backend::DType::i8;
  };
  if (!code(p.a) || !code(p.b)) return Refusal{Reason::dtype, "a and b must be codes"};
  return std::nullopt;
}

/// Nanoseconds in which the weights of `p` stream through a device once, cold, as the best of these kernels does it
/// on an H200. Fixed costs of a launch are left out, as all estimates leave them out.
inline double streaming_ns(const Problem& p) {
  constexpr double kBytesPerSecond = 2.9e12;
  return 1e9 * static_cast<double>(p.n) * static_cast<double>(p.k) / kBytesPerSecond;
}

}  // namespace ironcl::opencl
