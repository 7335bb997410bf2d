// SPDX-License-Identifier: Apache-2.0
// The problem line: what it looks like, that it comes back, what the parser says of lines that are none.
#include "host/report/problem.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/errors.h"

namespace {

using namespace ironcl::report;
using ironcl::numerics::AccuracyClass;
using ironcl::numerics::DType;
using ironcl::numerics::ScaleRounding;

Problem layer_problem() {
  Problem problem;
  problem.m = 16;
  problem.n = 3072;
  problem.k = 1024;
  problem.a_source = DType::bf16;
  problem.a = problem.b = DType::e4m3fn;
  problem.d = DType::f32;
  problem.a_scale = {DType::f32, {1, 128}};
  problem.b_scale = {DType::bf16, {128, 128}};
  return problem;
}

TEST(ProblemLine, IsWhatTheHeaderShows) {
  EXPECT_EQ(to_line(layer_problem()),
            "--src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 --scale-dt=f32:bf16 16x1024:1024x3072");
}

TEST(ProblemLine, LeavesDefaultsOut) {
  Problem problem = layer_problem();
  problem.a_source = DType::none;
  problem.b_scale.dtype = DType::f32;
  EXPECT_EQ(to_line(problem), "--dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 16x1024:1024x3072");
}

TEST(ProblemLine, PrintsEveryFieldThatIsNotAtItsDefault) {
  Problem problem = layer_problem();
  problem.m = 0;
  problem.bias = DType::f32;
  problem.a_scale.grid = {1, 0};
  problem.d = DType::e4m3fn;
  problem.d_scale = {DType::e8m0, {1, 128}};
  problem.a_quantizer = {1e-4f, ScaleRounding::power_of_two};
  problem.d_quantizer.rounding = ScaleRounding::power_of_two;
  problem.activation = ironcl::numerics::Activation::swiglu_oai;
  problem.activation_limit = 7;
  problem.weakest_accuracy = AccuracyClass::tensor14;
  problem.grouping = Grouping::masked;
  problem.a_rows = 77;
  problem.b_scale.grid.row_origin = 5;
  problem.b_scale.global = true;
  problem.matrices = 8;
  problem.repeatable = true;
  problem.options = {{"variant", "gemm_tiled"}, {"kernel_blocks", "128,256,512"}};
  EXPECT_EQ(
      to_line(problem),
      "--src=bf16 --dt=e4m3fn:e4m3fn:e4m3fn --scale=1xall:128x128@5x0:1x128 --scale-dt=f32:bf16:e8m0 --global=b "
      "--bias=f32 "
      "--quantizer=0.0001:pow2 --d-quantizer=1e-10:pow2 --activation=swiglu_oai --activation-limit=7 "
      "--accuracy=tensor14 --grouping=masked:8 --gather=77 "
      "--repeatable "
      "--opt=variant=gemm_tiled --opt=kernel_blocks=128,256,512 0x1024:1024x3072");
  EXPECT_EQ(parse_problem(to_line(problem)), problem);
}

TEST(ProblemLine, ComesBackFromEveryCombination) {
  constexpr std::uint32_t kSeed = 20240611;
  std::mt19937 random(kSeed);
  const auto pick = [&random](auto... values) {
    const std::vector<std::common_type_t<decltype(values)...>> all{values...};
    return all[random() % all.size()];
  };
  for (int round = 0; round < 2000; ++round) {
    Problem p;
    p.m = pick(0, 1, 7, 4096);
    p.n = pick(1, 576, 7168);
    p.k = pick(1, 100, 18432);
    p.a_source = pick(DType::none, DType::f32, DType::f16, DType::bf16);
    p.a = pick(DType::e4m3fn, DType::e5m2, DType::i8);
    p.b = pick(DType::e4m3fn, DType::e5m2, DType::i8);
    p.d = pick(DType::f32, DType::f16, DType::bf16, DType::e4m3fn);
    p.bias = pick(DType::none, DType::f32, DType::bf16);
    for (Scales* scales : {&p.a_scale, &p.b_scale, &p.d_scale}) {
      scales->dtype = pick(DType::none, DType::f32, DType::bf16, DType::f16, DType::e8m0);
      if (scales->dtype != DType::none) {
        scales->grid = {pick(0, 1, 32, 128), pick(0, 1, 64, 512)};
        if (scales->grid.group_rows > 1) scales->grid.row_origin = pick(0, 1, 31);
        if (scales->grid.group_cols > 1) scales->grid.col_origin = pick(0, 63);
        scales->global = pick(false, true);
      }
    }
    p.a_quantizer = {pick(1e-10f, 1e-4f, 0.3f), pick(ScaleRounding::exact, ScaleRounding::power_of_two)};
    p.d_quantizer = {pick(1e-10f, 1e-12f), pick(ScaleRounding::exact, ScaleRounding::power_of_two)};
    p.weakest_accuracy = pick(AccuracyClass::f32, AccuracyClass::tensor14);
    p.activation = pick(ironcl::numerics::Activation::none, ironcl::numerics::Activation::silu,
                        ironcl::numerics::Activation::swiglu_oai);
    if (p.activation != ironcl::numerics::Activation::none) p.activation_limit = pick(0.0f, 0.3f);
    p.grouping = pick(Grouping::none, Grouping::contiguous, Grouping::masked);
    p.matrices = p.grouping == Grouping::none ? 0 : pick(1, 256);
    p.a_rows = pick(0, 1, 4096);
    if (pick(false, true)) p.d_quantizer = {.given = true};
    p.repeatable = pick(false, true);
    if (pick(false, true)) p.options.emplace_back("tile_m", "14");
    const std::string line = to_line(p);
    ASSERT_EQ(parse_problem(line), p) << "seed " << kSeed << ", round " << round << ": " << line;
    // A plugin's description holds all of it but the options, which travel as a chain.
    Problem without_options = p;
    without_options.options.clear();
    ASSERT_EQ(from_desc(to_desc(p)), without_options) << "seed " << kSeed << ", round " << round << ": " << line;
  }
}

TEST(ProblemLine, OptionsComeFromTheChainOfADescription) {
  const ironcl_key_value items[] = {{"variant", "gemm_panel"}, {"tile_m", "14"}};
  ironcl_options options{};
  options.chain = {sizeof options, IRONCL_CHAIN_OPTIONS | IRONCL_CHAIN_REQUIRED, nullptr};
  options.count = 2;
  options.items = items;
  ironcl_gemm_desc desc = to_desc(layer_problem());
  desc.next = &options.chain;
  Problem expected = layer_problem();
  expected.options = {{"variant", "gemm_panel"}, {"tile_m", "14"}};
  EXPECT_EQ(from_desc(desc), expected);
}

TEST(ProblemLine, AChainThatNobodyCheckedIsRefusedAndNotFollowed) {
  ironcl_key_value items[] = {{"variant", nullptr}};
  ironcl_options options{};
  options.chain = {sizeof options, IRONCL_CHAIN_OPTIONS, nullptr};
  options.count = 1;
  options.items = items;
  ironcl_gemm_desc desc = to_desc(layer_problem());
  desc.next = &options.chain;
  EXPECT_THROW(from_desc(desc), ProblemError) << "a value that is NULL";
  items[0] = {nullptr, "gemm_panel"};
  EXPECT_THROW(from_desc(desc), ProblemError) << "a key that is NULL";
  options.items = nullptr;
  EXPECT_THROW(from_desc(desc), ProblemError) << "no items";
  options.count = 0, options.chain.struct_size = sizeof options.chain;
  EXPECT_THROW(from_desc(desc), ProblemError) << "a part that is too short";
  ironcl_chain cycle{sizeof cycle, 4711, nullptr};
  cycle.next = &cycle;
  desc.next = &cycle;
  EXPECT_THROW(from_desc(desc), ProblemError) << "a chain without an end";
}

TEST(ProblemLine, TakesShortNamesSquareBlocksAndAnyOrder) {
  const Problem problem = parse_problem("  16x1024:1024x3072 --scale=1x128:128  --dt=e4m3:e4m3:bf16 ");
  EXPECT_EQ(problem.a, DType::e4m3fn);
  EXPECT_EQ(problem.b_scale.grid, (ironcl::numerics::ScaleGrid{128, 128}));
  EXPECT_EQ(problem.n, 3072);
}

TEST(ProblemLine, RefusalsNameTheWordAndWhatMayStandThere) {
  const auto refusal = [](const std::string& line) {
    return ironcl::error_of<ProblemError>([&] { parse_problem(line); });
  };
  const std::string rest = " --dt=e4m3:e4m3:f32";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--dt=e4m3:e4m3:f32", "there is no shape"},
      {"16x8:8x4", "there is no --dt"},
      {"16x8:9x4" + rest, "K = 8 on the left and 9 on the right"},
      {"16x0:0x4" + rest, "K or N of 0"},
      {"16x8:8x4 1x8:8x4" + rest, "second shape"},
      {"16x8:8x4 --dt=e4m3:e4m3:bf16" + rest, "is a second --dt; a line has one"},
      {"16x8" + rest, "neither an option nor a shape"},
      {"16xx8:8x4" + rest, "neither an option nor a shape"},
      {"-1x8:8x4" + rest, "neither an option nor a shape"},
      {"99999999999999999999x8:8x4" + rest, "neither an option nor a shape"},
      {"16x8:8x4 --dt=e4m3:e4m3", "should name three types"},
      {"16x8:8x4 --dt=e4m3:fp4:f32", "'fp4'"},
      {"16x8:8x4 --scale=1x128" + rest, "should be A:B"},
      {"16x8:8x4 --scale=1x128:128x128x2" + rest, "is not a block"},
      {"16x8:8x4 --scale-dt=bf16:f32" + rest, "disagree"},
      {"16x8:8x4 --quantizer=1e-10" + rest, "FLOOR:exact"},
      {"16x8:8x4 --quantizer=nan:exact" + rest, "FLOOR:exact"},
      {"16x8:8x4 --accuracy=f64" + rest, "f32 and tensor14"},
      {"16x8:8x4 --grouping=masked:0" + rest, "masked:COUNT"},
      {"16x8:8x4 --opt=tile_m" + rest, "--opt=KEY=VALUE"},
      {"16x8:8x4 --frobnicate=1" + rest, "'--frobnicate=1' is not an option"},
  };
  for (const auto& [line, part] : cases) {
    EXPECT_NE(refusal(line).find(part), std::string::npos) << line << ": " << refusal(line);
  }
}

}  // namespace
