// SPDX-License-Identifier: Apache-2.0
// What a description may say and no backend computes yet: scales of e4m3fn and global scales but of B, grids that
// begin inside a block, activations and outputs of e2m1. Each backend asks here first, and drops a line when it can
// do more. Next door: interface.h.
#pragma once

#include <cassert>
#include <optional>
#include <string_view>

#include "backends/interface.h"

namespace ironcl::backend {

/// Why these scales are refused, with what would be accepted; nothing where the rest of the description decides.
inline std::optional<Refusal> not_yet(const ScaleDesc& scale, std::string_view operand) {
  constexpr Reason kWhy = Reason::scale_layout;
  if (operand != "b" && scale.dtype == DType::e4m3fn)
    return Refusal(kWhy, "{} has scales of e4m3fn; f32, f16, bf16 and e8m0 are accepted", operand);
  if (operand != "b" && scale.global)
    return Refusal(kWhy, "{} has a global scale; multiply its scales by it", operand);
  if (const auto& grid = scale.grid; grid.row_origin != 0 || grid.col_origin != 0) {
    return Refusal(kWhy,
                   "{} begins inside a block of its scales ({} rows and {} columns); cut it where a block begins",
                   operand, grid.row_origin, grid.col_origin);
  }
  return std::nullopt;
}

/// The first missing feature that a whole product needs. What the adapter has checked is asserted.
inline std::optional<Refusal> not_yet(const GemmDesc& desc) {
  [[maybe_unused]] const auto is_operand = [](DType type) {
    return numerics::is_float(type) || numerics::is_quantized(type);
  };
  assert(is_operand(desc.a) && is_operand(desc.b) && is_operand(desc.d));
  assert(desc.a_source == DType::none || (numerics::is_float(desc.a_source) && numerics::is_quantized(desc.a)));
  assert(!numerics::is_float(desc.b) || numerics::is_float(desc.a));
  assert((desc.grouping == Grouping::none && desc.a_rows == 0) || desc.a_scale.dtype == DType::none ||
         desc.a_scale.grid.group_rows == 1);
  for (const auto& [type, operand] : {std::pair(desc.a, "a"), std::pair(desc.d, "d")})
    if (type == DType::e2m1)
      return Refusal(Reason::dtype, "{} is e2m1; e4m3fn, e5m2, i8, f32, f16 and bf16 are accepted", operand);
  if (auto refusal = not_yet(desc.a_scale, "a")) return refusal;
  if (auto refusal = not_yet(desc.b_scale, "b")) return refusal;
  return not_yet(desc.d_scale, "d");
}

/// Throws unsupported where the codes or scales that a quantiser would make are refused.
inline void refuse_not_yet(DType code, const ScaleDesc& scale, std::string_view operand) {
  if (code == DType::e2m1)
    throw Error(Status::unsupported, "{} is e2m1 on output; e4m3fn, e5m2 and i8 are accepted", operand);
  if (const auto refusal = not_yet(scale, operand)) throw Error(Status::unsupported, refusal->text);
}

inline void refuse_not_yet(const ActivateDesc& desc) {
  refuse_not_yet(desc.y, desc.scale, "y");
  if (desc.quantizer.given) throw Error(Status::unsupported, "y has given scales; this backend makes them");
}

}  // namespace ironcl::backend
