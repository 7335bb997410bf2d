// SPDX-License-Identifier: Apache-2.0
// Checks of the descriptions of route, activate and combine. Next door: validate_experts_args.cpp (their calls),
// fields.h (checks of one field).
#include <fmt/format.h>

#include <cmath>

#include "plugins/adapter/fields.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

using backend::DType;
using numerics::is_float;

constexpr std::uint32_t kMostExperts = 65536, kMostTopK = 64;

/// A value of least to most of a field that is unsigned in the struct.
std::int64_t within(std::uint32_t value, std::int64_t least, std::int64_t most, std::string_view field) {
  if (value < least || value > most) {
    invalid(fmt::format("{} is {}, expected {} to {}", field, value, least, most));
  }
  return value;
}

/// Rows and slots are s32 on the device.
void check_numbers(std::int64_t first, std::int64_t second, std::string_view product) {
  if (first * second > kLargestDimension) {
    invalid(fmt::format("{} is {} * {}, expected at most {}: rows are numbered in s32", product, first, second,
                        kLargestDimension));
  }
}

void float_type(DType type, std::string_view field) {
  if (!is_float(type)) invalid(fmt::format("{} is {}, expected f32, f16 or bf16", field, shown(type)));
}

/// What a router that is given its ids has no use for.
void check_given(const ironcl_route_desc& abi) {
  const auto zero = [](bool is, std::string_view field, std::string_view value) {
    if (!is) {
      invalid(fmt::format("route_desc.{} is {}, but ids are GIVEN and nothing is chosen or weighed; leave it 0",
                          field, value));
    }
  };
  zero(abi.score == 0, "score", fmt::format("{}", abi.score));
  zero(abi.scale == 0, "scale", fmt::format("{}", abi.scale));
  zero(abi.expert_groups == 0, "expert_groups", fmt::format("{}", abi.expert_groups));
  zero(abi.top_groups == 0, "top_groups", fmt::format("{}", abi.top_groups));
  zero(abi.bias_dtype == IRONCL_DTYPE_NONE, "bias_dtype", shown(dtype(abi.bias_dtype, "route_desc.bias_dtype")));
  zero((abi.flags & IRONCL_ROUTE_NORMALIZE) == 0, "flags", "NORMALIZE");
  zero((abi.flags & IRONCL_ROUTE_BEST_OF_TWO) == 0, "flags", "BEST_OF_TWO");
}

void check_expert_groups(const ironcl_route_desc& abi, backend::RouteDesc& out) {
  if (abi.expert_groups == 0) {
    if (abi.top_groups != 0) {
      invalid(fmt::format("route_desc.top_groups is {}, but expert_groups is 0; leave both 0, or give both",
                          abi.top_groups));
    }
  } else {
    out.expert_groups = within(abi.expert_groups, 1, out.experts, "route_desc.expert_groups");
    out.top_groups = within(abi.top_groups, 1, out.expert_groups, "route_desc.top_groups");
  }
  if (out.experts % out.expert_groups != 0) {
    invalid(fmt::format("route_desc.expert_groups is {}, which does not divide the {} experts", out.expert_groups,
                        out.experts));
  }
  const std::int64_t size = out.experts / out.expert_groups;
  if (out.top_k > out.top_groups * size) {
    invalid(fmt::format("route_desc.top_k is {}, but {} groups of {} experts stay, {} in all; raise top_groups",
                        out.top_k, out.top_groups, size, out.top_groups * size));
  }
  if (out.best_of_two && size < 2) {
    invalid(
        fmt::format("route_desc.flags has BEST_OF_TWO, but each of the {} groups has one expert", out.expert_groups));
  }
}

/// The scores of a router that is not given its ids.
void check_scores(const ironcl_route_desc& abi, backend::RouteDesc& out) {
  out.score = static_cast<backend::Score>(enumerator(abi.score, IRONCL_SCORE_SQRT_SOFTPLUS, "route_desc.score"));
  if (out.score == backend::Score::none) {
    invalid("route_desc.score is 0; give an IRONCL_SCORE_*, or the flag GIVEN with ids");
  }
  if (!std::isfinite(abi.scale)) {
    invalid(fmt::format("route_desc.scale is {}, expected a finite number; 0 means 1", abi.scale));
  }
  if (abi.scale != 0) out.scale = abi.scale;
  out.bias = dtype(abi.bias_dtype, "route_desc.bias_dtype");
  if (out.bias != DType::none && out.bias != DType::f32) {
    invalid(
        fmt::format("route_desc.bias_dtype is {}, expected none or f32: narrower types lose what tells experts "
                    "apart",
                    shown(out.bias)));
  }
  check_expert_groups(abi, out);
}

void check_logits(const ironcl_route_desc& abi, backend::RouteDesc& out) {
  out.logits = dtype(abi.logits_dtype, "route_desc.logits_dtype");
  if (out.given && !out.shared_gate) {
    if (out.logits != DType::none || abi.logits_ld != 0) {
      invalid(
          fmt::format("route_desc.logits_dtype is {} with ld {}, but ids are GIVEN and there is no SHARED_GATE; "
                      "leave both 0",
                      shown(out.logits), abi.logits_ld));
    }
    return;
  }
  float_type(out.logits, "route_desc.logits_dtype");
  out.logits_ld =
      leading(abi.logits_ld, out.experts + (out.shared_gate ? 1 : 0), "route_desc.logits_ld", "logits of a token");
  check_extent(out.tokens, out.logits_ld, 1, "route_desc: logits");
}

}  // namespace

backend::RouteDesc route_desc(const ironcl_route_desc* in) {
  const auto abi = read_struct(in, "route_desc");
  check_flags(abi.flags,
              IRONCL_ROUTE_GIVEN | IRONCL_ROUTE_NORMALIZE | IRONCL_ROUTE_SHARED_GATE | IRONCL_ROUTE_BEST_OF_TWO,
              "route_desc.flags");
  check_reserved(abi.reserved, "route_desc.reserved");
  find_in_chain(abi.next, 0, "route_desc");
  backend::RouteDesc out;
  out.given = (abi.flags & IRONCL_ROUTE_GIVEN) != 0;
  out.normalize = (abi.flags & IRONCL_ROUTE_NORMALIZE) != 0;
  out.shared_gate = (abi.flags & IRONCL_ROUTE_SHARED_GATE) != 0;
  out.best_of_two = (abi.flags & IRONCL_ROUTE_BEST_OF_TWO) != 0;
  out.tokens = dimension(abi.tokens, 0, "route_desc.tokens");
  out.experts = within(abi.experts, 1, kMostExperts, "route_desc.experts");
  out.top_k = within(abi.top_k, 1, std::min<std::int64_t>(out.experts, kMostTopK), "route_desc.top_k");
  check_numbers(out.tokens, out.top_k, "route_desc: tokens * top_k");
  if (abi.local_experts == 0) {
    if (abi.first_expert != 0) {
      invalid(fmt::format("route_desc.first_expert is {}, but local_experts is 0, which means all; give their number",
                          abi.first_expert));
    }
    out.local_experts = out.experts;
  } else {
    out.local_experts = within(abi.local_experts, 1, out.experts, "route_desc.local_experts");
    out.first_expert = within(abi.first_expert, 0, out.experts - out.local_experts, "route_desc.first_expert");
  }
  out.capacity = dimension(abi.capacity, 0, "route_desc.capacity");
  check_numbers(out.local_experts, out.capacity, "route_desc: local_experts * capacity");
  if (out.given) {
    check_given(abi);
  } else {
    check_scores(abi, out);
  }
  check_logits(abi, out);
  return out;
}

backend::ActivateDesc activate_desc(const ironcl_activate_desc* in) {
  const auto abi = read_struct(in, "activate_desc");
  check_flags(abi.flags, 0, "activate_desc.flags");
  check_reserved(abi.reserved, "activate_desc.reserved");
  find_in_chain(abi.next, 0, "activate_desc");
  backend::ActivateDesc out;
  out.rows = dimension(abi.rows, 0, "activate_desc.rows");
  out.cols = dimension(abi.cols, 1, "activate_desc.cols");
  out.gate_ld = leading(abi.gate_ld, out.cols, "activate_desc.gate_ld", "cols");
  out.up_ld = leading(abi.up_ld, out.cols, "activate_desc.up_ld", "cols");
  out.y_ld = leading(abi.y_ld, out.cols, "activate_desc.y_ld", "cols");
  out.x = dtype(abi.x_dtype, "activate_desc.x_dtype");
  out.y = dtype(abi.y_dtype, "activate_desc.y_dtype");
  float_type(out.x, "activate_desc.x_dtype");
  const std::uint32_t activation =
      enumerator(abi.activation, IRONCL_ACTIVATION_SWIGLU_OAI, "activate_desc.activation");
  if (activation == 0) invalid("activate_desc.activation is 0; give an IRONCL_ACTIVATION_*");
  out.activation = static_cast<backend::Activation>(activation);
  if (!std::isfinite(abi.limit) || abi.limit < 0) {
    invalid(
        fmt::format("activate_desc.limit is {}, expected a finite number of at least 0; 0 means none", abi.limit));
  }
  out.limit = abi.limit;
  out.grouping =
      static_cast<backend::Grouping>(enumerator(abi.grouping, IRONCL_GROUPING_MASKED, "activate_desc.grouping"));
  out.matrices = check_matrices(out.grouping, abi.matrices, "activate_desc");
  out.scale = scale_desc(abi.scale, out.cols, false, "activate_desc.scale");
  out.quantizer = quantizer(abi.quantizer, "activate_desc.quantizer");
  if (!is_float(out.y) && !numerics::is_quantized(out.y)) {
    invalid(
        fmt::format("activate_desc.y_dtype is {}, expected f32, f16, bf16, e4m3fn, e5m2, i8 or e2m1", shown(out.y)));
  }
  if (is_float(out.y) && out.scale.dtype != DType::none) {
    invalid(fmt::format("activate_desc.scale.dtype is {}, but y_dtype {} is not quantised; leave scale zero",
                        shown(out.scale.dtype), shown(out.y)));
  }
  if (numerics::is_quantized(out.y)) {
    if (out.scale.dtype == DType::none || (out.scale.dtype != DType::f32 && !out.quantizer.given)) {
      invalid(fmt::format("activate_desc.scale.dtype is {}, but the scales that quantising makes are f32",
                          shown(out.scale.dtype)));
    }
    check_row_scales(out.scale, "activate_desc.scale", "an activation's scales are of one row each");
    check_nibbles(out.y, out.cols, out.y_ld, "activate_desc: Y");
  }
  const std::int64_t matrices = out.grouping == backend::Grouping::masked ? out.matrices : 1;
  check_extent(out.rows, std::max(out.gate_ld, out.up_ld), matrices, "activate_desc: gate and up");
  check_extent(out.rows, out.y_ld, matrices, "activate_desc: Y");
  check_extent(out.rows, out.scale.ld, matrices, "activate_desc: scales");
  return out;
}

backend::CombineDesc combine_desc(const ironcl_combine_desc* in) {
  const auto abi = read_struct(in, "combine_desc");
  check_flags(abi.flags, 0, "combine_desc.flags");
  check_reserved(abi.reserved, "combine_desc.reserved");
  find_in_chain(abi.next, 0, "combine_desc");
  backend::CombineDesc out;
  out.tokens = dimension(abi.tokens, 0, "combine_desc.tokens");
  out.cols = dimension(abi.cols, 1, "combine_desc.cols");
  out.rows = dimension(abi.rows, 1, "combine_desc.rows");
  out.top_k = within(abi.top_k, 1, kMostTopK, "combine_desc.top_k");
  check_numbers(out.tokens, out.top_k, "combine_desc: tokens * top_k");
  out.x_ld = leading(abi.x_ld, out.cols, "combine_desc.x_ld", "cols");
  out.y_ld = leading(abi.y_ld, out.cols, "combine_desc.y_ld", "cols");
  out.x = dtype(abi.x_dtype, "combine_desc.x_dtype");
  out.add = dtype(abi.add_dtype, "combine_desc.add_dtype");
  out.y = dtype(abi.y_dtype, "combine_desc.y_dtype");
  float_type(out.x, "combine_desc.x_dtype");
  float_type(out.y, "combine_desc.y_dtype");
  if (out.add != DType::none) {
    float_type(out.add, "combine_desc.add_dtype");
    out.add_ld = leading(abi.add_ld, out.cols, "combine_desc.add_ld", "cols");
    check_extent(out.tokens, out.add_ld, 1, "combine_desc: add");
  } else if (abi.add_ld != 0) {
    invalid(fmt::format("combine_desc.add_ld is {}, but add_dtype is none; leave it 0", abi.add_ld));
  }
  check_extent(out.rows, out.x_ld, 1, "combine_desc: X");
  check_extent(out.tokens, out.y_ld, 1, "combine_desc: Y");
  return out;
}

}  // namespace ironcl::adapter
