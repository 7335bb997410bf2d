// SPDX-License-Identifier: Apache-2.0
// Grouped problems, gathered rows of A and unquantised weights through the C table: each rule broken once.
#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterGrouped : public AdapterTest {
 protected:
  static constexpr std::int64_t kARows = 3;

  void SetUp() override {
    AdapterTest::SetUp();
    make_all();
  }

  void replace_plan(const ironcl_gemm_desc& desc) {
    replace(gemm, desc);
    const auto count = desc.matrices;
    if (count == 0) return;
    auto matrix = weights_desc();
    matrix.matrices = count;
    matrix.data_bytes *= count, matrix.scale_bytes *= count;
    table->weights_destroy(std::exchange(weights, nullptr));
    ASSERT_EQ(table->weights_prepare(devices[0], &matrix, &weights, &error), IRONCL_OK) << error.message;
  }

  /// The fixture's problem with rows of A gathered.
  ironcl_gemm_desc gather_desc() const {
    auto desc = gemm_desc();
    desc.a_rows = kARows;
    return desc;
  }
  ironcl_gemm_args gather_args() const {
    auto args = gemm_args();
    args.a_rows = kARows;
    args.a.size = kARows * kK * 2;
    args.a_index = {buffer, 2048, kM * 4};
    return args;
  }

  ironcl_gemm_desc grouped_desc(uint32_t grouping) const {
    auto desc = gemm_desc();
    desc.grouping = grouping;
    desc.matrices = 3;
    return desc;
  }
  ironcl_gemm_args grouped_args() const {
    auto args = gemm_args();
    args.matrix_rows = {buffer, 2560, 12};
    return args;
  }
};

TEST_F(AdapterGrouped, WrongDescriptionsAreNamed) {
  const auto grouped = [](ironcl_gemm_desc& d) { d.grouping = IRONCL_GROUPING_CONTIGUOUS, d.matrices = 2; };
  const auto unquantised = [](ironcl_gemm_desc& d) { d.b_dtype = IRONCL_BF16, d.b_scale = {}; };
  const Wrong<ironcl_gemm_desc> all[] = {
      {{"gemm_desc.a_rows is -1", "0 to 2147483647"}, [](auto& d) { d.a_rows = -1; }},
      {{"gemm_desc.a_rows is 2147483648"}, [](auto& d) { d.a_rows = 1ll << 31; }},
      {{"gemm_desc: A", "2^63"}, [](auto& d) { d.a_rows = 1ll << 30, d.lda = 1ll << 31; }},
      {{"gemm_desc: scales of A", "2^63"},
       [](auto& d) { d.a_rows = 1ll << 30, d.a_source_dtype = 0, d.a_scale.ld = 1ll << 31; }},
      {{"a_scale.group_rows is 2", "gathered"}, [](auto& d) { d.a_rows = 4, d.a_scale.group_rows = 2; }},
      {{"a_scale.group_rows is 0", "gathered"}, [](auto& d) { d.a_rows = 4, d.a_scale.group_rows = 0; }},
      {{"a_scale.group_rows is 2", "different matrices"}, [&](auto& d) { grouped(d), d.a_scale.group_rows = 2; }},
      {{"a_scale.group_rows is 0", "different matrices"}, [&](auto& d) { grouped(d), d.a_scale.group_rows = 0; }},
      {{"d_scale.group_rows is 4", "different matrices"},
       [&](auto& d) {
         grouped(d), d.d_dtype = IRONCL_F8_E4M3FN;
         d.d_scale = {IRONCL_F32, 4, 4, 0, 0, 0, 0};
       }},
      {{"gemm_desc.matrices is 1048577"}, [&](auto& d) { grouped(d), d.matrices = (1u << 20) + 1; }},
      {{"gemm_desc: B", "2^63"},
       [&](auto& d) { grouped(d), d.matrices = 1u << 20, d.n = d.k = 0x7fffffff, d.lda = d.ldd = 0; }},
      {{"gemm_desc: D", "2^63"},
       [](auto& d) {
         d.grouping = IRONCL_GROUPING_MASKED, d.matrices = 1u << 20, d.m = 0x7fffffff, d.ldd = 1ll << 20;
       }},
      {{"gemm_desc.b_dtype is bf16", "a_dtype is e4m3fn", "f32, f16 or bf16"}, [&](auto& d) { unquantised(d); }},
      {{"a_scale.dtype is f32", "a_dtype bf16 has no scales"},
       [](auto& d) { d.a_source_dtype = 0, d.a_dtype = IRONCL_BF16; }},
  };
  expect_refused(gemm_desc(), all);
}

TEST_F(AdapterGrouped, DescriptionsReachTheBackend) {
  auto desc = grouped_desc(IRONCL_GROUPING_MASKED);
  desc.a_rows = 100;
  ASSERT_EQ(ask(desc), IRONCL_OK) << error.message;
  EXPECT_EQ(script().gemm_desc.grouping, backend::Grouping::masked);
  EXPECT_EQ(script().gemm_desc.matrices, 3);
  EXPECT_EQ(script().gemm_desc.a_rows, 100);
  desc = gemm_desc();
  desc.a_source_dtype = 0;
  desc.a_dtype = desc.b_dtype = IRONCL_BF16;
  desc.a_scale = desc.b_scale = {};
  ASSERT_EQ(ask(desc), IRONCL_OK) << error.message;
  EXPECT_EQ(script().gemm_desc.b, backend::DType::bf16);
  EXPECT_EQ(script().gemm_desc.b_scale.dtype, backend::DType::none);
  desc.b_scale = gemm_desc().b_scale;
  ASSERT_EQ(ask(desc), IRONCL_OK) << "codes less their zero points have scales: " << error.message;
  EXPECT_EQ(script().gemm_desc.b_scale.dtype, backend::DType::f32);
  desc.b_scale = {};
  desc.grouping = IRONCL_GROUPING_CONTIGUOUS, desc.matrices = 1;
  EXPECT_EQ(ask(desc), IRONCL_OK) << "rows without scales have none to share: " << error.message;
}

TEST_F(AdapterGrouped, GatheredRowsAreAskedFor) {
  replace_plan(gather_desc());
  auto args = gather_args();
  args.a_index = {};
  expect_invalid(args, {"gemm_args.a_index is absent", "16 bytes"});
  args = gather_args();
  args.a_index.size = 15;
  expect_invalid(args, {"gemm_args.a_index is 15", "16", "m = 4, a_rows = 3"});
  args = gather_args();
  args.a_index.offset = 2056;
  expect_invalid(args, {"gemm_args.a_index.offset is 2056", "buffer_alignment"});
  args = gather_args();
  args.a.size = kARows * kK * 2 - 1;
  expect_invalid(args, {"gemm_args.a is 47", "48", "a_rows = 3"});
  args = gather_args();
  args.a_rows = 0;
  expect_invalid(args, {"gemm_args.a_rows is 0", "1 to the plan's 3"});
  args.a_rows = 4;
  expect_invalid(args, {"gemm_args.a_rows is 4", "1 to the plan's 3"});
  args.a_rows = -1;
  expect_invalid(args, {"gemm_args.a_rows is -1"});
  args = gather_args();
  args.d.offset = 2048;
  expect_invalid(args, {"gemm_args.d", "overlaps gemm_args.a_index"});
  args = gather_args();
  args.a_rows = 1, args.a.size = kK * 2;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << "fewer rows of A than planned: " << error.message;
  EXPECT_EQ(script().gemm_args.a_rows, 1);
  EXPECT_EQ(script().gemm_args.a_index.offset, 2048u);
  args = sized<ironcl_gemm_args>();
  args.weights = weights;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << "no rows need no spans: " << error.message;
}

TEST_F(AdapterGrouped, CodesAndScalesOfAGatheredAHaveItsRows) {
  auto desc = gather_desc();
  replace_plan(desc);
  auto args = gather_args();
  args.a_quantized = {buffer, 3072, kARows * kK - 1};
  args.a_quantized_scale = {buffer, 3328, kARows * 2 * 4};
  expect_invalid(args, {"gemm_args.a_quantized is 23", "24"});
  args.a_quantized.size = kARows * kK;
  args.a_quantized_scale.size = kARows * 2 * 4 - 1;
  expect_invalid(args, {"gemm_args.a_quantized_scale is 23", "24"});
  args.a_quantized_scale.size = kARows * 2 * 4;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  desc.a_source_dtype = 0;
  replace_plan(desc);
  args = gather_args();
  args.a_scale = {buffer, 3072, kARows * 2 * 4 - 1};
  expect_invalid(args, {"gemm_args.a_scale is 23", "24"});
  args.a_scale.size = kARows * 2 * 4;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
}

TEST_F(AdapterGrouped, WhoGathersNothingGivesNoIndex) {
  auto args = gather_args();
  args.a = gemm_args().a;
  args.a_rows = 0;
  expect_invalid(args, {"gemm_args.a_index is given", "gathers no rows"});
  args.a_index = {};
  args.a_rows = 1;
  expect_invalid(args, {"gemm_args.a_rows is 1", "gathers no rows"});
}

TEST_F(AdapterGrouped, AMaskedProblemHasAnIndexForEachOfItsRows) {
  auto desc = grouped_desc(IRONCL_GROUPING_MASKED);
  desc.a_rows = kARows;
  replace_plan(desc);
  auto args = grouped_args();
  args.a_rows = kARows;
  args.a.size = kARows * kK * 2;  // flat: not a matrix for each group
  args.d.size = 3 * kM * kN * 4;
  args.a_index = {buffer, 2048, 3 * kM * 4 - 1};
  expect_invalid(args, {"gemm_args.a_index is 47", "48"});
  args.a_index.size = 3 * kM * 4;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  EXPECT_EQ(script().gemm_args.matrix_rows.offset, 2560u);
}

TEST_F(AdapterGrouped, EachMatrixHasItsBias) {
  auto desc = grouped_desc(IRONCL_GROUPING_CONTIGUOUS);
  desc.bias_dtype = IRONCL_F32;
  replace_plan(desc);
  auto args = grouped_args();
  args.bias = {buffer, 3072, 3 * kN * 4 - 1};
  expect_invalid(args, {"gemm_args.bias is 71", "72"});
  args.bias.size = 3 * kN * 4;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  args.matrix_rows.size = 11;
  expect_invalid(args, {"gemm_args.matrix_rows is 11", "12"});
}

TEST_F(AdapterGrouped, ContiguousRowsMayBeFewerThanPlanned) {
  replace_plan(grouped_desc(IRONCL_GROUPING_CONTIGUOUS));
  auto args = grouped_args();
  args.m = 2, args.a.size = 2 * kK * 2, args.d.size = 2 * kN * 4;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
}

}  // namespace
}  // namespace ironcl::fake
