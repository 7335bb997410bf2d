// SPDX-License-Identifier: Apache-2.0
// Layers of experts over ranks, and several devices of one process.
#include "host/ranks/experts.h"

#include "host/checkpoint/matrix.h"
#include "host/include/ironcl/ranks_experts.hpp"
#include "host/layer/experts_input.h"
#include "tests/layer/experts_support.h"
#include "tests/ranks/support.h"

namespace ironcl::ranks {
namespace {

using numerics::DType;

/// y and routing of a layer whose tokens are spread as `counts` says.
struct Spread {
  Bytes y;
  layer::RoutedTokens routed;
  Spread(const Device& device, const layer::ExpertsSource& source, const layer::ExpertsInput& input,
         const std::vector<std::int64_t>& counts, const layer::RoutedTokens* given)
      : y(layer::bytes_of_matrix(DType::f32, input.tokens, source.form().hidden)) {
    const auto slots = static_cast<std::size_t>(input.tokens * source.form().routing.top_k);
    routed = {std::vector<std::int32_t>(slots), std::vector<float>(slots)};
    on_ranks(static_cast<int>(counts.size()), [&](Group& group) {
      const auto self = static_cast<std::size_t>(group.rank());
      layer::ExpertsChoices choices{.tokens = input.tokens, .x = input.x_dtype, .out = DType::f32};
      SpreadExperts experts(group, turn(device, group.rank()), source, choices);
      const std::int64_t first = std::accumulate(counts.begin(), counts.begin() + group.rank(), std::int64_t{0});
      const auto part = [&](auto all) {
        const std::size_t width = all.size() / static_cast<std::size_t>(input.tokens);
        return all.subspan(static_cast<std::size_t>(first) * width, static_cast<std::size_t>(counts[self]) * width);
      };
      layer::RoutedTokens own, made;
      if (given != nullptr) {
        const auto ids = part(std::span(given->ids));
        const auto weights = part(std::span(given->weights));
        own = {{ids.begin(), ids.end()}, {weights.begin(), weights.end()}};
      }
      Bytes own_y(part(std::span(y)).size());
      for (int call = 0; call < 2; ++call)
        made = experts.run(counts[self], part(std::span(input.x)), own_y, given == nullptr ? nullptr : &own);
      // What all ranks have, on rank 0.
      const auto join = [&](const auto& mine, auto& all) {
        std::vector<std::size_t> sizes;
        for (const std::int64_t count : counts)
          sizes.push_back(std::as_bytes(std::span(all)).size() / static_cast<std::size_t>(input.tokens) *
                          static_cast<std::size_t>(count));
        Exchange exchange = all_gather(group, "join", std::as_bytes(std::span(mine)), sizes);
        exchange.finish();
        auto to = std::as_writable_bytes(std::span(all)).begin();
        for (int rank = 0; rank < group.size() && self == 0; ++rank)
          to = std::copy(exchange.from(rank).begin(), exchange.from(rank).end(), to);
      };
      join(own_y, y);
      join(made.ids, routed.ids);
      join(made.weights, routed.weights);
    });
    share(y);
    share(std::as_writable_bytes(std::span(routed.ids)));
    share(std::as_writable_bytes(std::span(routed.weights)));
  }
};

/// The same by one device, with the routing that it made or was given.
struct Alone {
  layer::Output output;
  Alone(const Device& device, const layer::ExpertsSource& source, layer::ExpertsInput input) {
    layer::ExpertsChoices choices{.tokens = input.tokens, .x = input.x_dtype, .out = DType::f32};
    layer::Runner experts = layer::experts_on(device, source, choices);
    output = layer::Execution(device, experts, input).compute();
  }
};

/// Shares of `tokens`, the last rank without any.
std::vector<std::int64_t> shares(std::int64_t tokens, int ranks) {
  std::vector<std::int64_t> counts;
  for (const Range& one : Partition::even("m", tokens, ranks - 1).ranges) counts.push_back(one.size());
  counts.push_back(0);
  return counts;
}

TEST(Ranks19, ExpertsHaveTheIdsAndTheBitsOfTheWholeLayer) {
  for (const Device& device : devices()) {
    const bool model = &device == &devices().front();
    for (const char* name : {"qwen3-moe", "deepseek-v3", "gpt-oss", "qwen3-5-stacked"}) {
      for (const bool quantise : {true, false}) {
        // OpenCL compiles kernels for each number of experts; what travels is the same.
        if (!model && (!quantise || name != std::string("deepseek-v3"))) continue;
        layer::Example example(name, quantise);
        example.input.routed.reset();
        const Alone alone(device, *example.source, example.input);
        example.input.routed = alone.output.routed;
        const layer::Evaluated want = layer::evaluate(*example.source, example.input, DType::f32);
        for (const int ranks : {3, 2, 4}) {
          if (!model && ranks != 3) break;
          const Spread made(device, *example.source, example.input, shares(example.input.tokens, ranks), nullptr);
          EXPECT_EQ(made.routed.ids, alone.output.routed.ids) << device.uri() << name << ranks;
          EXPECT_TRUE(made.y == alone.output.d) << device.uri() << ' ' << name << ' ' << ranks << quantise;
          std::vector<double> got(made.y.size() / sizeof(float));
          numerics::decode(DType::f32, made.y.data(), std::span(got));
          EXPECT_TRUE(numerics::compare(got, want.y()).pass) << device.uri() << ' ' << name << ' ' << ranks;
        }
      }
    }
  }
}

/// Every token to the experts of one rank; slots of nobody; more ranks than experts.
TEST(Ranks19, ExpertsOfOneRankMayGetEveryToken) {
  layer::Example example("qwen3-moe", true);
  layer::RoutedTokens given = *example.input.routed;
  for (std::size_t i = 0; i < given.ids.size(); ++i)
    given.ids[i] = i % 2 == 0 ? static_cast<std::int32_t>(example.source->form().routing.experts - 1) : -1;
  example.input.routed = given;
  const Alone alone(devices()[0], *example.source, example.input);
  for (const int ranks : {2, 5, static_cast<int>(example.source->form().routing.experts) + 1})
    EXPECT_TRUE(Spread(devices()[0], *example.source, example.input, shares(example.input.tokens, ranks), &given).y ==
                alone.output.d)
        << ranks;
}

/// By ranks_experts.hpp: what one device makes of each rank's experts, added in the order of ranks.
TEST(Ranks19, ExpertsOfACheckpointAreAddedUpInTheOrderOfRanks) {
  for (const Device& device : devices()) {
    for (const char* name : {"deepseek-v3", "qwen3-5-stacked"}) {
      if (&device != &devices().front() && name != std::string("deepseek-v3")) continue;
      const layer::Example example(name, true);
      const layer::ExpertsInput& input = example.input;
      const auto row = static_cast<std::size_t>(input.tokens * example.source->form().hidden);
      const Checkpoint opened(std::string(TEST_DATA) + "/experts/" + name);
      const std::string layer = opened.experts()[0].name;
      const ironcl::ExpertsChoices choices{
          .tokens = input.tokens, .x = static_cast<ironcl_dtype>(input.x_dtype), .y = IRONCL_F32};
      const auto spread = [&](int ranks, bool given) {
        Bytes y(row * sizeof(float));
        on_ranks(ranks, [&](Group& group) {
          Bytes own(y.size());
          Experts experts(group, turn(device, group.rank()), opened, layer, choices);
          const std::uint64_t sent = group.sent().bytes;
          if (given)
            experts.run(input.tokens, input.x, own, input.routed->ids, input.routed->weights);
          else
            experts.run(input.tokens, input.x, own);
          EXPECT_EQ(group.sent().bytes - sent, static_cast<std::uint64_t>(ranks - 1) * (256 + own.size()));
          if (group.rank() == 0) y = own;
        });
        share(y);
        return y;
      };
      for (const bool given : {true, false}) {
        layer::ExpertsInput by = input;
        if (!given) by.routed.reset();
        const Alone alone(device, *example.source, by);
        EXPECT_TRUE(spread(1, given) == alone.output.d) << device.uri() << ' ' << name;
        by.routed = alone.output.routed;
        const layer::Evaluated want = layer::evaluate(*example.source, by, DType::f32);
        for (const int ranks : {2, 3}) {
          const Bytes y = spread(ranks, given);
          std::vector<double> got(row);
          numerics::decode(DType::f32, y.data(), std::span(got));
          EXPECT_TRUE(numerics::compare(got, want.y()).pass) << device.uri() << ' ' << name << ' ' << ranks;
        }
      }
      if (&device != &devices().front()) continue;
      const auto count = static_cast<int>(example.source->form().routing.experts);
      EXPECT_NE(
          error_of([&] { spread(count + 1, true); }).find("experts for " + std::to_string(count + 1) + " ranks"),
          std::string::npos);
      on_ranks(2, [&](Group& group) {
        std::vector<std::int32_t> ids = input.routed->ids;
        if (group.rank() == 1) ids[0] = (ids[0] + 1) % count;
        Experts experts(group, device, opened, layer, choices);
        Bytes y(row * sizeof(float));
        const std::string error =
            error_of([&] { experts.run(input.tokens, input.x, y, ids, input.routed->weights); });
        EXPECT_NE(error.find("rank 1 has a call of"), std::string::npos) << error;
      });
    }
  }
}

TEST(Traffic, OfExpertsIsThatOfTheFormula) {
  const layer::Example example("qwen3-moe", true);
  const layer::ExpertsForm& form = example.source->form();
  const std::vector<std::int32_t>& ids = example.input.routed->ids;
  constexpr std::uint64_t kRanks = 2;
  on_ranks(kRanks, [&](Group& group) {
    layer::ExpertsChoices choices{.tokens = example.input.tokens, .x = example.input.x_dtype};
    SpreadExperts experts(group, devices()[0], *example.source, choices);
    const std::int64_t tokens = group.rank() == 0 ? example.input.tokens : 0;  // rank 1 has experts only
    Bytes y(layer::bytes_of_matrix(choices.out, tokens, form.hidden));
    const Traffic before = group.sent();
    experts.run(tokens, std::span(example.input.x).first(static_cast<std::size_t>(tokens * form.hidden) * 2), y,
                &*example.input.routed);
    std::uint64_t there = 0, slots = 0;
    const auto top_k = static_cast<std::size_t>(form.routing.top_k);
    for (std::size_t token = 0; token < ids.size(); token += top_k) {
      const auto hit = static_cast<std::uint64_t>(std::count_if(
          ids.begin() + static_cast<std::ptrdiff_t>(token), ids.begin() + static_cast<std::ptrdiff_t>(token + top_k),
          [&](std::int32_t id) { return id >= experts.experts().ranges[1].begin; }));
      there += hit != 0 ? 1 : 0;
      slots += hit;
    }
    const auto hidden = static_cast<std::uint64_t>(form.hidden);
    EXPECT_EQ(group.sent().messages - before.messages, 3 * (kRanks - 1));
    EXPECT_EQ(
        group.sent().bytes - before.bytes,
        776 + (group.rank() == 0 ? there * (hidden + (hidden + 127) / 128 * 4 + 4 * top_k) : slots * 4 * hidden));
  });
}

/// A source whose experts can be read by one rank only.
class Broken final : public layer::ExpertsSource {
 public:
  Broken(const layer::ExpertsSource& of, std::int64_t expert) : of_(of), expert_(expert) {}
  const layer::ExpertsForm& form() const override { return of_.form(); }
  layer::StackedMatrices matrix(bool shared, layer::Projection projection, std::int64_t expert) const override {
    if (!shared && expert == expert_) throw Error(IRONCL_UNAVAILABLE, 0, "the last expert cannot be read");
    return of_.matrix(shared, projection, expert);
  }
  layer::StackedMatrices router() const override { return of_.router(); }
  std::vector<float> correction_bias() const override { return of_.correction_bias(); }

 private:
  const layer::ExpertsSource& of_;
  std::int64_t expert_;
};

TEST(Ranks15, AnExpertThatCannotBeReadIsEveryRanksError) {
  const layer::Example example("qwen3-moe", true);
  const std::int64_t count = example.source->form().experts.count;
  const Broken broken(*example.source, count - 1);
  on_ranks(2, [&](Group& group) {
    layer::ExpertsChoices choices{.tokens = 2};
    EXPECT_EQ(error_of([&] { const SpreadExperts made(group, devices()[0], broken, choices); }),
              "UNAVAILABLE: creating a split of experts: rank 1: the last expert cannot be read");
  });
}

/// Two devices of one process, a context and a thread for each (POCL_DEVICES="pthread pthread").
TEST(Ranks20, DevicesOfOneProcessHaveTheBitsOfRanksOfOne) {
  const std::vector<Device>& all = devices();
  if (all.size() < 3) GTEST_SKIP() << "one OpenCL device; PoCL has two with POCL_DEVICES='pthread pthread'";
  const Example example("--src=bf16 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 7x512:512x320");
  for (const Choices& choices : {Choices{.ragged = true}, Choices{.split = Split::row}}) {
    const Bytes want = choices.ragged ? example.alone(all[1]) : example.spread(all[1], 2, choices);
    on_ranks(2, [&](Group& group) {
      Linear linear(group, all[static_cast<std::size_t>(group.rank()) + 1], example.whole(), choices);
      for (int call = 0; call < 20; ++call) {
        Bytes d(example.d_bytes());
        linear.run(7, example.made.a, d);
        EXPECT_TRUE(d == want);
      }
    });
  }
}

}  // namespace
}  // namespace ironcl::ranks
