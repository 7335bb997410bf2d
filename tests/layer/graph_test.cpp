// SPDX-License-Identifier: Apache-2.0
// Lists of operations: what a call of one runs, and a list that is neither a matrix nor a layer of experts on this
// build's own devices.
#include "host/layer/graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/numerics/casts.h"
#include "host/layer/execution.h"
#include "host/layer/judge.h"
#include "host/layer/synthetic.h"
#include "host/tuning/shapes.h"
#include "tests/layer/devices.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

std::vector<std::string> names_of(const Graph& graph, const std::vector<const char*>& given, const char* wanted) {
  std::vector<ValueId> ids;
  for (const char* name : given) ids.push_back(graph.find(name));
  std::vector<std::string> names;
  for (const std::size_t i : graph.needed(ids, graph.find(wanted))) names.push_back(graph.operations[i].name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Graph, ACallRunsWhatItNeeds) {
  ExpertsForm form = tuning::experts_of("qwen3-30b-a3b", 1);
  const Names mlp = {"gate and up", "down", "combine"};
  const auto after = [&mlp](Names first) {
    first.insert(first.end(), mlp.begin(), mlp.end());
    return first;
  };
  const Graph graph = graph_of(form, {.tokens = 4});
  EXPECT_EQ(names_of(graph, {"x"}, "y"), after({"router", "route"}));
  EXPECT_EQ(names_of(graph, {"x", "logits"}, "y"), after({"route"}));
  EXPECT_EQ(names_of(graph, {"x", "ids", "weights"}, "y"), after({"sort"}));
  EXPECT_EQ(names_of(graph, {"x"}, "ids"), (Names{"router", "route"}));
  form.shared = form.experts;
  form.shared_gate = true;
  const Names gated = names_of(graph_of(form, {.tokens = 4}), {"x", "ids", "weights"}, "y");
  EXPECT_EQ((Names{gated[0], gated[1], gated[2]}), (Names{"router", "sort", "gate and up"}))
      << "the shared expert's gate is a logit";
  EXPECT_EQ(gated.size(), 5u) << "the shared expert is one of their matrices";
  form.shared->width *= 2;
  EXPECT_EQ(names_of(graph_of(form, {.tokens = 4}), {"x", "ids", "weights"}, "y").size(), 7u);
  EXPECT_EQ(names_of(graph_of(form, {.tokens = 5}), {"x", "ids", "weights"}, "y")[2], "quantise")
      << "of more tokens once, for both products that read them";
}

TEST(Graph, GateAndUpAreOneProductWhereTheyMayBe) {
  ExpertsForm form = tuning::experts_of("qwen3-30b-a3b", 1);
  Graph graph = graph_of(form, {.tokens = 4});
  const auto h = [](const Graph& list) { return list.values[list.find("activation")].dtype; };
  EXPECT_EQ(graph.find("up"), kNoValue);
  EXPECT_EQ(h(graph), DType::f32) << "the plan of down quantises";
  form.experts.width = 96;  // no multiple of the block: the grid begins anew with up
  graph = graph_of(form, {.tokens = 4});
  EXPECT_NE(graph.find("up"), kNoValue);
  EXPECT_EQ(h(graph), DType::e4m3fn);
  form.experts.stored_fused = true;
  EXPECT_EQ(graph_of(form, {.tokens = 4}).find("up"), kNoValue);
  // Scales that no device here takes, so neither an activation beside them.
  form.experts.gate.scale.grid.group_cols = 24;
  for (const Device& device : cli_test::real_plugins().devices()) {
    EXPECT_THROW(graph_of(form, {.tokens = 4}, &device), Error) << "neither one product nor two";
    form.experts.stored_fused = false;
    form.experts.width = 128;
    EXPECT_NE(graph_of(form, {.tokens = 4}, &device).find("up"), kNoValue);
    form.experts.stored_fused = true;
    form.experts.width = 96;
  }
}

/// gate and up from bf16, activated and quantised, down: x to d.
Graph mlp(std::int64_t tokens, std::int64_t hidden, std::int64_t width) {
  report::Problem both, down;
  both.m = down.m = tokens;
  both.n = down.k = width;
  both.k = down.n = hidden;
  both.a_source = down.d = DType::bf16;
  both.a = both.b = both.d = down.a = down.b = DType::e4m3fn;
  both.a_scale = both.d_scale = down.a_scale = {DType::f32, {1, 128}};
  both.b_scale = down.b_scale = {DType::f32, {128, 128}};
  both.activation = numerics::Activation::silu;
  return graph_of(both, down);
}

TEST(Graph, AListThatIsNoLayerOfExpertsRunsAndIsJudged) {
  constexpr std::int64_t kTokens = 5, kHidden = 256, kWidth = 384;
  const Graph list = mlp(kTokens, kHidden, kWidth);
  const auto operands = [&list](std::size_t operation) {
    return make_operands(std::get<ProductOp>(list.operations[operation].what).problem, 7 + operation);
  };
  const MadeOperands first = operands(0), second = operands(1);
  const auto matrices = [&](const ProductOp& op, std::int64_t) {
    const MadeOperands& of = op.matrix == Projection::down ? second : first;
    return StackedMatrices{op.problem.b_rows(), op.problem.k, of.b, of.b_scale};
  };
  Oracle oracle(matrices, kTokens, {{"x", first.a}});
  int ran = 0;
  for (const Device& device : cli_test::real_plugins().devices()) {
    try {
      Runner runner(device, list, kTokens);
      runner.prepare(0, first.b, first.b_scale);
      runner.prepare(1, second.b, second.b_scale);
      Execution call(device, runner, kTokens, {{"x", first.a}});
      const Output output = call.compute();
      const Values values = oracle.evaluate(list, runner.plans());
      std::vector<double> d(static_cast<std::size_t>(kTokens * kHidden));
      numerics::decode(DType::bf16, output.d.data(), std::span<double>(d));
      const numerics::Comparison comparison = compare(d, values[list.result]);
      EXPECT_TRUE(comparison.pass) << device.uri() << ": " << comparison.max_error_over_bound;
      EXPECT_EQ(first_wrong_value(call, values), "") << device.uri();
      // Recorded the same.
      Queue queue(device);
      const Buffer x(device, first.a.size()), y(device, output.d.size());
      queue.write(x, std::span(first.a)).wait();
      SequenceDesc calls;
      runner.record({kTokens, {{list.find("x"), x, {}, true}, {list.result, y}}, {}}, calls);
      queue.submit(Sequence(device, calls), {});
      std::vector<std::byte> recorded(output.d.size());
      queue.read(y, std::span(recorded)).wait();
      EXPECT_EQ(recorded, output.d) << device.uri();
      // The weights of another seed in one product: its value is the first wrong one.
      MadeOperands other = second;
      for (auto& scale : other.b_scale) scale = std::byte{0x3f};
      Runner wrong(device, list, kTokens);
      wrong.prepare(0, first.b, first.b_scale);
      wrong.prepare(1, other.b, other.b_scale);
      Execution bad(device, wrong, kTokens, {{"x", first.a}});
      numerics::decode(DType::bf16, bad.compute().d.data(), std::span<double>(d));
      EXPECT_FALSE(compare(d, values[list.result]).pass) << device.uri();
      EXPECT_EQ(first_wrong_value(bad, values), "") << device.uri() << ": what comes before is right";
      ++ran;
    } catch (const Error& error) {
      if (error.status() != IRONCL_UNSUPPORTED && error.status() != IRONCL_UNIMPLEMENTED) throw;
    }
  }
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace ironcl::layer
