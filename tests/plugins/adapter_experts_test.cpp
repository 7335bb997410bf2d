// SPDX-License-Identifier: Apache-2.0
// Descriptions of route, activate and combine through the C table: what reaches the backend, and each rule broken
// once. Next door: adapter_experts_args_test.cpp (their calls).
#include <cmath>
#include <limits>

#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterExperts : public AdapterTest {
 protected:
  void SetUp() override {
    AdapterTest::SetUp();
    make_all();
  }
};

TEST_F(AdapterExperts, RouteReachesTheBackendWithItsDefaults) {
  ASSERT_EQ(create(route_desc()), IRONCL_OK) << error.message;
  const auto& got = script().route_desc;
  EXPECT_EQ(got.tokens, kM);
  EXPECT_EQ(got.experts, 6);
  EXPECT_EQ(got.top_k, 2);
  EXPECT_EQ(got.logits_ld, 6);
  EXPECT_EQ(got.local_experts, 6);
  EXPECT_EQ(got.expert_groups, 1);
  EXPECT_EQ(got.top_groups, 1);
  EXPECT_EQ(got.scale, 1.0f);
  EXPECT_EQ(got.score, backend::Score::softmax);
  EXPECT_EQ(got.bias, backend::DType::none);
  EXPECT_TRUE(got.normalize);
  EXPECT_FALSE(got.given || got.shared_gate || got.best_of_two);
  auto desc = route_desc();
  desc.flags = IRONCL_ROUTE_SHARED_GATE | IRONCL_ROUTE_BEST_OF_TWO;
  desc.score = IRONCL_SCORE_SIGMOID;
  desc.expert_groups = 3, desc.top_groups = 2;
  desc.first_expert = 4, desc.local_experts = 2, desc.capacity = 9;
  desc.scale = 2.5f, desc.bias_dtype = IRONCL_F32, desc.logits_dtype = IRONCL_BF16, desc.logits_ld = 8;
  ASSERT_EQ(create(desc), IRONCL_OK) << error.message;
  EXPECT_EQ(script().route_desc.logits_ld, 8);
  EXPECT_EQ(script().route_desc.first_expert, 4);
  EXPECT_EQ(script().route_desc.local_experts, 2);
  EXPECT_EQ(script().route_desc.capacity, 9);
  EXPECT_EQ(script().route_desc.expert_groups, 3);
  EXPECT_EQ(script().route_desc.scale, 2.5f);
  EXPECT_EQ(script().route_desc.bias, backend::DType::f32);
  EXPECT_TRUE(script().route_desc.shared_gate && script().route_desc.best_of_two);
  desc.logits_ld = 0;
  ASSERT_EQ(create(desc), IRONCL_OK) << error.message;
  EXPECT_EQ(script().route_desc.logits_ld, 7) << "with the gate's";
}

TEST_F(AdapterExperts, RouteOfGivenIdsTakesNoRule) {
  auto given = sized<ironcl_route_desc>();
  given.flags = IRONCL_ROUTE_GIVEN;
  given.tokens = kM, given.experts = 6, given.top_k = 2;
  const Wrong<ironcl_route_desc> all[] = {
      {{"route_desc.score is 1", "GIVEN"}, [](auto& d) { d.score = IRONCL_SCORE_SOFTMAX; }},
      {{"route_desc.scale is 2.5", "GIVEN"}, [](auto& d) { d.scale = 2.5f; }},
      {{"route_desc.expert_groups is 2", "GIVEN"}, [](auto& d) { d.expert_groups = d.top_groups = 2; }},
      {{"route_desc.top_groups is 2", "GIVEN"}, [](auto& d) { d.top_groups = 2; }},
      {{"route_desc.bias_dtype is f32", "GIVEN"}, [](auto& d) { d.bias_dtype = IRONCL_F32; }},
      {{"flags is NORMALIZE", "GIVEN"}, [](auto& d) { d.flags |= IRONCL_ROUTE_NORMALIZE; }},
      {{"flags is BEST_OF_TWO", "GIVEN"}, [](auto& d) { d.flags |= IRONCL_ROUTE_BEST_OF_TWO; }},
      {{"logits_dtype is f32", "GIVEN", "SHARED_GATE"}, [](auto& d) { d.logits_dtype = IRONCL_F32; }},
      {{"ld 6", "GIVEN"}, [](auto& d) { d.logits_ld = 6; }},
      {{"logits_dtype is none", "f32"}, [](auto& d) { d.flags |= IRONCL_ROUTE_SHARED_GATE; }},
  };
  expect_refused(given, all);
  given.flags |= IRONCL_ROUTE_SHARED_GATE;
  given.logits_dtype = IRONCL_F32;
  ASSERT_EQ(create(given), IRONCL_OK) << error.message;
  EXPECT_TRUE(script().route_desc.given);
  EXPECT_EQ(script().route_desc.logits_ld, 7);
}

TEST_F(AdapterExperts, WrongRoutesAreNamed) {
  const Wrong<ironcl_route_desc> all[] = {
      {{"route_desc.tokens is -1"}, [](auto& d) { d.tokens = -1; }},
      {{"route_desc: tokens * top_k", "2147483647"}, [](auto& d) { d.tokens = 1 << 30; }},
      {{"route_desc.experts is 0", "1 to 65536"}, [](auto& d) { d.experts = 0; }},
      {{"route_desc.experts is 65537"}, [](auto& d) { d.experts = 65537; }},
      {{"route_desc.top_k is 0", "1 to 6"}, [](auto& d) { d.top_k = 0; }},
      {{"route_desc.top_k is 7", "1 to 6"}, [](auto& d) { d.top_k = 7; }},
      {{"route_desc.top_k is 65", "1 to 64"}, [](auto& d) { d.experts = 128, d.top_k = 65; }},
      {{"route_desc.logits_ld is 5", "6"}, [](auto& d) { d.logits_ld = 5; }},
      {{"route_desc.logits_ld is 6", "7"}, [](auto& d) { d.logits_ld = 6, d.flags |= IRONCL_ROUTE_SHARED_GATE; }},
      {{"route_desc: logits", "2^63"}, [](auto& d) { d.logits_ld = INT64_MAX / 2; }},
      {{"logits_dtype is none"}, [](auto& d) { d.logits_dtype = 0; }},
      {{"logits_dtype is e4m3fn"}, [](auto& d) { d.logits_dtype = IRONCL_F8_E4M3FN; }},
      {{"logits_dtype is 77"}, [](auto& d) { d.logits_dtype = 77; }, kUnimplemented},
      {{"bias_dtype is bf16", "f32"}, [](auto& d) { d.bias_dtype = IRONCL_BF16; }},
      {{"score is 0", "GIVEN"}, [](auto& d) { d.score = 0; }},
      {{"route_desc.score is 4"}, [](auto& d) { d.score = 4; }, kUnimplemented},
      {{"route_desc.flags"}, [](auto& d) { d.flags |= 1u << 5; }, kUnimplemented},
      {{"capacity is 8", "SHARED_EXPERT"}, [](auto& d) { d.capacity = 8, d.flags |= IRONCL_ROUTE_SHARED_EXPERT; }},
      {{"route_desc.scale is nan"}, [](auto& d) { d.scale = std::nanf(""); }},
      {{"route_desc.scale is inf"}, [](auto& d) { d.scale = std::numeric_limits<float>::infinity(); }},
      {{"expert_groups is 4", "does not divide the 6"}, [](auto& d) { d.expert_groups = 4, d.top_groups = 2; }},
      {{"expert_groups is 7", "1 to 6"}, [](auto& d) { d.expert_groups = 7, d.top_groups = 2; }},
      {{"top_groups is 0", "1 to 3"}, [](auto& d) { d.expert_groups = 3; }},
      {{"top_groups is 4", "1 to 3"}, [](auto& d) { d.expert_groups = 3, d.top_groups = 4; }},
      {{"top_groups is 1", "expert_groups is 0"}, [](auto& d) { d.top_groups = 1; }},
      {{"top_k is 2", "1 groups of 1 experts"}, [](auto& d) { d.expert_groups = 6, d.top_groups = 1; }},
      {{"BEST_OF_TWO", "one expert"},
       [](auto& d) { d.expert_groups = 6, d.top_groups = 6, d.flags |= IRONCL_ROUTE_BEST_OF_TWO; }},
      {{"first_expert is 1", "local_experts is 0"}, [](auto& d) { d.first_expert = 1; }},
      {{"local_experts is 7", "1 to 6"}, [](auto& d) { d.local_experts = 7; }},
      {{"first_expert is 5", "0 to 4"}, [](auto& d) { d.first_expert = 5, d.local_experts = 2; }},
      {{"first_expert is 4294967295"}, [](auto& d) { d.first_expert = UINT32_MAX, d.local_experts = 2; }},
      {{"route_desc.capacity is -1"}, [](auto& d) { d.capacity = -1; }},
      {{"local_experts * capacity", "2147483647"}, [](auto& d) { d.capacity = 0x7fffffff; }},
      {{"struct_size is 2"}, [](auto& d) { d.struct_size = 2; }},
  };
  expect_refused(route_desc(), all);
}

TEST_F(AdapterExperts, ActivateReachesTheBackendWithItsDefaults) {
  ASSERT_EQ(create(activate_desc()), IRONCL_OK) << error.message;
  const auto& got = script().activate_desc;
  EXPECT_EQ(got.rows, kM);
  EXPECT_EQ(got.cols, kK);
  EXPECT_EQ(got.gate_ld, kK);
  EXPECT_EQ(got.up_ld, kK);
  EXPECT_EQ(got.y_ld, kK);
  EXPECT_EQ(got.x, backend::DType::bf16);
  EXPECT_EQ(got.y, backend::DType::e4m3fn);
  EXPECT_EQ(got.activation, backend::Activation::silu);
  EXPECT_EQ(got.limit, 0.0f);
  EXPECT_EQ(got.grouping, backend::Grouping::contiguous);
  EXPECT_EQ(got.matrices, 3);
  EXPECT_EQ(got.scale.ld, 2);
  EXPECT_EQ(got.quantizer.amax_floor, 1e-10f);
  auto desc = activate_desc();
  desc.y_dtype = IRONCL_F32, desc.scale = {};
  desc.activation = IRONCL_ACTIVATION_SWIGLU_OAI, desc.limit = 7;
  desc.gate_ld = 16, desc.up_ld = 17, desc.y_ld = 18, desc.grouping = 0, desc.matrices = 0;
  ASSERT_EQ(create(desc), IRONCL_OK) << error.message;
  EXPECT_EQ(script().activate_desc.limit, 7.0f);
  EXPECT_EQ(script().activate_desc.up_ld, 17);
  EXPECT_EQ(script().activate_desc.scale.dtype, backend::DType::none);
}

TEST_F(AdapterExperts, WrongActivationsAreNamed) {
  const Wrong<ironcl_activate_desc> all[] = {
      {{"activate_desc.rows is -1"}, [](auto& d) { d.rows = -1; }},
      {{"activate_desc.cols is 0"}, [](auto& d) { d.cols = 0; }},
      {{"activate_desc.gate_ld is 7", "cols = 8"}, [](auto& d) { d.gate_ld = 7; }},
      {{"activate_desc.up_ld is 7"}, [](auto& d) { d.up_ld = 7; }},
      {{"activate_desc.y_ld is -8"}, [](auto& d) { d.y_ld = -8; }},
      {{"gate and up", "2^63"}, [](auto& d) { d.up_ld = INT64_MAX / 2; }},
      {{"gate and up: 0 rows", "2^63"}, [](auto& d) { d.rows = 0, d.gate_ld = INT64_MAX / 2; }},
      {{"activate_desc: Y", "2^63"}, [](auto& d) { d.y_ld = INT64_MAX / 2; }},
      {{"activate_desc: scales", "2^63"}, [](auto& d) { d.scale.ld = INT64_MAX / 2; }},
      {{"activate_desc: Y", "2^63"},
       [](auto& d) {
         d.grouping = IRONCL_GROUPING_MASKED, d.matrices = 1u << 20, d.rows = 0x7fffffff, d.y_ld = 1 << 20;
       }},
      {{"x_dtype is e4m3fn"}, [](auto& d) { d.x_dtype = IRONCL_F8_E4M3FN; }},
      {{"y_dtype is s32"}, [](auto& d) { d.y_dtype = IRONCL_S32; }},
      {{"y_dtype is none"}, [](auto& d) { d.y_dtype = 0, d.scale = {}; }},
      {{"scale.dtype is f32", "y_dtype bf16"}, [](auto& d) { d.y_dtype = IRONCL_BF16; }},
      {{"scale.dtype is none", "f32"}, [](auto& d) { d.scale = {}; }},
      {{"scale.dtype is e8m0"}, [](auto& d) { d.scale.dtype = IRONCL_F8_E8M0; }},
      {{"scale.group_rows is 4", "one row"}, [](auto& d) { d.scale.group_rows = 4; }},
      {{"scale.group_rows is 0"}, [](auto& d) { d.scale.group_rows = 0; }},
      {{"scale.ld is 1"}, [](auto& d) { d.scale.ld = 1; }},
      {{"activation is 0"}, [](auto& d) { d.activation = 0; }},
      {{"activation is 3"}, [](auto& d) { d.activation = 3; }, kUnimplemented},
      {{"limit is -1"}, [](auto& d) { d.limit = -1; }},
      {{"limit is nan"}, [](auto& d) { d.limit = std::nanf(""); }},
      {{"grouping is 3"}, [](auto& d) { d.grouping = 3; }, kUnimplemented},
      {{"activate_desc.matrices is 0"}, [](auto& d) { d.matrices = 0; }},
      {{"activate_desc.matrices is 3", "NONE"}, [](auto& d) { d.grouping = 0; }},
      {{"amax_floor"}, [](auto& d) { d.quantizer.amax_floor = -1; }},
      {{"activate_desc.flags"}, [](auto& d) { d.flags = 1; }, kUnimplemented},
      {{"struct_size is 2"}, [](auto& d) { d.struct_size = 2; }},
  };
  expect_refused(activate_desc(), all);
}

TEST_F(AdapterExperts, CombineReachesTheBackendWithItsDefaults) {
  ASSERT_EQ(create(combine_desc()), IRONCL_OK) << error.message;
  const auto& got = script().combine_desc;
  EXPECT_EQ(got.tokens, kM);
  EXPECT_EQ(got.cols, kK);
  EXPECT_EQ(got.rows, 8);
  EXPECT_EQ(got.top_k, 2);
  EXPECT_EQ(got.x_ld, kK);
  EXPECT_EQ(got.add_ld, kK);
  EXPECT_EQ(got.y_ld, kK);
  EXPECT_EQ(got.add, backend::DType::bf16);
  EXPECT_EQ(got.y, backend::DType::f32);
}

TEST_F(AdapterExperts, WrongCombinationsAreNamed) {
  const Wrong<ironcl_combine_desc> all[] = {
      {{"combine_desc.tokens is -1"}, [](auto& d) { d.tokens = -1; }},
      {{"combine_desc: tokens * top_k"}, [](auto& d) { d.tokens = 0x7fffffff; }},
      {{"combine_desc.cols is 0"}, [](auto& d) { d.cols = 0; }},
      {{"combine_desc.rows is 0"}, [](auto& d) { d.rows = 0; }},
      {{"combine_desc.rows is 2147483648"}, [](auto& d) { d.rows = 1ll << 31; }},
      {{"combine_desc.top_k is 0", "1 to 64"}, [](auto& d) { d.top_k = 0; }},
      {{"combine_desc.top_k is 65"}, [](auto& d) { d.top_k = 65; }},
      {{"combine_desc.x_ld is 7"}, [](auto& d) { d.x_ld = 7; }},
      {{"combine_desc.add_ld is 7"}, [](auto& d) { d.add_ld = 7; }},
      {{"combine_desc.y_ld is 7"}, [](auto& d) { d.y_ld = 7; }},
      {{"combine_desc: X", "2^63"}, [](auto& d) { d.x_ld = INT64_MAX / 2; }},
      {{"combine_desc: add", "2^63"}, [](auto& d) { d.add_ld = INT64_MAX / 2; }},
      {{"combine_desc: Y", "2^63"}, [](auto& d) { d.y_ld = INT64_MAX / 2; }},
      {{"x_dtype is i8"}, [](auto& d) { d.x_dtype = IRONCL_I8; }},
      {{"add_dtype is i8"}, [](auto& d) { d.add_dtype = IRONCL_I8; }},
      {{"add_ld is 8", "add_dtype is none"}, [](auto& d) { d.add_dtype = 0, d.add_ld = 8; }},
      {{"y_dtype is none"}, [](auto& d) { d.y_dtype = 0; }},
      {{"y_dtype is 11"}, [](auto& d) { d.y_dtype = 11; }, kUnimplemented},
      {{"combine_desc.flags"}, [](auto& d) { d.flags = 1; }, kUnimplemented},
      {{"struct_size is 2"}, [](auto& d) { d.struct_size = 2; }},
  };
  expect_refused(combine_desc(), all);
}

TEST_F(AdapterExperts, ABackendWithoutThemSaysSo) {
  script().before["route_create"] = [] {
    throw backend::Error(backend::Status::unsupported, "at most 8 of 256 experts");
  };
  EXPECT_EQ(create(route_desc()), IRONCL_UNSUPPORTED);
  EXPECT_TRUE(says({"at most 8 of 256 experts"}));
  auto support = sized<ironcl_support>();
  const auto desc = route_desc();
  ASSERT_EQ(table->supports(devices[0], &desc, &support, &error), IRONCL_OK) << error.message;
  EXPECT_EQ(support.reason, unsigned{IRONCL_REASON_DEVICE_FEATURE});
  EXPECT_STREQ(support.text, "at most 8 of 256 experts");
}

}  // namespace
}  // namespace ironcl::fake
