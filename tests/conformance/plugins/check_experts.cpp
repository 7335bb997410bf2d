// SPDX-License-Identifier: Apache-2.0
// What the reference plugin refuses of route, activate and combine, and how it says so. Next door: check.cpp (plans).
#include <fmt/format.h>

#include <cmath>

#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {
namespace {

void within(std::int64_t value, std::int64_t least, std::int64_t most, const char* field) {
  if (value < least || value > most) invalid(fmt::format("{} is {}, expected {} to {}", field, value, least, most));
}

void flags(std::uint32_t value, std::uint32_t all, const char* field) {
  if ((value & ~all) != 0) throw Refusal(IRONCL_UNIMPLEMENTED, fmt::format("{} are {:#x}", field, value));
}

void float_type(ironcl_dtype type, const char* field) {
  known(type, IRONCL_F64, field);
  if (!is_float(type)) invalid(fmt::format("{} is {}, not f32, f16 or bf16", field, type));
}

/// No written region may be in the memory of another.
void apart(const Region& written, std::initializer_list<std::pair<const Region*, const char*>> others,
           const char* name) {
  for (const auto& [other, other_name] : others) {
    if (written.memory && written.memory == other->memory) invalid(fmt::format("{} overlaps {}", name, other_name));
  }
}

}  // namespace

ironcl_route_desc check_route(const ironcl_route_desc* in) {
  auto d = read_struct(in, "route_desc");
  flags(d.flags, 15, "route_desc.flags");
  check_chain(d.next);
  const bool given = (d.flags & IRONCL_ROUTE_GIVEN) != 0, gate = (d.flags & IRONCL_ROUTE_SHARED_GATE) != 0;
  dimension(d.tokens, 0, "route_desc.tokens");
  within(d.experts, 1, 65536, "route_desc.experts");
  within(d.top_k, 1, std::min<std::int64_t>(d.experts, 64), "route_desc.top_k");
  within(d.tokens * d.top_k, 0, kLargest, "route_desc.tokens * top_k");
  if (d.local_experts == 0) {
    within(d.first_expert, 0, 0, "route_desc.first_expert");
    d.local_experts = d.experts;
  }
  within(d.local_experts, 1, d.experts, "route_desc.local_experts");
  within(d.first_expert, 0, d.experts - d.local_experts, "route_desc.first_expert");
  within(d.capacity, 0, kLargest / d.local_experts, "route_desc.capacity");
  known(d.score, IRONCL_SCORE_SQRT_SOFTPLUS, "route_desc.score");
  if (given && (d.score != 0 || d.scale != 0 || d.expert_groups != 0 || d.bias_dtype != IRONCL_DTYPE_NONE)) {
    invalid("route_desc.score, scale, expert_groups or bias_dtype, with GIVEN ids");
  }
  if (!given) within(d.score, 1, 3, "route_desc.score");
  if (!std::isfinite(d.scale)) invalid("route_desc.scale is not finite");
  if (d.scale == 0) d.scale = 1;
  if (d.expert_groups == 0) {
    within(d.top_groups, 0, 0, "route_desc.top_groups");
    d.expert_groups = d.top_groups = 1;
  }
  within(d.expert_groups, 1, d.experts, "route_desc.expert_groups");
  within(d.top_groups, 1, d.expert_groups, "route_desc.top_groups");
  if (d.experts % d.expert_groups != 0) invalid("route_desc.expert_groups does not divide the experts");
  const std::uint32_t size = d.experts / d.expert_groups;
  within(d.top_k, 1, static_cast<std::int64_t>(size) * d.top_groups, "route_desc.top_k");
  if ((d.flags & IRONCL_ROUTE_BEST_OF_TWO) != 0 && size < 2) invalid("route_desc.flags: BEST_OF_TWO of one expert");
  if (!given || gate) {
    float_type(d.logits_dtype, "route_desc.logits_dtype");
    leading(d.logits_ld, d.experts + (gate ? 1 : 0), d.tokens, "route_desc.logits_ld");
  }
  known(d.bias_dtype, IRONCL_F64, "route_desc.bias_dtype");
  if (d.bias_dtype != IRONCL_DTYPE_NONE && d.bias_dtype != IRONCL_F32) invalid("route_desc.bias_dtype is not f32");
  return d;
}

RouteCall check_route_call(const ironcl_route_args* in, const ironcl_route_desc& d, WaitList* wait) {
  const auto args = read_struct(in, "route_args");
  check_chain(args.next);
  within(args.tokens, 0, d.tokens, "route_args.tokens");
  check_wait_list(args.wait, args.wait_count, wait);
  RouteCall call;
  call.desc = d, call.tokens = args.tokens;
  call.counts = check_span(args.matrix_rows, "route_args.matrix_rows", words(d.local_experts), 4);
  if (args.tokens == 0) return call;
  const bool given = (d.flags & IRONCL_ROUTE_GIVEN) != 0, gate = (d.flags & IRONCL_ROUTE_SHARED_GATE) != 0;
  const std::int64_t slots = args.tokens * d.top_k, width = d.experts + (gate ? 1 : 0);
  if (!given || gate) {
    const std::uint32_t element = size_of(d.logits_dtype);
    call.logits =
        check_span(args.logits, "route_args.logits", extent(args.tokens, d.logits_ld, width, element), element);
  }
  if (d.bias_dtype != IRONCL_DTYPE_NONE) call.bias = check_span(args.bias, "route_args.bias", words(d.experts), 4);
  call.ids = check_span(args.ids, "route_args.ids", words(slots), 4);
  if (!given) call.weights = check_span(args.weights, "route_args.weights", words(slots), 4);
  const std::int64_t rows = d.capacity == 0 ? slots : d.capacity * d.local_experts;
  call.index = check_span(args.a_index, "route_args.a_index", words(rows), 4);
  call.rows = check_span(args.rows, "route_args.rows", words(slots), 4);
  if (gate) call.shared = check_span(args.shared_weights, "route_args.shared_weights", words(args.tokens), 4);
  apart(call.ids, {{&call.logits, "logits"}, {&call.weights, "weights"}, {&call.rows, "rows"}}, "route_args.ids");
  return call;
}

ironcl_activate_desc check_activate(const ironcl_activate_desc* in) {
  const auto d = read_struct(in, "activate_desc");
  flags(d.flags, 0, "activate_desc.flags");
  check_chain(d.next);
  dimension(d.rows, 0, "activate_desc.rows");
  dimension(d.cols, 1, "activate_desc.cols");
  leading(d.gate_ld, d.cols, d.rows, "activate_desc.gate_ld");
  leading(d.up_ld, d.cols, d.rows, "activate_desc.up_ld");
  leading(d.y_ld, d.cols, d.rows, "activate_desc.y_ld");
  float_type(d.x_dtype, "activate_desc.x_dtype");
  known(d.y_dtype, IRONCL_F64, "activate_desc.y_dtype");
  if (!is_float(d.y_dtype) && !is_code(d.y_dtype)) invalid("activate_desc.y_dtype is no output's type");
  known(d.activation, IRONCL_ACTIVATION_SWIGLU_OAI, "activate_desc.activation");
  within(d.activation, 1, 2, "activate_desc.activation");
  if (!std::isfinite(d.limit) || d.limit < 0) invalid("activate_desc.limit is not a finite number of at least 0");
  known(d.grouping, IRONCL_GROUPING_MASKED, "activate_desc.grouping");
  if ((d.grouping == IRONCL_GROUPING_NONE) != (d.matrices == 0)) invalid("activate_desc.matrices and grouping");
  check_scale(d.scale, d.cols, false, "activate_desc.scale");
  if (d.scale.dtype != (is_code(d.y_dtype) ? IRONCL_F32 : IRONCL_DTYPE_NONE)) {
    invalid("activate_desc.scale.dtype does not fit y_dtype");
  }
  if (is_code(d.y_dtype) && d.scale.group_rows != 1) invalid("activate_desc.scale.group_rows is not 1");
  return d;
}

ActivateCall check_activate_call(const ironcl_activate_args* in, const ironcl_activate_desc& d, WaitList* wait) {
  const auto args = read_struct(in, "activate_args");
  check_chain(args.next);
  const bool masked = d.grouping == IRONCL_GROUPING_MASKED;
  within(args.rows, masked ? d.rows : 0, d.rows, "activate_args.rows");
  check_wait_list(args.wait, args.wait_count, wait);
  ActivateCall call;
  call.desc = d, call.rows = args.rows;
  if (args.rows == 0) return call;
  const std::int64_t rows = masked ? args.rows * d.matrices : args.rows;
  const std::uint32_t x = size_of(d.x_dtype), y = size_of(d.y_dtype);
  call.gate = check_span(args.gate, "activate_args.gate", extent(rows, d.gate_ld, d.cols, x), x);
  call.up = check_span(args.up, "activate_args.up", extent(rows, d.up_ld, d.cols, x), x);
  call.y = check_span(args.y, "activate_args.y", extent(rows, d.y_ld, d.cols, y), y);
  if (is_code(d.y_dtype)) {
    const std::int64_t width = groups(d.cols, d.scale.group_cols);
    call.scales = check_span(args.scales, "activate_args.scales", extent(rows, d.scale.ld, width, 4), 4);
  }
  if (d.grouping != IRONCL_GROUPING_NONE) {
    call.counts = check_span(args.matrix_rows, "activate_args.matrix_rows", words(d.matrices), 4);
  }
  apart(call.y, {{&call.gate, "gate"}, {&call.up, "up"}, {&call.scales, "scales"}}, "activate_args.y");
  return call;
}

ironcl_combine_desc check_combine(const ironcl_combine_desc* in) {
  const auto d = read_struct(in, "combine_desc");
  flags(d.flags, 0, "combine_desc.flags");
  check_chain(d.next);
  dimension(d.tokens, 0, "combine_desc.tokens");
  dimension(d.cols, 1, "combine_desc.cols");
  dimension(d.rows, 1, "combine_desc.rows");
  within(d.top_k, 1, 64, "combine_desc.top_k");
  within(d.tokens * d.top_k, 0, kLargest, "combine_desc.tokens * top_k");
  leading(d.x_ld, d.cols, d.rows, "combine_desc.x_ld");
  leading(d.y_ld, d.cols, d.tokens, "combine_desc.y_ld");
  float_type(d.x_dtype, "combine_desc.x_dtype");
  float_type(d.y_dtype, "combine_desc.y_dtype");
  if (d.add_dtype != IRONCL_DTYPE_NONE) {
    float_type(d.add_dtype, "combine_desc.add_dtype");
    leading(d.add_ld, d.cols, d.tokens, "combine_desc.add_ld");
  } else {
    within(d.add_ld, 0, 0, "combine_desc.add_ld");
  }
  return d;
}

CombineCall check_combine_call(const ironcl_combine_args* in, const ironcl_combine_desc& d, WaitList* wait) {
  const auto args = read_struct(in, "combine_args");
  check_chain(args.next);
  within(args.tokens, 0, d.tokens, "combine_args.tokens");
  check_wait_list(args.wait, args.wait_count, wait);
  CombineCall call;
  call.desc = d, call.tokens = args.tokens;
  if (args.tokens == 0) return call;
  const std::int64_t slots = args.tokens * d.top_k;
  const std::uint32_t x = size_of(d.x_dtype), y = size_of(d.y_dtype);
  call.x = check_span(args.x, "combine_args.x", extent(d.rows, d.x_ld, d.cols, x), x);
  call.rows = check_span(args.rows, "combine_args.rows", words(slots), 4);
  call.weights = check_span(args.weights, "combine_args.weights", words(slots), 4);
  if (d.add_dtype != IRONCL_DTYPE_NONE) {
    const std::uint32_t element = size_of(d.add_dtype);
    call.add = check_span(args.add, "combine_args.add", extent(args.tokens, d.add_ld, d.cols, element), element);
    if (args.add_weights.buffer != nullptr) {
      call.add_weights = check_span(args.add_weights, "combine_args.add_weights", words(args.tokens), 4);
    }
  }
  call.y = check_span(args.y, "combine_args.y", extent(args.tokens, d.y_ld, d.cols, y), y);
  apart(call.y, {{&call.x, "combine_args.x"}, {&call.add, "add"}, {&call.rows, "rows"}}, "combine_args.y");
  return call;
}

}  // namespace ironcl::reference
