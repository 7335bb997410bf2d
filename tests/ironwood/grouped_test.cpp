// SPDX-License-Identifier: Apache-2.0
// Numbers of grouped problems on both kernels: every load, every layout, only valid rows written, the same bits
// whoever else is there. Next door: plan_test.cpp (what the kernels do to get there).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/ironwood/grouped_harness.h"

namespace ironcl::ironwood::testing {
namespace {

using backend::Grouping;
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
GroupedCase small(Counts counts, std::int64_t m, const char* program) {
  return {.one = {.m = m, .n = 192, .k = 256, .options = {{"program", program}, {"kernel_blocks", "32,128,128"}}},
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
      GroupedCase masked = small(counts, 50, program);
      masked.grouping = Grouping::masked;
      expect_right(masked);
    }
  }
}

TEST(IronwoodGrouped, MaskedRowsPastTheCountAreNeitherUsedNorWritten) {
  for (const char* program : kPrograms) {
    for (const std::int64_t m : {1, 5, 33, 64}) {
      const auto last = static_cast<std::int32_t>(m);
      GroupedCase c = small({0, last, 1, last / 2, last}, m, program);
      c.grouping = Grouping::masked;
      Data data = make_data(c);
      const auto owner = matrix_of_rows(c);
      for (std::size_t row = 0; row < owner.size(); ++row) {
        if (owner[row] >= 0) continue;
        std::fill_n(data.x.begin() + static_cast<std::ptrdiff_t>(row * 256), 256, std::byte{0x7f});     // NaN codes
        std::fill_n(data.x_scales.begin() + static_cast<std::ptrdiff_t>(row * 8), 8, std::byte{0xff});  // NaN scales
      }
      expect_right(c, data);
    }
  }
}

TEST(IronwoodGrouped, IsWithinTheBoundForEveryTypeAndGrid) {
  for (const char* program : kPrograms) {
    const backend::Options options = {{"program", program}};
    const Counts counts = {3, 0, 41, 17};
    for (const DType x : {DType::f32, DType::f16, DType::bf16}) {
      for (const DType w : {DType::e4m3fn, DType::e5m2, DType::i8}) {
        expect_right(
            {.one = {.m = 61, .n = 200, .k = 400, .x = x, .quantize = true, .code = w, .w = w, .options = options},
             .counts = counts});
        expect_right({.one = {.m = 61, .n = 200, .k = 400, .x = x, .w = w, .d = DType::bf16, .options = options},
                      .counts = counts});
      }
    }
    for (const ScaleGrid grid : {ScaleGrid{128, 128}, {1, 0}, {0, 0}, {64, 64}, {1, 32}, {96, 96}}) {
      for (const DType scale : {DType::f32, DType::e8m0}) {
        expect_right({.one = {.m = 61,
                              .n = 200,
                              .k = 400,
                              .x_grid = {1, grid.group_cols},
                              .w_grid = grid,
                              .x_scale = scale,
                              .w_scale = scale,
                              .options = options},
                      .counts = counts});
      }
    }
    for (const DType bias : {DType::f32, DType::f16, DType::bf16}) {
      expect_right({.one = {.m = 61, .n = 200, .k = 400, .bias = bias, .options = options}, .counts = counts});
    }
  }
}

TEST(IronwoodGrouped, TakesWeightsThatAreNotQuantised) {
  for (const DType w : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType x : {DType::f32, DType::f16, DType::bf16}) {
      const Case dense{.m = 33, .n = 200, .k = 300, .x = x, .w = w, .w_scale = DType::none};
      const auto result = check(dense);
      EXPECT_TRUE(result.pass) << print(dense) << " " << result.max_error_over_bound;
      expect_right({.one = dense, .counts = {5, 0, 20}});
    }
  }
}

TEST(IronwoodGrouped, ShapesOfExpertsWithPartialBlocksAreRight) {
  for (const char* program : kPrograms) {
    for (const std::int64_t n : {96, 192, 576}) {
      for (const std::int64_t k : {64, 96, 192, 768}) {
        expect_right({.one = {.m = 40,
                              .n = n,
                              .k = k,
                              .x = DType::bf16,
                              .quantize = true,
                              .d = DType::bf16,
                              .options = {{"program", program}}},
                      .counts = {7, 0, 16, 1, 9}});
      }
    }
    expect_right({.one = {.m = 12,
                          .n = 1536,
                          .k = 2048,
                          .x = DType::bf16,
                          .quantize = true,
                          .d = DType::bf16,
                          .options = {{"program", program}}},
                  .counts = {5, 0, 4}});
  }
}

// A wrong matrix, or one matrix's scales for another's codes, shows at once: they differ by powers of two.
TEST(IronwoodGrouped, EveryRowMeetsItsOwnMatrix) {
  for (const char* program : kPrograms) {
    GroupedCase c = small(random_counts(120, 60, 5, 0.5), 120, program);
    Data data = make_data(c);
    const std::size_t scales = data.w_scales.size() / 4 / c.counts.size();
    for (std::size_t g = 0; g < c.counts.size(); ++g) {
      for (std::size_t i = 0; i < scales; ++i) {
        const float value = std::ldexp(1.0f, static_cast<int>(g % 40) + static_cast<int>(i % 3));
        std::memcpy(data.w_scales.data() + (g * scales + i) * 4, &value, 4);
      }
    }
    expect_right(c, data);
  }
}

TEST(IronwoodGrouped, OneMatrixGivesTheBitsOfTheDenseProblem) {
  for (const DType x : {DType::e4m3fn, DType::bf16, DType::f32}) {
    const Case dense{
        .m = 77, .n = 300, .k = 700, .x = x, .quantize = x == DType::bf16, .d = DType::bf16, .bias = DType::f32};
    const Data data = make_data(dense);
    const auto want_bits = run(dense, data);
    for (const char* program : kPrograms) {
      for (const Grouping grouping : {Grouping::contiguous, Grouping::masked}) {
        GroupedCase c{.one = dense, .grouping = grouping, .counts = {77}};
        c.one.options = {{"program", program}};
        EXPECT_EQ(run(c, data), want_bits) << print(c);
      }
    }
  }
}

TEST(IronwoodGrouped, BothKernelsAndAllBlocksGiveTheSameBits) {
  GroupedCase c{.one = {.m = 160, .n = 320, .k = 640, .x = DType::bf16, .quantize = true, .d = DType::bf16},
                .counts = random_counts(150, 12, 9, 1)};
  for (const DType x : {DType::bf16, DType::f32}) {
    c.one.x = x;
    c.one.quantize = x == DType::bf16;
    const Data data = make_data(c);
    const auto want_bits = run(c, data);
    for (const backend::Options& options :
         {backend::Options{{"program", "gmm_v1"}},
          {{"program", "gmm_v1"}, {"kernel_blocks", "32,128,128"}, {"buffers", "1"}},
          {{"program", "gmm_v1"}, {"kernel_blocks", "64,384,640"}, {"buffers", "3"}},
          {{"program", "gmm_v2"}, {"kernel_blocks", "32,128,128"}, {"buffers", "1"}},
          {{"program", "gmm_v2"}, {"kernel_blocks", "64,128,640"}, {"threads", "1"}},
          {{"program", "gmm_v2"}, {"kernel_blocks", "256,384,256"}, {"buffers", "4"}}}) {
      c.one.options = options;
      EXPECT_EQ(run(c, data), want_bits) << print(c);
    }
  }
}

// A row's result alone is its result in a crowd.
TEST(IronwoodGrouped, ARowDoesNotDependOnItsNeighbours) {
  for (const char* program : kPrograms) {
    const GroupedCase crowd{.one = {.m = 40, .n = 200, .k = 500, .x = DType::f32, .options = {{"program", program}}},
                            .counts = {13, 27}};
    const Data data = make_data(crowd);
    const auto all = run(crowd, data);
    for (const std::int64_t row : {0, 12, 13, 39}) {
      GroupedCase alone = crowd;
      alone.one.m = 1;
      alone.counts = row < 13 ? Counts{1, 0} : Counts{0, 1};
      Data one = data;
      one.x.assign(data.x.begin() + row * 500 * 4, data.x.begin() + (row + 1) * 500 * 4);
      const auto bits = run(alone, one);
      EXPECT_EQ(std::memcmp(bits.data(), all.data() + row * 200 * 4, 200 * 4), 0) << print(alone) << " row " << row;
    }
  }
}

// Quantising T tokens once and gathering gives the bits of gathering first and quantising every row.
TEST(IronwoodGrouped, GatheringAfterQuantisingGivesTheBitsOfGatheringBefore) {
  std::mt19937_64 random(11);
  for (const char* program : kPrograms) {
    for (const Grouping grouping : {Grouping::contiguous, Grouping::masked}) {
      GroupedCase c{
          .one = {.m = 30, .n = 200, .k = 400, .x = DType::bf16, .quantize = true, .options = {{"program", program}}},
          .grouping = grouping,
          .counts = {9, 0, 21},
          .x_rows = 11};
      for (std::int64_t i = 0; i < c.rows(); ++i) c.a_index.push_back(static_cast<std::int32_t>(random() % 11));
      const Data data = make_data(c);
      expect_right(c, data);
      GroupedCase copied = c;
      copied.a_index.clear();
      Data rows = data;
      rows.x.clear();
      for (const std::int32_t at : c.a_index) {
        rows.x.insert(rows.x.end(), data.x.begin() + at * 800, data.x.begin() + (at + 1) * 800);
      }
      EXPECT_EQ(run(c, data), run(copied, rows)) << print(c);
    }
  }
}

TEST(IronwoodGrouped, AnIndexOutsideOfAMeansItsNearestRow) {
  for (const char* program : kPrograms) {
    GroupedCase c = small({2, 3}, 7, program);
    c.x_rows = 3;
    c.a_index = {-1, 3, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min(), 1, 7, -7};
    expect_right(c);
  }
  // The dense problem gathers too.
  Case dense{.m = 4, .n = 200, .k = 300};
  const GroupedCase grouped{.one = dense, .counts = {4}, .a_index = {2, 0, 9, 1}, .x_rows = 3};
  const Data data = make_data(grouped);
  auto desc = desc_of(dense);
  desc.a_rows = 3;
  EXPECT_EQ(device().supports(desc).reason, backend::Reason::none) << device().supports(desc).text;
  expect_right(grouped, data);
}

TEST(IronwoodGrouped, ReadsCountsThatAnotherQueueWroteWhenTheCallRuns) {
  GroupedCase c = small({0, 0, 0}, 20, "gmm_v2");
  const Data data = make_data(c);
  const auto queue = device().create_queue(), other = device().create_queue();
  const auto gemm = device().create_gemm(desc_of(c));
  backend::WeightsDesc weights;
  weights.dtype = c.one.w, weights.n = c.one.n, weights.k = c.one.k, weights.ld = c.one.k, weights.matrices = 3;
  weights.scale = desc_of(c).b_scale;
  weights.data = data.w.data(), weights.scales = data.w_scales.data();
  backend::GemmArgs args;
  args.m = 20;
  args.weights = device().prepare_weights(weights);
  const auto filled = [&](const std::vector<std::byte>& bytes) {
    const backend::Span span{.buffer = device().create_buffer(bytes.size()), .offset = 0, .size = bytes.size()};
    queue->write(span, bytes.data(), backend::HostSemantics::copied_before_return);
    return span;
  };
  args.a = filled(data.x);
  args.a_scale = filled(data.x_scales);
  args.d = filled(std::vector<std::byte>(20 * 192 * 4, kCanary));
  args.matrix_rows = filled(std::vector<std::byte>(12));
  const std::int32_t counts[] = {4, 0, 9};
  args.wait = {other->write(args.matrix_rows, counts, backend::HostSemantics::copied_before_return)};
  gemm->enqueue(queue, args)->wait(std::chrono::nanoseconds::max());
  std::vector<std::byte> d(20 * 192 * 4);
  queue->read(args.d, d.data());
  c.counts = {4, 0, 9};
  EXPECT_EQ(d, run(c, data));
}

TEST(IronwoodGrouped, RefusesWithWhatItWouldTake) {
  GroupedCase c = small({2, 3}, 7, "gmm_v2");
  const auto reason = [&](auto change) {
    auto desc = desc_of(c);
    change(desc);
    const auto support = device().supports(desc);
    return std::pair(support.reason, support.text);
  };
  const auto blocks = reason([](auto& d) { d.a_scale.grid = {128, 128}; });
  EXPECT_EQ(blocks.first, backend::Reason::scale_layout);
  EXPECT_NE(blocks.second.find("1x128"), std::string::npos) << blocks.second;
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
