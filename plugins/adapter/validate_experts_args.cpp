// SPDX-License-Identifier: Apache-2.0
// Checks of one call of route, activate and combine against what was created. Next door: validate_experts.cpp (the
// descriptions), spans.h (what plans share with it).
#include <fmt/format.h>

#include <string>

#include "plugins/adapter/spans.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

using backend::DType;

void check_queue(const ironcl_queue_t& queue, const std::shared_ptr<DeviceState>& device, std::string_view what) {
  if (queue.device != device) {
    invalid(fmt::format("queue is of another device than the {0}; use one of the {0}'s device", what));
  }
}

/// How many tokens or rows a call brings.
std::int64_t brought(std::int64_t value, std::int64_t most, std::string_view field) {
  if (value < 0 || value > most) {
    invalid(fmt::format("{} is {}, expected 0 to the description's {}; create one with more", field, value, most));
  }
  return value;
}

/// The operands of one call of a step: `brings` says how much, for messages, and nothing brought needs no spans.
struct Operands {
  const DeviceState& device;
  std::string brings;
  bool empty = false;

  /// An operand that has to be there, also where the call brings nothing.
  backend::Span always(const ironcl_span& in, std::string_view name, std::uint64_t bytes, DType type) const {
    backend::Span span = span_in_buffer(in, name, device);
    if (!span) invalid(fmt::format("{} is absent; give a span of at least {} bytes", name, bytes));
    check_room(span, name, bytes, size_of(type), brings, device);
    return span;
  }

  backend::Span operand(const ironcl_span& in, std::string_view name, std::uint64_t bytes, DType type) const {
    if (in.buffer != nullptr || !empty) return always(in, name, bytes, type);
    return span_in_buffer(in, name, device);
  }

  /// An operand that may be absent.
  backend::Span optional(const ironcl_span& in, std::string_view name, std::uint64_t bytes, DType type) const {
    if (in.buffer != nullptr) return always(in, name, bytes, type);
    return span_in_buffer(in, name, device);
  }

  /// An operand that the description leaves out.
  void none(const ironcl_span& in, std::string_view name, std::string_view why) const {
    if (span_in_buffer(in, name, device)) invalid(fmt::format("{} is given, but {}; leave it zero", name, why));
  }
};

/// Bytes of `count` elements one after another.
std::uint64_t bytes_in_a_row(std::int64_t count, DType type) { return bytes_of(1, count, count, type); }

}  // namespace

backend::RouteArgs route_args(const ironcl_route_args* in, const RouteOp& route, const ironcl_queue_t& queue) {
  const auto abi = read_struct(in, "route_args");
  check_reserved(abi.reserved, "route_args.reserved");
  find_in_chain(abi.next, 0, "route_args");
  check_queue(queue, route.device, "router");
  const backend::RouteDesc& desc = route.desc;
  backend::RouteArgs out;
  out.tokens = brought(abi.tokens, desc.tokens, "route_args.tokens");
  out.wait = wait_list(abi.wait, abi.wait_count, "route_args");

  const Operands spans{*route.device, fmt::format("tokens = {}", out.tokens), out.tokens == 0};
  const std::int64_t slots = out.tokens * desc.top_k;
  if (desc.logits != DType::none) {
    out.logits = spans.operand(
        abi.logits, "route_args.logits",
        bytes_of(out.tokens, desc.logits_ld, desc.experts + (desc.shared_gate ? 1 : 0), desc.logits), desc.logits);
  } else {
    spans.none(abi.logits, "route_args.logits", "the ids are GIVEN");
  }
  if (desc.bias != DType::none) {
    out.bias = spans.operand(abi.bias, "route_args.bias", bytes_in_a_row(desc.experts, desc.bias), desc.bias);
  } else {
    spans.none(abi.bias, "route_args.bias", "the router has no bias");
  }
  out.ids = spans.operand(abi.ids, "route_args.ids", bytes_in_a_row(slots, DType::s32), DType::s32);
  const std::uint64_t weight_bytes = bytes_in_a_row(slots, DType::f32);
  out.weights = desc.given ? spans.optional(abi.weights, "route_args.weights", weight_bytes, DType::f32)
                           : spans.operand(abi.weights, "route_args.weights", weight_bytes, DType::f32);
  // Also of no tokens at all: what runs next reads these.
  out.matrix_rows = spans.always(abi.matrix_rows, "route_args.matrix_rows",
                                 bytes_in_a_row(desc.local_experts, DType::s32), DType::s32);
  const std::int64_t rows = desc.capacity == 0 ? slots : desc.local_experts * desc.capacity;
  out.a_index = spans.operand(abi.a_index, "route_args.a_index", bytes_in_a_row(rows, DType::s32), DType::s32);
  out.rows = spans.operand(abi.rows, "route_args.rows", bytes_in_a_row(slots, DType::s32), DType::s32);
  if (desc.shared_gate) {
    out.shared_weights = spans.operand(abi.shared_weights, "route_args.shared_weights",
                                       bytes_in_a_row(out.tokens, DType::f32), DType::f32);
  } else {
    spans.none(abi.shared_weights, "route_args.shared_weights", "the router has no SHARED_GATE");
  }
  check_overlaps({{"route_args.ids", out.ids, !desc.given},
                  {"route_args.weights", out.weights, !desc.given},
                  {"route_args.matrix_rows", out.matrix_rows, true},
                  {"route_args.a_index", out.a_index, true},
                  {"route_args.rows", out.rows, true},
                  {"route_args.shared_weights", out.shared_weights, true},
                  {"route_args.logits", out.logits, false},
                  {"route_args.bias", out.bias, false}});
  return out;
}

backend::ActivateArgs activate_args(const ironcl_activate_args* in, const ActivateOp& activate,
                                    const ironcl_queue_t& queue) {
  const auto abi = read_struct(in, "activate_args");
  check_reserved(abi.reserved, "activate_args.reserved");
  find_in_chain(abi.next, 0, "activate_args");
  check_queue(queue, activate.device, "activation");
  const backend::ActivateDesc& desc = activate.desc;
  const bool masked = desc.grouping == backend::Grouping::masked;
  backend::ActivateArgs out;
  out.rows = brought(abi.rows, desc.rows, "activate_args.rows");
  if (masked && out.rows != desc.rows) {
    invalid(
        fmt::format("activate_args.rows is {}, expected the description's {}: matrices of a masked group lie so "
                    "many rows apart",
                    out.rows, desc.rows));
  }
  out.wait = wait_list(abi.wait, abi.wait_count, "activate_args");

  const Operands spans{*activate.device, fmt::format("rows = {}", out.rows), out.rows == 0};
  const std::int64_t rows = (masked ? desc.matrices : 1) * out.rows;
  out.gate = spans.operand(abi.gate, "activate_args.gate", bytes_of(rows, desc.gate_ld, desc.cols, desc.x), desc.x);
  out.up = spans.operand(abi.up, "activate_args.up", bytes_of(rows, desc.up_ld, desc.cols, desc.x), desc.x);
  out.y = spans.operand(abi.y, "activate_args.y", bytes_of(rows, desc.y_ld, desc.cols, desc.y), desc.y);
  if (desc.scale.dtype != DType::none) {
    out.scales = spans.operand(abi.scales, "activate_args.scales",
                               bytes_of(rows, desc.scale.ld, desc.scale.grid.scale_cols(desc.cols), desc.scale.dtype),
                               desc.scale.dtype);
  } else {
    spans.none(abi.scales, "activate_args.scales", "Y is not quantised");
  }
  if (desc.scale.global) {
    out.global = spans.operand(abi.global, "activate_args.global", sizeof(float), DType::f32);
  } else {
    spans.none(abi.global, "activate_args.global", "scale.global_dtype is none");
  }
  if (desc.grouping != backend::Grouping::none) {
    out.matrix_rows = spans.operand(abi.matrix_rows, "activate_args.matrix_rows",
                                    bytes_in_a_row(desc.matrices, DType::s32), DType::s32);
  } else {
    spans.none(abi.matrix_rows, "activate_args.matrix_rows", "grouping is NONE");
  }
  check_overlaps({{"activate_args.y", out.y, true},
                  {"activate_args.scales", out.scales, !desc.quantizer.given},
                  {"activate_args.global", out.global, false},
                  {"activate_args.gate", out.gate, false},
                  {"activate_args.up", out.up, false},
                  {"activate_args.matrix_rows", out.matrix_rows, false}});
  return out;
}

backend::CombineArgs combine_args(const ironcl_combine_args* in, const CombineOp& combine,
                                  const ironcl_queue_t& queue) {
  const auto abi = read_struct(in, "combine_args");
  check_reserved(abi.reserved, "combine_args.reserved");
  find_in_chain(abi.next, 0, "combine_args");
  check_queue(queue, combine.device, "combination");
  const backend::CombineDesc& desc = combine.desc;
  backend::CombineArgs out;
  out.tokens = brought(abi.tokens, desc.tokens, "combine_args.tokens");
  out.wait = wait_list(abi.wait, abi.wait_count, "combine_args");

  const Operands spans{*combine.device, fmt::format("tokens = {}", out.tokens), out.tokens == 0};
  const std::int64_t slots = out.tokens * desc.top_k;
  out.x = spans.operand(abi.x, "combine_args.x", bytes_of(desc.rows, desc.x_ld, desc.cols, desc.x), desc.x);
  out.rows = spans.operand(abi.rows, "combine_args.rows", bytes_in_a_row(slots, DType::s32), DType::s32);
  out.weights = spans.operand(abi.weights, "combine_args.weights", bytes_in_a_row(slots, DType::f32), DType::f32);
  if (desc.add != DType::none) {
    out.add =
        spans.operand(abi.add, "combine_args.add", bytes_of(out.tokens, desc.add_ld, desc.cols, desc.add), desc.add);
    out.add_weights = spans.optional(abi.add_weights, "combine_args.add_weights",
                                     bytes_in_a_row(out.tokens, DType::f32), DType::f32);
  } else {
    spans.none(abi.add, "combine_args.add", "add_dtype is none");
    spans.none(abi.add_weights, "combine_args.add_weights", "add_dtype is none");
  }
  out.y = spans.operand(abi.y, "combine_args.y", bytes_of(out.tokens, desc.y_ld, desc.cols, desc.y), desc.y);
  check_overlaps({{"combine_args.y", out.y, true},
                  {"combine_args.x", out.x, false},
                  {"combine_args.rows", out.rows, false},
                  {"combine_args.weights", out.weights, false},
                  {"combine_args.add", out.add, false},
                  {"combine_args.add_weights", out.add_weights, false}});
  return out;
}

}  // namespace ironcl::adapter
