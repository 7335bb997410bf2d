// SPDX-License-Identifier: Apache-2.0
// A router on the device against backends/numerics/experts.h, whose rules it follows: every choice that scores within
// the bound lead to, rows exactly as a stable sort gives them.
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/experts.h"
#include "backends/numerics/experts_oracle.h"
#include "tests/opencl/experts.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;
using backend::Score;

class OpenClRouter : public ::testing::Test {
 protected:
  void SetUp() override {
    if (devices().empty()) GTEST_SKIP() << why_no_devices();
  }
};

struct Routed {
  std::vector<std::int32_t> ids, counts, index, rows;
  std::vector<float> weights, shared;
};

backend::RouteDesc route_desc(std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Score score) {
  backend::RouteDesc d;
  d.tokens = tokens;
  d.experts = d.local_experts = experts;
  d.top_k = top_k;
  d.score = score;
  d.logits = score == Score::none ? DType::none : DType::f32;
  d.given = score == Score::none;
  d.logits_ld = experts;
  return d;
}

Routed route(backend::Device& device, const backend::RouteDesc& d, std::int64_t tokens,
             const std::vector<std::uint8_t>& logits, const std::vector<float>& bias,
             const std::vector<std::int32_t>& given = {}) {
  Bench bench(device);
  backend::RouteArgs args;
  args.tokens = tokens;
  const auto slots = static_cast<std::size_t>(tokens * d.top_k);
  if (!logits.empty()) args.logits = bench.put(logits);
  if (!bias.empty()) args.bias = bench.put(bias);
  args.ids = given.empty() ? bench.canaries<std::int32_t>(slots) : bench.put(given);
  args.weights = bench.canaries<float>(slots);
  args.matrix_rows = bench.canaries<std::int32_t>(static_cast<std::size_t>(d.local_experts));
  args.a_index =
      bench.canaries<std::int32_t>(d.capacity != 0 ? static_cast<std::size_t>(d.local_experts * d.capacity) : slots);
  args.rows = bench.canaries<std::int32_t>(slots);
  if (d.shared_gate) args.shared_weights = bench.canaries<float>(static_cast<std::size_t>(tokens));
  const auto step = device.create_route(d);
  args.wants_event = false;
  EXPECT_EQ(step->enqueue(bench.queue(), args), nullptr);
  bench.queue()->finish();
  args.wants_event = true;
  EXPECT_EQ(step->enqueue(bench.queue(), args)->wait(std::chrono::nanoseconds::max()), backend::Status::ok);
  Routed out;
  out.ids = bench.get<std::int32_t>(args.ids);
  out.weights = bench.get<float>(args.weights);
  out.counts = bench.get<std::int32_t>(args.matrix_rows);
  out.index = bench.get<std::int32_t>(args.a_index);
  out.rows = bench.get<std::int32_t>(args.rows);
  if (d.shared_gate) out.shared = bench.get<float>(args.shared_weights);
  return out;
}

numerics::Routing routing_of(const backend::RouteDesc& d) {
  numerics::Routing r;
  r.experts = d.experts;
  r.top_k = d.top_k;
  r.score = d.score;
  r.expert_groups = d.expert_groups;
  r.top_groups = d.top_groups;
  r.scale = d.scale;
  r.normalize = d.normalize;
  r.best_of_two = d.best_of_two;
  return r;
}

/// The rows are what a stable sort of the ids gives; elements of a_index that are no row's keep their bytes.
void expect_sorted(const backend::RouteDesc& d, const Routed& got) {
  std::vector<std::int32_t> counts(got.counts.size()), index(got.index.size()), rows(got.rows.size());
  std::memset(index.data(), kCanary, index.size() * 4);
  numerics::sort_by_expert(got.ids, d.top_k, {d.first_expert, d.local_experts, d.capacity}, counts, index, rows);
  EXPECT_EQ(got.counts, counts);
  EXPECT_EQ(got.rows, rows);
  EXPECT_EQ(got.index, index);
}

void expect_routed(const backend::RouteDesc& d, std::int64_t tokens, std::uint32_t seed) {
  Random random(seed);
  std::vector<float> logits(static_cast<std::size_t>(tokens * d.logits_ld)), bias;
  for (float& x : logits) x = (random.uniform() - 0.5f) * 8;
  if (d.bias != DType::none) {
    bias.resize(static_cast<std::size_t>(d.experts));
    for (float& x : bias) x = random.uniform() - 0.5f;
  }
  const std::vector<std::uint8_t> bytes = typed(d.logits, logits);
  numerics::decode(d.logits, bytes.data(), logits);
  for (const auto& device : devices()) {
    const Routed got = route(*device, d, tokens, bytes, bias);
    const auto k = static_cast<std::size_t>(d.top_k);
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
      const std::span<const float> row(logits.data() + t * static_cast<std::size_t>(d.logits_ld),
                                       static_cast<std::size_t>(d.experts));
      EXPECT_EQ(numerics::judge_choice(routing_of(d), row, bias, std::span(got.ids).subspan(t * k, k),
                                       std::span(got.weights).subspan(t * k, k)),
                "")
          << "token " << t << " on " << device->props().name;
      if (d.shared_gate) {
        const double want = 1 / (1 + std::exp(-static_cast<double>(row.data()[d.experts])));
        EXPECT_NEAR(got.shared[t], want, 1e-6 * want + 1e-30);
      }
    }
    expect_sorted(d, got);
  }
}

TEST_F(OpenClRouter, TokensGetTheBestExpertsByEachScore) {
  std::uint32_t seed = 1;
  for (const Score score : {Score::softmax, Score::sigmoid, Score::sqrt_softplus}) {
    for (const bool normalize : {false, true}) {
      backend::RouteDesc d = route_desc(37, 60, 6, score);
      d.normalize = normalize;
      d.scale = normalize ? 2.5f : 1.0f;
      d.logits = normalize ? DType::bf16 : DType::f32;
      d.logits_ld = 64;
      expect_routed(d, 37, ++seed);
    }
  }
}

TEST_F(OpenClRouter, GroupsLimitTheChoiceAndTheBiasChoosesButDoesNotWeigh) {
  std::uint32_t seed = 30;
  for (const bool best_of_two : {false, true}) {
    backend::RouteDesc d = route_desc(20, 256, 8, Score::sigmoid);
    d.expert_groups = 8;
    d.top_groups = 4;
    d.best_of_two = best_of_two;
    d.bias = DType::f32;
    d.normalize = true;
    d.scale = 2.5f;
    expect_routed(d, 20, ++seed);
    expect_routed(d, 13, ++seed);  // Fewer than it was made for.
  }
}

TEST_F(OpenClRouter, EveryExpertMayBeChosenAndASharedGateIsALogitMore) {
  backend::RouteDesc d = route_desc(9, 16, 16, Score::softmax);
  d.normalize = true;
  expect_routed(d, 9, 50);
  d = route_desc(9, 16, 3, Score::softmax);
  d.shared_gate = true;
  d.logits_ld = 17;
  expect_routed(d, 9, 51);
}

TEST_F(OpenClRouter, TiesGoToTheSmallerIdAndNanComesLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  backend::RouteDesc d = route_desc(2, 8, 5, Score::sigmoid);
  const std::vector<float> logits{1, 2, 2, nan, 2, 0, 1, 2, nan, nan, nan, 3, nan, nan, 3, nan};
  for (const auto& device : devices()) {
    const Routed got = route(*device, d, 2, typed(DType::f32, logits), {});
    EXPECT_EQ(got.ids, (std::vector<std::int32_t>{1, 2, 4, 7, 0, 3, 6, 0, 1, 2}));
    expect_sorted(d, got);
  }
}

/// Tokens of which a router says nothing that tells experts apart still get experts that are there, each once.
TEST_F(OpenClRouter, TokensWithoutHopeGetExpertsThatAreThere) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity(),
              largest = std::numeric_limits<float>::max();
  for (const Score score : {Score::softmax, Score::sigmoid, Score::sqrt_softplus}) {
    for (const bool groups : {false, true}) {
      backend::RouteDesc d = route_desc(6, 8, 4, score);
      d.normalize = true;
      if (groups) d.expert_groups = 4, d.top_groups = 2, d.best_of_two = true;
      std::vector<float> logits;
      for (const float all : {-infinity, infinity, nan, 0.0f}) logits.insert(logits.end(), 8, all);
      for (int e = 0; e < 8; ++e) logits.push_back(e == 6 ? 0 : -infinity);
      for (int e = 0; e < 8; ++e) logits.push_back(e % 2 == 0 ? largest : -largest);
      for (const auto& device : devices()) {
        const Routed got = route(*device, d, 6, typed(DType::f32, logits), {});
        for (std::size_t t = 0; t < 6; ++t)
          EXPECT_EQ(
              numerics::judge_choice(routing_of(d), std::span<const float>(logits).subspan(t * 8, 8), {},
                                     std::span(got.ids).subspan(t * 4, 4), std::span(got.weights).subspan(t * 4, 4)),
              "")
              << "token " << t << " on " << device->props().name;
        expect_sorted(d, got);
      }
    }
  }
}

TEST_F(OpenClRouter, GivenIdsAreSortedStablyWithCapacityAndPartsOfALayer) {
  Random random(8);
  for (const std::int64_t capacity : {std::int64_t{0}, std::int64_t{7}}) {
    for (const auto& [first, local] : std::vector<std::pair<int, int>>{{0, 40}, {13, 5}}) {
      backend::RouteDesc d = route_desc(300, 40, 3, Score::none);
      d.capacity = capacity;
      d.first_expert = first;
      d.local_experts = local;
      std::vector<std::int32_t> ids(900);
      for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.next() % 43) - 1;
      ids[5] = std::numeric_limits<std::int32_t>::min();
      ids[6] = std::numeric_limits<std::int32_t>::max();
      for (const auto& device : devices()) {
        const Routed got = route(*device, d, 300, {}, {}, ids);
        EXPECT_EQ(got.ids, ids);
        expect_sorted(d, got);
      }
    }
  }
}

TEST_F(OpenClRouter, NoTokensGiveEmptyExperts) {
  for (const auto& device : devices()) {
    Bench bench(*device);
    backend::RouteArgs args;
    args.matrix_rows = bench.canaries<std::int32_t>(12);
    const auto step = device->create_route(route_desc(4, 12, 2, Score::softmax));
    step->enqueue(bench.queue(), args)->wait(std::chrono::nanoseconds::max());
    EXPECT_EQ(bench.get<std::int32_t>(args.matrix_rows), std::vector<std::int32_t>(12, 0));
  }
}

TEST_F(OpenClRouter, LogitsOfCodesAreRefused) {
  for (const auto& device : devices()) {
    backend::RouteDesc r = route_desc(4, 8, 2, Score::softmax);
    r.logits = DType::e4m3fn;
    EXPECT_THROW(device->create_route(r), backend::Error);
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
