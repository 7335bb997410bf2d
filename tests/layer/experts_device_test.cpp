// SPDX-License-Identifier: Apache-2.0
// Layers of experts on this build's own devices: Ironwood's model and, where there is one, OpenCL's.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "backends/numerics/casts.h"
#include "host/layer/judge.h"
#include "host/layer/synthetic.h"
#include "tests/layer/devices.h"
#include "tests/layer/experts_support.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

/// The devices that run a layer of experts, the same for all tests, so that programs are built once. Never destroyed:
/// drivers may be gone before.
class ExpertsOnDevices : public testing::Test {
 protected:
  struct Found {
    std::vector<Device> devices;
    std::string refused;
  };
  static const Found& found() {
    static const Found* const all = [] {
      auto* made = new Found;
      const Example example("qwen3-moe", true);
      for (const Device& device : cli_test::real_plugins().devices()) {
        try {
          const Runner experts = experts_on(device, *example.source, {.tokens = 1});
          made->devices.push_back(device);
        } catch (const Error& error) {
          if (error.status() != IRONCL_UNIMPLEMENTED && error.status() != IRONCL_UNSUPPORTED) throw;
          made->refused += device.uri() + ": " + error.what() + "\n";
        }
      }
      return made;
    }();
    return *all;
  }
  void SetUp() override {
    if (devices.empty()) GTEST_SKIP() << "no device runs a layer of experts:\n" << found().refused;
  }
  const std::vector<Device>& devices = found().devices;
};

constexpr const char* kExamples[] = {"deepseek-v3",     "qwen3-moe",           "mixtral",
                                     "qwen3-5-stacked", "qwen3-vl-transposed", "gpt-oss"};

TEST_F(ExpertsOnDevices, AreWithinTheComposedBoundAndRouteRightly) {
  for (const char* name : kExamples) {
    Example example(name, true);
    example.input.routed.reset();
    JudgeSettings settings;
    const CaseReport report = judge(*example.source, example.input, devices, settings);
    ASSERT_EQ(report.devices.size(), devices.size());
    for (const DeviceReport& device : report.devices) {
      EXPECT_EQ(device.verdict, Verdict::pass) << name << " on " << device.uri << ": " << device.reason;
      if (device.comparison)
        std::printf("  %s on %s: %.3g of the bound\n", name, device.uri.c_str(),
                    device.comparison->max_error_over_bound);
    }
    for (const PairReport& pair : report.pairs) EXPECT_EQ(pair.verdict, Verdict::pass);
  }
}

/// Without quantisation of activations what a device makes is what transformers' block makes.
TEST_F(ExpertsOnDevices, AgreeWithTransformersWhereActivationsStayUnquantised) {
  for (const char* name : kExamples) {
    const Example example(name, false);
    JudgeSettings settings;
    settings.expectations = {{"y", DType::f64, example.y}};
    const CaseReport report = judge(*example.source, example.input, devices, settings);
    for (const DeviceReport& device : report.devices)
      EXPECT_EQ(device.verdict, Verdict::pass) << name << " on " << device.uri << ": " << device.reason;
    EXPECT_EQ(report.expect.size(), 1 + devices.size());
    for (const ExpectReport& expected : report.expect)
      EXPECT_EQ(expected.verdict, Verdict::pass) << name << ", " << expected.result.uri;
  }
}

/// A device that was given one wrong scale is found out, with expert and matrix.
TEST_F(ExpertsOnDevices, AWrongScaleOfOneExpertIsNamed) {
  for (const Device& device : devices) {
    const Example example("qwen3-moe", true);
    const std::int32_t expert = example.input.routed->ids[2];
    for (const Projection matrix : {Projection::gate, Projection::up, Projection::down}) {
      const WrongScale wrong(*example.source, expert, matrix, 0, 0, 1.02f);
      ExpertsChoices choices{.tokens = example.input.tokens, .out = DType::f32};
      Runner experts = experts_on(device, wrong, choices);
      Execution call(device, experts, example.input);
      call.compute();
      const std::string step =
          first_wrong_value(call, oracle_of(*example.source, example.input).evaluate(experts.graph()));
      EXPECT_TRUE(step.starts_with("expert " + std::to_string(expert) + ", " + name_of(matrix) + ": ")) << step;
    }
  }
}

/// Right when the oracle reads the scales, wrong when a device prepares its weights: the first time.
class PreparedWrongly final : public ExpertsSource {
 public:
  PreparedWrongly(const ExpertsSource& right, const ExpertsSource& wrong) : right_(right), wrong_(wrong) {}
  const ExpertsForm& form() const override { return right_.form(); }
  StackedMatrices matrix(bool shared, Projection projection, std::int64_t expert) const override {
    const bool prepared = ++read_[{shared, projection, expert}] == 1;
    return (prepared ? wrong_ : right_).matrix(shared, projection, expert);
  }
  StackedMatrices router() const override { return right_.router(); }
  std::vector<float> correction_bias() const override { return right_.correction_bias(); }

 private:
  const ExpertsSource &right_, &wrong_;
  mutable std::map<std::tuple<bool, Projection, std::int64_t>, int> read_;
};

/// Two tokens cannot choose all eight experts: one that they leave out is run all the same.
TEST_F(ExpertsOnDevices, AWrongScaleOfAnExpertThatNobodyChoseIsNamed) {
  for (const Device& device : devices) {
    Example example("deepseek-v3", true);
    example.input.tokens = 2;
    example.input.x.resize(2 * 160 * 2);
    example.input.routed = RoutedTokens{{1, 4, 4, 2}, {0.5f, 0.5f, 0.25f, 1}};
    for (const std::int64_t expert : {std::int64_t{0}, std::int64_t{7}, std::int64_t{4}}) {
      for (const Projection matrix : {Projection::gate, Projection::up, Projection::down}) {
        const WrongScale wrong(*example.source, expert, matrix, 0, 0, 1.05f);
        const PreparedWrongly source(*example.source, wrong);
        const CaseReport report = judge(source, example.input, {device}, {});
        ASSERT_EQ(report.devices.size(), 1u);
        EXPECT_EQ(report.devices[0].verdict, Verdict::fail) << device.uri() << ", " << name_of(matrix);
        EXPECT_TRUE(report.devices[0].reason.starts_with(fmt::format("expert {}, {}: ", expert, name_of(matrix))))
            << device.uri() << ": " << report.devices[0].reason;
      }
    }
    const CaseReport report = judge(*example.source, example.input, {device}, {});
    EXPECT_EQ(report.devices.at(0).verdict, Verdict::pass) << report.devices.at(0).reason;
    EXPECT_NE(report.heading.find("; 5 that no token chose run apart"), std::string::npos) << report.heading;
  }
}

/// Of a size that GPUs run as one launch where their calls are recorded.
ExpertsForm form_of_one_launch(std::int64_t experts = 12, std::int64_t top_k = 4) {
  ExpertsForm form = Example("qwen3-moe", true).source->form();
  const report::Scales scale{DType::f32, {128, 128}};
  form.hidden = 512, form.routing.experts = form.experts.count = experts, form.routing.top_k = top_k;
  form.experts.width = 256, form.experts.gate.scale = form.experts.down.scale = scale;
  form.x.grid = form.between.grid = {1, 128};
  return form;
}

ExpertsForm with_shared(ExpertsForm form, std::int64_t width = 256) {
  form.shared = form.experts;
  form.shared->count = 1;
  form.shared->width = width;
  return form;
}

/// Recorded calls: those of one kernel, elsewhere the bits of the plain calls. Of twelve experts the last two numbers
/// of tokens are more rows per expert than a work-group of its own takes; of 128 work-groups have an expert each.
/// Where no kernel runs the layer, calls are recorded in one way for any number of tokens.
TEST_F(ExpertsOnDevices, RecordedCallsAreWithinTheComposedBoundAndRepeat) {
  const auto fuses_on = [](const Device& device) {
    return device.query("features").find("\"ptx_sm_90\":true") != std::string::npos;
  };
  const bool any_fuses = std::ranges::any_of(devices, fuses_on);
  for (const auto& [form, all_tokens] : std::vector<std::pair<ExpertsForm, std::vector<std::int64_t>>>{
           {form_of_one_launch(), {3, 1, 11, 20, 40}},
           {with_shared(form_of_one_launch()), {3, 1, 11, 20, 40}},
           {with_shared(form_of_one_launch(), 512), {3, 11}},  // Two products and a sum beside the launch.
           {form_of_one_launch(128, 8), {100, 160}}}) {
    if (form.experts.count > 12 && !any_fuses) continue;
    const auto source = make_experts(form, 5);
    for (const Device& device : devices) {
      const bool fuses = fuses_on(device);
      if (form.experts.count > 12 && !fuses) continue;
      for (const std::int64_t tokens : std::span(all_tokens).first(fuses ? all_tokens.size() : 1)) {
        for (const bool routed : {true, false}) {
          ExpertsChoices choices{.tokens = tokens};
          Runner experts = experts_on(device, *source, choices);
          ExpertsInput input = make_experts_input(form, tokens, 1, 9);
          if (!routed) input.routed.reset();
          Execution call(device, experts, input);
          const Output plain = call.compute();
          call.record();
          EXPECT_EQ(call.variant(), fuses ? "fused_experts" : "");
          const Output first = call.compute(), second = call.compute();
          EXPECT_TRUE(first.d == second.d) << device.uri() << ", " << tokens << " tokens";
          EXPECT_TRUE(fuses || first.d == plain.d) << device.uri() << ", " << tokens << " tokens";
          EXPECT_EQ(first.routed.ids, plain.routed.ids);
          if (!routed) input.routed = first.routed;
          const Oracle oracle = oracle_of(*source, input);
          const Check check = call.check(expect(oracle, experts.graph(), tokens));
          EXPECT_TRUE(check.pass) << device.uri() << ", " << tokens
                                  << " tokens: " << check.comparison.max_error_over_bound << " of the bound "
                                  << check.why;
        }
      }
    }
  }
}

/// A second call that is given what the first one's products made between them, which one launch would not write.
TEST_F(ExpertsOnDevices, RecordedCallsAfterALayerReadWhatItMade) {
  const ExpertsForm form = form_of_one_launch();
  const auto source = make_experts(form, 5);
  const ExpertsInput input = make_experts_input(form, 3, 1, 9), before = make_experts_input(form, 3, 1, 10);
  for (const Device& device : devices) {
    ExpertsChoices choices{.tokens = 3};
    Runner runner = experts_on(device, *source, choices);
    const Graph& graph = runner.graph();
    const Output plain = Execution(device, runner, input).compute();
    EXPECT_FALSE(Execution(device, runner, before).compute().d == plain.d);
    const auto down = std::ranges::find_if(graph.operations, [](const Operation& operation) {
      const auto* product = std::get_if<ProductOp>(&operation.what);
      return product != nullptr && product->matrix == Projection::down;
    });
    const ValueId h = down->in[ProductOp::kA];
    Queue queue(device);
    std::vector<Buffer> buffers;
    std::vector<Bound> bound;
    for (const Brought& one : brought_by(input)) {
      queue.write(buffers.emplace_back(device, one.data.size()), std::span(one.data)).wait();
      bound.push_back({graph.find(one.value), buffers.back(), {}, true});
    }
    const Buffer y(device, plain.d.size()), again(device, plain.d.size());
    SequenceDesc calls;
    bound.push_back({graph.result, y});
    runner.record({3, bound, {}}, calls);
    bound.back().span = again;
    bound.push_back({h, runner.span(h, 3), runner.scales(h, 3), true});
    runner.record({3, bound, {}}, calls);
    const Sequence sequence(device, calls);
    EXPECT_STREQ(sequence.info().variant, "") << device.uri();
    queue.submit(sequence, {});
    for (const Buffer* made : {&y, &again}) {
      std::vector<std::byte> d(plain.d.size());
      queue.read(*made, std::span(d)).wait();
      EXPECT_TRUE(d == plain.d) << device.uri() << (made == &y ? ": the layer" : ": the call after it");
    }
  }
}

TEST_F(ExpertsOnDevices, FewerTokensThanItWasMadeForGiveTheSameBits) {
  for (const Device& device : devices) {
    const Example example("deepseek-v3", true);
    ExpertsChoices choices{.tokens = example.input.tokens, .out = DType::f32};
    Runner experts = experts_on(device, *example.source, choices);
    const Output all = Execution(device, experts, example.input).compute();
    ExpertsInput first = example.input;
    first.tokens = 3;
    first.x.resize(3 * 160 * 2);
    first.routed->ids.resize(3 * 2);
    first.routed->weights.resize(3 * 2);
    const Output some = Execution(device, experts, first).compute();
    EXPECT_TRUE(std::equal(some.d.begin(), some.d.end(), all.d.begin())) << device.uri();
    first.tokens = 0;
    first.x.clear();
    first.routed = RoutedTokens{};
    EXPECT_TRUE(Execution(device, experts, first).compute().d.empty());
    EXPECT_TRUE(Execution(device, experts, example.input).compute().d == all.d)
        << device.uri() << ": after an empty call";
  }
}

/// The order of tokens is nobody's business: shuffled in and out, the same bits.
TEST_F(ExpertsOnDevices, ShuffledTokensGiveTheSameRows) {
  for (const Device& device : devices) {
    const Example example("qwen3-5-stacked", true);
    ExpertsChoices choices{.tokens = example.input.tokens, .out = DType::f32};
    Runner experts = experts_on(device, *example.source, choices);
    const Output straight = Execution(device, experts, example.input).compute();
    ExpertsInput turned = example.input;
    const auto tokens = static_cast<std::size_t>(turned.tokens);
    // Row `token` of a list that has one for each.
    const auto row = [tokens](auto& list, std::size_t token) {
      return std::span(list).subspan(token * (list.size() / tokens), list.size() / tokens);
    };
    const auto shuffled = [tokens](std::size_t token) { return (token * 7 + 3) % tokens; };
    for (std::size_t t = 0; t < tokens; ++t) {
      std::ranges::copy(row(example.input.x, shuffled(t)), row(turned.x, t).begin());
      std::ranges::copy(row(example.input.routed->ids, shuffled(t)), row(turned.routed->ids, t).begin());
      std::ranges::copy(row(example.input.routed->weights, shuffled(t)), row(turned.routed->weights, t).begin());
    }
    const Output got = Execution(device, experts, turned).compute();
    for (std::size_t t = 0; t < tokens; ++t)
      EXPECT_TRUE(std::ranges::equal(row(got.d, t), row(straight.d, shuffled(t))))
          << device.uri() << ", token " << shuffled(t);
  }
}

TEST_F(ExpertsOnDevices, WhatContradictsItselfIsRefused) {
  const Example example("qwen3-moe", true);
  for (const Device& device : devices) {
    const auto status_of = [](auto&& action) -> ironcl_status {
      try {
        action();
      } catch (const Error& error) {
        return error.status();
      }
      return IRONCL_OK;
    };
    ExpertsChoices choices;
    EXPECT_EQ(status_of([&] { experts_on(device, *example.source, choices); }), IRONCL_INVALID_ARGUMENT)
        << "no tokens";
    choices.tokens = std::int64_t{1} << 31;
    EXPECT_EQ(status_of([&] { experts_on(device, *example.source, choices); }), IRONCL_INVALID_ARGUMENT) << "rows";
    choices.tokens = 1;
    Runner experts = experts_on(device, *example.source, choices);
    Queue queue(device);
    ironcl_experts_args args{};
    args.tokens = 2;
    EXPECT_EQ(status_of([&] { experts.enqueue(queue, call_of(experts, args)); }), IRONCL_INVALID_ARGUMENT)
        << "more tokens";
    args.tokens = 1;
    EXPECT_EQ(status_of([&] { experts.enqueue(queue, call_of(experts, args)); }), IRONCL_INVALID_ARGUMENT) << "no x";
    const Buffer x(device, 96 * 2), y(device, 96 * 2 - 1);
    args.x = x;
    args.y = y;
    EXPECT_EQ(status_of([&] { experts.enqueue(queue, call_of(experts, args)); }), IRONCL_INVALID_ARGUMENT)
        << "a short y";
  }
}

}  // namespace
}  // namespace ironcl::layer
