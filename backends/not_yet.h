// SPDX-License-Identifier: Apache-2.0
// What a description may say and no backend computes yet: scales of e4m3fn and global scales but of B, grids that
// begin inside a block, activations and outputs of e2m1. Each backend asks here first, and drops a line when it can
// do more. Next door: interface.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/interface.h"

namespace ironcl::backend {

/// Why a device does not run something: what, and what would be accepted.
struct Refusal {
  Reason reason = Reason::none;
  std::string text;
};

/// Why these scales are refused, with what would be accepted; nothing where the rest of the description decides.
inline std::optional<Refusal> not_yet(const ScaleDesc& scale, std::string_view operand) {
  const auto refusal = [&](const std::string& what) {
    return Refusal{Reason::scale_layout, std::string(operand) + what};
  };
  if (operand != "b") {
    if (scale.dtype == DType::e4m3fn) return refusal(" has scales of e4m3fn; f32, f16, bf16 and e8m0 are accepted");
    if (scale.global) return refusal(" has a global scale; multiply its scales by it");
  }
  if (scale.grid.row_origin != 0 || scale.grid.col_origin != 0) {
    return refusal(" begins inside a block of its scales (" + std::to_string(scale.grid.row_origin) + " rows and " +
                   std::to_string(scale.grid.col_origin) + " columns); cut it where a block begins");
  }
  return std::nullopt;
}

inline std::optional<Refusal> not_yet(const GemmDesc& desc) {
  if (desc.a == DType::e2m1)
    return Refusal{Reason::dtype, "a is e2m1; e4m3fn, e5m2, i8, f32, f16 and bf16 are accepted"};
  if (desc.d == DType::e2m1)
    return Refusal{Reason::dtype, "d is e2m1; e4m3fn, e5m2, i8, f32, f16 and bf16 are accepted"};
  if (auto refusal = not_yet(desc.a_scale, "a")) return refusal;
  if (auto refusal = not_yet(desc.b_scale, "b")) return refusal;
  return not_yet(desc.d_scale, "d");
}

/// Throws unsupported where the codes or scales that a quantiser would make are refused.
inline void refuse_not_yet(DType code, const ScaleDesc& scale, std::string_view operand) {
  if (code == DType::e2m1) {
    throw Error(Status::unsupported, std::string(operand) + " is to become e2m1; e4m3fn, e5m2 and i8 are accepted");
  }
  if (const auto refusal = not_yet(scale, operand)) throw Error(Status::unsupported, refusal->text);
}

}  // namespace ironcl::backend
