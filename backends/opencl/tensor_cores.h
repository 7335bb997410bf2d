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

/// Whether tiles on all compute units leave a last round that is half empty or emptier, whose K work-groups may share
/// (cl/parts.cl). Of a problem whose rows are dealt on the device nobody knows: the kernel sees.
/// `least`: K blocks of a part, SHARED_BLOCKS of the kernel.
inline bool last_round_is_shared(std::int64_t tiles, std::int64_t least, const Problem& p, const Features& f) {
  if (p.repeatable || numerics::ceil_div(p.k, std::int64_t{128}) < 2 * least) return false;
  if (p.dealt) return true;
  const std::int64_t rest = tiles % f.compute_units;
  return tiles > f.compute_units && rest != 0 && 2 * rest <= f.compute_units;
}

/// Rounds of `tiles` on all compute units where a last one is shared as cl/parts.cl does it: parts of `least` K
/// blocks and more, sixteen of a tile at most, and about five K blocks' time to store and add them.
inline double shared_rounds(std::int64_t tiles, std::int64_t least, const Problem& p, const Features& f) {
  const std::int64_t rest = tiles % f.compute_units;
  if (rest == 0 || 2 * rest > f.compute_units) return rounds(tiles, f);
  const std::int64_t blocks = numerics::ceil_div(p.k, std::int64_t{128});
  const std::int64_t parts =
      std::clamp<std::int64_t>(std::min<std::int64_t>(f.compute_units / rest, blocks / least), 1, 16);
  const double part = 1.0 / static_cast<double>(parts) + 5.0 / static_cast<double>(blocks);
  return static_cast<double>(tiles / f.compute_units) + std::min(1.0, part);
}

/// The rule of the tunable `share`, which the kernels with parts of K have.
inline Constraint share_constraint() {
  return {"share makes sums whose order depends on how many rows there are, which a repeatable plan may not",
          [](const Tuning& t, const Problem& p) { return t.at("share") == 0 || !p.repeatable; }};
}

}  // namespace ironcl::opencl
