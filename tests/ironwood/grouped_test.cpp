// SPDX-License-Identifier: Apache-2.0
// Numbers of grouped problems on both kernels: every load, every layout, only valid rows written, the same bits
// whoever else is there. Next door: plan_test.cpp (what the kernels do to get there).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/ironwood/harness.h"

namespace ironcl::ironwood::testing {
namespace {

using Counts = std::vector<std::int32_t>;

constexpr const char* kPrograms[] = {"gmm_v1", "gmm_v2"};

std::int32_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

Counts random_counts(std::int32_t rows, int matrices, std::uint64_t seed, double skew) {
  std::mt19937_64 random(seed);
  std::vector<double> weights;
  for (int g = 0; g < matrices; ++g) weights.push_back(std::pow(g + 1, -skew));
  std::discrete_distribution<int> pick(weights.begin(), weights.end());
  Counts counts(static_cast<std::size_t>(matrices));
  for (std::int32_t i = 0; i < rows; ++i) ++counts[static_cast<std::size_t>(pick(random))];
  return counts;
}

/// Small tiles of 32 rows (a native tile of fp8), so that few rows make many visits.
Case small(Counts counts, std::int64_t m, const char* program) {
  return {.m = m,
          .n = 192,
          .k = 256,
          .options = {{"program", program}, {"kernel_blocks", "32,128,128"}},
          .counts = std::move(counts)};
}

TEST(IronwoodGrouped, IsRightForEveryLoad) {
  const Counts loads[] = {
      {0, 0, 0, 0},
      {100, 0, 0, 0},
      {0, 0, 100, 0},
      {0, 0, 0, 100},
      {1, 1, 1, 1, 1, 1, 1},
      {0, 1, 0, 1, 0, 1},
      {31, 32, 33},
      {32, 32, 32},
      {1, 30, 1},
      {1, 30, 1, 1, 30, 1},
      {2, 3, 5, 7, 11, 13, 17, 19, 23},
      random_counts(150, 16, 1, 0),
      random_counts(150, 16, 2, 1.2),
      random_counts(40, 64, 3, 0),  // more matrices than tiles
  };
  for (const char* program : kPrograms) {
    for (const Counts& counts : loads) {
      expect_right(small(counts, std::max(sum(counts), 1), program));
      expect_right(small(counts, sum(counts) + 37, program));  // the rows after the last matrix's stay as they were
    }
  }
}

TEST(IronwoodGrouped, CutsOffCountsThatAreNonsense) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                     least = std::numeric_limits<std::int32_t>::min();
  for (const char* program : kPrograms) {
    for (const Counts& counts : {Counts{-5, 20, -1, 30}, {least, 10, most}, {most, most, most}, {40, 40, 40}}) {
      expect_right(small(counts, 50, program));
      Case masked = small(counts, 50, program);
      masked.masked = true;
      expect_right(masked);
    }
  }
}

TEST(IronwoodGrouped, OneMatrixGivesTheBitsOfTheDenseProblem) {
  for (const DType x : {DType::e4m3fn, DType::bf16, DType::f32}) {
    Case dense{.m = 77, .n = 300, .k = 700, .d = DType::bf16, .bias = DType::f32};
    (x == DType::bf16 ? dense.a_source : dense.a) = x;
    const Data data = make_data(dense);
    const auto want_bits = bytes_of_run(dense, data);
    for (const char* program : kPrograms) {
      for (const bool masked : {false, true}) {
        Case c = dense;
        c.counts = {77}, c.masked = masked;
        c.options = {{"program", program}};
        EXPECT_EQ(bytes_of_run(c, data), want_bits) << c.line();
      }
    }
  }
}

TEST(IronwoodGrouped, BothKernelsAndAllBlocksGiveTheSameBits) {
  for (const DType x : {DType::bf16, DType::f32}) {
    Case c{.m = 160, .n = 320, .k = 640, .d = DType::bf16, .counts = random_counts(150, 12, 9, 1)};
    (x == DType::bf16 ? c.a_source : c.a) = x;
    const Data data = make_data(c);
    const auto want_bits = bytes_of_run(c, data);
    for (const backend::Options& options :
         {backend::Options{{"program", "gmm_v1"}},
          {{"program", "gmm_v1"}, {"kernel_blocks", "32,128,128"}, {"buffers", "1"}},
          {{"program", "gmm_v1"}, {"kernel_blocks", "64,384,640"}, {"buffers", "3"}},
          {{"program", "gmm_v2"}, {"kernel_blocks", "32,128,128"}, {"buffers", "1"}},
          {{"program", "gmm_v2"}, {"kernel_blocks", "64,128,640"}, {"threads", "1"}},
          {{"program", "gmm_v2"}, {"kernel_blocks", "256,384,256"}, {"buffers", "4"}}}) {
      c.options = options;
      EXPECT_EQ(bytes_of_run(c, data), want_bits) << c.line();
    }
  }
}

TEST(IronwoodGrouped, AnIndexOutsideOfAMeansItsNearestRow) {
  for (const char* program : kPrograms) {
    Case c = small({20, 31}, 60, program);
    c.a_rows = 3;
    Data data = make_data(c);
    data.index[0] = std::numeric_limits<std::int32_t>::max();
    data.index[1] = std::numeric_limits<std::int32_t>::min();
    products::expect_right(run(device(), c, data), c, program);
  }
  expect_right({.m = 40, .n = 200, .k = 300, .a_rows = 3});  // The dense problem gathers too.
}

TEST(IronwoodGrouped, RefusesWithWhatItWouldTake) {
  Case c = small({2, 3}, 7, "gmm_v2");
  const auto reason = [&](auto change) {
    auto desc = c.desc();
    change(desc);
    const auto support = device().supports(desc);
    return std::pair(support.reason, support.text);
  };
  const auto program = reason([](auto& d) { d.options = {{"program", "pipeline"}}; });
  EXPECT_EQ(program.first, backend::Reason::option);
  EXPECT_NE(program.second.find("gmm_v2"), std::string::npos) << program.second;
  const auto counts = reason([](auto& d) { d.options = {{"matrix_rows", "1,2,3"}}; });
  EXPECT_NE(counts.second.find("3 counts"), std::string::npos) << counts.second;
  const auto many = reason([](auto& d) { d.n = 4096, d.k = 7168, d.matrices = std::int64_t{1} << 40; });
  EXPECT_EQ(many.first, backend::Reason::shape) << many.second;
  const auto large = reason(
      [](auto& d) { d.n = 4096, d.k = 7168, d.lda = 7168, d.ldd = 4096, d.matrices = 256, d.options.clear(); });
  EXPECT_EQ(large.first, backend::Reason::none) << large.second;  // 7.5e9 weights are no overflow
}

}  // namespace
}  // namespace ironcl::ironwood::testing
