// SPDX-License-Identifier: Apache-2.0
// Every kernel and every variant once or more on problems small enough for a checker that interprets kernels
// (`./dev oclgrind`): each form of A, each type of D, bias, ragged edges, tunables away from the rule of thumb.
#include "backends/opencl/variant.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

/// The ways in which A comes, with edges that are no multiples of anything.
std::vector<Case> small_problems() {
  std::vector<Case> all;
  const auto add = [&](DType source, DType a, DType b, DType d, numerics::ScaleGrid a_grid, DType bias) {
    Case c{.m = 3, .n = 35, .k = 150, .a_source = source, .a = a, .b = b, .d = d, .bias = bias, .a_grid = a_grid};
    c.ldd = 37;
    c.seed = static_cast<std::uint32_t>(all.size() + 1);
    all.push_back(c);
  };
  add(DType::bf16, DType::e4m3fn, DType::e4m3fn, DType::f32, {1, 128}, DType::none);  // quantised into tiles
  add(DType::f32, DType::e4m3fn, DType::e5m2, DType::bf16, {2, 128}, DType::f32);     // quantised, then packed
  add(DType::f16, DType::i8, DType::i8, DType::f32, {1, 64}, DType::none);
  add(DType::none, DType::e4m3fn, DType::e4m3fn, DType::f16, {1, 128}, DType::bf16);
  add(DType::none, DType::e5m2, DType::e4m3fn, DType::f32, {1, 32}, DType::none);
  add(DType::none, DType::f16, DType::e4m3fn, DType::f32, {1, 128}, DType::none);  // not quantised at all
  return all;
}

/// Tunables away from the rule of thumb, of the variants that have them.
std::vector<backend::Options> tunings(const std::string& variant) {
  std::vector<backend::Options> all{{{"variant", variant}}};
  const auto with = [&](backend::Options options) {
    options.insert(options.begin(), {"variant", variant});
    all.push_back(std::move(options));
  };
  if (variant == "gemm_stream") {
    with({{"split_k", "2"}, {"tile_n", "16"}, {"tile_m", "2"}});
    with({{"block_n", "64"}, {"block_m", "2"}, {"tile_m", "1"}});
  } else if (variant == "gemm_panel") {
    with({{"vector", "4"}, {"tile_n", "16"}, {"tile_m", "2"}, {"block_m", "2"}, {"block_n", "32"}});
  } else if (variant == "gemm_tiled") {
    with({{"tile_m", "8"}, {"tile_n", "16"}, {"tile_k", "32"}, {"work_m", "1"}, {"work_n", "4"}});
    with({{"tile_m", "8"}, {"tile_n", "16"}, {"work_m", "2"}, {"split_k", "2"}});
  } else if (variant == "gemm_skinny") {
    with({{"tile_m", "1"}, {"work_n", "2"}, {"lanes", "8"}, {"slices", "2"}, {"depth", "2"}, {"split_k", "2"}});
    with({{"tile_m", "2"}, {"work_n", "1"}, {"lanes", "4"}, {"slices", "4"}, {"depth", "1"}, {"split_k", "3"}});
  }
  return all;
}

TEST(OpenClEveryKernel, HeavySmallProblemsAreRightInEveryVariant) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  int ran = 0;
  std::string passed_over;
  for (const auto& device : devices()) {
    for (const Variant& variant : variants()) {
      const int before = ran;
      for (const backend::Options& options : tunings(variant.name)) {
        for (Case c : small_problems()) {
          c.options = options;
          if (device->supports(c.desc()).reason != backend::Reason::none) continue;
          const Outcome outcome = run(*device, c, make_data(c));
          EXPECT_EQ(outcome.info.variant, variant.name);
          expect_right(outcome, c, device->props().name);
          ++ran;
        }
      }
      if (ran == before) passed_over += " " + std::string(variant.name);
    }
  }
  EXPECT_GE(ran, 20) << "most problems were refused";
  RecordProperty("problems", ran);
  // Such as those that are instructions of one processor as text: no interpreter runs them.
  std::printf("%d problems; no device here takes:%s\n", ran, passed_over.empty() ? " -" : passed_over.c_str());
}

}  // namespace
}  // namespace ironcl::opencl::testing
