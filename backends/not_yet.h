// SPDX-License-Identifier: Apache-2.0
// What a description may say and no backend computes yet: scales of e4m3fn, global scales, grids that begin inside a
// block, static scales, activations of e2m1. Each backend asks here first, and drops a line when it can do more. Next
// door: interface.h.
#pragma once

#include <string>
#include <string_view>

#include "backends/interface.h"

namespace ironcl::backend {

/// Why these scales are refused, with what would be accepted; empty where the rest of the description decides.
inline std::string not_yet(const ScaleDesc& scale, const Quantizer& quantizer, std::string_view operand) {
  const auto text = [&](const std::string& what) { return std::string(operand) + what; };
  if (scale.dtype == DType::e4m3fn) return text(" has scales of e4m3fn; f32, f16, bf16 and e8m0 are accepted");
  if (scale.global) return text(" has a global scale; multiply its scales by it");
  if (scale.grid.row_origin != 0 || scale.grid.col_origin != 0) {
    return text(" begins inside a block of its scales (" + std::to_string(scale.grid.row_origin) + " rows and " +
                std::to_string(scale.grid.col_origin) + " columns); cut it where a block begins");
  }
  if (quantizer.given) return text(" is to be quantised by scales that are given; here they are made");
  return {};
}

inline std::string not_yet(const GemmDesc& desc) {
  if (desc.a == DType::e2m1) return "a is e2m1; e4m3fn, e5m2, i8, f32, f16 and bf16 are accepted";
  if (std::string text = not_yet(desc.a_scale, desc.a_quantizer, "a"); !text.empty()) return text;
  if (std::string text = not_yet(desc.b_scale, {}, "b"); !text.empty()) return text;
  return not_yet(desc.d_scale, desc.d_quantizer, "d");
}

/// Which kind of refusal a text of the above is.
inline Reason reason_of_not_yet(const GemmDesc& desc) {
  return desc.a == DType::e2m1 ? Reason::dtype : Reason::scale_layout;
}

/// Throws unsupported where the codes or scales that a quantiser would make are refused.
inline void refuse_not_yet(DType code, const ScaleDesc& scale, const Quantizer& quantizer, std::string_view operand) {
  if (code == DType::e2m1) {
    throw Error(Status::unsupported, std::string(operand) + " is to become e2m1; e4m3fn, e5m2 and i8 are accepted");
  }
  if (const std::string text = not_yet(scale, quantizer, operand); !text.empty()) {
    throw Error(Status::unsupported, text);
  }
}

}  // namespace ironcl::backend
