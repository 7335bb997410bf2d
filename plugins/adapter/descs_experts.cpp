// SPDX-License-Identifier: Apache-2.0
// Checks of the descriptions of route, activate and combine. Next door: fields.h (checks of one field), args.cpp
// (calls).
#include <cmath>

#include "plugins/adapter/fields.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

using backend::DType;
using backend::Grouping;

constexpr std::uint32_t kMostExperts = 65536, kMostTopK = 64;
constexpr Fields kRoute{"route_desc"}, kActivate{"activate_desc"}, kCombine{"combine_desc"};

/// Rows and slots are s32 on the device.
void check_numbers(std::int64_t first, std::int64_t second, std::string_view product) {
  if (first * second > kLargestDimension)
    invalid("{} is {} * {}, expected at most {}: rows are numbered in s32", product, first, second,
            kLargestDimension);
}

/// What a router that is given its ids has no use for.
void check_given(const ironcl_route_desc& abi) {
  const auto zero = [](bool is, std::string_view field, const auto& value) {
    if (!is) kRoute.invalid("{} is {}, but ids are GIVEN and nothing is chosen or weighed; leave it 0", field, value);
  };
  zero(abi.score == 0, "score", abi.score);
  zero(abi.scale == 0, "scale", abi.scale);
  zero(abi.expert_groups == 0, "expert_groups", abi.expert_groups);
  zero(abi.top_groups == 0, "top_groups", abi.top_groups);
  zero(abi.bias_dtype == IRONCL_DTYPE_NONE, "bias_dtype", shown(kRoute.dtype(abi.bias_dtype, "bias_dtype")));
  zero((abi.flags & IRONCL_ROUTE_NORMALIZE) == 0, "flags", "NORMALIZE");
  zero((abi.flags & IRONCL_ROUTE_BEST_OF_TWO) == 0, "flags", "BEST_OF_TWO");
}

void check_expert_groups(const ironcl_route_desc& abi, backend::RouteDesc& out) {
  if (abi.expert_groups != 0) {
    out.expert_groups = kRoute.within(abi.expert_groups, 1, out.experts, "expert_groups");
    out.top_groups = kRoute.within(abi.top_groups, 1, out.expert_groups, "top_groups");
  } else if (abi.top_groups != 0) {
    kRoute.invalid("top_groups is {}, but expert_groups is 0; leave both 0, or give both", abi.top_groups);
  }
  if (out.experts % out.expert_groups != 0)
    kRoute.invalid("expert_groups is {}, which does not divide the {} experts", out.expert_groups, out.experts);
  const std::int64_t size = out.experts / out.expert_groups;
  if (out.top_k > out.top_groups * size)
    kRoute.invalid("top_k is {}, but {} groups of {} experts stay, {} in all; raise top_groups", out.top_k,
                   out.top_groups, size, out.top_groups * size);
  if (out.best_of_two && size < 2)
    kRoute.invalid("flags has BEST_OF_TWO, but each of the {} groups has one expert", out.expert_groups);
}

/// The scores of a router that is not given its ids.
void check_scores(const ironcl_route_desc& abi, backend::RouteDesc& out) {
  out.score = kRoute.enumerator<backend::Score>(abi.score, IRONCL_SCORE_SQRT_SOFTPLUS, "score");
  if (out.score == backend::Score::none)
    kRoute.invalid("score is 0; give an IRONCL_SCORE_*, or the flag GIVEN with ids");
  if (!std::isfinite(abi.scale)) kRoute.invalid("scale is {}, expected a finite number; 0 means 1", abi.scale);
  if (abi.scale != 0) out.scale = abi.scale;
  out.bias = kRoute.dtype(abi.bias_dtype, "bias_dtype");
  if (out.bias != DType::none && out.bias != DType::f32)
    kRoute.invalid("bias_dtype is {}, expected none or f32: narrower types lose what tells experts apart",
                   shown(out.bias));
  check_expert_groups(abi, out);
}

void check_logits(const ironcl_route_desc& abi, backend::RouteDesc& out) {
  if (out.given && !out.shared_gate) {
    out.logits = kRoute.dtype(abi.logits_dtype, "logits_dtype");
    if (out.logits != DType::none || abi.logits_ld != 0)
      kRoute.invalid("logits_dtype is {} with ld {}, but ids are GIVEN and there is no SHARED_GATE; leave both 0",
                     shown(out.logits), abi.logits_ld);
    return;
  }
  out.logits = kRoute.float_type(abi.logits_dtype, "logits_dtype");
  out.logits_ld =
      kRoute.leading(abi.logits_ld, out.experts + (out.shared_gate ? 1 : 0), "logits_ld", "logits of a token");
  kRoute.check_extent(out.tokens, out.logits_ld, 1, "logits");
}

}  // namespace

backend::RouteDesc read(const ironcl_route_desc* in) {
  const auto abi = read_struct(in, "route_desc",
                               IRONCL_ROUTE_GIVEN | IRONCL_ROUTE_NORMALIZE | IRONCL_ROUTE_SHARED_GATE |
                                   IRONCL_ROUTE_BEST_OF_TWO | IRONCL_ROUTE_SHARED_EXPERT);
  backend::RouteDesc out;
  out.given = (abi.flags & IRONCL_ROUTE_GIVEN) != 0;
  out.normalize = (abi.flags & IRONCL_ROUTE_NORMALIZE) != 0;
  out.shared_gate = (abi.flags & IRONCL_ROUTE_SHARED_GATE) != 0;
  out.best_of_two = (abi.flags & IRONCL_ROUTE_BEST_OF_TWO) != 0;
  out.shared_expert = (abi.flags & IRONCL_ROUTE_SHARED_EXPERT) != 0;
  out.tokens = kRoute.dimension(abi.tokens, 0, "tokens");
  out.experts = kRoute.within(abi.experts, 1, kMostExperts, "experts");
  out.top_k = kRoute.within(abi.top_k, 1, std::min<std::int64_t>(out.experts, kMostTopK), "top_k");
  check_numbers(out.tokens, out.rows_of_token(), "route_desc: tokens * top_k");
  out.local_experts = out.experts;
  if (abi.local_experts != 0) {
    out.local_experts = kRoute.within(abi.local_experts, 1, out.experts, "local_experts");
    out.first_expert = kRoute.within(abi.first_expert, 0, out.experts - out.local_experts, "first_expert");
  } else if (abi.first_expert != 0) {
    kRoute.invalid("first_expert is {}, but local_experts is 0, which means all; give their number",
                   abi.first_expert);
  }
  out.capacity = kRoute.dimension(abi.capacity, 0, "capacity");
  if (out.capacity != 0 && out.shared_expert)
    kRoute.invalid("capacity is {}, but a SHARED_EXPERT has a row of every token; leave it 0", out.capacity);
  check_numbers(out.local_experts, out.capacity, "route_desc: local_experts * capacity");
  if (out.given) {
    check_given(abi);
  } else {
    check_scores(abi, out);
  }
  check_logits(abi, out);
  return out;
}

backend::ActivateDesc read(const ironcl_activate_desc* in) {
  const auto abi = read_struct(in, "activate_desc");
  backend::ActivateDesc out;
  out.rows = kActivate.dimension(abi.rows, 0, "rows");
  out.cols = kActivate.dimension(abi.cols, 1, "cols");
  out.gate_ld = kActivate.leading(abi.gate_ld, out.cols, "gate_ld");
  out.up_ld = kActivate.leading(abi.up_ld, out.cols, "up_ld");
  out.y_ld = kActivate.leading(abi.y_ld, out.cols, "y_ld");
  out.x = kActivate.float_type(abi.x_dtype, "x_dtype");
  out.y = kActivate.operand_type(abi.y_dtype, "y_dtype");
  if (abi.activation == 0) kActivate.invalid("activation is 0; give an IRONCL_ACTIVATION_*");
  out.activation =
      kActivate.enumerator<backend::Activation>(abi.activation, IRONCL_ACTIVATION_SWIGLU_OAI, "activation");
  out.limit = kActivate.limit(abi.limit, "limit");
  out.grouping = kActivate.enumerator<Grouping>(abi.grouping, IRONCL_GROUPING_MASKED, "grouping");
  out.matrices = kActivate.matrices(out.grouping, abi.matrices);
  out.scale = kActivate.scale(abi.scale, out.cols, false);
  out.quantizer = kActivate.quantizer(abi.quantizer);
  if (numerics::is_quantized(out.y)) {
    kActivate.check_made_scales(out.scale, out.quantizer);
    kActivate.check_row_scales(out.scale, "scale", "an activation's scales are of one row each");
    kActivate.check_nibbles(out.y, out.cols, out.y_ld, "Y");
  } else if (out.scale.dtype != DType::none) {
    kActivate.invalid("scale.dtype is {}, but y_dtype {} is not quantised; leave scale zero", shown(out.scale.dtype),
                      shown(out.y));
  }
  const std::int64_t matrices = out.grouping == Grouping::masked ? out.matrices : 1;
  kActivate.check_extent(out.rows, std::max(out.gate_ld, out.up_ld), matrices, "gate and up");
  kActivate.check_extent(out.rows, out.y_ld, matrices, "Y");
  kActivate.check_extent(out.rows, out.scale.ld, matrices, "scales");
  return out;
}

backend::CombineDesc read(const ironcl_combine_desc* in) {
  const auto abi = read_struct(in, "combine_desc");
  backend::CombineDesc out;
  out.tokens = kCombine.dimension(abi.tokens, 0, "tokens");
  out.cols = kCombine.dimension(abi.cols, 1, "cols");
  out.rows = kCombine.dimension(abi.rows, 1, "rows");
  out.top_k = kCombine.within(abi.top_k, 1, kMostTopK, "top_k");
  check_numbers(out.tokens, out.top_k, "combine_desc: tokens * top_k");
  out.x_ld = kCombine.leading(abi.x_ld, out.cols, "x_ld");
  out.y_ld = kCombine.leading(abi.y_ld, out.cols, "y_ld");
  out.x = kCombine.float_type(abi.x_dtype, "x_dtype");
  out.add = kCombine.float_type(abi.add_dtype, "add_dtype", true);
  out.y = kCombine.float_type(abi.y_dtype, "y_dtype");
  if (out.add != DType::none) {
    out.add_ld = kCombine.leading(abi.add_ld, out.cols, "add_ld");
    kCombine.check_extent(out.tokens, out.add_ld, 1, "add");
  } else if (abi.add_ld != 0) {
    kCombine.invalid("add_ld is {}, but add_dtype is none; leave it 0", abi.add_ld);
  }
  kCombine.check_extent(out.rows, out.x_ld, 1, "X");
  kCombine.check_extent(out.tokens, out.y_ld, 1, "Y");
  return out;
}

}  // namespace ironcl::adapter
