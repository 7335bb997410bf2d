// SPDX-License-Identifier: Apache-2.0
// A layer of experts: the weights of its list, and the spans of its calls.
#include "host/layer/experts.h"

#include "host/layer/operands.h"

namespace ironcl::layer {
namespace {

std::size_t first_grouped(const Graph& graph) {
  const auto at = std::ranges::find_if(graph.operations, [](const Operation& operation) {
    return std::holds_alternative<ProductOp>(operation.what) && operation.in[ProductOp::kCounts] != kNoValue;
  });
  return static_cast<std::size_t>(at - graph.operations.begin());
}

}  // namespace

void prepare(Runner& runner, const ExpertsSource& source) {
  const Graph& graph = runner.graph();
  Queue queue(runner.device());
  for (std::size_t i = 0; i < graph.operations.size(); ++i) {
    const auto* product = std::get_if<ProductOp>(&graph.operations[i].what);
    if (product == nullptr) continue;
    const StackedMatrices matrices = matrices_of(source, *product);
    runner.prepare(i, matrices.codes, matrices.scales, matrices.globals);
    if (const ValueId bias = graph.operations[i].in[ProductOp::kBias]; bias != kNoValue)
      queue.write(runner.span(bias, 0), std::span(matrices.bias)).wait();
  }
  const ValueId correction = graph.find("bias");
  if (correction == kNoValue || graph.values[correction].brought) return;
  const std::vector<float> bias = source.correction_bias();
  queue.write(runner.span(correction, 0), std::span(bias)).wait();
}

Runner experts_on(const Device& device, const ExpertsSource& source, const ExpertsChoices& choices) {
  Runner experts(device, graph_of(source.form(), choices, &device), choices.tokens);
  prepare(experts, source);
  return experts;
}

GemmDesc first_problem(const ExpertsForm& form, const ExpertsChoices& choices) {
  const Graph graph = graph_of(form, choices);
  const Operation& first = graph.operations[first_grouped(graph)];
  GemmDesc desc = report::to_gemm_desc(std::get<ProductOp>(first.what).problem);
  desc.a_rows = choices.tokens;
  return desc;
}

PlanInfo first_plan(const Runner& experts) { return experts.plans()[first_grouped(experts.graph())]; }

Call call_of(const Runner& experts, const ironcl_experts_args& args) {
  const Graph& graph = experts.graph();
  const std::int64_t tokens = args.tokens, most = experts.tokens();
  if (tokens < 0 || tokens > most) invalid("tokens is {}; this layer was made for 0 to {}", tokens, most);
  const bool given = args.routed == IRONCL_ROUTED_BY_CALLER, logits = args.routed == IRONCL_ROUTED_BY_LOGITS;
  Call call{tokens, {}, {args.wait, args.wait + args.wait_count}};
  const auto bind = [&](const char* name, const ironcl_span& span, bool required, bool holds) {
    const Value& value = graph.values[graph.find(name)];
    if (span.buffer == nullptr && !required) return;
    const std::uint64_t bytes = value.bytes(tokens);
    if (tokens > 0 && span.buffer == nullptr) invalid("{} is absent", name);
    if (tokens > 0 && span.size < bytes) invalid("{} has {} bytes, {} are needed", name, span.size, bytes);
    call.bound.push_back({graph.find(name), span, {}, holds});
  };
  bind("x", args.x, true, true);
  bind("y", args.y, true, false);
  if (logits) bind("logits", args.logits, true, true);
  bind("ids", args.ids, given, given);
  bind("weights", args.weights, given, given);
  return call;
}

}  // namespace ironcl::layer
