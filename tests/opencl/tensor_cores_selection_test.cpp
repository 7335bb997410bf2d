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

TEST(OpenClTensorCores, FewRowsAreAsWideAsWasMeasured) {
  const Variant& stream = *find_variant("gemm_mma_stream");
  const auto rule = [&](std::int64_t m, std::int64_t n, std::int64_t k, backend::DType source) {
    Problem p{m, n, k, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::f32};
    p.a_source = source;
    EXPECT_FALSE(refuse(stream, stream.rule_of_thumb(h200(), p), h200(), p));
    return to_string(stream.rule_of_thumb(h200(), p));
  };
  constexpr auto codes = backend::DType::none, bf16 = backend::DType::bf16;
  EXPECT_EQ(rule(1, 4096, 4096, codes), "columns=16,depth=1,lines=0,tile_m=1,warps=8");
  EXPECT_EQ(rule(16, 2112, 7168, codes), "columns=16,depth=1,lines=0,tile_m=16,warps=16");
  EXPECT_EQ(rule(16, 7168, 16384, codes), "columns=32,depth=1,lines=1,tile_m=16,warps=8");
  EXPECT_EQ(rule(16, 24576, 1536, codes), "columns=32,depth=1,lines=0,tile_m=16,warps=4");
  EXPECT_EQ(rule(32, 7168, 16384, codes), "columns=32,depth=1,lines=0,tile_m=32,warps=4");
  EXPECT_EQ(rule(1, 2112, 7168, bf16), "columns=16,depth=1,lines=0,tile_m=1,warps=16");
  EXPECT_EQ(rule(16, 2112, 7168, bf16), "columns=32,depth=1,lines=0,tile_m=8,warps=16");
  EXPECT_EQ(rule(16, 7168, 2048, bf16), "columns=56,depth=1,lines=0,tile_m=16,warps=8");
  EXPECT_EQ(rule(4, 24576, 1536, bf16), "columns=56,depth=1,lines=0,tile_m=4,warps=4");
  EXPECT_EQ(rule(16, 7168, 16384, bf16), "columns=32,depth=1,lines=1,tile_m=16,warps=8")
      << "quantised by a kernel of its own";
}

TEST(OpenClTensorCores, RowsFrom17To64TakeTheKernelThatWasFastest) {
  const auto taken = [&](std::int64_t m, std::int64_t n, std::int64_t k, backend::AccuracyClass weakest) {
    Case c{.m = m, .n = n, .k = k, .weakest = weakest};
    return taken_by_h200(c.desc()).variant->name;
  };
  // As measured on an H200 (docs/performance/h200-few-rows.md).
  constexpr auto f32 = backend::AccuracyClass::f32, tensor14 = backend::AccuracyClass::tensor14;
  for (const auto& [n, k] : {std::pair{4096, 4096}, {2112, 7168}, {24576, 1536}, {7168, 16384}}) {
    for (const std::int64_t m : {17, 24, 32}) {
      // Of large weights what counts is the bytes on their way, of small ones what starts and ends a launch.
      EXPECT_EQ(taken(m, n, k, f32), n == 7168 ? "gemm_wgmma_few_f16" : "gemm_mma_stream") << m << " " << n;
      EXPECT_EQ(taken(m, n, k, tensor14), "gemm_wgmma_few") << m << " " << n;
    }
    // Three rounds of tiles fill three rings; work-groups that stay fill one.
    const std::string some = n == 24576 ? "gemm_wgmma_f16" : "gemm_wgmma_few_f16";
    for (const std::int64_t m : {33, 48, 64}) {
      EXPECT_EQ(taken(m, n, k, f32), some) << m << " " << n;
      EXPECT_EQ(taken(m, n, k, tensor14), "gemm_wgmma_few") << m << " " << n;
    }
    for (const std::int64_t m : {65, 128}) EXPECT_EQ(taken(m, n, k, f32), some) << m << " " << n;
    EXPECT_EQ(taken(129, n, k, f32), some) << n;
    EXPECT_EQ(taken(128, n, k, tensor14), "gemm_wgmma_few") << n;
    EXPECT_EQ(taken(16, n, k, f32), "gemm_mma_stream") << n;
    EXPECT_EQ(taken(16, n, k, tensor14), "gemm_mma_stream") << n;
  }
  for (const std::int64_t m : {1, 16}) EXPECT_EQ(taken(m, 7168, 36864, f32), "gemm_mma_stream") << m;
}

TEST(OpenClTensorCores, FewRowsOfClassF32TakeTilesThatAllRunAtOnce) {
  const Variant& few = *find_variant("gemm_wgmma_few_f16");
  const auto rule = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Problem p{m, n, k, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::f32};
    EXPECT_FALSE(refuse(few, few.rule_of_thumb(h200(), p), h200(), p));
    return to_string(few.rule_of_thumb(h200(), p));
  };
  EXPECT_EQ(rule(64, 7168, 16384), "split_k=1,tile_m=64,tile_n=64");
  EXPECT_EQ(rule(128, 7168, 16384), "split_k=2,tile_m=128,tile_n=128");
  EXPECT_EQ(rule(64, 4096, 4096), "split_k=2,tile_m=64,tile_n=64");
  EXPECT_EQ(rule(128, 4096, 4096), "split_k=1,tile_m=64,tile_n=64") << "rows in two tiles";
  EXPECT_EQ(rule(64, 2112, 7168), "split_k=4,tile_m=64,tile_n=64");
  EXPECT_EQ(rule(128, 2112, 7168), "split_k=2,tile_m=64,tile_n=64");
  EXPECT_EQ(rule(128, 5120, 5120), "split_k=3,tile_m=128,tile_n=128");
  EXPECT_EQ(rule(128, 7168, 2048), "split_k=1,tile_m=128,tile_n=64") << "two low tiles would be two rounds";
  EXPECT_EQ(rule(64, 576, 7168), "split_k=7,tile_m=64,tile_n=64") << "eight K blocks a part";
}

TEST(OpenClTensorCores, MoreRowsOfClassF32TakeTilesThatFillWholeRounds) {
  const auto taken = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Choice choice = taken_by_h200(Case{m, n, k}.desc());
    const Tuning& t = choice.tuning;
    const bool few = choice.variant->name == "gemm_wgmma_few_f16";
    if (!few) {
      EXPECT_EQ(choice.variant->name, "gemm_wgmma_f16");
    }
    std::string text = (few ? "few " : "") + std::to_string(t.at("tile_m"));
    if (few) text += " x " + std::to_string(t.at("tile_n"));
    if (t.at("split_k") > 1) text += ", parts " + std::to_string(t.at("split_k"));
    return text + (!few && t.at("share") == 1 ? ", shared" : "");
  };
  // As measured on an H200 (docs/performance/h200-many-rows.md).
  EXPECT_EQ(taken(256, 576, 7168), "few 64 x 64, parts 3");
  EXPECT_EQ(taken(768, 576, 7168), "few 64 x 64");
  EXPECT_EQ(taken(256, 1536, 7168), "few 64 x 64");
  EXPECT_EQ(taken(384, 1536, 7168), "few 128 x 128, parts 3");
  EXPECT_EQ(taken(512, 1536, 7168), "few 128 x 64");
  EXPECT_EQ(taken(1024, 1536, 7168), "few 128 x 128");
  EXPECT_EQ(taken(256, 2112, 7168), "few 64 x 64") << "132 tiles";
  EXPECT_EQ(taken(512, 2112, 7168), "few 128 x 64") << "132 tiles";
  EXPECT_EQ(taken(1024, 2112, 7168), "few 128 x 64") << "two full rounds";
  EXPECT_EQ(taken(4096, 2112, 7168), "256, shared");
  EXPECT_EQ(taken(256, 4096, 4096), "few 128 x 64");
  EXPECT_EQ(taken(256, 5120, 5120), "few 128 x 128");
  EXPECT_EQ(taken(768, 1536, 7168), "256, parts 3");
  EXPECT_EQ(taken(512, 9216, 4096), "256, shared");
  EXPECT_EQ(taken(512, 4096, 4096), "few 128 x 128");
  EXPECT_EQ(taken(256, 4096, 7168), "few 128 x 64");
  EXPECT_EQ(taken(768, 4096, 4096), "256");
  EXPECT_EQ(taken(768, 7168, 2048), "few 128 x 128");
  EXPECT_EQ(taken(256, 7168, 16384), "few 128 x 128");
  EXPECT_EQ(taken(512, 7168, 16384), "256");
  EXPECT_EQ(taken(256, 24576, 1536), "128") << "work-groups that stay fill one ring";
  for (const auto& [n, k] : {std::pair{4096, 4096}, {7168, 16384}, {24576, 1536}, {576, 7168}})
    EXPECT_EQ(taken(4096, n, k), "256") << n;
}

TEST(OpenClTensorCores, FewRowsAnExpertTakeTheKernelThatStreamsWeights) {
  const auto taken = [&](std::int64_t tokens, std::int64_t experts, std::int64_t n, std::int64_t k) {
    backend::GemmDesc d = Case{tokens * 8, n, k}.desc();
    d.grouping = backend::Grouping::contiguous;
    d.matrices = experts;
    return taken_by_h200(d);
  };
  for (const std::int64_t tokens : {1, 8, 64}) {  // DeepSeek-V3 and Qwen3-30B-A3B: gate and up, then down.
    EXPECT_EQ(taken(tokens, 256, 4096, 7168).variant->name, "gemm_mma_stream") << tokens;
    EXPECT_EQ(taken(tokens, 128, 1536, 2048).variant->name, "gemm_mma_stream") << tokens;
    EXPECT_EQ(taken(tokens, 128, 2048, 768).variant->name, "gemm_mma_stream") << tokens;
  }
  EXPECT_EQ(taken(4096, 128, 1536, 2048).variant->name, "gemm_wgmma_f16");
  // Tiles hold more rows than the mean, 2.3 of those experts that have any, yet few are padding.
  EXPECT_EQ(taken(64, 256, 4096, 7168).tuning.at("tile_m"), 8);
  EXPECT_EQ(taken(1, 256, 4096, 7168).tuning.at("tile_m"), 4);
}

TEST(OpenClTensorCores, FewRowsOfClassTensor14TakeTilesThatAllRunAtOnce) {
  const Variant& few = *find_variant("gemm_wgmma_few");
  const auto rule = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Problem p{m, n, k, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::f32};
    EXPECT_FALSE(refuse(few, few.rule_of_thumb(h200(), p), h200(), p));
    return to_string(few.rule_of_thumb(h200(), p));
  };
  EXPECT_EQ(rule(64, 7168, 16384), "k_groups=2,stages=8,tile_m=64,tile_n=64");
  EXPECT_EQ(rule(128, 7168, 16384), "k_groups=2,stages=8,tile_m=128,tile_n=64");
  EXPECT_EQ(rule(64, 4096, 4096), "k_groups=4,stages=12,tile_m=64,tile_n=32");
  EXPECT_EQ(rule(128, 4096, 4096), "k_groups=2,stages=10,tile_m=128,tile_n=32");
  EXPECT_EQ(rule(128, 2112, 7168), "k_groups=4,stages=12,tile_m=64,tile_n=32") << "rows in two tiles";
  EXPECT_EQ(rule(64, 24576, 1536), "k_groups=2,stages=6,tile_m=64,tile_n=64") << "two of a compute unit";
  EXPECT_EQ(rule(128, 24576, 1536), "k_groups=1,stages=4,tile_m=128,tile_n=64");
}

TEST(OpenClTensorCores, MoreRowsOfClassTensor14TakeTilesThatFillWholeRounds) {
  const auto taken = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    Case c{.m = m, .n = n, .k = k, .weakest = backend::AccuracyClass::tensor14};
    const Choice choice = taken_by_h200(c.desc());
    const Tuning& t = choice.tuning;
    if (choice.variant->name == "gemm_wgmma_few")
      return "few " + std::to_string(t.at("tile_m")) + " x " + std::to_string(t.at("tile_n"));
    EXPECT_EQ(choice.variant->name, "gemm_wgmma_fp8");
    EXPECT_EQ(t.at("split_k"), 1) << c.line();
    return std::to_string(t.at("tile_n")) + (t.at("share") == 1 ? " shared" : "");
  };
  // As measured on an H200 (docs/performance/h200-many-rows.md).
  const Tuning few = find_variant("gemm_wgmma_few")
                         ->rule_of_thumb(h200(), {160, 576, 7168, 128, backend::DType::e4m3fn, backend::DType::e4m3fn,
                                                  backend::DType::f32});
  EXPECT_EQ(few["tile_m"], 64);
  EXPECT_EQ(few["tile_n"], 32);
  EXPECT_EQ(taken(256, 2112, 7168), "few 64 x 64");
  EXPECT_EQ(taken(512, 2112, 7168), "few 128 x 64");
  EXPECT_EQ(taken(384, 4096, 7168), "96");
  EXPECT_EQ(taken(512, 4096, 7168), "128");
  EXPECT_EQ(taken(768, 1536, 7168), "96") << "144 tiles of 128 x 64 are two rounds";
  EXPECT_EQ(taken(1024, 2112, 7168), "144");
  EXPECT_EQ(taken(4096, 576, 7168), "144");
  EXPECT_EQ(taken(640, 4096, 4096), "160");
  EXPECT_EQ(taken(768, 4096, 4096), "192");
  EXPECT_EQ(taken(384, 7168, 16384), "192");
  EXPECT_EQ(taken(2048, 2112, 7168), "272");
  EXPECT_EQ(taken(4096, 2112, 7168), "272");
  for (const auto& [n, k] : {std::pair{4096, 4096}, {7168, 16384}, {24576, 1536}})
    EXPECT_EQ(taken(4096, n, k), "256");
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
            Case c{m, n, k};
            c.a = c.b = code;
            c.a_source = source;
            c.a_grid = {1, group};
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

TEST(OpenClTensorCores, TilesOfOtherCapabilitiesAreAsManyAsTheDeviceHasRoomFor) {
  const Variant& tiled = *find_variant("gemm_mma_tiled");
  const auto rule = [&](int ptx, std::int64_t m, std::int64_t n, std::int64_t k, int group = 128) {
    const Features f = gpu_of(ptx, 132, 1.98e9);
    const Problem p{m, n, k, group, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::f32};
    EXPECT_FALSE(refuse(tiled, tiled.rule_of_thumb(f, p), f, p));
    return to_string(tiled.rule_of_thumb(f, p));
  };
  EXPECT_EQ(rule(80, 4096, 4096, 4096), "half_rows=1,split_k=1,stages=3,tile_k=64,tile_m=64,tile_n=128,warp_m=64");
  EXPECT_EQ(rule(89, 4096, 4096, 4096), "half_rows=0,split_k=1,stages=3,tile_k=64,tile_m=64,tile_n=128,warp_m=64");
  EXPECT_EQ(rule(89, 128, 4096, 4096), "half_rows=0,split_k=4,stages=3,tile_k=64,tile_m=64,tile_n=128,warp_m=64");
  for (const int ptx : {80, 89})
    EXPECT_NE(rule(ptx, 128, 7168, 16384).find("split_k=2"), std::string::npos) << "long K for nearly every unit";
  EXPECT_EQ(rule(89, 128, 4096, 1024, 64), "half_rows=0,split_k=2,stages=3,tile_k=64,tile_m=64,tile_n=128,warp_m=32");
  EXPECT_EQ(rule(89, 40, 40, 300), "half_rows=0,split_k=1,stages=3,tile_k=64,tile_m=64,tile_n=64,warp_m=64");
}

// As measured on an H200 held to 8.0 and 8.9 (docs/performance/h200-mma.md).
TEST(OpenClTensorCores, DevicesHeldTo80And89TakeTheKernelThatWasFastest) {
  AllWork trials;
  const auto is_tiled = [&](int ptx, std::int64_t m, std::int64_t n, std::int64_t k) {
    Features f = h200();
    limit_ptx(f, ptx);
    Choice choice;
    EXPECT_EQ(choose({f, variants(), &trials}, Case{m, n, k}.desc(), &choice).reason, backend::Reason::none);
    return choice.variant != nullptr && choice.variant->name == "gemm_mma_tiled";
  };
  for (const int ptx : {80, 89}) {
    for (const std::int64_t m : {33, 64}) {
      EXPECT_FALSE(is_tiled(ptx, m, 4096, 4096)) << ptx << " " << m;
      EXPECT_TRUE(is_tiled(ptx, m, 7168, 16384)) << ptx << " " << m;
    }
    for (const std::int64_t m : {256, 512, 1024, 4096}) {
      EXPECT_TRUE(is_tiled(ptx, m, 4096, 4096)) << ptx << " " << m;
      EXPECT_TRUE(is_tiled(ptx, m, 7168, 16384)) << ptx << " " << m;
    }
    EXPECT_FALSE(is_tiled(ptx, 128, 2112, 7168)) << ptx;
    for (const std::int64_t m : {1024, 4096}) EXPECT_TRUE(is_tiled(ptx, m, 2112, 7168)) << ptx << " " << m;
  }
  EXPECT_TRUE(is_tiled(80, 128, 4096, 4096));
  EXPECT_FALSE(is_tiled(89, 128, 4096, 4096));
  EXPECT_TRUE(is_tiled(80, 256, 2112, 7168));
  for (const std::int64_t m : {256, 512}) EXPECT_FALSE(is_tiled(89, m, 2112, 7168)) << m;
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
    Case c{m, 4096, 4096};
    c.a_source = source;
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
