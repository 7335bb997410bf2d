// SPDX-License-Identifier: Apache-2.0
// Which kernel an H200 takes for a problem, and with which tunables, and GPUs of other compute capabilities; needs no
// device. Next door:
// tensor_cores_test.cpp.
#include <stdexcept>

#include "backends/opencl/select.h"
#include "backends/opencl/variant.h"
#include "tests/opencl/harness.h"
#include "tests/opencl/kinds_of_device.h"

namespace ironcl::opencl::testing {
namespace {

/// What an H200 takes on which every variant works.
Choice taken_by_h200(const backend::GemmDesc& desc) {
  AllWork trials;
  Choice choice;
  const backend::Support support = choose({h200(), variants(), &trials}, desc, &choice);
  EXPECT_EQ(support.reason, backend::Reason::none) << support.text;
  if (choice.variant == nullptr) throw std::runtime_error("no variant: " + support.text);
  EXPECT_EQ(support.accuracy, choice.variant->accuracy);
  return choice;
}

/// What was fastest when measured (docs/performance/h200-few-rows.md, h200-many-rows.md, h200-mma.md).
struct Fastest {
  int ptx;  ///< The device is an H200 held to it.
  std::int64_t m, n, k;
  backend::AccuracyClass weakest;
  const char* variant;
  std::vector<std::pair<const char*, std::int64_t>> tuning{};  ///< Of the choice, as far as it matters.
  std::int64_t matrices = 0;
  backend::DType a_source = backend::DType::none;
  backend::DType floats = backend::DType::none;  ///< Of both operands, where they are not quantised.
};

TEST(OpenClTensorCores, ProblemsTakeTheKernelAndTheTilesThatWereFastest) {
  constexpr auto f32 = backend::AccuracyClass::f32, tensor14 = backend::AccuracyClass::tensor14;
  constexpr auto none = backend::DType::none, bf16 = backend::DType::bf16, f16 = backend::DType::f16;
  const std::vector<Fastest> table = {
      {90, 1, 4096, 4096, f32, "gemm_mma_stream", {{"columns", 16}, {"warps", 8}}},
      {90, 1, 4096, 4096, f32, "gemm_mma_ring", {{"warps", 8}, {"per_unit", 2}, {"passes", 2}}, 0, bf16},
      {90, 4, 4096, 12288, f32, "gemm_mma_ring", {{"warps", 16}, {"per_unit", 1}, {"passes", 16}}, 0, bf16},
      {90, 1, 2112, 7168, f32, "gemm_mma_stream", {{"warps", 16}}, 0, bf16},  // Too few columns for every unit.
      {90, 8, 1536, 7168, f32, "gemm_mma_ring", {{"shares", 1}, {"tile_m", 16}}, 0, bf16},
      {90, 8, 4096, 2048, f32, "gemm_mma_stream", {}, 0, bf16},  // Too few weights to wait for the others' codes.
      {90, 16, 4096, 2048, f32, "gemm_mma_ring", {{"shares", 1}, {"tile_m", 16}, {"warps", 16}}, 0, bf16},
      {90, 32, 7168, 16384, f32, "gemm_mma_ring", {{"shares", 1}, {"tile_m", 32}, {"warps", 8}}, 0, bf16},
      {90, 33, 4096, 4096, f32, "gemm_wgmma_few_f16", {}, 0, bf16},
      {90, 16, 7168, 16384, f32, "gemm_mma_stream", {{"columns", 32}, {"lines", 1}, {"warps", 8}}},
      {90, 16, 7168, 16384, tensor14, "gemm_mma_stream", {{"tile_m", 16}}},
      {90, 24, 4096, 4096, f32, "gemm_mma_stream"},
      {90, 24, 7168, 16384, f32, "gemm_wgmma_few_f16", {{"split_k", 1}, {"tile_m", 64}, {"tile_n", 64}}},
      {90, 64, 4096, 4096, f32, "gemm_wgmma_few_f16", {{"split_k", 2}, {"tile_m", 64}}},
      {90, 64, 24576, 1536, f32, "gemm_wgmma_f16"},  // Three rounds of tiles: work-groups that stay fill one ring.
      {90, 128, 4096, 4096, f32, "gemm_wgmma_few_f16", {{"split_k", 1}, {"tile_m", 64}}},  // Rows in two tiles.
      {90, 128, 7168, 16384, f32, "gemm_wgmma_few_f16", {{"split_k", 2}, {"tile_m", 128}, {"tile_n", 128}}},
      {90, 17, 4096, 4096, tensor14, "gemm_wgmma_few"},
      {90, 64, 4096, 4096, tensor14, "gemm_wgmma_few", {{"k_groups", 4}, {"stages", 12}, {"tile_n", 32}}},
      {90, 128, 24576, 1536, tensor14, "gemm_wgmma_few", {{"k_groups", 1}, {"stages", 4}, {"tile_n", 64}}},
      {90, 256, 576, 7168, f32, "gemm_wgmma_few_f16", {{"split_k", 3}, {"tile_m", 64}}},
      {90, 512, 2112, 7168, f32, "gemm_wgmma_few_f16", {{"tile_m", 128}, {"tile_n", 64}}},  // 132 tiles.
      {90, 1024, 1536, 7168, f32, "gemm_wgmma_few_f16", {{"tile_m", 128}, {"tile_n", 128}}},
      {90, 768, 1536, 7168, f32, "gemm_wgmma_f16", {{"tile_m", 256}, {"split_k", 3}}},
      {90, 4096, 2112, 7168, f32, "gemm_wgmma_f16", {{"tile_m", 256}, {"share", 1}}},
      {90, 256, 24576, 1536, f32, "gemm_wgmma_f16", {{"tile_m", 128}}},
      {90, 4096, 7168, 16384, f32, "gemm_wgmma_f16", {{"tile_m", 256}}},
      {90, 256, 2112, 7168, tensor14, "gemm_wgmma_few", {{"tile_m", 64}, {"tile_n", 64}}},
      {90, 384, 4096, 7168, tensor14, "gemm_wgmma_fp8", {{"tile_n", 96}}},
      {90, 768, 1536, 7168, tensor14, "gemm_wgmma_fp8", {{"tile_n", 96}}},  // 144 tiles of 128 x 64 are two rounds.
      {90, 1024, 2112, 7168, tensor14, "gemm_wgmma_fp8", {{"tile_n", 144}}},
      {90, 4096, 2112, 7168, tensor14, "gemm_wgmma_fp8", {{"tile_n", 272}}},
      {90, 4096, 4096, 4096, tensor14, "gemm_wgmma_fp8", {{"tile_n", 256}, {"share", 0}}},
      // Tiles hold more rows than the mean of those experts that have any, yet few are padding.
      {90, 512, 4096, 7168, f32, "gemm_mma_stream", {{"tile_m", 8}}, 256},
      {90, 32768, 1536, 2048, f32, "gemm_wgmma_f16", {}, 128},
      {90, 128, 1536, 2048, f32, "gemm_mma_stream", {{"columns", 32}, {"tile_m", 4}, {"warps", 4}}, 128},
      {90, 128, 1536, 2048, f32, "gemm_mma_stream", {{"columns", 32}, {"tile_m", 2}, {"warps", 4}}, 128, bf16},
      // Routers.
      {90, 1, 128, 2048, f32, "gemm_mma_floats", {{"tile_n", 8}, {"slices", 16}, {"depth", 2}}, 0, none, bf16},
      {90, 64, 256, 7168, f32, "gemm_mma_floats", {{"tile_n", 8}}, 0, none, bf16},
      {80, 4096, 256, 7168, f32, "gemm_mma_floats", {{"tile_n", 64}, {"slices", 4}, {"depth", 1}}, 0, none, bf16},
      {90, 1, 128, 2048, f32, "gemm_skinny", {{"tile_m", 1}, {"work_n", 1}, {"split_k", 1}}, 0, none, f16},
      {90, 256, 128, 2048, f32, "gemm_skinny", {{"tile_m", 4}, {"work_n", 4}, {"split_k", 1}}, 0, none, f16},
      {80, 64, 4096, 4096, f32, "gemm_mma_stream"},
      {80, 64, 7168, 16384, f32, "gemm_mma_tiled"},
      {80, 4096, 4096, 4096, f32, "gemm_mma_tiled", {{"half_rows", 1}, {"split_k", 1}, {"tile_n", 128}}},
      {89, 4096, 4096, 4096, f32, "gemm_mma_tiled", {{"half_rows", 0}, {"split_k", 1}}},
      {89, 128, 4096, 4096, f32, "gemm_mma_stream"},
      {89, 128, 7168, 16384, f32, "gemm_mma_tiled", {{"split_k", 2}}},  // Long K for nearly every unit.
  };
  AllWork trials;
  for (const Fastest& row : table) {
    Features device = h200();
    limit_ptx(device, row.ptx);
    backend::GemmDesc desc = Case{.m = row.m, .n = row.n, .k = row.k, .weakest = row.weakest}.desc();
    if (row.matrices != 0) desc.grouping = backend::Grouping::contiguous;
    desc.matrices = row.matrices;
    desc.a_source = row.a_source;
    if (row.floats != none) {
      desc.a = desc.b = row.floats;
      desc.a_scale = desc.b_scale = {};
    }
    SCOPED_TRACE(::testing::Message() << row.ptx << ": " << row.m << " x " << row.n << " x " << row.k);
    Choice choice;
    ASSERT_EQ(choose({device, variants(), &trials}, desc, &choice).reason, backend::Reason::none);
    EXPECT_EQ(choice.variant->name, row.variant) << to_string(choice.tuning);
    EXPECT_FALSE(refuse(*choice.variant, choice.tuning, device, choice.problem));
    for (const auto& [name, value] : row.tuning)
      EXPECT_EQ(choice.tuning.contains(name) ? choice.tuning.at(name) : -1, value)
          << name << " of " << to_string(choice.tuning);
  }
}

TEST(OpenClTensorCores, Int8TakesTilesThatItsProductsHave) {
  for (const std::int64_t m : {160, 512, 640, 768, 1024, 2048, 4096}) {
    for (const auto& [n, k] : {std::pair{4096, 4096}, {2112, 7168}, {576, 7168}}) {
      Case c{.m = m, .n = n, .k = k, .a = backend::DType::i8, .b = backend::DType::i8};
      const Choice choice = taken_by_h200(c.desc());
      ASSERT_EQ(choice.variant->name, "gemm_wgmma_s8") << c.line();
      EXPECT_FALSE(refuse(*choice.variant, choice.tuning, h200(), choice.problem)) << to_string(choice.tuning);
      const auto& widths = choice.variant->tunables.front().values;
      EXPECT_EQ(std::count(widths.begin(), widths.end(), choice.tuning.at("tile_n")), 1) << c.line();
    }
  }
}

TEST(OpenClTensorCores, TilesThatEndWithinABlockAreMadeWhole) {
  const Variant& variant = *find_variant("gemm_wgmma_fp8");
  const Problem p{4096, 2112, 7168, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::f32};
  Tuning t{{"tile_n", 272}, {"split_k", 1}, {"share", 0}, {"rows_together", 8}, {"ahead", 0}};
  EXPECT_FALSE(refuse(variant, t, h200(), p));
  t["share"] = 1;
  ASSERT_TRUE(refuse(variant, t, h200(), p));
  EXPECT_NE(refuse(variant, t, h200(), p)->text.find("made whole"), std::string::npos);
  t["share"] = 0;
  t["split_k"] = 2;
  EXPECT_TRUE(refuse(variant, t, h200(), p));
  t["tile_n"] = 256;
  EXPECT_FALSE(refuse(variant, t, h200(), p));
}

/// Units and clocks as such GPUs have them, large and small.
std::vector<Features> other_gpus() {
  return {gpu_of(80, 108, 1.41e9), gpu_of(80, 30, 1.7e9),   gpu_of(80, 82, 1.7e9),
          gpu_of(89, 128, 2.5e9),  gpu_of(89, 148, 1.97e9), gpu_of(89, 170, 2.4e9)};
}

/// Of few rows or many, the kernels of compute capability 8.0.
bool is_of_80(const std::string& name) { return name == "gemm_mma_stream" || name == "gemm_mma_tiled"; }

TEST(OpenClTensorCores, GpusOfOtherCapabilitiesMultiplyEveryProblemOfCodesOnThem) {
  using backend::DType;
  AllWork trials;
  for (const Features& f : other_gpus()) {
    UsualForms usual({f, variants(), &trials});
    const SelectionContext selection(f, variants(), &trials, &usual);
    for (const auto& [n, k] : std::vector<std::pair<int, int>>{{4096, 4096}, {7168, 16384}, {576, 7168}, {24, 96}}) {
      for (const std::int64_t m : {1, 5, 16, 17, 33, 64, 65, 300, 1024, 4096}) {
        for (const auto& [code, group] : {std::pair{DType::e4m3fn, 128},
                                          {DType::e5m2, 128},
                                          {DType::i8, 128},
                                          {DType::e4m3fn, 64},
                                          {DType::e4m3fn, 32}}) {
          for (const DType source : {DType::none, DType::bf16}) {
            Case c{.m = m, .n = n, .k = k, .a_source = source, .a = code, .b = code, .a_grid = {1, group}};
            c.b_grid = {128, group};
            c.weakest = m % 2 == 0 ? backend::AccuracyClass::tensor14 : backend::AccuracyClass::f32;
            Choice choice;
            const backend::Support support = choose(selection, c.desc(), &choice);
            ASSERT_EQ(support.reason, backend::Reason::none) << support.text;
            EXPECT_TRUE(is_of_80(choice.variant->name)) << choice.variant->name << c.line();
            if (m <= 16) {
              EXPECT_EQ(choice.variant->name, "gemm_mma_stream") << c.line();
            }
            if (m >= 1024 && n >= 4096) {
              EXPECT_EQ(choice.variant->name, "gemm_mma_tiled") << c.line();
            }
            EXPECT_EQ(choice.variant->accuracy, backend::AccuracyClass::f32);
            EXPECT_FALSE(refuse(*choice.variant, choice.tuning, f, choice.problem)) << to_string(choice.tuning);
          }
        }
      }
    }
    for (const std::int64_t tokens : {1, 64, 4096, 65536}) {
      backend::GemmDesc d = Case{tokens * 8, 1536, 2048}.desc();
      d.grouping = backend::Grouping::contiguous;
      d.matrices = 128;
      Choice choice;
      ASSERT_EQ(choose(selection, d, &choice).reason, backend::Reason::none);
      EXPECT_EQ(choice.variant->name, tokens < 4096 ? "gemm_mma_stream" : "gemm_mma_tiled") << tokens;
    }
  }
}

TEST(OpenClTensorCores, WhatADeviceIsHeldToLeavesOutWhatIsNewer) {
  AllWork trials;
  const auto taken = [&](int ptx, std::int64_t m) {
    Features f = h200();
    limit_ptx(f, ptx);
    EXPECT_EQ(f.ptx_sm_89, ptx >= 89);
    Choice choice;
    EXPECT_EQ(choose({f, variants(), &trials}, Case{m, 4096, 4096}.desc(), &choice).reason, backend::Reason::none);
    return choice.variant == nullptr ? std::string() : choice.variant->name;
  };
  EXPECT_EQ(taken(90, 4096), "gemm_wgmma_f16");
  EXPECT_EQ(taken(89, 4096), "gemm_mma_tiled");
  EXPECT_EQ(taken(80, 4096), "gemm_mma_tiled");
  EXPECT_EQ(taken(80, 1), "gemm_mma_stream");
  EXPECT_EQ(taken(0, 4096), "gemm_tiled");
  EXPECT_EQ(taken(0, 1), "gemm_skinny");
}

TEST(OpenClTensorCores, ManyRowsOfGroupsOf128AreNotForTheKernelOfFewRowsOn90) {
  AllWork trials;
  const auto asked = [&](const Features& f, std::int64_t m, backend::DType source) {
    Case c{.m = m, .n = 4096, .k = 4096, .a_source = source};
    c.options = {{"variant", "gemm_mma_stream"}, {"tile_m", "32"}};
    return choose({f, variants(), &trials}, c.desc(), nullptr);
  };
  constexpr auto codes = backend::DType::none, bf16 = backend::DType::bf16;
  const Features f = h200(), other = gpu_of(80, 108, 1.41e9);
  EXPECT_EQ(asked(f, 32, codes).reason, backend::Reason::none);
  EXPECT_EQ(asked(f, 64, bf16).reason, backend::Reason::none);
  EXPECT_EQ(asked(f, 33, codes).reason, backend::Reason::shape);
  EXPECT_EQ(asked(f, 65, bf16).reason, backend::Reason::shape);
  EXPECT_EQ(asked(other, 33, codes).reason, backend::Reason::none);
  EXPECT_EQ(asked(other, 4096, bf16).reason, backend::Reason::none);
}

TEST(OpenClTensorCores, ALastRoundIsSharedWhereHalfOfItIsEmptyAndBitsMayDependOnTheRows) {
  const auto share = [&](std::int64_t m, std::int64_t n, std::int64_t k, backend::AccuracyClass weakest,
                         bool repeatable, std::int64_t matrices = 0) {
    Case c{.m = m, .n = n, .k = k, .weakest = weakest};
    backend::GemmDesc d = c.desc();
    d.repeatable = repeatable;
    if (matrices != 0) d.grouping = backend::Grouping::contiguous;
    d.matrices = matrices;
    return taken_by_h200(d).tuning.at("share");
  };
  for (const backend::AccuracyClass weakest : {backend::AccuracyClass::f32, backend::AccuracyClass::tensor14}) {
    EXPECT_EQ(share(4096, 2304, 16384, weakest, false), 1);  // 24 tiles more than two rounds.
    EXPECT_EQ(share(4096, 2304, 16384, weakest, true), 0);
    EXPECT_EQ(share(4096, 4096, 4096, weakest, false), 0);  // The last round is nearly full.
    EXPECT_EQ(share(4096, 2112, 512, weakest, false), 0);   // Too short for parts.
    EXPECT_EQ(share(4096, 24576, 1536, weakest, false), 0);
    EXPECT_EQ(share(6 * 1024, 4096, 4096, weakest, false, 6), 0);  // Rows are dealt on the device.
  }
  EXPECT_EQ(share(4096, 2112, 7168, backend::AccuracyClass::f32, false), 1);       // 8 tiles more.
  EXPECT_EQ(share(4096, 2112, 7168, backend::AccuracyClass::tensor14, false), 0);  // Wider tiles fill two rounds.
  Case c{.m = 4096, .n = 2112, .k = 7168, .options = {{"variant", "gemm_wgmma_f16"}, {"share", "1"}}};
  backend::GemmDesc d = c.desc();
  d.repeatable = true;
  AllWork trials;
  Choice choice;
  const backend::Support refused = choose({h200(), variants(), &trials}, d, &choice);
  EXPECT_NE(refused.reason, backend::Reason::none);
  EXPECT_NE(refused.text.find("a repeatable plan may not"), std::string::npos) << refused.text;
}

}  // namespace
}  // namespace ironcl::opencl::testing
