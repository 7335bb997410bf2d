// SPDX-License-Identifier: Apache-2.0
// Dot products of bf16 and bytes (AVX512-BF16, VNNI): right where the processor has them, and a device as it was
// wherever anything stands in the way. What every variant must do, gemm_bf16 among them, is in gemm_test.cpp.
#include "backends/opencl/device.h"
#include "backends/opencl/matrix_unit.h"
#include "tests/opencl/kinds_of_device.h"
#include "tests/opencl/one_launch.h"
#include "tests/opencl/own_kernels.h"
#include "tests/opencl/trials.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

TEST(OpenClDotProducts, SwitchedOffLeavesTheDeviceAsItWas) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  Config config{.avx512_bf16 = false, .trial_program = IRONCL_TRIAL_PROGRAM};
  const Made made = make(config);
  for (const auto& device : made.devices)
    expect_as_before(*device, "gemm_bf16",
                     device->props().type == backend::DeviceType::cpu ? "are switched off" : "no processor");
}

class OpenClDotProductTrials : public TrialPrograms {};

TEST_F(OpenClDotProductTrials, ThatFailLeaveTheDeviceAsItWas) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  if (const std::string why = why_no_dot_products(); !why.empty()) GTEST_SKIP() << why;
  for (const auto& [lines, why] : {std::pair{"kill -ILL $$", "signal 4"},
                                   {"echo 'ironcl trial: 3 elements are wrong'", "3 elements are wrong"}}) {
    Config config{.trial_program = program(lines)};
    const Made made = make(config);
    const auto device = cpu_of(made);
    if (device == nullptr) GTEST_SKIP() << "no OpenCL device is a processor";
    expect_as_before(*device, "gemm_bf16", why);
  }
}

/// The first processor on which the trial went well; null elsewhere.
backend::Device* device_with_dot_products() {
  for (const auto& device : devices()) {
    if (device->props().type == backend::DeviceType::cpu && trial_of(*device, "gemm_bf16") == "right")
      return device.get();
  }
  return nullptr;
}

TEST(OpenClDotProducts, WhereTheProcessorNamesThemPoclRunsThem) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  if (const std::string why = why_no_dot_products(); !why.empty()) GTEST_SKIP() << why;
  for (const auto& device : devices()) {
    const bool pocl = device->props().driver.find("Portable Computing Language") != std::string::npos;
    if (!pocl || device->props().type != backend::DeviceType::cpu) continue;
    EXPECT_EQ(trial_of(*device, "gemm_bf16"), "right");
  }
}

TEST(OpenClDotProducts, AreTakenWhereTheyWereMeasuredToBeFaster) {
  // What the device itself measured decides: once a multiply-add (AMD), four times as long (an Intel that leaves this
  // to tiles).
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  Features f = dynamic_cast<Device&>(*devices()[0]).context()->features;
  f.type = backend::DeviceType::cpu;
  f.vector_width = 16;
  f.compute_units = 2;
  f.local_is_dedicated = f.ptx_sm_80 = f.ptx_sm_89 = f.ptx_sm_90 = false;
  f.amx_why_not = "no tiles";
  f.dot_products_why_not.clear();
  AllWork trials;
  const auto taken = [&](std::int64_t m, DType type) {
    Case c{.m = m, .n = 4096, .k = 4096, .a = type, .b = type};
    Choice choice;
    const backend::GemmDesc desc = c.desc();
    EXPECT_EQ(choose({f, variants(), &trials}, desc, &choice, nullptr).reason, backend::Reason::none);
    return choice.variant == nullptr ? std::string() : choice.variant->name;
  };
  f.dot_products_of_bf16 = f.dot_products_of_bytes = 1;
  for (const std::int64_t m : {1, 4, 8}) EXPECT_EQ(taken(m, DType::e4m3fn), "gemm_stream_bf16") << m;
  for (const std::int64_t m : {16, 64, 1024}) EXPECT_EQ(taken(m, DType::e4m3fn), "gemm_bf16") << m;
  EXPECT_EQ(taken(1, DType::i8), "gemm_stream");
  for (const std::int64_t m : {8, 16, 64, 1024}) EXPECT_EQ(taken(m, DType::i8), "gemm_bf16") << m;
  f.dot_products_of_bf16 = 0.25;
  for (const std::int64_t m : {1, 8, 16, 64, 1024})
    EXPECT_EQ(taken(m, DType::e4m3fn).find("bf16"), std::string::npos) << m;
  EXPECT_EQ(taken(1024, DType::i8), "gemm_bf16");
}

TEST(OpenClDotProducts, QuantiseInOneLaunchWhereALaunchIsMuchOfACall) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  Features f = dynamic_cast<Device&>(*devices()[0]).context()->features;
  f.type = backend::DeviceType::cpu;
  f.vector_width = 16;
  f.clock_hz = 3.7e9;
  f.local_bytes = f.cache_bytes = std::uint64_t{32} << 20;
  f.dot_products_of_bf16 = f.dot_products_of_bytes = 1;
  Problem p{16, 4096, 4096, 128, DType::e4m3fn, DType::e4m3fn, DType::bf16};
  p.a_source = DType::bf16;
  const auto floats = [&](int cores, std::int64_t m) {
    f.compute_units = cores;
    p.m = m;
    return find_variant("gemm_bf16")->rule_of_thumb(f, p).at("floats");
  };
  EXPECT_EQ(floats(2, 16), 0) << "14 us of 1.5 ms";
  EXPECT_EQ(floats(16, 16), 1) << "56 us of 0.2 ms";
  EXPECT_EQ(floats(16, 128), 1) << "of 1.3 ms";
  EXPECT_EQ(floats(16, 1024), 0) << "of 10 ms";
  p.a_source = DType::none;
  EXPECT_EQ(floats(16, 16), 0) << "there is nothing to quantise";
  p.a_source = DType::bf16;
  p.a_rows = 1;
  EXPECT_EQ(floats(16, 16), 0) << "a step before lays the rows";
}

TEST(OpenClDotProducts, OfFewRowsAreRightForEveryGroupTypeAndTile) {
  backend::Device* device = device_with_dot_products();
  if (device == nullptr) GTEST_SKIP() << "no processor with dot products that work";
  std::uint32_t seed = 800, turn = 0;
  for (const auto& [a, b, group, tile_m, block_m] : {std::tuple{DType::e4m3fn, DType::e4m3fn, 32, "1", "1"},
                                                     {DType::e4m3fn, DType::e4m3fn, 64, "2", "8"},
                                                     {DType::e4m3fn, DType::e4m3fn, 128, "10", "2"},
                                                     {DType::e5m2, DType::e4m3fn, 128, "3", "1"},
                                                     {DType::e4m3fn, DType::e5m2, 256, "7", "3"},
                                                     {DType::e5m2, DType::e5m2, 32, "8", "5"}}) {
    ++turn;  // A program for each: drivers take seconds for one.
    for (const auto& [m, n, k] :
         {std::array{1, 32, 128}, {2, 64, 512}, {9, 97, 300}, {10, 160, 129}, {37, 65, 96}, {3, 33, 18}}) {
      ++seed;
      Case c{.m = m, .n = n, .k = k, .a = a, .b = b, .a_grid = {1, group}};
      c.b_grid = {turn % 3 == 0 ? 1 : group, group};
      c.options = {{"variant", "gemm_stream_bf16"}, {"tile_m", tile_m}, {"block_m", block_m}};
      c.seed = seed;
      c.bias = turn % 2 == 0 ? DType::f32 : DType::none;
      expect_right(run(*device, c, make_data(c)), c, device->props().name);
    }
  }
  // Integers have a kernel of their own, floats that bf16 does not hold none.
  Case c{.m = 2, .n = 64, .k = 128, .a = DType::i8, .b = DType::i8, .options = {{"variant", "gemm_stream_bf16"}}};
  EXPECT_EQ(device->supports(c.desc()).reason, backend::Reason::dtype);
}

TEST(OpenClDotProducts, AreRightForEveryGroupTypeAndTile) {
  backend::Device* device = device_with_dot_products();
  if (device == nullptr) GTEST_SKIP() << "no processor with dot products that work";
  std::uint32_t seed = 700, turn = 0;
  for (const auto& [type, group, tile_m, block_m, block_n] : {std::tuple{DType::e4m3fn, 32, "1", "1", "32"},
                                                              {DType::e4m3fn, 64, "14", "4", "64"},
                                                              {DType::e4m3fn, 256, "3", "2", "96"},
                                                              {DType::e5m2, 32, "8", "32", "32"},
                                                              {DType::e5m2, 128, "5", "1", "384"},
                                                              {DType::i8, 32, "14", "2", "64"},
                                                              {DType::i8, 64, "1", "3", "32"},
                                                              {DType::i8, 128, "7", "4", "128"}}) {
    ++turn;  // A program for each, and for each height of a last tile: most of these are a row high.
    for (const auto& [m, n, k] :
         {std::array{1, 32, 128}, {57, 64, 512}, {57, 97, 300}, {113, 160, 129}, {57, 65, 96}}) {
      ++seed;
      Case c{.m = m, .n = n, .k = k, .a = type, .b = type, .a_grid = {1, group}};
      c.b_grid = {turn % 3 == 0 ? 1 : group, group};
      c.options = {{"variant", "gemm_bf16"}, {"tile_m", tile_m}, {"block_m", block_m}, {"block_n", block_n}};
      c.seed = seed;
      c.bias = turn % 2 == 0 ? DType::f32 : DType::none;
      expect_right(run(*device, c, make_data(c)), c, device->props().name);
    }
  }
}

TEST(OpenClDotProducts, ALastTileThatIsNotWholeIsRightForEveryNumberOfRows) {
  backend::Device* device = device_with_dot_products();
  if (device == nullptr) GTEST_SKIP() << "no processor with dot products that work";
  // Plans for whole tiles and a last one of each height there is; calls whose own last tile is as high, higher,
  // lower, whole, and the only one.
  for (const auto& [type, m, tile_m] : {std::tuple{DType::e4m3fn, 30, "14"},  // 2
                                        {DType::e4m3fn, 39, "14"},            // 11
                                        {DType::e4m3fn, 42, "14"},            // Whole.
                                        {DType::e5m2, 38, "13"},              // 12
                                        {DType::e5m2, 31, "5"},               // 1
                                        {DType::i8, 34, "14"}}) {             // 6
    Case c{.m = m, .n = 50, .k = 300, .a_source = DType::bf16, .a = type, .b = type};
    c.seed = 900 + static_cast<std::uint32_t>(m);
    c.options = {{"variant", "gemm_bf16"}, {"tile_m", tile_m}, {"block_m", "2"}};
    const Data data = make_data(c);
    const std::int64_t height = std::atoi(tile_m), last = m % height;
    for (const char* floats : {"0", "1"}) {
      c.options.resize(3);
      c.options.emplace_back("floats", floats);
      for (const std::int64_t rows : {std::int64_t{m}, m - height, height + 1, height, last, std::int64_t{1}}) {
        if (rows > 0) expect_right(run(*device, c, data, rows), c, device->props().name);
      }
    }
  }
}

/// Tiles of rows, blocks of them by columns.
backend::Options cut(const char* tile_m, const char* block_m, const char* block_n) {
  return {{"tile_m", tile_m}, {"block_m", block_m}, {"block_n", block_n}};
}

TEST(OpenClDotProducts, QuantiseWhatTheyMultiply) {
  backend::Device* device = device_with_dot_products();
  if (device == nullptr) GTEST_SKIP() << "no processor with dot products that work";
  expect_one_launch_is_right(
      *device, "gemm_bf16", {{cut("5", "4", "64"), cut("14", "1", "96")}, cut("3", "2", "32"), cut("8", "4", "128")});
  expect_calls_do_not_see_each_other(*device, one_launch_of("gemm_bf16", cut("13", "2", "64")));
}

Variant dots_again() { return another("dots_again", "gemm_bf16"); }

class OpenClDotProductsEdited : public OwnKernels {};

TEST_F(OpenClDotProductsEdited, QuantiseAgainWhatAnotherHasNotFinished) {
  if (device_with_dot_products() == nullptr) GTEST_SKIP() << "no processor with dot products that work";
  // Whoever comes to a K group finds that another is at it, who never gets done.
  edit("one_launch.cl", "count_in(state, s->call) != 0", "count_in(state, s->call) < 9");
  const Made made =
      with_file(dots_again, "#ifndef DOT_PRODUCTS\n#define DOT_PRODUCTS\n#endif\n#include \"gemm_bf16.cl\"\n");
  const auto device = cpu_of(made);
  const Case c = one_launch_of("dots_again", cut("13", "2", "64"));
  expect_right(run(*device, c, make_data(c)), c, device->props().name);
}

TEST(OpenClDotProducts, FloatsAreTakenWhereBf16HoldsThem) {
  backend::Device* device = device_with_dot_products();
  if (device == nullptr) GTEST_SKIP() << "no processor with dot products that work";
  Case c{
      .m = 40, .n = 100, .k = 200, .a = DType::bf16, .a_scale = DType::none, .options = {{"variant", "gemm_bf16"}}};
  expect_right(run(*device, c, make_data(c)), c, device->props().name);
  for (const DType type : {DType::f16, DType::f32}) {
    c.a = type;
    EXPECT_EQ(device->supports(c.desc()).reason, backend::Reason::dtype);
  }
  c.a = DType::bf16;
  c.b = DType::i8;
  EXPECT_EQ(device->supports(c.desc()).reason, backend::Reason::dtype);
}

}  // namespace
}  // namespace ironcl::opencl::testing
