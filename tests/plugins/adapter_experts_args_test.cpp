// SPDX-License-Identifier: Apache-2.0
// Calls of route, activate and combine through the C table: each rule of their spans broken once.
#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterExpertsArgs : public AdapterTest {
 protected:
  void SetUp() override {
    AdapterTest::SetUp();
    make_all();
    make_steps();
  }

  /// Every span of a good call is missed, too short and off its alignment once. `names` in the order of `spans`.
  template <class Args>
  void expect_every_span_checked(const Args& good, const std::string& prefix, const Spans<Args>& spans) {
    ASSERT_EQ(enqueue(good), IRONCL_OK) << error.message;
    for (const auto& [name, span] : spans) {
      SCOPED_TRACE(name);
      Args args = good;
      args.*span = {};
      expect_invalid(args, {prefix + name + " is absent"});
      args = good;
      (args.*span).size -= 1;
      expect_invalid(args, {prefix + name + " is " + std::to_string((good.*span).size - 1)});
      args = good;
      (args.*span).offset += 8;
      expect_invalid(args, {prefix + name + ".offset", "buffer_alignment 16"});
      args = good;
      (args.*span).offset = 4096;
      expect_invalid(args, {prefix + name, "beyond"});
    }
  }
};

TEST_F(AdapterExpertsArgs, RouteChecksItsSpans) {
  using Args = ironcl_route_args;
  const Spans<Args> written{{"ids", &Args::ids},
                            {"weights", &Args::weights},
                            {"matrix_rows", &Args::matrix_rows},
                            {"a_index", &Args::a_index},
                            {"rows", &Args::rows}};
  const Spans<Args> read{{"logits", &Args::logits}};
  auto all = written;
  all.push_back(read[0]);
  expect_every_span_checked(route_args(), "route_args.", all);
  expect_no_overlap(route_args(), "route_args.", written, read);
  ASSERT_EQ(enqueue(route_args()), IRONCL_OK) << error.message;
  EXPECT_EQ(script().route_args.matrix_rows.offset, 384u);
  EXPECT_EQ(script().route_args.tokens, kM);
}

TEST_F(AdapterExpertsArgs, RouteRefusesWhatItHasNot) {
  const Wrong<ironcl_route_args> all[] = {
      {{"route_args.tokens is 5", "4"}, [](auto& a) { a.tokens = kM + 1; }},
      {{"route_args.tokens is -1"}, [](auto& a) { a.tokens = -1; }},
      {{"route_args.bias is given", "no bias"},
       [&](auto& a) {
         a.bias = {buffer, 1024, 24};
       }},
      {{"route_args.shared_weights is given", "SHARED_GATE"},
       [&](auto& a) {
         a.shared_weights = {buffer, 1024, 16};
       }},
      {{"route_args.wait is NULL"}, [](auto& a) { a.wait_count = 1; }},
  };
  expect_refused(route_args(), all);
}

TEST_F(AdapterExpertsArgs, RouteOfNoTokensStillCountsRows) {
  auto args = sized<ironcl_route_args>();
  expect_invalid(args, {"route_args.matrix_rows is absent", "24"});
  args.matrix_rows = {buffer, 0, 24};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
}

TEST_F(AdapterExpertsArgs, RouteWithEverything) {
  auto desc = route_desc();
  desc.flags |= IRONCL_ROUTE_SHARED_GATE;
  desc.bias_dtype = IRONCL_F32;
  desc.first_expert = 2, desc.local_experts = 3, desc.capacity = 5;
  replace(route, desc);
  auto args = route_args();
  args.logits.size = 4 * 7 * 4;
  args.matrix_rows.size = 12;
  args.a_index.size = 3 * 5 * 4;
  args.bias = {buffer, 1024, 24};
  args.shared_weights = {buffer, 1280, 16};
  using Args = ironcl_route_args;
  expect_every_span_checked(args, "route_args.",
                            {{"logits", &Args::logits},
                             {"bias", &Args::bias},
                             {"matrix_rows", &Args::matrix_rows},
                             {"a_index", &Args::a_index},
                             {"shared_weights", &Args::shared_weights}});
  expect_no_overlap(args, "route_args.", {{"shared_weights", &Args::shared_weights}},
                    {{"bias", &Args::bias}, {"logits", &Args::logits}});
}

TEST_F(AdapterExpertsArgs, RouteOfGivenIdsReadsThem) {
  auto desc = sized<ironcl_route_desc>();
  desc.flags = IRONCL_ROUTE_GIVEN;
  desc.tokens = kM, desc.experts = 6, desc.top_k = 2;
  replace(route, desc);
  auto args = route_args();
  expect_invalid(args, {"route_args.logits is given", "GIVEN"});
  args.logits = {};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  args.weights = {};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << "weights may be absent: " << error.message;
  args.weights = {buffer, 256, 31};
  expect_invalid(args, {"route_args.weights is 31"});
  args.weights = args.ids;  // two that are read
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  args = route_args();
  args.logits = {};
  args.rows.offset = args.ids.offset;
  expect_invalid(args, {"overlaps", "route_args.rows", "route_args.ids"});
}

TEST_F(AdapterExpertsArgs, ActivateChecksItsSpans) {
  using Args = ironcl_activate_args;
  const Spans<Args> written{{"y", &Args::y}, {"scales", &Args::scales}};
  const Spans<Args> read{{"gate", &Args::gate}, {"up", &Args::up}, {"matrix_rows", &Args::matrix_rows}};
  auto all = written;
  all.insert(all.end(), read.begin(), read.end());
  expect_every_span_checked(activate_args(), "activate_args.", all);
  expect_no_overlap(activate_args(), "activate_args.", written, read);
  auto args = activate_args();
  args.up = args.gate;  // two that are read
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  args = activate_args();
  args.rows = kM + 1;
  expect_invalid(args, {"activate_args.rows is 5"});
  EXPECT_EQ(enqueue(sized<Args>()), IRONCL_OK) << "no rows need no spans: " << error.message;
}

TEST_F(AdapterExpertsArgs, ActivateOfHalvesOfRows) {
  auto desc = activate_desc();
  desc.gate_ld = desc.up_ld = 16;
  desc.y_dtype = IRONCL_BF16, desc.scale = {}, desc.grouping = 0, desc.matrices = 0;
  replace(activate, desc);
  auto args = sized<ironcl_activate_args>();
  args.rows = kM;
  args.gate = {buffer, 0, (3 * 16 + 8) * 2};
  args.up = {buffer, 16, (3 * 16 + 8) * 2};
  args.y = {buffer, 256, kM * kK * 2};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  args.scales = {buffer, 512, 64};
  expect_invalid(args, {"activate_args.scales is given", "not quantised"});
  args.scales = {};
  args.matrix_rows = {buffer, 512, 64};
  expect_invalid(args, {"activate_args.matrix_rows is given", "NONE"});
}

TEST_F(AdapterExpertsArgs, ActivateOfMaskedRowsHoldsAllMatrices) {
  auto desc = activate_desc();
  desc.grouping = IRONCL_GROUPING_MASKED;
  replace(activate, desc);
  auto args = activate_args();
  expect_invalid(args, {"activate_args.gate is 64", "192"});
  args.gate = {buffer, 0, 192}, args.up = {buffer, 256, 192}, args.y = {buffer, 512, 96};
  args.scales = {buffer, 640, 95};
  args.matrix_rows = {buffer, 768, 12};
  expect_invalid(args, {"activate_args.scales is 95", "96"});
  args.scales.size = 96;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  args.rows = 2;
  expect_invalid(args, {"activate_args.rows is 2", "masked"});
}

TEST_F(AdapterExpertsArgs, CombineChecksItsSpans) {
  using Args = ironcl_combine_args;
  const Spans<Args> read{{"x", &Args::x}, {"rows", &Args::rows}, {"weights", &Args::weights}, {"add", &Args::add}};
  auto all = read;
  all.push_back({"y", &Args::y});
  expect_every_span_checked(combine_args(), "combine_args.", all);
  expect_no_overlap(combine_args(), "combine_args.", {{"y", &Args::y}}, read);
  auto args = combine_args();
  args.y.offset = args.add_weights.offset;
  expect_invalid(args, {"overlaps", "combine_args.y", "combine_args.add_weights"});
  args = combine_args();
  args.add_weights.size = 15;
  expect_invalid(args, {"combine_args.add_weights is 15", "16"});
  args.add_weights = {};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << "absent means 1: " << error.message;
  args = combine_args();
  args.tokens = 5;
  expect_invalid(args, {"combine_args.tokens is 5"});
  args = combine_args();
  args.tokens = 1;
  args.rows.size = args.weights.size = 8, args.add.size = 16, args.add_weights.size = 4, args.y.size = 32;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << "a token needs fewer bytes: " << error.message;
  EXPECT_EQ(enqueue(sized<Args>()), IRONCL_OK) << "no tokens need no spans: " << error.message;
}

TEST_F(AdapterExpertsArgs, CombineAddsOnlyWhatItHas) {
  auto desc = combine_desc();
  desc.add_dtype = 0;
  replace(combine, desc);
  auto args = combine_args();
  expect_invalid(args, {"combine_args.add is given", "add_dtype is none"});
  args.add = {};
  expect_invalid(args, {"combine_args.add_weights is given"});
  args.add_weights = {};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
}

}  // namespace
}  // namespace ironcl::fake
