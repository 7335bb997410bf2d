// SPDX-License-Identifier: Apache-2.0
// Tile instructions (AMX): right where the unit is, and done by hand where it is not; a device as it was wherever
// anything stands in the way. What every variant must do, gemm_amx among them, is in gemm_test.cpp.
#include "backends/opencl/device.h"
#include "backends/opencl/matrix_unit.h"
#include "backends/opencl/trial.h"
#include "tests/opencl/grouped.h"
#include "tests/opencl/one_launch.h"
#include "tests/opencl/own_kernels.h"
#include "tests/opencl/trials.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

class OpenClAmx : public TrialPrograms {
 protected:
  void SetUp() override {
    if (devices().empty()) GTEST_SKIP() << why_no_devices();
  }
};

/// The first CPU of a backend made with `config`, where a trial of tiles is worth while; null elsewhere.
std::shared_ptr<backend::Device> cpu_with_tiles(const Made& made) {
  for (const auto& device : made.devices) {
    if (device->props().type == backend::DeviceType::cpu && why_no_tiles().empty()) return device;
  }
  return nullptr;
}

TEST_F(OpenClAmx, SwitchedOffLeavesTheDeviceAsItWas) {
  Config config{.amx = false, .trial_program = IRONCL_TRIAL_PROGRAM};
  const Made made = make(config);
  for (const auto& device : made.devices) {
    expect_as_before(
        *device, "gemm_amx",
        device->props().type == backend::DeviceType::cpu ? "tiles (AMX) are switched off" : "no processor");
  }
}

TEST_F(OpenClAmx, ATrialThatFailsLeavesTheDeviceAsItWas) {
  const std::vector<std::array<std::string, 2>> programs{
      {"kill -ILL $$", "signal 4"},
      {"exit 1", "gave no answer"},
      {"echo 'ironcl trial: 3 elements are wrong'", "3 elements are wrong"},
      {"exec sleep 60", "did not end within"},
  };
  for (const auto& [text, why] : programs) {
    Config config{.trial_program = program(text),
                  .trial_seconds = text.find("sleep") != std::string::npos ? 0.5 : 60};
    const Made made = make(config);
    const auto device = cpu_with_tiles(made);
    if (device == nullptr) GTEST_SKIP() << "no processor with tiles: " << why_no_tiles();
    expect_as_before(*device, "gemm_amx", why);
  }
  Config config{.trial_program = dir_ / "is_not_there"};
  expect_as_before(*cpu_with_tiles(make(config)), "gemm_amx", "cannot be started");
  config.trial_program.clear();
  expect_as_before(*cpu_with_tiles(make(config)), "gemm_amx", "no program for trials");
}

TEST_F(OpenClAmx, AnAnswerIsKeptAndWhatComesFromOutsideIsNot) {
  Config config{.cache_dir = dir_ / "cache", .trial_program = program("exec sleep 60"), .trial_seconds = 0.3};
  {
    const Made made = make(config);
    const auto device = cpu_with_tiles(made);
    if (device == nullptr) GTEST_SKIP() << "no processor with tiles: " << why_no_tiles();
    EXPECT_NE(trial_of(*device, "gemm_amx").find("did not end"), std::string::npos);
  }
  config.trial_seconds = 60;
  config.trial_program = program("kill -INT $$");  // A Ctrl-C reaches it too.
  EXPECT_NE(trial_of(*cpu_with_tiles(make(config)), "gemm_amx").find("signal 2"), std::string::npos);
  config.trial_program = program("kill -SEGV $$");
  EXPECT_NE(trial_of(*cpu_with_tiles(make(config)), "gemm_amx").find("signal 11"), std::string::npos);
  config.trial_program = dir_ / "is_not_there";
  EXPECT_NE(trial_of(*cpu_with_tiles(make(config)), "gemm_amx").find("signal 11"), std::string::npos);
}

TEST_F(OpenClAmx, APermissionThatIsDeniedIsARefusal) {
  Config config{.trial_program = program("echo 'ironcl trial: right'")};
  const Made made = make(config);
  const auto device = cpu_with_tiles(made);
  if (device == nullptr) GTEST_SKIP() << "no processor with tiles: " << why_no_tiles();
  const ContextPtr& context = dynamic_cast<Device&>(*device).context();
  Variant variant = *find_variant("gemm_amx");
  variant.trial->permission = [] { return std::string("denied"); };
  EXPECT_EQ(make_trials(*context, nullptr)->why_not(variant), "denied");
}

/// Groups, types, blocks, ragged edges and bias, every `step` one of them; then many matrices.
void expect_right_on_tiles(backend::Device& device, const std::string& variant, std::uint32_t step) {
  std::uint32_t seed = 900, turn = 0;
  for (const auto& [type, group, block_m, block_n, d] : {std::tuple{DType::e4m3fn, 32, "1", "32", DType::f32},
                                                         {DType::e4m3fn, 64, "4", "128", DType::bf16},
                                                         {DType::e4m3fn, 256, "4", "64", DType::f32},
                                                         {DType::e5m2, 32, "4", "128", DType::f16},
                                                         {DType::e5m2, 128, "1", "64", DType::bf16},
                                                         {DType::i8, 32, "1", "32", DType::bf16},
                                                         {DType::i8, 64, "4", "64", DType::f32},
                                                         {DType::i8, 128, "4", "128", DType::f16},
                                                         {DType::e4m3fn, 128, "4", "32", DType::bf16}}) {
    if (++turn % step != 0) continue;
    for (const auto& [m, n, k] : {std::array{16, 64, 512}, {33, 97, 300}, {100, 160, 129}, {257, 65, 96}}) {
      Case c{.m = m, .n = n, .k = k, .a = type, .b = type, .d = d, .a_grid = {1, group}};
      c.b_grid = {turn % 2 == 0 ? 1 : group, group};  // A tile of sums has columns of every 16 of a unit.
      c.options = {{"variant", variant}, {"block_m", block_m}, {"block_n", block_n}};
      c.seed = ++seed;
      c.bias = turn % 3 == 0 ? DType::f32 : DType::none;  // A program for a turn: drivers take seconds for one.
      const Outcome outcome = run(device, c, make_data(c));
      EXPECT_EQ(outcome.info.variant, variant);
      expect_right(outcome, c, device.props().name);
    }
  }
  // Codes that decoding mends only where it meets one: one among 128 that are decoded together, on either side.
  for (const DType type : {DType::e4m3fn, DType::e5m2}) {
    for (const std::string block_n : {"32", "64"}) {
      Case rare{.m = 16, .n = 64, .k = 512, .a = type, .b = type};
      rare.options = {{"variant", variant}, {"block_m", "1"}, {"block_n", block_n}};
      Data data = make_data(rare);
      const int smallest_normal = type == DType::e4m3fn ? 8 : 4;
      for (std::uint8_t& code : data.b) code = static_cast<std::uint8_t>((code & 0x81) | smallest_normal);
      for (int k = 0; k < 512; k += 4) {
        const int column = k / 4 * 5 % 64, subnormal = k / 4 % smallest_normal;
        data.b[static_cast<std::size_t>(column) * 512 + static_cast<std::size_t>(k)] =
            static_cast<std::uint8_t>(subnormal | (k % 8 == 0 ? 0x80 : 0));
      }
      expect_right(run(device, rare, data), rare, device.props().name);
    }
  }
  // Blocks of which up to four cores take four at a time, and at last three.
  Case many{.m = 16, .n = 32 * 67, .k = 128, .options = {{"variant", variant}, {"block_m", "1"}, {"block_n", "32"}}};
  expect_right(run(device, many, make_data(many)), many, device.props().name);
  Case g{.n = 70, .k = 200, .counts = {3, 0, 50, 9, 33}};
  for (const std::string block_n : {"32", "64"}) {
    g.options = {{"variant", variant}, {"block_m", "2"}, {"block_n", block_n}};
    expect_right_in_both_layouts(device, g, 100, 51);
  }
}

/// Weights of four bits: a line is four rows of a unit of 64 columns, or eight of one of 32; tiles of 16 or 32 k.
void expect_four_bits_on_tiles(backend::Device& device, const std::string& variant) {
  std::uint32_t seed = 700;
  for (const auto& [a, group, scale, block_n] : {std::tuple{DType::e4m3fn, 32, DType::e8m0, "32"},
                                                 {DType::bf16, 16, DType::e4m3fn, "64"},
                                                 {DType::e5m2, 16, DType::e4m3fn, "32"},
                                                 {DType::bf16, 32, DType::e8m0, "128"},
                                                 {DType::e4m3fn, 128, DType::f32, "64"}}) {
    for (const auto& [m, n, k] : {std::array{16, 64, 512}, {33, 97, 310}, {100, 160, 144}}) {
      Case c{.m = m, .n = n, .k = k, .a = a, .b = DType::e2m1, .a_grid = {1, 128}, .b_grid = {1, group}};
      c.b_scale = scale;
      if (scale == DType::e4m3fn) c.b_global = 0.3f;
      if (a == DType::bf16) c.a_scale = DType::none;
      c.options = {{"variant", variant}, {"block_m", "2"}, {"block_n", block_n}};
      c.seed = ++seed;
      expect_right(run(device, c, make_data(c)), c, device.props().name);
    }
  }
}

void expect_floats_on_tiles(backend::Device& device, const std::string& variant) {
  Case c{.m = 40, .n = 100, .k = 200, .a = DType::bf16, .a_scale = DType::none, .options = {{"variant", variant}}};
  expect_right(run(device, c, make_data(c)), c, device.props().name);
}

/// Blocks of tiles of 16 rows by columns, and parts of k.
backend::Options blocks_of(const char* block_m, const char* block_n, const char* split_k) {
  return {{"block_m", block_m}, {"block_n", block_n}, {"split_k", split_k}};
}

TEST_F(OpenClAmx, TheChosenVariantIsRightWhereTheUnitIs) {
  for (const auto& device : devices()) {
    if (device->props().type != backend::DeviceType::cpu || trial_of(*device, "gemm_amx") != "right") continue;
    // What is round the instructions is the same by hand, below.
    expect_right_on_tiles(*device, "gemm_amx", 3);
    expect_calls_do_not_see_each_other(*device, one_launch_of("gemm_amx", blocks_of("4", "64", "3")));
    expect_four_bits_on_tiles(*device, "gemm_amx_fp4");
    // Of the usual shapes, many rows take tiles by themselves.
    EXPECT_EQ(choice_of(*device, Case{1024, 4096, 4096}), "gemm_amx");
    EXPECT_EQ(choice_of(*device, Case{8, 4096, 4096}), "gemm_amx");
    EXPECT_EQ(choice_of(*device, Case{1, 4096, 4096}), "gemm_stream");
    return;
  }
  GTEST_SKIP() << "no processor with tiles that work";
}

TEST_F(OpenClAmx, FloatsAreTakenWhereBf16HoldsThem) {
  for (const auto& device : devices()) {
    if (device->props().type != backend::DeviceType::cpu || trial_of(*device, "gemm_amx") != "right") continue;
    expect_floats_on_tiles(*device, "gemm_amx");
    Case c{
        .m = 40, .n = 100, .k = 200, .a = DType::f16, .a_scale = DType::none, .options = {{"variant", "gemm_amx"}}};
    EXPECT_EQ(device->supports(c.desc()).reason, backend::Reason::dtype);
    return;
  }
  GTEST_SKIP() << "no processor with tiles that work";
}

Variant tiles_by_hand() { return another("tiles_by_hand", "gemm_amx"); }
Variant four_bits_by_hand() {
  Variant v = another("four_bits_by_hand", "gemm_amx_fp4");
  v.file = "tiles_by_hand.cl";
  return v;
}

/// The kernel with its instructions done by hand, so that everything round them is seen on any processor with vectors
/// of 512 bits, and with what decodes.
class OpenClAmxByHand : public OwnKernels {};

TEST_F(OpenClAmxByHand, AreRight) {
  const Made made = with({tiles_by_hand, four_bits_by_hand});
  const auto device = cpu_with_wide_vectors(made);
  if (device == nullptr) GTEST_SKIP() << "no processor with vectors of 512 bits, VBMI and GFNI";
  expect_four_bits_on_tiles(*device, "four_bits_by_hand");
  expect_right_on_tiles(*device, "tiles_by_hand", 1);
  expect_floats_on_tiles(*device, "tiles_by_hand");
}

TEST_F(OpenClAmxByHand, QuantiseWhatTheyMultiply) {
  const Made made = with({tiles_by_hand});
  const auto device = cpu_with_wide_vectors(made);
  if (device == nullptr) GTEST_SKIP() << "no processor with vectors of 512 bits, VBMI and GFNI";
  expect_one_launch_is_right(*device, "tiles_by_hand",
                             {{blocks_of("4", "64", "1"), blocks_of("4", "64", "3")},
                              blocks_of("1", "32", "2"),
                              blocks_of("4", "128", "1")});
  expect_calls_do_not_see_each_other(*device, one_launch_of("tiles_by_hand", blocks_of("4", "64", "3")));
}

TEST_F(OpenClAmxByHand, QuantiseAgainWhatAnotherHasNotFinished) {
  // Whoever comes to a K group finds that another is at it, who never gets done.
  edit("one_launch.cl", "count_in(state, s->call) != 0", "count_in(state, s->call) < 9");
  const Made made = with({tiles_by_hand});
  const auto device = cpu_with_wide_vectors(made);
  if (device == nullptr) GTEST_SKIP() << "no processor with vectors of 512 bits, VBMI and GFNI";
  const Case c = one_launch_of("tiles_by_hand", blocks_of("4", "64", "3"));
  expect_right(run(*device, c, make_data(c)), c, device->props().name);
}

}  // namespace
}  // namespace ironcl::opencl::testing
