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
      {{"quantize_desc.rows is -1"}, kInvalid, [](auto& d) { d.rows = -1; }},
      {{"quantize_desc.cols is 0"}, kInvalid, [](auto& d) { d.cols = 0; }},
      {{"quantize_desc.x_ld is 7", "cols = 8"}, kInvalid, [](auto& d) { d.x_ld = 7; }},
      {{"quantize_desc.code_ld is 7"}, kInvalid, [](auto& d) { d.code_ld = 7; }},
      {{"quantize_desc: x", "2^63"}, kInvalid, [](auto& d) { d.x_ld = INT64_MAX / 2; }},
      {{"quantize_desc: x: 0 rows", "2^63"}, kInvalid, [](auto& d) { d.rows = 0, d.x_ld = INT64_MAX / 2; }},
      {{"quantize_desc: codes", "2^63"}, kInvalid, [](auto& d) { d.code_ld = INT64_MAX / 2; }},
      {{"quantize_desc: scales", "2^63"}, kInvalid, [](auto& d) { d.scale.ld = INT64_MAX / 2; }},
      {{"quantize_desc.x_dtype is e4m3fn"}, kInvalid, [](auto& d) { d.x_dtype = IRONCL_F8_E4M3FN; }},
      {{"quantize_desc.code_dtype is bf16"}, kInvalid, [](auto& d) { d.code_dtype = IRONCL_BF16; }},
      {{"quantize_desc.scale.dtype is e8m0", "f32"}, kInvalid, [](auto& d) { d.scale.dtype = IRONCL_F8_E8M0; }},
      {{"quantize_desc.scale.ld is 1"}, kInvalid, [](auto& d) { d.scale.ld = 1; }},
      {{"amax_floor"}, kInvalid, [](auto& d) { d.quantizer.amax_floor = std::nanf(""); }},
      {{"quantize_desc.flags"}, kUnimplemented, [](auto& d) { d.flags = 2; }},
      {{"scale_rounding is 9"}, kUnimplemented, [](auto& d) { d.quantizer.scale_rounding = 9; }},
      {{"struct_size is 2"}, kInvalid, [](auto& d) { d.struct_size = 2; }},
  };
  expect_refused(quantize_desc(), all);
}

TEST_F(AdapterQuantize, WrongCallsAreNamed) {
  auto args = quantize_args();
  args.rows = kM + 1;
  expect_invalid(args, {"quantize_args.rows is 5", "4"});
  args = quantize_args();
  args.x = {};
  expect_invalid(args, {"quantize_args.x is absent", "64"});
  args = quantize_args();
  args.codes.size = 31;
  expect_invalid(args, {"quantize_args.codes is 31", "32", "rows = 4"});
  args = quantize_args();
  args.scales.size = 31;
  expect_invalid(args, {"quantize_args.scales is 31", "32"});
  args = quantize_args();
  args.scales.offset = 2056;
  expect_invalid(args, {"quantize_args.scales.offset is 2056", "buffer_alignment"});
  args = quantize_args();
  args.codes.offset = 32;
  expect_invalid(args, {"quantize_args.codes", "overlaps quantize_args.x"});
  args = quantize_args();
  args.scales.offset = 1040;
  expect_invalid(args, {"overlaps", "quantize_args.scales"});
  args = quantize_args();
  args.wait_count = 1;
  expect_invalid(args, {"quantize_args.wait is NULL"});
  EXPECT_EQ(enqueue(quantize_args()), IRONCL_OK) << error.message;
  EXPECT_EQ(script().quantize_args.codes.offset, 1024u);
  args = sized<ironcl_quantize_args>();
  EXPECT_EQ(enqueue(args), IRONCL_OK) << "no rows need no spans: " << error.message;
}

TEST_F(AdapterQuantize, ObjectsOfAnotherDeviceAreRefused) {
  ironcl_queue other = nullptr;
  ASSERT_EQ(table->queue_create(devices[1], 0, &other, &error), IRONCL_OK);
  const auto args = quantize_args();
  EXPECT_EQ(table->op_enqueue(quantize, other, &args, nullptr, &error), kInvalid);
  EXPECT_TRUE(says({"queue", "another device"}));
  table->queue_destroy(other);
}

}  // namespace
}  // namespace ironcl::fake
