// SPDX-License-Identifier: Apache-2.0
// The search, through the C ABI, on a device whose times are known and whose clock stands still between commands.
#include "host/tuning/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "host/layer/synthetic.h"
#include "tests/errors.h"
#include "tests/tuning/fake_device.h"

extern "C" const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor);

namespace ironcl::tuning {
namespace {

using tuning_test::script;

class SearchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    script() = {};
    table = *ironcl_plugin_query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
    ironcl_error error = detail::make_error();
    ASSERT_EQ(table.load(nullptr, nullptr, 0, &error), IRONCL_OK) << error.message;
    std::uint32_t count = 0;
    ironcl_device handle = nullptr;
    ASSERT_EQ(table.enumerate(&handle, 1, &count, &error), IRONCL_OK) << error.message;
    device = Device(&table, handle, "tuning_fake:0");
    problem = report::parse_problem("--dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 3x256:256x40");
    settings.now = [] { return script().seconds; };
    settings.budget_seconds = 1000;
    settings.rotate_bytes = 0;
  }
  void TearDown() override { table.unload(); }

  Found run() {
    const layer::MadeOperands operands = layer::make_operands(problem, 1);
    const layer::Expected expected = layer::expect(problem, operands, 16);
    layer::WeightsPool pool;
    return search(device, problem, operands, expected, space_of(device, problem), pool, settings);
  }

  static const Trial* trial_of(const Found& found, const std::string& variant) {
    const auto at = std::find_if(found.trials.begin(), found.trials.end(),
                                 [&](const Trial& trial) { return trial.configuration.variant == variant; });
    return at == found.trials.end() ? nullptr : &*at;
  }

  ironcl_plugin table{};
  Device device;
  report::Problem problem;
  SearchSettings settings;
};

TEST_F(SearchTest, FindsTheFastestThatIsRight) {
  const Found found = run();
  ASSERT_TRUE(found.any);
  EXPECT_EQ(to_text(found.winner), "plain tile=8,unroll=2");
  EXPECT_EQ(found.time.median, 1000);
  EXPECT_EQ(to_text(found.rule_of_thumb), "plain tile=1,unroll=1");
  EXPECT_EQ(found.rule_of_thumb_time.median, 8500);
  EXPECT_TRUE(found.beats_rule_of_thumb);
}

TEST_F(SearchTest, NeverLetsAPlantedWrongCandidateWin) {
  // 10 ns against 1000: it is the fastest by far, and one element of D is off.
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    settings.seed = seed;
    const Found found = run();
    ASSERT_TRUE(found.any) << "seed " << seed;
    EXPECT_EQ(found.winner.variant, "plain") << "seed " << seed;
    const Trial* planted = trial_of(found, "planted");
    ASSERT_NE(planted, nullptr) << "seed " << seed;
    EXPECT_EQ(planted->outcome, Outcome::wrong) << "seed " << seed;
    EXPECT_NE(planted->why.find("D["), std::string::npos) << planted->why;
  }
}

TEST_F(SearchTest, NeverLetsACandidateWinThatGoesWrongAfterItsCheck) {
  const Found found = run();
  const Trial* flaky = trial_of(found, "flaky");
  ASSERT_NE(flaky, nullptr);
  EXPECT_EQ(flaky->outcome, Outcome::wrong);
  EXPECT_EQ(found.winner.variant, "plain");
}

TEST_F(SearchTest, StartsWithAWrongOneAndStillFindsTheRightOne) {
  const Space space = space_of(device, problem);
  for (const Configuration& candidate : space.candidates)
    if (candidate.variant == "planted") settings.starts.push_back(candidate);
  EXPECT_EQ(run().winner.variant, "plain");
}

TEST_F(SearchTest, RecordsWhatFailsAndGoesOn) {
  const Found found = run();
  ASSERT_NE(trial_of(found, "broken"), nullptr);
  EXPECT_EQ(trial_of(found, "broken")->outcome, Outcome::failed);
  EXPECT_NE(trial_of(found, "broken")->why.find("the compiler said no"), std::string::npos);
  ASSERT_NE(trial_of(found, "refused"), nullptr);
  EXPECT_EQ(trial_of(found, "refused")->outcome, Outcome::refused);
  EXPECT_TRUE(found.any);
}

TEST_F(SearchTest, CrossesTheAccuracyClassOnlyWhereTheProblemAllows) {
  EXPECT_EQ(trial_of(run(), "weak"), nullptr);
  problem.weakest_accuracy = numerics::AccuracyClass::tensor14;
  EXPECT_EQ(run().winner.variant, "weak");
}

TEST_F(SearchTest, EndsWithinItsTimeAndSaysWhatItSkipped) {
  script().plan_seconds = 1;
  settings.budget_seconds = 5.5;
  const double before = script().seconds;
  const Found found = run();
  EXPECT_LE(script().seconds - before, 5.5);
  EXPECT_TRUE(found.any);
  EXPECT_TRUE(found.out_of_time);
  EXPECT_GE(found.trials.size(), 3u);
  EXPECT_EQ(found.trials.size() + found.skipped, space_of(device, problem).candidates.size());
}

TEST_F(SearchTest, TriesTheRuleOfThumbHoweverShortTheTime) {
  settings.budget_seconds = 1e-9;
  const Found found = run();
  ASSERT_EQ(found.trials.size(), 1u);
  EXPECT_EQ(to_text(found.winner), "plain tile=1,unroll=1");
  EXPECT_FALSE(found.beats_rule_of_thumb);
}

TEST_F(SearchTest, TriesWhatWonNearbyBeforeASample) {
  const Space space = space_of(device, problem);
  settings.starts = {space.candidates[10]};
  const Found found = run();
  ASSERT_GE(found.trials.size(), 2u);
  EXPECT_EQ(found.trials[1].configuration, space.candidates[10]);
}

TEST_F(SearchTest, ReachesTheBestFromTheRuleOfThumbByNeighbours) {
  // A sample of 40 % of nothing: only climbing is left.
  settings.starts = {space_of(device, problem).candidates[0]};
  script().plan_seconds = 1;
  settings.budget_seconds = 16;
  EXPECT_EQ(to_text(run().winner), "plain tile=8,unroll=2");
}

TEST_F(SearchTest, StopsAtOnceWhenTold) {
  int calls = 0;
  settings.stop = [&] { return ++calls > 3; };
  const Found found = run();
  EXPECT_TRUE(found.stopped);
  EXPECT_FALSE(found.any);
  EXPECT_LE(found.trials.size(), 3u);
}

TEST_F(SearchTest, DoesTheSameTwice) {
  const Found one = run(), two = run();
  ASSERT_EQ(one.trials.size(), two.trials.size());
  for (std::size_t i = 0; i < one.trials.size(); ++i)
    EXPECT_EQ(one.trials[i].configuration, two.trials[i].configuration);
}

TEST_F(SearchTest, BuildsNoCandidateTwice) {
  run();
  for (const auto& [configuration, plans] : script().plans) EXPECT_EQ(plans, 1) << configuration;
}

TEST(TuningSpace, SaysWhatIsWrongWithAnAnswer) {
  const auto message = [](const char* text) {
    return error_of<std::runtime_error>([&] { parse_space(text, numerics::AccuracyClass::f32); });
  };
  EXPECT_NE(message("{").find("is not JSON"), std::string::npos);
  EXPECT_NE(message("{}").find("\"candidates\""), std::string::npos);
  EXPECT_NE(message(R"({"candidates": [], "dropped": []})").find("\"rule_of_thumb\""), std::string::npos);
  EXPECT_NE(message(R"({"candidates": [], "dropped": [], "rule_of_thumb":
                       {"variant": "v", "options": {}, "accuracy_class": "f32"}})")
                .find("that is not a candidate: v"),
            std::string::npos);
  EXPECT_NE(message(R"({"candidates": [{"variant": "v", "options": {}, "accuracy_class": "f8"}], "dropped": []})")
                .find("accuracy class f8"),
            std::string::npos);
}

TEST(TuningOperands, HaveTheSameWeightsForEveryM) {
  const auto b_of = [](const char* line) { return layer::make_operands(report::parse_problem(line), 7).b; };
  EXPECT_EQ(b_of("--dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 3x256:256x40"),
            b_of("--dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 17x256:256x40"));
}

}  // namespace
}  // namespace ironcl::tuning
