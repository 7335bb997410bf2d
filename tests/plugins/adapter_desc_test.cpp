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

/// One change to a good description, and what comes of it.
template <class Desc>
struct Case {
  const char* name;
  void (*change)(Desc&);
  ironcl_status status;
  std::vector<std::string> says;
};

const Case<ironcl_gemm_desc> kGemmCases[] = {
    {"as it is", [](auto&) {}, IRONCL_OK, {}},
    {"m = 0 is no work", [](auto& d) { d.m = 0; }, IRONCL_OK, {}},
    {"m < 0", [](auto& d) { d.m = -1; }, kInvalid, {"gemm_desc.m", "-1", "0 to 2147483647"}},
    {"m too large", [](auto& d) { d.m = 1ll << 31; }, kInvalid, {"gemm_desc.m"}},
    {"n = 0", [](auto& d) { d.n = 0; }, kInvalid, {"gemm_desc.n", "expected 1"}},
    {"k = 0", [](auto& d) { d.k = 0; }, kInvalid, {"gemm_desc.k", "expected 1"}},
    {"k overflows", [](auto& d) { d.k = INT64_MAX; }, kInvalid, {"gemm_desc.k"}},
    {"lda < k", [](auto& d) { d.lda = 7; }, kInvalid, {"gemm_desc.lda", "7", "k = 8", "0 means tight"}},
    {"lda < 0", [](auto& d) { d.lda = -8; }, kInvalid, {"gemm_desc.lda", "-8"}},
    {"ldd < n", [](auto& d) { d.ldd = 5; }, kInvalid, {"gemm_desc.ldd", "n = 6"}},
    {"lda * m overflows", [](auto& d) { d.lda = INT64_MAX / 2; }, kInvalid, {"gemm_desc: A", "2^63"}},
    {"ldd * m overflows", [](auto& d) { d.ldd = INT64_MAX / 2; }, kInvalid, {"gemm_desc: D"}},
    {"a_dtype none", [](auto& d) { d.a_dtype = 0; }, kInvalid, {"a_dtype", "none", "e4m3fn"}},
    {"a_dtype s32", [](auto& d) { d.a_dtype = IRONCL_S32; }, kInvalid, {"a_dtype", "s32"}},
    {"a_dtype e8m0", [](auto& d) { d.a_dtype = IRONCL_F8_E8M0; }, kInvalid, {"a_dtype", "e8m0"}},
    {"a_dtype of a later version", [](auto& d) { d.a_dtype = 11; }, kUnimplemented, {"a_dtype", "11", "0 to 10"}},
    {"source of a later version", [](auto& d) { d.a_source_dtype = 77; }, kUnimplemented, {"a_source_dtype", "77"}},
    {"source fp8", [](auto& d) { d.a_source_dtype = IRONCL_F8_E5M2; }, kInvalid, {"a_source_dtype", "e5m2", "bf16"}},
    {"source, but A stays f32",
     [](auto& d) { d.a_dtype = IRONCL_F32, d.a_scale = {}; },
     kInvalid,
     {"a_source_dtype", "bf16", "a_dtype f32"}},
    {"scales made by the plan are f32",
     [](auto& d) { d.a_scale.dtype = IRONCL_BF16; },
     kInvalid,
     {"a_scale.dtype", "bf16"}},
    {"scales made by the plan are tight", [](auto& d) { d.a_scale.ld = 4; }, kInvalid, {"a_scale.ld", "4", "0 or 2"}},
    {"given scales may have an ld",
     [](auto& d) { d.a_source_dtype = 0, d.a_scale.ld = 4, d.a_scale.dtype = IRONCL_F16; },
     IRONCL_OK,
     {}},
    {"given scales, ld too small",
     [](auto& d) { d.a_source_dtype = 0, d.a_scale.ld = 1; },
     kInvalid,
     {"a_scale.ld", "1", "2"}},
    {"quantised A without scales",
     [](auto& d) { d.a_source_dtype = 0, d.a_scale = {}; },
     kInvalid,
     {"a_scale.dtype"}},
    {"weight only", [](auto& d) { d.a_source_dtype = 0, d.a_dtype = IRONCL_BF16, d.a_scale = {}; }, IRONCL_OK, {}},
    {"weight only with scales of A",
     [](auto& d) { d.a_source_dtype = 0, d.a_dtype = IRONCL_BF16; },
     kInvalid,
     {"a_scale"}},
    {"b_dtype none", [](auto& d) { d.b_dtype = 0; }, kInvalid, {"b_dtype", "none"}},
    {"quantised B without scales", [](auto& d) { d.b_scale = {}; }, kInvalid, {"b_scale.dtype", "scale of 1"}},
    {"b_scale s32", [](auto& d) { d.b_scale.dtype = IRONCL_S32; }, kInvalid, {"b_scale.dtype", "s32", "e8m0"}},
    {"b_scale with an ld", [](auto& d) { d.b_scale.ld = 3; }, kInvalid, {"b_scale.ld", "3"}},
    {"b_scale e8m0", [](auto& d) { d.b_scale.dtype = IRONCL_F8_E8M0; }, IRONCL_OK, {}},
    {"groups without a dtype", [](auto& d) { d.d_scale.group_cols = 4; }, kInvalid, {"d_scale.dtype is none", "0x4"}},
    {"d_dtype none", [](auto& d) { d.d_dtype = 0; }, kInvalid, {"d_dtype", "none"}},
    {"d_dtype i8", [](auto& d) { d.d_dtype = IRONCL_I8; }, kInvalid, {"d_dtype", "i8"}},
    {"fp8 D without scales", [](auto& d) { d.d_dtype = IRONCL_F8_E4M3FN; }, kInvalid, {"d_scale.dtype", "e4m3fn"}},
    {"fp8 D with scales",
     [](auto& d) { d.d_dtype = IRONCL_F8_E4M3FN, d.d_scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0}; },
     IRONCL_OK,
     {}},
    {"f32 D with scales", [](auto& d) { d.d_scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0}; }, kInvalid, {"d_scale", "f32"}},
    {"bias fp8", [](auto& d) { d.bias_dtype = IRONCL_F8_E4M3FN; }, kInvalid, {"bias_dtype", "e4m3fn"}},
    {"bias bf16", [](auto& d) { d.bias_dtype = IRONCL_BF16; }, IRONCL_OK, {}},
    {"accuracy of a later version", [](auto& d) { d.weakest_accuracy = 2; }, kUnimplemented, {"weakest_accuracy"}},
    {"grouping of a later version", [](auto& d) { d.grouping = 3; }, kUnimplemented, {"grouping"}},
    {"groups without grouping", [](auto& d) { d.matrices = 2; }, kInvalid, {"matrices", "NONE"}},
    {"grouping without groups", [](auto& d) { d.grouping = IRONCL_GROUPING_MASKED; }, kInvalid, {"matrices is 0"}},
    {"rounding of a later version",
     [](auto& d) { d.a_quantizer.scale_rounding = 2; },
     kUnimplemented,
     {"scale_rounding"}},
    {"kind 0", [](auto& d) { d.kind = 0; }, kInvalid, {"kind is 0", "IRONCL_OP_"}},
    {"kind of a later version", [](auto& d) { d.kind = 77; }, kUnimplemented, {"kind is 77", "1 to 5"}},
    {"reserved", [](auto& d) { d.reserved = 1; }, kUnimplemented, {"gemm_desc.reserved"}},
    {"B of e2m1", [](auto& d) { d.b_dtype = IRONCL_F4_E2M1; }, IRONCL_OK, {}},
    {"B of e2m1 with scales of e4m3",
     [](auto& d) { d.b_dtype = IRONCL_F4_E2M1, d.b_scale.dtype = IRONCL_F8_E4M3FN; },
     IRONCL_OK,
     {}},
    {"B of e2m1, k odd", [](auto& d) { d.b_dtype = IRONCL_F4_E2M1, d.k = 7; }, kInvalid, {"B of e2m1", "7", "even"}},
    {"A of e2m1, rows half a byte apart",
     [](auto& d) { d.a_source_dtype = 0, d.a_dtype = IRONCL_F4_E2M1, d.lda = 9; },
     kInvalid,
     {"A of e2m1", "9", "even"}},
    {"D of e2m1 with its scales",
     [](auto& d) { d.d_dtype = IRONCL_F4_E2M1, d.d_scale = {IRONCL_F8_E4M3FN, 1, 16, IRONCL_F32, 0, 0, 0}; },
     IRONCL_OK,
     {}},
    {"D of i8 with its scales",
     [](auto& d) { d.d_dtype = IRONCL_I8, d.d_scale = {IRONCL_F32, 1, 0, 0, 0, 0, 0}; },
     IRONCL_OK,
     {}},
    {"B begins inside a block", [](auto& d) { d.b_scale.row_origin = d.b_scale.col_origin = 3; }, IRONCL_OK, {}},
    {"B begins past its block", [](auto& d) { d.b_scale.row_origin = 4; }, kInvalid, {"row_origin is 4", "0 to 3"}},
    {"an origin in a group that spans k",
     [](auto& d) { d.b_scale.group_cols = 0, d.b_scale.col_origin = 1; },
     kInvalid,
     {"col_origin is 1"}},
    {"an origin without scales", [](auto& d) { d.d_scale.row_origin = 1; }, kInvalid, {"d_scale.dtype is none"}},
    {"a global scale", [](auto& d) { d.b_scale.global_dtype = IRONCL_F32; }, IRONCL_OK, {}},
    {"a global scale of f16",
     [](auto& d) { d.b_scale.global_dtype = IRONCL_F16; },
     kInvalid,
     {"global_dtype is f16"}},
    {"static scales of A, of any type and ld",
     [](auto& d) { d.a_quantizer.scales = IRONCL_SCALES_GIVEN, d.a_scale.dtype = IRONCL_BF16, d.a_scale.ld = 4; },
     IRONCL_OK,
     {}},
    {"static scales with a floor",
     [](auto& d) {
       d.a_quantizer = {0, 1e-4f, IRONCL_SCALES_GIVEN, 0};
     },
     kInvalid,
     {"a_quantizer", "GIVEN", "leave both 0"}},
    {"static scales of an A that is not quantised",
     [](auto& d) { d.a_source_dtype = 0, d.a_quantizer.scales = IRONCL_SCALES_GIVEN; },
     kInvalid,
     {"a_quantizer.scales is GIVEN"}},
    {"static scales of a plain D",
     [](auto& d) { d.d_quantizer.scales = IRONCL_SCALES_GIVEN; },
     kInvalid,
     {"d_quantizer.scales is GIVEN"}},
    {"floor NaN", [](auto& d) { d.a_quantizer.amax_floor = std::nanf(""); }, kInvalid, {"amax_floor", "nan"}},
    {"floor < 0", [](auto& d) { d.d_quantizer.amax_floor = -1; }, kInvalid, {"d_quantizer.amax_floor", "-1"}},
};

TEST_F(AdapterDesc, OfAGemmKeepsItsRules) {
  for (const auto& test : kGemmCases) {
    SCOPED_TRACE(test.name);
    auto desc = gemm_desc();
    test.change(desc);
    EXPECT_EQ(ask(desc), test.status) << error.message;
    for (const std::string& part : test.says) EXPECT_TRUE(says({part}));
    EXPECT_EQ(create(desc), test.status) << "op_create refuses the same";
  }
}

TEST_F(AdapterDesc, OriginsGlobalAndStaticScalesReachTheBackend) {
  auto desc = gemm_desc();
  desc.b_scale.row_origin = 3, desc.b_scale.col_origin = 2;
  desc.b_scale.global_dtype = IRONCL_F32;
  desc.a_quantizer.scales = IRONCL_SCALES_GIVEN;
  ASSERT_EQ(ask(desc), IRONCL_OK) << error.message;
  const auto& got = script().gemm_desc;
  EXPECT_EQ(got.b_scale.grid, (numerics::ScaleGrid{4, 4, 3, 2}));
  EXPECT_EQ(got.b_scale.ld, 3) << "eight columns from the third of a block of four lie in three blocks";
  EXPECT_TRUE(got.b_scale.global);
  EXPECT_TRUE(got.a_quantizer.given);
  EXPECT_FALSE(got.d_quantizer.given);
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

const Case<ironcl_weights_desc> kWeightsCases[] = {
    {"as it is", [](auto&) {}, IRONCL_OK, {}},
    {"n = 0", [](auto& d) { d.n = 0; }, kInvalid, {"weights_desc.n"}},
    {"k < 0", [](auto& d) { d.k = -8; }, kInvalid, {"weights_desc.k"}},
    {"ld < k", [](auto& d) { d.ld = 7; }, kInvalid, {"weights_desc.ld", "7", "8"}},
    {"ld makes the data too small", [](auto& d) { d.ld = 9; }, kInvalid, {"data_bytes is 48", "53", "ld 9"}},
    {"data too small", [](auto& d) { d.data_bytes = 47; }, kInvalid, {"data_bytes is 47", "at least 48"}},
    {"data NULL", [](auto& d) { d.data = nullptr; }, kInvalid, {"weights_desc.data is NULL"}},
    {"scales NULL", [](auto& d) { d.scales = nullptr; }, kInvalid, {"weights_desc.scales is NULL"}},
    {"scales too small", [](auto& d) { d.scale_bytes = 15; }, kInvalid, {"scale_bytes is 15", "16", "4x4", "ceil"}},
    {"scale ld < columns", [](auto& d) { d.scale.ld = 1; }, kInvalid, {"weights_desc.scale.ld"}},
    {"scale ld with room", [](auto& d) { d.scale.ld = 3, d.scale_bytes = 20; }, IRONCL_OK, {}},
    {"no scales for fp8", [](auto& d) { d.scale = {}; }, kInvalid, {"scale.dtype is none"}},
    {"dtype e8m0", [](auto& d) { d.dtype = IRONCL_F8_E8M0; }, kInvalid, {"e8m0"}},
    {"dtype of a later version", [](auto& d) { d.dtype = 11; }, kUnimplemented, {"weights_desc.dtype", "11"}},
    {"three matrices, data of one", [](auto& d) { d.matrices = 3; }, kInvalid, {"data_bytes", "144", "3"}},
    {"three matrices", [](auto& d) { d.matrices = 3, d.data_bytes = 144, d.scale_bytes = 48; }, IRONCL_OK, {}},
    {"bf16 with scales", [](auto& d) { d.dtype = IRONCL_BF16, d.data_bytes = 96; }, IRONCL_OK, {}},
    {"bf16 without, but a pointer",
     [](auto& d) { d.dtype = IRONCL_BF16, d.scale = {}, d.data_bytes = 96; },
     kInvalid,
     {"scales are given"}},
    {"size overflows", [](auto& d) { d.ld = INT64_MAX / 4; }, kInvalid, {"2^63"}},
};

TEST_F(AdapterDesc, OfWeightsKeepsItsRules) {
  for (const auto& test : kWeightsCases) {
    SCOPED_TRACE(test.name);
    auto desc = weights_desc();
    test.change(desc);
    EXPECT_EQ(prepare(desc), test.status) << error.message;
    for (const std::string& part : test.says) EXPECT_TRUE(says({part}));
  }
}

TEST_F(AdapterDesc, OfWeightsMatchesThePlanItIsPreparedFor) {
  const auto problem = gemm_desc();
  ASSERT_EQ(table->op_create(devices[0], &problem, &gemm, &error), IRONCL_OK);
  auto desc = weights_desc();
  desc.plan = gemm;
  ASSERT_EQ(prepare(desc), IRONCL_OK) << error.message;
  EXPECT_NE(script().weights_desc.plan, nullptr);
  desc.n = kN - 1;
  EXPECT_EQ(prepare(desc), kInvalid);
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
