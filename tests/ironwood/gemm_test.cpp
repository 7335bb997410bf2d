// SPDX-License-Identifier: Apache-2.0
// The numbers of the model: within the bound of the oracle everywhere, exact where they can be, and the same bits
// whatever the blocks, modes and buffers.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "backends/numerics/casts.h"
#include "tests/ironwood/harness.h"

namespace ironcl::ironwood::testing {
namespace {

void expect_within_bound(const Case& c) {
  const Outcome outcome = run(device(), c, make_data(c));
  products::expect_right(outcome, c, "the model");
  // f32 results come from exact group sums: far inside the bound, or something is wrong.
  EXPECT_LT(outcome.comparison.max_error_over_bound, c.d == DType::f32 ? 0.2 : 1.0) << c.line();
}

TEST(IronwoodGemm, IsWithinTheBoundForRaggedSizesAndEveryBlock) {
  for (const std::int64_t q : {128, 256, 512}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                  {3, 17, 127},
                                  {17, 129, 129},
                                  {127, 448, 576},
                                  {33, 512, 1024},
                                  {130, 576, 1300}}) {
      expect_within_bound({.m = m, .n = n, .k = k, .a_grid = {1, q}, .b_grid = {q, q}});
      expect_within_bound({.m = m, .n = n, .k = k, .a_grid = {q, q}, .b_grid = {q, q}, .seed = 2});
    }
  }
}

TEST(IronwoodGemm, TakesEveryElementTypeMixed) {
  constexpr DType kCodes[] = {DType::e4m3fn, DType::e5m2, DType::i8};
  for (const DType w : kCodes) {
    for (const DType x : kCodes) {  // given, and quantised in the plan
      expect_within_bound({.m = 19, .n = 200, .k = 700, .a = x, .b = w});
      for (const char* program : {"pipeline", "manual_dma"}) {
        expect_within_bound({.m = 40,
                             .n = 200,
                             .k = 700,
                             .a_source = DType::bf16,
                             .a = x,
                             .b = w,
                             .options = {{"program", program}}});
      }
    }
    for (const DType x : {DType::f32, DType::f16, DType::bf16}) {  // weight-only
      expect_within_bound({.m = 19, .n = 200, .k = 700, .a = x, .b = w, .b_grid = {1, 0}});
    }
  }
}

// Every choice that must not change a bit, of one problem.
void expect_same_bits(const Case& base, const std::vector<backend::Options>& choices) {
  const Data data = make_data(base);
  Case first = base;
  first.options = choices.front();
  const auto want_bits = bytes_of_run(first, data);
  for (const backend::Options& options : choices) {
    Case c = base;
    c.options = options;
    EXPECT_EQ(bytes_of_run(c, data), want_bits) << c.line();
  }
}

TEST(IronwoodGemm, BlocksModesBuffersAndThreadsDoNotChangeABit) {
  const std::vector<backend::Options> choices = {
      {{"kernel_blocks", "128,128,128"}, {"mode", "aligned"}},
      {{"kernel_blocks", "128,128,128"}, {"buffers", "1"}},
      {{"kernel_blocks", "128,128,128"}, {"buffers", "3"}},
      {{"kernel_blocks", "256,128,384"}},
      {{"kernel_blocks", "128,640,128"}},
      {{"kernel_blocks", "384,256,896"}, {"buffers", "1"}, {"threads", "1"}},
      {{"kernel_blocks", "512,768,512"}, {"threads", "3"}},
      {{"kernel_blocks", "512,128,1024"}, {"save_x_q", "auto"}},
      {{"kernel_blocks", "128,256,128"}, {"program", "manual_dma"}},
      {{"kernel_blocks", "256,128,1024"}, {"program", "manual_dma"}, {"buffers", "1"}},
      {{"kernel_blocks", "128,128,256"}, {"program", "manual_dma"}, {"buffers", "4"}},
      {},
  };
  expect_same_bits({.m = 300, .n = 600, .k = 850}, choices);
  expect_same_bits({.m = 300, .n = 600, .k = 850, .d = DType::bf16, .a_grid = {128, 128}}, choices);
  expect_same_bits({.m = 300, .n = 600, .k = 850, .a_source = DType::bf16}, choices);
  // Unquantised f32: the sums are not exact, so the order is what is tested.
  expect_same_bits({.m = 300, .n = 600, .k = 850, .a = DType::f32}, choices);
}

TEST(IronwoodGemm, NarrowGroupsAndOtherCodesKeepTheirBits) {
  const std::vector<backend::Options> choices = {
      {{"kernel_blocks", "64,128,128"}},
      {{"kernel_blocks", "128,384,256"}, {"buffers", "1"}},
      {{"kernel_blocks", "192,128,384"}, {"threads", "1"}},
      {{"kernel_blocks", "64,256,896"}, {"program", "manual_dma"}},
      {},
  };
  for (const DType w : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    expect_same_bits({.m = 150,
                      .n = 400,
                      .k = 850,
                      .a_source = DType::bf16,
                      .a = w,
                      .b = w,
                      .a_grid = {64, 64},
                      .b_grid = {64, 64}},
                     choices);
    expect_same_bits({.m = 150, .n = 400, .k = 850, .a = DType::f32, .b = w, .b_grid = {1, 32}}, choices);
  }
}

TEST(IronwoodGemm, GroupsThatSpanSeveralStepsKeepTheirBits) {
  const std::vector<backend::Options> choices = {{{"kernel_blocks", "128,128,128"}},
                                                 {{"kernel_blocks", "256,384,256"}, {"buffers", "3"}},
                                                 {{"kernel_blocks", "128,640,1408"}, {"buffers", "1"}},
                                                 {{"kernel_blocks", "64,256,384"}, {"program", "manual_dma"}},
                                                 {}};
  for (const DType x : {DType::e4m3fn, DType::f32}) {
    expect_same_bits({.m = 200, .n = 500, .k = 1300, .a = x, .a_grid = {1, 0}, .b_grid = {1, 0}}, choices);
  }
}

TEST(IronwoodGemm, KeepingTheQuantisedBlockChangesNoBit) {
  const Case base{.m = 200, .n = 700, .k = 500, .a_source = DType::f32};
  expect_same_bits(base, {{{"kernel_blocks", "128,128,512"}, {"save_x_q", "on"}},
                          {{"kernel_blocks", "128,128,512"}, {"save_x_q", "off"}},
                          {{"kernel_blocks", "128,128,512"}, {"save_acc", "on"}},
                          {{"kernel_blocks", "128,128,512"}, {"save_acc", "off"}}});
}

TEST(IronwoodGemm, HandlesKGroupsWhoseScalesDifferByAHundredPowersOfTwo) {
  for (const int shift : {-50, 50}) {
    Case c{.m = 30, .n = 256, .k = 1024};
    Data data = make_data(c);
    for (std::size_t i = 0; i < data.b_scales.size() / 4; ++i) {
      const float value = std::ldexp(1.0f, i % 8 == 3 ? shift : -shift / 2);
      std::memcpy(data.b_scales.data() + i * 4, &value, 4);
    }
    products::expect_right(run(device(), c, data), c, "the model");
  }
}

}  // namespace
}  // namespace ironcl::ironwood::testing
