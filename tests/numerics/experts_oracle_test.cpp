// SPDX-License-Identifier: Apache-2.0
// The f64 side of the steps of a layer of experts: f32 stays within its bounds, and its judge finds what is wrong.
#include "backends/numerics/experts_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace ironcl::numerics {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(std::size_t count, float spread, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

TEST(ScoreOracle, BoundsWhatF32Computes) {
  for (const Score score : {Score::softmax, Score::sigmoid, Score::sqrt_softplus}) {
    double worst = 0;
    for (const float spread : {0.1f, 3.0f, 40.0f}) {
      const std::vector<float> logits = random_logits(256, spread, 7);
      std::vector<float> got(logits.size());
      scores(score, logits, got);
      const std::vector<Within> want = score_oracle(score, logits);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double error = std::fabs(got[i] - want[i].value);
        ASSERT_LE(error, want[i].error) << "score " << static_cast<int>(score) << " of " << logits[i];
        if (want[i].value > 1e-30) worst = std::max(worst, error / want[i].error);
      }
    }
    EXPECT_GT(worst, 0.02) << "the bound is far from anything that happens";
  }
}

TEST(ScoreOracle, AgreesWithF32AboutWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Score score : {Score::softmax, Score::sigmoid, Score::sqrt_softplus}) {
    for (const float odd : {kNaN, infinity, -infinity}) {
      const std::vector<float> logits{1, odd, 2};
      std::vector<float> got(3);
      scores(score, logits, got);
      const auto want = score_oracle(score, logits);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(std::isnan(got[i]), std::isnan(want[i].value)) << static_cast<int>(score) << " " << odd;
        if (std::isinf(got[i])) {
          EXPECT_EQ(got[i], want[i].value);
        }
      }
    }
  }
}

TEST(ActivationOracle, BoundsWhatF32Computes) {
  for (const Activation activation : {Activation::silu, Activation::swiglu_oai}) {
    double worst = 0;
    const auto values = random_logits(2000, 12, 3);
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      for (const float limit : {0.0f, 7.0f}) {
        const float got = activate(activation, values[i], values[i + 1], limit);
        const Within want = activation_oracle(activation, values[i], values[i + 1], limit);
        const double error = std::fabs(got - want.value);
        ASSERT_LE(error, want.error) << values[i] << " " << values[i + 1];
        worst = std::max(worst, error / want.error);
      }
    }
    EXPECT_GT(worst, 0.05);
    EXPECT_LT(worst, 0.6) << "a device's exp may be 6 times worse than this one's";
    const Within large = activation_oracle(activation, -95, 3e38, 0);
    EXPECT_LE(std::fabs(activate(activation, -95, 3e38f, 0) - large.value), large.error);
  }
}

TEST(JudgeChoice, TakesWhatTheRuleGives) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (unsigned seed = 0; seed < 40; ++seed) {
    for (const Score score : {Score::softmax, Score::sigmoid, Score::sqrt_softplus}) {
      Routing routing{.experts = 32, .top_k = 4, .score = score, .scale = 2.5f, .normalize = seed % 2 == 0};
      if (seed % 3 == 1) routing.expert_groups = 8, routing.top_groups = 3, routing.best_of_two = seed % 5 != 0;
      auto logits = random_logits(32, 2, seed);
      for (float& logit : logits) logit = seed % 4 == 0 ? std::round(logit) : logit;  // many ties
      if (seed == 7) logits[3] = kNaN;
      if (seed == 8 || seed == 9) logits[3] = infinity;  // normalised and not
      const auto bias = seed % 7 == 2 ? random_logits(32, 1, seed + 1000) : std::vector<float>{};
      std::vector<float> values(32), weights(4);
      std::vector<std::int32_t> ids(4);
      scores(score, logits, values);
      choose(routing, values, bias, ids, weights);
      EXPECT_EQ(judge_choice(routing, logits, bias, ids, weights), "") << seed;
    }
  }
}

TEST(JudgeChoice, FindsWhatIsWrong) {
  struct Wrong {
    const char* says;
    std::function<void(std::vector<std::int32_t>&, std::vector<float>&)> change;
  };
  const Routing routing{.experts = 16, .top_k = 3, .score = Score::sigmoid, .expert_groups = 4, .top_groups = 2};
  const std::vector<float> logits{0, 1, 2, 3, 0, 0, 2.5f, 2.5f, 1, 1, 1, 1, -1, -1, -1, 2};
  std::vector<float> values(16), weights(3);
  std::vector<std::int32_t> ids(3);
  scores(routing.score, logits, values);
  choose(routing, values, {}, ids, weights);
  ASSERT_EQ(ids, (std::vector<std::int32_t>{3, 6, 7}));
  ASSERT_EQ(judge_choice(routing, logits, {}, ids, weights), "");
  const Wrong all[] = {
      {"no expert", [](auto& i, auto&) { i[0] = 16; }},
      {"no expert", [](auto& i, auto&) { i[0] = -1; }},
      {"twice", [](auto& i, auto&) { i[1] = 3; }},
      {"comes after", [](auto& i, auto& w) { std::swap(i[0], i[1]), std::swap(w[0], w[1]); }},
      {"comes after", [](auto& i, auto&) { std::swap(i[1], i[2]); }},  // a tie, the smaller id first
      {"left out", [](auto& i, auto&) { i[2] = 2; }},
      {"groups are better", [](auto& i, auto&) { i[2] = 15; }},
      {"the weight of expert 3", [](auto&, auto& w) { w[0] *= 1 + 0x1p-18f; }},
      {"the weight of expert 7", [](auto&, auto& w) { w[2] = kNaN; }},
  };
  for (const Wrong& wrong : all) {
    auto bad_ids = ids;
    auto bad_weights = weights;
    wrong.change(bad_ids, bad_weights);
    const std::string got = judge_choice(routing, logits, {}, bad_ids, bad_weights);
    EXPECT_NE(got.find(wrong.says), std::string::npos) << "\"" << got << "\" for: " << wrong.says;
  }
  EXPECT_THROW(judge_choice(routing, {}, {}, ids, weights), std::invalid_argument);
}

TEST(JudgeChoice, AllowsEitherOrderOnlyWithinTheBound) {
  const Routing routing{.experts = 2, .top_k = 1, .score = Score::sigmoid};
  const auto takes = [&](float first, float second, std::int32_t id) {
    const std::vector<float> logits{first, second};
    std::vector<float> values(2);
    scores(routing.score, logits, values);
    const std::vector<std::int32_t> ids{id};
    const std::vector<float> weights{values[static_cast<std::size_t>(id)]};
    return judge_choice(routing, logits, {}, ids, weights).empty();
  };
  EXPECT_TRUE(takes(0.5f, std::nextafter(0.5f, 1.0f), 0));
  EXPECT_TRUE(takes(0.5f, std::nextafter(0.5f, 1.0f), 1));
  EXPECT_TRUE(takes(0.5f, 0.5f, 0));
  EXPECT_FALSE(takes(0.5f, 0.5f, 1));
  EXPECT_FALSE(takes(0.5f, 0.501f, 0));
  EXPECT_TRUE(takes(0.5f, 0.501f, 1));
}

}  // namespace
}  // namespace ironcl::numerics
