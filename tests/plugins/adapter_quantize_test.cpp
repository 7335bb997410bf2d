// SPDX-License-Identifier: Apache-2.0
// Quantisers through the C table: what reaches the backend, and each rule broken once.
#include <cmath>

#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterQuantize : public AdapterTest {
 protected:
  void SetUp() override {
    AdapterTest::SetUp();
    make_all();
    replace(quantize, quantize_desc());
  }
};

TEST_F(AdapterQuantize, DescriptionReachesTheBackendWithItsDefaults) {
  const auto& got = script().quantize_desc;
  EXPECT_EQ(got.rows, kM);
  EXPECT_EQ(got.cols, kK);
  EXPECT_EQ(got.x_ld, kK);
  EXPECT_EQ(got.code_ld, kK);
  EXPECT_EQ(got.x, backend::DType::bf16);
  EXPECT_EQ(got.code, backend::DType::e4m3fn);
  EXPECT_EQ(got.scale.ld, 2);
  EXPECT_EQ(got.quantizer.amax_floor, 1e-10f);
  auto desc = quantize_desc();
  desc.x_ld = 9, desc.code_ld = 10, desc.scale.ld = 3;
  desc.quantizer = {IRONCL_SCALE_POWER_OF_TWO, 1e-4f, 0, 0};
  ASSERT_EQ(create(desc), IRONCL_OK) << error.message;
  EXPECT_EQ(script().quantize_desc.code_ld, 10);
  EXPECT_EQ(script().quantize_desc.scale.ld, 3);
  EXPECT_EQ(script().quantize_desc.quantizer.rounding, numerics::ScaleRounding::power_of_two);
}

TEST_F(AdapterQuantize, WrongDescriptionsAreNamed) {
  const Wrong<ironcl_quantize_desc> all[] = {
      {{"quantize_desc.rows is -1"}, [](auto& d) { d.rows = -1; }},
      {{"quantize_desc.cols is 0"}, [](auto& d) { d.cols = 0; }},
      {{"quantize_desc.x_ld is 7", "cols = 8"}, [](auto& d) { d.x_ld = 7; }},
      {{"quantize_desc.code_ld is 7"}, [](auto& d) { d.code_ld = 7; }},
      {{"quantize_desc: x", "2^63"}, [](auto& d) { d.x_ld = INT64_MAX / 2; }},
      {{"quantize_desc: x: 0 rows", "2^63"}, [](auto& d) { d.rows = 0, d.x_ld = INT64_MAX / 2; }},
      {{"quantize_desc: codes", "2^63"}, [](auto& d) { d.code_ld = INT64_MAX / 2; }},
      {{"quantize_desc: scales", "2^63"}, [](auto& d) { d.scale.ld = INT64_MAX / 2; }},
      {{"quantize_desc.x_dtype is e4m3fn"}, [](auto& d) { d.x_dtype = IRONCL_F8_E4M3FN; }},
      {{"quantize_desc.code_dtype is bf16"}, [](auto& d) { d.code_dtype = IRONCL_BF16; }},
      {{"quantize_desc.scale.dtype is e8m0", "f32"}, [](auto& d) { d.scale.dtype = IRONCL_F8_E8M0; }},
      {{"quantize_desc.scale.ld is 1"}, [](auto& d) { d.scale.ld = 1; }},
      {{"amax_floor"}, [](auto& d) { d.quantizer.amax_floor = std::nanf(""); }},
      {{"quantize_desc.flags"}, [](auto& d) { d.flags = 2; }, kUnimplemented},
      {{"scale_rounding is 9"}, [](auto& d) { d.quantizer.scale_rounding = 9; }, kUnimplemented},
      {{"struct_size is 2"}, [](auto& d) { d.struct_size = 2; }},
  };
  expect_refused(quantize_desc(), all);
}

TEST_F(AdapterQuantize, WrongCallsAreNamed) {
  const Wrong<ironcl_quantize_args> all[] = {
      {{"quantize_args.rows is 5", "4"}, [](auto& a) { a.rows = kM + 1; }},
      {{"quantize_args.x is absent", "64"}, [](auto& a) { a.x = {}; }},
      {{"quantize_args.codes is 31", "32", "rows = 4"}, [](auto& a) { a.codes.size = 31; }},
      {{"quantize_args.scales is 31", "32"}, [](auto& a) { a.scales.size = 31; }},
      {{"quantize_args.scales.offset is 2056", "buffer_alignment"}, [](auto& a) { a.scales.offset = 2056; }},
      {{"quantize_args.codes", "overlaps quantize_args.x"}, [](auto& a) { a.codes.offset = 32; }},
      {{"quantize_args.scales", "overlaps"}, [](auto& a) { a.scales.offset = 1040; }},
      {{"quantize_args.wait is NULL"}, [](auto& a) { a.wait_count = 1; }},
  };
  expect_refused(quantize_args(), all);
  EXPECT_EQ(enqueue(quantize_args()), IRONCL_OK) << error.message;
  EXPECT_EQ(script().quantize_args.codes.offset, 1024u);
  EXPECT_EQ(enqueue(sized<ironcl_quantize_args>()), IRONCL_OK) << "no rows need no spans: " << error.message;
}

}  // namespace
}  // namespace ironcl::fake
