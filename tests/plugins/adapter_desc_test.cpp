// SPDX-License-Identifier: Apache-2.0
// What a description says about itself: each rule broken once, with the message that says so.
#include <cmath>
#include <limits>

#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterDesc : public AdapterTest {
 protected:
  void SetUp() override {
    AdapterTest::SetUp();
    load();
  }
};

const Taken<ironcl_gemm_desc> kGemmTaken[] = {
    {"m = 0 is no work", [](auto& d) { d.m = 0; }},
    {"given scales may have an ld",
     [](auto& d) { d.a_source_dtype = 0, d.a_scale.ld = 4, d.a_scale.dtype = IRONCL_F16; }},
    {"weight only", [](auto& d) { d.a_source_dtype = 0, d.a_dtype = IRONCL_BF16, d.a_scale = {}; }},
    {"b_scale e8m0", [](auto& d) { d.b_scale.dtype = IRONCL_F8_E8M0; }},
    {"fp8 D with scales", [](auto& d) { d.d_dtype = IRONCL_F8_E4M3FN, d.d_scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0}; }},
    {"bias bf16", [](auto& d) { d.bias_dtype = IRONCL_BF16; }},
    {"B of e2m1", [](auto& d) { d.b_dtype = IRONCL_F4_E2M1; }},
    {"B of e2m1 with scales of e4m3",
     [](auto& d) { d.b_dtype = IRONCL_F4_E2M1, d.b_scale.dtype = IRONCL_F8_E4M3FN; }},
    {"D of e2m1 with its scales",
     [](auto& d) { d.d_dtype = IRONCL_F4_E2M1, d.d_scale = {IRONCL_F8_E4M3FN, 1, 16, IRONCL_F32, 0, 0, 0}; }},
    {"D of i8 with its scales", [](auto& d) { d.d_dtype = IRONCL_I8, d.d_scale = {IRONCL_F32, 1, 0, 0, 0, 0, 0}; }},
    {"B begins inside a block", [](auto& d) { d.b_scale.row_origin = d.b_scale.col_origin = 3; }},
    {"a global scale", [](auto& d) { d.b_scale.global_dtype = IRONCL_F32; }},
    {"static scales of A, of any type and ld",
     [](auto& d) { d.a_quantizer.scales = IRONCL_SCALES_GIVEN, d.a_scale.dtype = IRONCL_BF16, d.a_scale.ld = 4; }},
};

const Wrong<ironcl_gemm_desc> kGemmWrong[] = {
    {{"gemm_desc.m", "-1", "0 to 2147483647"}, [](auto& d) { d.m = -1; }},
    {{"gemm_desc.m"}, [](auto& d) { d.m = 1ll << 31; }},
    {{"gemm_desc.n", "expected 1"}, [](auto& d) { d.n = 0; }},
    {{"gemm_desc.k", "expected 1"}, [](auto& d) { d.k = 0; }},
    {{"gemm_desc.k"}, [](auto& d) { d.k = INT64_MAX; }},
    {{"gemm_desc.lda", "7", "k = 8", "0 means tight"}, [](auto& d) { d.lda = 7; }},
    {{"gemm_desc.lda", "-8"}, [](auto& d) { d.lda = -8; }},
    {{"gemm_desc.ldd", "n = 6"}, [](auto& d) { d.ldd = 5; }},
    {{"gemm_desc: A", "2^63"}, [](auto& d) { d.lda = INT64_MAX / 2; }},
    {{"gemm_desc: D"}, [](auto& d) { d.ldd = INT64_MAX / 2; }},
    {{"a_dtype", "none", "e4m3fn"}, [](auto& d) { d.a_dtype = 0; }},
    {{"a_dtype", "s32"}, [](auto& d) { d.a_dtype = IRONCL_S32; }},
    {{"a_dtype", "e8m0"}, [](auto& d) { d.a_dtype = IRONCL_F8_E8M0; }},
    {{"a_dtype", "11", "0 to 10"}, [](auto& d) { d.a_dtype = 11; }, kUnimplemented},
    {{"a_source_dtype", "77"}, [](auto& d) { d.a_source_dtype = 77; }, kUnimplemented},
    {{"a_source_dtype", "e5m2", "bf16"}, [](auto& d) { d.a_source_dtype = IRONCL_F8_E5M2; }},
    {{"a_source_dtype", "bf16", "a_dtype f32"}, [](auto& d) { d.a_dtype = IRONCL_F32, d.a_scale = {}; }},
    {{"a_scale.dtype", "bf16"}, [](auto& d) { d.a_scale.dtype = IRONCL_BF16; }},
    {{"a_scale.ld", "4", "0 or 2"}, [](auto& d) { d.a_scale.ld = 4; }},
    {{"a_scale.ld", "1", "2"}, [](auto& d) { d.a_source_dtype = 0, d.a_scale.ld = 1; }},
    {{"a_scale.dtype"}, [](auto& d) { d.a_source_dtype = 0, d.a_scale = {}; }},
    {{"a_scale"}, [](auto& d) { d.a_source_dtype = 0, d.a_dtype = IRONCL_BF16; }},
    {{"b_dtype", "none"}, [](auto& d) { d.b_dtype = 0; }},
    {{"b_scale.dtype", "scale of 1"}, [](auto& d) { d.b_scale = {}; }},
    {{"b_scale.dtype", "s32", "e8m0"}, [](auto& d) { d.b_scale.dtype = IRONCL_S32; }},
    {{"b_scale.ld", "3"}, [](auto& d) { d.b_scale.ld = 3; }},
    {{"d_scale.dtype is none", "0x4"}, [](auto& d) { d.d_scale.group_cols = 4; }},
    {{"d_dtype", "none"}, [](auto& d) { d.d_dtype = 0; }},
    {{"d_dtype", "i8"}, [](auto& d) { d.d_dtype = IRONCL_I8; }},
    {{"d_scale.dtype", "e4m3fn"}, [](auto& d) { d.d_dtype = IRONCL_F8_E4M3FN; }},
    {{"d_scale", "f32"}, [](auto& d) { d.d_scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0}; }},
    {{"bias_dtype", "e4m3fn"}, [](auto& d) { d.bias_dtype = IRONCL_F8_E4M3FN; }},
    {{"weakest_accuracy"}, [](auto& d) { d.weakest_accuracy = 2; }, kUnimplemented},
    {{"grouping"}, [](auto& d) { d.grouping = 3; }, kUnimplemented},
    {{"matrices", "NONE"}, [](auto& d) { d.matrices = 2; }},
    {{"matrices is 0"}, [](auto& d) { d.grouping = IRONCL_GROUPING_MASKED; }},
    {{"scale_rounding"}, [](auto& d) { d.a_quantizer.scale_rounding = 2; }, kUnimplemented},
    {{"kind is 0", "IRONCL_OP_"}, [](auto& d) { d.kind = 0; }},
    {{"kind is 77", "1 to 6"}, [](auto& d) { d.kind = 77; }, kUnimplemented},
    {{"gemm_desc.reserved"}, [](auto& d) { d.reserved = 1; }, kUnimplemented},
    {{"B of e2m1", "7", "even"}, [](auto& d) { d.b_dtype = IRONCL_F4_E2M1, d.k = 7; }},
    {{"A of e2m1", "9", "even"}, [](auto& d) { d.a_source_dtype = 0, d.a_dtype = IRONCL_F4_E2M1, d.lda = 9; }},
    {{"row_origin is 4", "0 to 3"}, [](auto& d) { d.b_scale.row_origin = 4; }},
    {{"col_origin is 1"}, [](auto& d) { d.b_scale.group_cols = 0, d.b_scale.col_origin = 1; }},
    {{"d_scale.dtype is none"}, [](auto& d) { d.d_scale.row_origin = 1; }},
    {{"global_dtype is f16"}, [](auto& d) { d.b_scale.global_dtype = IRONCL_F16; }},
    {{"a_quantizer", "GIVEN", "leave both 0"},
     [](auto& d) {
       d.a_quantizer = {0, 1e-4f, IRONCL_SCALES_GIVEN, 0};
     }},
    {{"a_quantizer.scales is GIVEN"},
     [](auto& d) { d.a_source_dtype = 0, d.a_quantizer.scales = IRONCL_SCALES_GIVEN; }},
    {{"d_quantizer.scales is GIVEN"}, [](auto& d) { d.d_quantizer.scales = IRONCL_SCALES_GIVEN; }},
    {{"gemm_desc.activation is 3"}, [](auto& d) { d.activation = 3; }, kUnimplemented},
    {{"activation_limit is -1"}, [](auto& d) { d.activation = 1, d.activation_limit = -1; }},
    {{"activation_limit is 7", "no activation"}, [](auto& d) { d.activation_limit = 7; }},
    {{"n, twice", "2147483648"}, [](auto& d) { d.activation = 1, d.n = 1 << 30; }},
    {{"amax_floor", "nan"}, [](auto& d) { d.a_quantizer.amax_floor = std::nanf(""); }},
    {{"d_quantizer.amax_floor", "-1"}, [](auto& d) { d.d_quantizer.amax_floor = -1; }},
};

TEST_F(AdapterDesc, OfAGemmKeepsItsRules) {
  expect_taken(gemm_desc(), kGemmTaken);
  expect_refused(gemm_desc(), kGemmWrong);
}

TEST_F(AdapterDesc, OriginsGlobalAndStaticScalesReachTheBackend) {
  auto desc = gemm_desc();
  desc.b_scale.row_origin = 3, desc.b_scale.col_origin = 2;
  desc.b_scale.global_dtype = IRONCL_F32;
  desc.a_quantizer.scales = IRONCL_SCALES_GIVEN;
  desc.activation = IRONCL_ACTIVATION_SWIGLU_OAI, desc.activation_limit = 7;
  ASSERT_EQ(ask(desc), IRONCL_OK) << error.message;
  const auto& got = script().gemm_desc;
  EXPECT_EQ(got.b_scale.grid, (numerics::ScaleGrid{4, 4, 3, 2}));
  EXPECT_EQ(got.b_scale.ld, 3) << "eight columns from the third of a block of four lie in three blocks";
  EXPECT_TRUE(got.b_scale.global);
  EXPECT_TRUE(got.a_quantizer.given);
  EXPECT_FALSE(got.d_quantizer.given);
  EXPECT_EQ(got.activation, backend::Activation::swiglu_oai);
  EXPECT_EQ(got.activation_limit, 7);
  EXPECT_EQ(got.b_rows(), 2 * got.n);
}

TEST_F(AdapterDesc, OfAGemmReachesTheBackendWithDefaultsFilledIn) {
  auto desc = gemm_desc();
  desc.flags = IRONCL_GEMM_REPEATABLE;
  desc.weakest_accuracy = IRONCL_ACCURACY_TENSOR14;
  desc.b_scale.group_rows = desc.b_scale.group_cols = 0;  // per tensor
  ASSERT_EQ(ask(desc), IRONCL_OK) << error.message;
  const auto& got = script().gemm_desc;
  EXPECT_EQ(got.m, kM);
  EXPECT_EQ(got.n, kN);
  EXPECT_EQ(got.k, kK);
  EXPECT_EQ(got.lda, kK);
  EXPECT_EQ(got.ldd, kN);
  EXPECT_EQ(got.a_source, backend::DType::bf16);
  EXPECT_EQ(got.a, backend::DType::e4m3fn);
  EXPECT_EQ(got.d, backend::DType::f32);
  EXPECT_EQ(got.a_scale.ld, 2);
  EXPECT_EQ(got.b_scale.ld, 1);
  EXPECT_EQ(got.b_scale.grid, (numerics::ScaleGrid{0, 0}));
  EXPECT_EQ(got.weakest_accuracy, backend::AccuracyClass::tensor14);
  EXPECT_EQ(got.a_quantizer.amax_floor, 1e-10f);
  EXPECT_TRUE(got.repeatable);
}

TEST_F(AdapterDesc, OfARefusedProblemGivesTheSameTextTwice) {
  script().support = backend::Refusal(backend::Reason::scale_layout, "groups of 4 columns; 128 would be accepted");
  const auto desc = gemm_desc();
  auto support = sized<ironcl_support>();
  ASSERT_EQ(table->supports(devices[0], &desc, &support, &error), IRONCL_OK);
  EXPECT_EQ(support.reason, static_cast<uint32_t>(IRONCL_REASON_SCALE_LAYOUT));
  ironcl_op out = nullptr;
  EXPECT_EQ(table->op_create(devices[0], &desc, &out, &error), IRONCL_UNSUPPORTED);
  EXPECT_STREQ(error.message, support.text);
  EXPECT_EQ(script().calls["supports"], 1) << "op_create asked once more: a plan is selected once";
  EXPECT_EQ(out, nullptr);
}

const Taken<ironcl_weights_desc> kWeightsTaken[] = {
    {"scale ld with room", [](auto& d) { d.scale.ld = 3, d.scale_bytes = 20; }},
    {"three matrices", [](auto& d) { d.matrices = 3, d.data_bytes = 144, d.scale_bytes = 48; }},
    {"bf16 with scales", [](auto& d) { d.dtype = IRONCL_BF16, d.data_bytes = 96; }},
};

const Wrong<ironcl_weights_desc> kWeightsWrong[] = {
    {{"weights_desc.n"}, [](auto& d) { d.n = 0; }},
    {{"weights_desc.k"}, [](auto& d) { d.k = -8; }},
    {{"weights_desc.ld", "7", "8"}, [](auto& d) { d.ld = 7; }},
    {{"data_bytes is 48", "53", "ld 9"}, [](auto& d) { d.ld = 9; }},
    {{"data_bytes is 47", "at least 48"}, [](auto& d) { d.data_bytes = 47; }},
    {{"weights_desc.data is NULL"}, [](auto& d) { d.data = nullptr; }},
    {{"weights_desc.scales is NULL"}, [](auto& d) { d.scales = nullptr; }},
    {{"scale_bytes is 15", "16", "4x4", "ceil"}, [](auto& d) { d.scale_bytes = 15; }},
    {{"weights_desc.scale.ld"}, [](auto& d) { d.scale.ld = 1; }},
    {{"scale.dtype is none"}, [](auto& d) { d.scale = {}; }},
    {{"e8m0"}, [](auto& d) { d.dtype = IRONCL_F8_E8M0; }},
    {{"weights_desc.dtype", "11"}, [](auto& d) { d.dtype = 11; }, kUnimplemented},
    {{"data_bytes", "144", "3"}, [](auto& d) { d.matrices = 3; }},
    {{"scales are given"}, [](auto& d) { d.dtype = IRONCL_BF16, d.scale = {}, d.data_bytes = 96; }},
    {{"2^63"}, [](auto& d) { d.ld = INT64_MAX / 4; }},
};

TEST_F(AdapterDesc, OfWeightsKeepsItsRules) {
  expect_taken(weights_desc(), kWeightsTaken);
  expect_refused(weights_desc(), kWeightsWrong);
}

TEST_F(AdapterDesc, OfWeightsMatchesThePlanItIsPreparedFor) {
  const auto problem = gemm_desc();
  ASSERT_EQ(table->op_create(devices[0], &problem, &gemm, &error), IRONCL_OK);
  auto desc = weights_desc();
  desc.plan = gemm;
  ASSERT_EQ(create(desc), IRONCL_OK) << error.message;
  EXPECT_NE(script().weights_desc.plan, nullptr);
  desc.n = kN - 1;
  EXPECT_EQ(create(desc), kInvalid);
  EXPECT_TRUE(says({"[5, 8]", "[6, 8]"}));
  desc = weights_desc();
  desc.plan = gemm;
  ironcl_weights out = nullptr;
  EXPECT_EQ(table->weights_prepare(devices[1], &desc, &out, &error), kInvalid);
  EXPECT_TRUE(says({"another device"}));
}

TEST_F(AdapterDesc, OfAnExportHoldsTheTightBytes) {
  const auto desc = weights_desc();
  ASSERT_EQ(table->weights_prepare(devices[0], &desc, &weights, &error), IRONCL_OK);
  auto info = sized<ironcl_weights_info>();
  ASSERT_EQ(table->weights_info(weights, &info, &error), IRONCL_OK);
  EXPECT_EQ(info.data_bytes, 16u);
  EXPECT_EQ(info.scale_bytes, 4u);
  EXPECT_STREQ(info.form, "row_major");
  std::array<char, 20> out{};
  EXPECT_EQ(table->weights_export(weights, &out[0], 15, &out[16], 4, &error), kInvalid);
  EXPECT_TRUE(says({"data_bytes is 15", "16"}));
  EXPECT_EQ(table->weights_export(weights, &out[0], 16, &out[16], 3, &error), kInvalid);
  EXPECT_TRUE(says({"scale_bytes is 3", "4"}));
  EXPECT_EQ(table->weights_export(weights, &out[0], 16, &out[16], 4, &error), IRONCL_OK);
  EXPECT_EQ(out[15], 1);
  EXPECT_EQ(out[16], 2);
}

}  // namespace
}  // namespace ironcl::fake
