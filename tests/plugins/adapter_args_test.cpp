// SPDX-License-Identifier: Apache-2.0
// What a call brings: spans, weights, wait lists, copies, events; each rule broken once.
#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterArgs : public AdapterTest {
 protected:
  void SetUp() override {
    AdapterTest::SetUp();
    make_all();
  }
};

TEST_F(AdapterArgs, TwoImportsOfOneMemoryOverlapAsOneBufferDoes) {
  alignas(64) static std::array<std::byte, 4096> memory{};
  script().imports = true;
  auto native = chained<ironcl_native_memory>();
  native.chain.type = IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED;
  native.kind = IRONCL_MEMORY_HOST_POINTER;
  auto desc = buffer_desc();
  desc.next = &native.chain;
  ironcl_buffer whole = nullptr, half = nullptr;
  native.handle = memory.data();
  ASSERT_EQ(table->buffer_create(devices[0], &desc, &whole, &error), IRONCL_OK) << error.message;
  native.handle = memory.data() + 1024, desc.size = 1024;
  ASSERT_EQ(table->buffer_create(devices[0], &desc, &half, &error), IRONCL_OK) << error.message;
  auto args = gemm_args();
  args.d = {whole, 1024, kM * kN * 4};
  args.a = {half, 0, kM * kK * 2};
  EXPECT_EQ(enqueue(args), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"gemm_args.d (written) overlaps gemm_args.a"}));
  args.d.offset = 2048;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << "apart: " << error.message;
  table->buffer_destroy(whole);
  table->buffer_destroy(half);
}

TEST_F(AdapterArgs, GlobalAndStaticScalesAreSpansOfTheCall) {
  auto desc = gemm_desc();
  desc.a_quantizer.scales = IRONCL_SCALES_GIVEN;
  desc.a_scale.global_dtype = IRONCL_F32;
  replace(gemm, desc);
  auto args = gemm_args();
  expect_invalid(args, {"gemm_args.a_scale is absent", "32 bytes"});
  args.a_scale = {buffer, 2048, kM * 2 * 4};
  expect_invalid(args, {"gemm_args.a_global is absent", "4 bytes"});
  args.a_global = {buffer, 3072, 4};
  args.d_global = {buffer, 3088, 4};
  expect_invalid(args, {"gemm_args.d_global is given", "no global scale"});
  args.d_global = {};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  EXPECT_EQ(script().gemm_args.a_global.offset, 3072u);
  EXPECT_EQ(script().gemm_args.a_scale.offset, 2048u);
}

TEST_F(AdapterArgs, NoEventIsMadeWhereNoneIsWanted) {
  const auto args = gemm_args();
  EXPECT_EQ(table->op_enqueue(gemm, queue, &args, nullptr, &error), IRONCL_OK) << error.message;
  EXPECT_FALSE(script().gemm_args.wants_event);
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  EXPECT_TRUE(script().gemm_args.wants_event);
}

TEST_F(AdapterArgs, ArgumentsOfAnotherKindAreInvalid) {
  const auto args = quantize_args();
  EXPECT_EQ(table->op_enqueue(gemm, queue, &args, nullptr, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"args.kind is 2", "operation's is 1"}));
  auto unset = gemm_args();
  unset.kind = 0;
  EXPECT_EQ(enqueue(unset), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"args.kind is 0", "IRONCL_OP_"}));
  unset.kind = 99;
  EXPECT_EQ(enqueue(unset), IRONCL_UNIMPLEMENTED);
}

TEST_F(AdapterArgs, GoodOnesReachTheBackend) {
  ASSERT_EQ(enqueue(gemm_args()), IRONCL_OK) << error.message;
  const auto& got = script().gemm_args;
  EXPECT_EQ(got.m, kM);
  EXPECT_EQ(got.d.offset, 1024u);
  EXPECT_EQ(got.d.size, static_cast<uint64_t>(kM * kN * 4));
  EXPECT_TRUE(got.a);
  EXPECT_FALSE(got.a_scale);
  EXPECT_NE(got.weights, nullptr);
  EXPECT_EQ(table->event_wait(events[0], UINT64_MAX, &error), IRONCL_OK) << error.message;
}

TEST_F(AdapterArgs, SpansAreThereLargeEnoughAndInsideTheirBuffer) {
  const Wrong<ironcl_gemm_args> all[] = {
      {{"gemm_args.a is absent", "64 bytes"}, [](auto& a) { a.a = {}; }},
      {{"gemm_args.a is 63", "64", "m = 4"}, [](auto& a) { a.a.size = 63; }},
      {{"gemm_args.d is 95", "96"}, [](auto& a) { a.d.size = 95; }},
      {{"gemm_args.a.buffer is NULL", "64"}, [](auto& a) { a.a.buffer = nullptr; }},
      {{"gemm_args.d", "4096", "beyond"}, [](auto& a) { a.d.offset = 4096; }},
      {{"gemm_args.d", "beyond"}, [](auto& a) { a.d.offset = UINT64_MAX - 15; }},
      {{"gemm_args.a", "beyond"}, [](auto& a) { a.a.size = UINT64_MAX; }},
      {{"gemm_args.workspace is 63", "64"},
       [&](auto& a) {
         a.workspace = {buffer, 2048, 63};
       }},
      {{"gemm_args.weights is NULL"}, [](auto& a) { a.weights = nullptr; }},
  };
  expect_refused(gemm_args(), all);
  auto args = gemm_args();
  args.workspace = {buffer, 2048, 64};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
}

/// Every span of a call, written ones first, each in a part of its own of the one buffer.
TEST_F(AdapterArgs, NoWrittenSpanOverlapsAnyOther) {
  auto desc = gemm_desc();
  desc.bias_dtype = IRONCL_F32;
  desc.d_dtype = IRONCL_F8_E4M3FN;
  desc.d_scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0};
  desc.grouping = IRONCL_GROUPING_CONTIGUOUS;
  desc.matrices = 1;
  const auto at = [&](int part, uint64_t size) {
    return ironcl_span{buffer, static_cast<uint64_t>(part) * 256, size};
  };
  using Args = ironcl_gemm_args;
  Spans<Args> written{{"d", &Args::d}, {"d_scale", &Args::d_scale}, {"workspace", &Args::workspace}};
  Spans<Args> read{{"a", &Args::a}, {"bias", &Args::bias}, {"matrix_rows", &Args::matrix_rows}};
  replace(gemm, desc);
  auto args = gemm_args();
  args.d = at(0, 32), args.d_scale = at(1, 32), args.workspace = at(2, 64), args.a = at(3, 64), args.bias = at(4, 32);
  args.matrix_rows = at(5, 32), args.a_quantized = at(6, 32), args.a_quantized_scale = at(7, 32);
  auto with_codes = written;
  with_codes.insert(with_codes.end(),
                    {{"a_quantized", &Args::a_quantized}, {"a_quantized_scale", &Args::a_quantized_scale}});
  ASSERT_EQ(enqueue(args), IRONCL_OK) << error.message;
  EXPECT_GT(expect_no_overlap(args, "gemm_args.", with_codes, read), 30);

  desc.a_source_dtype = 0;  // the caller's scales
  replace(gemm, desc);
  args.a_quantized = args.a_quantized_scale = {};
  args.a_scale = at(6, 32);
  read.push_back({"a_scale", &Args::a_scale});
  ASSERT_EQ(enqueue(args), IRONCL_OK) << error.message;
  EXPECT_GT(expect_no_overlap(args, "gemm_args.", written, read), 30);
}

TEST_F(AdapterArgs, OperandsThatThePlanHasNotAreRefused) {
  const ironcl_span more{buffer, 2048, 64};
  const Wrong<ironcl_gemm_args> all[] = {
      {{"gemm_args.bias is given", "no bias"}, [&](auto& a) { a.bias = more; }},
      {{"gemm_args.a_scale is given", "the plan makes"}, [&](auto& a) { a.a_scale = more; }},
      {{"gemm_args.d_scale is given", "not quantised"}, [&](auto& a) { a.d_scale = more; }},
      {{"gemm_args.matrix_rows is given", "no groups"}, [&](auto& a) { a.matrix_rows = more; }},
  };
  expect_refused(gemm_args(), all);
}

TEST_F(AdapterArgs, OperandsThatThePlanHasAreAskedFor) {
  auto desc = gemm_desc();
  desc.a_source_dtype = 0;
  desc.a_scale.ld = 5;
  desc.bias_dtype = IRONCL_F32;
  desc.d_dtype = IRONCL_F8_E4M3FN;
  desc.d_scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0};
  replace(gemm, desc);
  auto args = gemm_args();
  expect_invalid(args, {"gemm_args.a_scale is absent", "68"});  // (3 rows * 5 + 2) * 4 bytes
  args.a_scale = {buffer, 2048, 68};
  expect_invalid(args, {"gemm_args.d_scale is absent"});
  args.d_scale = {buffer, 2560, 32};
  expect_invalid(args, {"gemm_args.bias is absent", "24"});
  args.bias = {buffer, 3072, 24};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
}

TEST_F(AdapterArgs, KeptCodesComeInAPair) {
  auto args = gemm_args();
  args.a_quantized = {buffer, 2048, 32};
  expect_invalid(args, {"a_quantized_scale is absent", "both or neither"});
  args = gemm_args();
  args.a_quantized_scale = {buffer, 2048, 32};
  expect_invalid(args, {"a_quantized is absent"});
  args.a_quantized = {buffer, 2560, 31};
  expect_invalid(args, {"a_quantized is 31", "32"});
  args.a_quantized.size = 32;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  auto desc = gemm_desc();
  desc.a_source_dtype = 0;
  replace(gemm, desc);
  args.a_scale = {buffer, 3072, 32};
  script().calls.clear();
  expect_invalid(args, {"a_quantized is given", "does not quantise"});
}

TEST_F(AdapterArgs, MaskedGroupsHoldAllTheirMatrices) {
  auto desc = gemm_desc();
  desc.grouping = IRONCL_GROUPING_MASKED;
  desc.matrices = 3;
  replace(gemm, desc);
  auto matrix = weights_desc();
  matrix.matrices = 3;
  matrix.data_bytes *= 3;
  matrix.scale_bytes *= 3;
  auto args = gemm_args();
  EXPECT_EQ(enqueue(args), kInvalid) << "the weights of one matrix";
  EXPECT_TRUE(says({"gemm_args.weights", "1 matrices", "3 of"}));
  table->weights_destroy(std::exchange(weights, nullptr));
  ASSERT_EQ(table->weights_prepare(devices[0], &matrix, &weights, &error), IRONCL_OK) << error.message;
  args = gemm_args();
  expect_invalid(args, {"gemm_args.a is 64", "192"});
  args.a.size = 192;
  args.d.size = 288;
  expect_invalid(args, {"gemm_args.matrix_rows is absent", "12"});
  args.matrix_rows = {buffer, 2048, 12};
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  args.m = 2;
  script().calls.clear();
  expect_invalid(args, {"gemm_args.m is 2", "masked"});
}

TEST_F(AdapterArgs, WeightsAreThePlans) {
  const auto refused = [&](ironcl_weights_desc matrix, std::initializer_list<std::string> parts) {
    ironcl_weights other = nullptr;
    ASSERT_EQ(table->weights_prepare(devices[0], &matrix, &other, &error), IRONCL_OK) << error.message;
    auto with_other = gemm_args();
    with_other.weights = other;
    expect_invalid(with_other, parts);
    table->weights_destroy(other);
  };
  auto matrix = weights_desc();
  matrix.n = kN - 1;
  refused(matrix, {"gemm_args.weights", "[5, 8]", "[6, 8]"});
  matrix = weights_desc();
  matrix.dtype = IRONCL_F8_E5M2;
  refused(matrix, {"e5m2", "b_dtype e4m3fn"});
  matrix = weights_desc();
  matrix.scale.group_rows = 2;
  matrix.scale_bytes = 24;
  refused(matrix, {"2x4", "4x4"});
  matrix = weights_desc();
  matrix.scale.dtype = IRONCL_BF16;
  refused(matrix, {"bf16", "f32"});
}

TEST_F(AdapterArgs, ObjectsOfAnotherDeviceAreRefused) {
  const auto bytes = buffer_desc();
  const auto matrix = weights_desc();
  ironcl_buffer other_buffer = nullptr;
  ironcl_weights other_weights = nullptr;
  ironcl_queue other_queue = nullptr;
  ASSERT_EQ(table->buffer_create(devices[1], &bytes, &other_buffer, &error), IRONCL_OK);
  ASSERT_EQ(table->weights_prepare(devices[1], &matrix, &other_weights, &error), IRONCL_OK);
  ASSERT_EQ(table->queue_create(devices[1], 0, &other_queue, &error), IRONCL_OK);
  auto args = gemm_args();
  args.a.buffer = other_buffer;
  expect_invalid(args, {"gemm_args.a.buffer", "another device"});
  args = gemm_args();
  args.weights = other_weights;
  expect_invalid(args, {"gemm_args.weights", "another device"});
  make_steps();
  const auto refused = [&](ironcl_op op, const auto& good, const char* what) {
    EXPECT_EQ(table->op_enqueue(op, other_queue, &good, nullptr, &error), kInvalid);
    EXPECT_TRUE(says({"queue", "another device", what}));
  };
  refused(gemm, gemm_args(), "");
  refused(quantize, quantize_args(), "");
  refused(route, route_args(), "router");
  refused(activate, activate_args(), "activation");
  refused(combine, combine_args(), "combination");
  auto combination = combine_args();
  combination.x.buffer = other_buffer;
  expect_invalid(combination, {"combine_args.x.buffer", "another device"});
  char text[4];
  EXPECT_EQ(table->write(other_queue, {buffer, 0, 4}, text, 0, nullptr, &error), kInvalid);
  EXPECT_TRUE(says({"dst.buffer", "another device"}));
  table->queue_destroy(other_queue);
  table->buffer_destroy(other_buffer);
  table->weights_destroy(other_weights);
}

TEST_F(AdapterArgs, WaitListIsWhole) {
  auto args = gemm_args();
  ASSERT_EQ(enqueue(args), IRONCL_OK);
  script().calls.clear();
  args.wait_count = 2;
  expect_invalid(args, {"gemm_args.wait is NULL"});
  const ironcl_event wait[] = {events[0], nullptr};
  args.wait = wait;
  expect_invalid(args, {"gemm_args.wait[1] is NULL"});
  args.wait_count = 1;
  EXPECT_EQ(enqueue(args), IRONCL_OK) << error.message;
  EXPECT_EQ(script().gemm_args.wait.size(), 1u);
}

TEST_F(AdapterArgs, EventSaysTimeoutAndGivesItsProfileOnlyAtTheEnd) {
  ASSERT_EQ(enqueue(gemm_args()), IRONCL_OK);
  script().end_of_commands = false;
  EXPECT_EQ(table->event_wait(events[0], 0, &error), IRONCL_TIMEOUT);
  EXPECT_TRUE(says({"not ended"}));
  auto profile = sized<ironcl_event_profile>();
  EXPECT_EQ(table->event_profile(events[0], &profile, &error), kInvalid);
  EXPECT_TRUE(says({"event_wait first"}));
  script().end_of_commands = true;
  EXPECT_EQ(table->event_wait(events[0], 0, &error), IRONCL_OK);
  ASSERT_EQ(table->event_profile(events[0], &profile, &error), IRONCL_OK);
  EXPECT_EQ(profile.time_kind, static_cast<uint32_t>(IRONCL_TIME_MODELLED));
  EXPECT_EQ(profile.end_ns - profile.start_ns, 3u);
}

TEST_F(AdapterArgs, InfoOfAPlanIsTheBackends) {
  auto info = sized<ironcl_op_info>();
  ASSERT_EQ(table->op_info(gemm, &info, &error), IRONCL_OK);
  EXPECT_EQ(info.accuracy_class, static_cast<uint32_t>(IRONCL_ACCURACY_TENSOR14));
  EXPECT_EQ(info.accumulation_length, 128);
  EXPECT_EQ(info.workspace_bytes, 64u);
  EXPECT_STREQ(info.variant, "fake");
  EXPECT_STREQ(info.tuning, "tile_m=1");
}

}  // namespace
}  // namespace ironcl::fake
