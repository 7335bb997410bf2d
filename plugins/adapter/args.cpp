// SPDX-License-Identifier: Apache-2.0
// One call of each kind of operation: how much it brings, and its operands as a list. Next door: spans.h (what is
// checked of an operand), descs.cpp (the descriptions).

#include "plugins/adapter/spans.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

using backend::DType;
using backend::Grouping;

/// Reads the arguments, which begin alike for all kinds: `op` is what messages call the operation.
template <class Struct, class Op, class Args>
Struct read_args(const Struct* in, std::string_view name, std::string_view op, const Op& of, const DeviceState* on,
                 Args& out) {
  const Struct abi = read_struct(in, name);
  if (on != of.device.get()) invalid("queue is of another device than the {0}; use one of the {0}'s device", op);
  out.wait = wait_list(abi.wait, abi.wait_count, name);
  return abi;
}

/// How many tokens or rows a call brings.
std::int64_t brought(std::int64_t value, std::int64_t most, std::string_view field) {
  if (value < 0 || value > most)
    invalid("{} is {}, expected 0 to the description's {}; create one with more rows", field, value, most);
  return value;
}

void check_m(const backend::GemmDesc& plan, std::int64_t m) {
  if (m < 0 || m > plan.m)
    invalid("gemm_args.m is {}, expected 0 to the plan's {}; create a plan with a larger m", m, plan.m);
  if (plan.grouping == Grouping::masked && m != plan.m)
    invalid("gemm_args.m is {}, expected the plan's {}: matrices of a masked group lie m rows apart", m, plan.m);
}

void check_a_rows(const backend::GemmDesc& plan, std::int64_t m, std::int64_t a_rows) {
  if (plan.a_rows == 0 && a_rows != 0)
    invalid("gemm_args.a_rows is {}, but the plan gathers no rows of A; leave it 0", a_rows);
  const std::int64_t least = plan.a_rows == 0 || m == 0 ? 0 : 1;
  if (a_rows < least || a_rows > plan.a_rows)
    invalid("gemm_args.a_rows is {}, expected {} to the plan's {}", a_rows, least, plan.a_rows);
}

std::shared_ptr<backend::Weights> plan_weights(ironcl_weights weights, const GemmOp& plan) {
  require("gemm_args.weights", weights);
  if (weights->device != plan.device)
    invalid("gemm_args.weights are of another device; prepare them on the plan's device");
  check_same_matrix(plan.desc, weights->desc, "gemm_args.weights");
  return weights->object;
}

/// Codes and scales of A are shown together or not at all.
void check_shown(const ironcl_span& codes, const ironcl_span& scales) {
  if ((codes.buffer != nullptr) == (scales.buffer != nullptr)) return;
  const bool has_codes = codes.buffer != nullptr;
  invalid("gemm_args.{} is absent, but gemm_args.{} is given; give both or neither",
          has_codes ? "a_quantized_scale" : "a_quantized", has_codes ? "a_quantized" : "a_quantized_scale");
}

}  // namespace

backend::GemmArgs read(const ironcl_gemm_args* in, const GemmOp& plan, const DeviceState* on) {
  backend::GemmArgs out;
  const auto abi = read_args(in, "gemm_args", "plan", plan, on, out);
  const backend::GemmDesc& desc = plan.desc;
  check_m(desc, abi.m);
  check_a_rows(desc, abi.m, abi.a_rows);
  check_shown(abi.a_quantized, abi.a_quantized_scale);
  out.m = abi.m;
  out.a_rows = abi.a_rows;
  out.weights = plan_weights(abi.weights, plan);

  const bool gathers = desc.a_rows != 0, quantises = desc.a_source != DType::none;
  const bool given_scales = desc.a_scale.dtype != DType::none && (!quantises || desc.a_quantizer.given);
  const std::int64_t stacked = desc.grouping == Grouping::masked ? desc.matrices : 1, k = desc.k, n = desc.n;
  const std::int64_t biases = desc.b_rows();
  const std::int64_t rows = stacked * abi.m, a_rows = gathers ? abi.a_rows : rows;
  const auto& a_grid = desc.a_scale.grid;
  const std::int64_t a_scale_rows = gathers ? a_grid.scale_rows(abi.a_rows) : stacked * a_grid.scale_rows(abi.m);
  const std::int64_t a_scale_cols = a_grid.scale_cols(k);
  const char* const made = unless(quantises && !desc.a_quantizer.given,
                                  quantises ? "the plan is given A's scales; quantise with an operation to see codes"
                                            : "the plan does not quantise A");
  take_operands(
      "gemm_args", *plan.device, {"m", abi.m, gathers ? abi.a_rows : 0},
      {
          {"a", abi.a, out.a, matrix(a_rows, desc.lda, k, quantises ? desc.a_source : desc.a)},
          {"a_scale", abi.a_scale, out.a_scale, scales(desc.a_scale, a_scale_rows, k),
           unless(given_scales, quantises ? "the plan makes A's scales" : "the plan's A has no scales")},
          {"a_global", abi.a_global, out.a_global, row(1, DType::f32),
           unless(desc.a_scale.global, "the plan's A has no global scale")},
          {"d_global", abi.d_global, out.d_global, row(1, DType::f32),
           unless(desc.d_scale.global, "the plan's D has no global scale")},
          {"d", abi.d, out.d, matrix(rows, desc.ldd, n, desc.d), nullptr, true},
          {"d_scale", abi.d_scale, out.d_scale,
           scales(desc.d_scale, stacked * desc.d_scale.grid.scale_rows(abi.m), n),
           unless(desc.d_scale.dtype != DType::none, "the plan's D is not quantised"), !desc.d_quantizer.given},
          {"bias", abi.bias, out.bias, matrix(std::max<std::int64_t>(1, desc.matrices), biases, biases, desc.bias),
           unless(desc.bias != DType::none, "the plan has no bias")},
          {"matrix_rows", abi.matrix_rows, out.matrix_rows, row(desc.matrices, DType::s32),
           unless(desc.grouping != Grouping::none, "the plan has no groups")},
          {"a_index", abi.a_index, out.a_index, row(rows, DType::s32),
           unless(gathers, "the plan gathers no rows of A")},
          {"workspace", abi.workspace, out.workspace, Room{plan.workspace_bytes}, nullptr, true, Presence::optional},
          {"a_quantized", abi.a_quantized, out.a_quantized, matrix(a_rows, k, k, desc.a), made, true,
           Presence::optional},
          {"a_quantized_scale", abi.a_quantized_scale, out.a_quantized_scale,
           matrix(a_scale_rows, a_scale_cols, a_scale_cols, DType::f32), made, true, Presence::optional},
      });
  return out;
}

backend::QuantizeArgs read(const ironcl_quantize_args* in, const QuantizeOp& quantize, const DeviceState* on) {
  backend::QuantizeArgs out;
  const auto abi = read_args(in, "quantize_args", "quantiser", quantize, on, out);
  const backend::QuantizeDesc& desc = quantize.desc;
  out.rows = brought(abi.rows, desc.rows, "quantize_args.rows");
  take_operands(
      "quantize_args", *quantize.device, {"rows", out.rows},
      {
          {"x", abi.x, out.x, matrix(out.rows, desc.x_ld, desc.cols, desc.x)},
          {"codes", abi.codes, out.codes, matrix(out.rows, desc.code_ld, desc.cols, desc.code), nullptr, true},
          {"scales", abi.scales, out.scales, scales(desc.scale, desc.scale.grid.scale_rows(out.rows), desc.cols),
           nullptr, !desc.quantizer.given},
          {"global", abi.global, out.global, row(1, DType::f32),
           unless(desc.scale.global, "scale.global_dtype is none")},
      });
  return out;
}

backend::RouteArgs read(const ironcl_route_args* in, const RouteOp& route, const DeviceState* on) {
  backend::RouteArgs out;
  const auto abi = read_args(in, "route_args", "router", route, on, out);
  const backend::RouteDesc& desc = route.desc;
  out.tokens = brought(abi.tokens, desc.tokens, "route_args.tokens");
  const std::int64_t slots = out.tokens * desc.top_k, logits = desc.experts + (desc.shared_gate ? 1 : 0);
  take_operands("route_args", *route.device, {"tokens", out.tokens},
                {
                    {"logits", abi.logits, out.logits, matrix(out.tokens, desc.logits_ld, logits, desc.logits),
                     unless(desc.logits != DType::none, "the ids are GIVEN")},
                    {"bias", abi.bias, out.bias, row(desc.experts, desc.bias),
                     unless(desc.bias != DType::none, "the router has no bias")},
                    {"ids", abi.ids, out.ids, row(slots, DType::s32), nullptr, !desc.given},
                    {"weights", abi.weights, out.weights, row(slots, DType::f32), nullptr, !desc.given,
                     desc.given ? Presence::optional : Presence::with_rows},
                    // Also of no tokens at all: what runs next reads these.
                    {"matrix_rows", abi.matrix_rows, out.matrix_rows, row(desc.matrices(), DType::s32), nullptr, true,
                     Presence::always},
                    {"a_index", abi.a_index, out.a_index, row(desc.rows(out.tokens), DType::s32), nullptr, true},
                    {"rows", abi.rows, out.rows, row(slots, DType::s32), nullptr, true},
                    {"shared_weights", abi.shared_weights, out.shared_weights, row(out.tokens, DType::f32),
                     unless(desc.shared_gate, "the router has no SHARED_GATE"), true},
                });
  return out;
}

backend::ActivateArgs read(const ironcl_activate_args* in, const ActivateOp& activate, const DeviceState* on) {
  backend::ActivateArgs out;
  const auto abi = read_args(in, "activate_args", "activation", activate, on, out);
  const backend::ActivateDesc& desc = activate.desc;
  const bool masked = desc.grouping == Grouping::masked;
  out.rows = brought(abi.rows, desc.rows, "activate_args.rows");
  if (masked && out.rows != desc.rows)
    invalid(
        "activate_args.rows is {}, expected the description's {}: matrices of a masked group lie so "
        "many rows apart",
        out.rows, desc.rows);
  const std::int64_t rows = (masked ? desc.matrices : 1) * out.rows;
  take_operands("activate_args", *activate.device, {"rows", out.rows},
                {
                    {"gate", abi.gate, out.gate, matrix(rows, desc.gate_ld, desc.cols, desc.x)},
                    {"up", abi.up, out.up, matrix(rows, desc.up_ld, desc.cols, desc.x)},
                    {"y", abi.y, out.y, matrix(rows, desc.y_ld, desc.cols, desc.y), nullptr, true},
                    {"scales", abi.scales, out.scales, scales(desc.scale, rows, desc.cols),
                     unless(desc.scale.dtype != DType::none, "Y is not quantised"), !desc.quantizer.given},
                    {"global", abi.global, out.global, row(1, DType::f32),
                     unless(desc.scale.global, "scale.global_dtype is none")},
                    {"matrix_rows", abi.matrix_rows, out.matrix_rows, row(desc.matrices, DType::s32),
                     unless(desc.grouping != Grouping::none, "grouping is NONE")},
                });
  return out;
}

backend::CombineArgs read(const ironcl_combine_args* in, const CombineOp& combine, const DeviceState* on) {
  backend::CombineArgs out;
  const auto abi = read_args(in, "combine_args", "combination", combine, on, out);
  const backend::CombineDesc& desc = combine.desc;
  out.tokens = brought(abi.tokens, desc.tokens, "combine_args.tokens");
  const std::int64_t slots = out.tokens * desc.top_k;
  const char* const no_add = unless(desc.add != DType::none, "add_dtype is none");
  take_operands("combine_args", *combine.device, {"tokens", out.tokens},
                {
                    {"x", abi.x, out.x, matrix(desc.rows, desc.x_ld, desc.cols, desc.x)},
                    {"rows", abi.rows, out.rows, row(slots, DType::s32)},
                    {"weights", abi.weights, out.weights, row(slots, DType::f32)},
                    {"add", abi.add, out.add, matrix(out.tokens, desc.add_ld, desc.cols, desc.add), no_add},
                    {"add_weights", abi.add_weights, out.add_weights, row(out.tokens, DType::f32), no_add, false,
                     Presence::optional},
                    {"y", abi.y, out.y, matrix(out.tokens, desc.y_ld, desc.cols, desc.y), nullptr, true},
                });
  return out;
}

backend::SequenceArgs read(const ironcl_sequence_args* in, const SequenceOp& sequence, const DeviceState* on) {
  backend::SequenceArgs out;
  read_args(in, "sequence_args", "sequence", sequence, on, out);
  return out;
}

}  // namespace ironcl::adapter
