// SPDX-License-Identifier: Apache-2.0
// Who holds what, parts of B with their scales, sums in the order of ranks.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <random>

#include "backends/numerics/casts.h"
#include "tests/ranks/support.h"

namespace ironcl::ranks {
namespace {

using numerics::DType;

TEST(Partition, IsWholeBlocksAsEvenlyAsTheyGo) {
  EXPECT_EQ(Partition::even("k", 1536, 8, 128, 128).text(),
            "k 1536 = 0..255 | 256..511 | 512..767 | 768..1023 | 1024..1151 | 1152..1279 | 1280..1407 | 1408..1535, "
            "blocks of 128");
  EXPECT_EQ(Partition::even("k", 300, 4, 128, 128).text(),
            "k 300 = 0..127 | 128..255 | 256..299 | none, blocks of 128");
  EXPECT_EQ(Partition::even("n", 768, 4, 1, 128).text(),
            "n 768 = 0..191 | 192..383 | 384..575 | 576..767, blocks of 128; ragged: 1, 3");
  EXPECT_EQ(Partition::even("n", 8, 3, 2, 1, true).text(), "n 8 = 0..3 | 4..5 | 6..7");
  EXPECT_EQ(Partition::even("n", 4, 6, 2, 1, true).text(), "n 4 = 0..1 | 0..1 | 0..1 | 2..3 | 2..3 | 2..3")
      << "key-value heads: rank / replicas";
  EXPECT_EQ(Partition::even("m", 2, 3).active(), 2);
  EXPECT_THROW(Partition::even("m", -1, 3), Error);
}

/// The numbers of B, decoded with the project's own grids, against those of slices with theirs.
TEST(Slice, HasTheNumbersOfBWhereverABoundaryFalls) {
  struct Case {
    const char* line;
    std::vector<Range> rows;
    Range cols;
    const char* scale;
  };
  const Case cases[] = {
      {"1x512:512x1152", {{576, 1152}}, {0, 512}, "64x128"},
      {"1x512:512x768", {{192, 384}}, {128, 512}, "64x128"},
      {"1x512:512x768", {{96, 192}}, {0, 512}, "32x128"},
      {"1x512:512x400", {{80, 160}}, {80, 200}, "16x16"},
      {"1x512:512x900", {{300, 600}}, {0, 512}, "4x128"},
      {"1x512:512x384", {{128, 384}}, {256, 512}, "128x128"},
      {"1x512:512x3456", {{768, 1536}, {3072, 3264}, {3328, 3456}}, {0, 512}, "64x128"},
      {"1x512:512x301", {{299, 301}}, {511, 512}, "1x1"},
  };
  for (const Case& one : cases) {
    Example example(std::string("--dt=bf16:e4m3fn:f32 --scale=none:128x128 ") + one.line);
    example.distinct_scales();
    const Slice part = slice(example.whole().b, one.rows, one.cols);
    EXPECT_EQ(std::to_string(part.scale.rows) + "x" + std::to_string(part.scale.cols), one.scale) << one.line;
    const auto decoded = [](const Bytes& codes, const Bytes& scales, std::int64_t n, std::int64_t k,
                            numerics::ScaleGrid grid) {
      return numerics::decode_operand(
          {DType::e4m3fn, codes.data(), n, k, k, DType::f32, scales.data(), grid, grid.scale_cols(k)});
    };
    const std::vector<double> all =
        decoded(example.made.b, example.made.b_scale, example.problem.n, example.problem.k, {128, 128});
    const std::vector<double> own =
        decoded(part.codes, part.scales, part.n, part.k, {part.scale.rows, part.scale.cols});
    std::size_t at = 0;
    for (const Range& rows : one.rows)
      for (std::int64_t row = rows.begin; row < rows.end; ++row)
        for (std::int64_t col = one.cols.begin; col < one.cols.end; ++col, ++at)
          ASSERT_EQ(own[at], all[static_cast<std::size_t>(row * example.problem.k + col)])
              << one.line << " row " << row << " column " << col;
    EXPECT_EQ(at, own.size());
  }
}

TEST(Slice, OfOtherFormatsAndGrids) {
  // A scale per row, one for all, two codes in a byte with a global scale.
  Bytes codes(4 * 8), scales(4 * sizeof(float));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = std::byte(i);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto scale = static_cast<float>(i + 1);
    std::memcpy(scales.data() + i * sizeof scale, &scale, sizeof scale);
  }
  const auto first = [](const Slice& part) {
    float scale = 0;
    std::memcpy(&scale, part.scales.data(), sizeof scale);
    return scale;
  };
  const Slice channel =
      slice({.n = 4, .k = 8, .scale = {IRONCL_F32, 1, 0}, .data = codes, .scales = scales}, {{2, 4}}, {4, 8});
  EXPECT_EQ(channel.scales.size(), 2 * sizeof(float));
  EXPECT_EQ(first(channel), 3);
  EXPECT_EQ(channel.codes[0], std::byte(2 * 8 + 4));
  const Slice tensor =
      slice({.n = 4, .k = 8, .scale = {IRONCL_F32, 0, 0}, .data = codes, .scales = scales}, {{2, 4}}, {4, 8});
  EXPECT_EQ(tensor.scales.size(), sizeof(float));
  const float global[] = {0.5f};
  const WeightsDesc pairs{.n = 4,
                          .k = 16,
                          .dtype = IRONCL_F4_E2M1,
                          .scale = {IRONCL_F8_E4M3FN, 1, 4},
                          .data = codes,
                          .scales = scales,
                          .global_scales = global};
  const Slice half = slice(pairs, {{1, 2}}, {8, 16});
  EXPECT_EQ(half.codes, Bytes(codes.begin() + 8 + 4, codes.begin() + 16));
  EXPECT_EQ(half.scales, Bytes(scales.begin() + 4 + 2, scales.begin() + 8));
  EXPECT_EQ(half.globals, std::vector<float>{0.5f});
  // Zeros before the columns, so that these begin where a block does.
  const Slice front =
      slice({.n = 4, .k = 8, .scale = {IRONCL_F32, 4, 2}, .data = codes, .scales = scales}, {{2, 4}}, {3, 8}, 1);
  EXPECT_EQ(front.k, 6);
  EXPECT_EQ(front.scale.cols, 2u);
  EXPECT_EQ(front.codes[0], std::byte{});
  EXPECT_EQ(front.codes[1], std::byte(2 * 8 + 3));
  EXPECT_EQ(first(front), 2);
  EXPECT_NE(error_of([&] { slice(pairs, {{1, 2}}, {7, 16}); }).find("cut a pair of e2m1 columns"), std::string::npos);
  EXPECT_NE(error_of([&] { slice(pairs, {{1, 5}}, {8, 16}); }).find("outside of B [4, 16]"), std::string::npos);
}

/// Pages of B that no rank's part lies in cannot be read at all; and the bytes are counted.
TEST(Ranks18, EachRankReadsOnlyItsByteRanges) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::int64_t n = 16, k = static_cast<std::int64_t>(page);
  auto* memory = static_cast<std::byte*>(
      mmap(nullptr, static_cast<std::size_t>(n) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  const std::vector<float> scales(static_cast<std::size_t>(4 * (k / 128)), 1.0f);
  const WeightsDesc b{.n = n,
                      .k = k,
                      .scale = {IRONCL_F32, 4, 128},
                      .data = {memory, static_cast<std::size_t>(n) * page},
                      .scales = std::as_bytes(std::span(scales))};
  GemmDesc whole;
  whole.m = 1;
  whole.n = n;
  whole.k = k;
  whole.b_scale = b.scale;
  std::mutex mutex;
  on_ranks(3, [&](Group& group) {
    std::unique_lock turn(mutex);  // Threads have the same pages.
    const Shards shards = shard(whole, 3, {});
    const std::vector<Range> rows = shards.rows_of(group.rank());
    ASSERT_EQ(mprotect(memory, static_cast<std::size_t>(n) * page, PROT_NONE), 0);
    for (const Range& one : rows)
      ASSERT_EQ(mprotect(memory + static_cast<std::size_t>(one.begin) * page,
                         static_cast<std::size_t>(one.size()) * page, PROT_READ),
                0);
    const Slice part = slice(b, rows, shards.cols_of(group.rank()));
    turn.unlock();
    EXPECT_EQ(part.bytes_read, static_cast<std::uint64_t>(part.n * k + part.n / 4 * (k / 128) * 4));
    const std::vector<std::uint64_t> all = gathered(group, part.bytes_read);
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), std::uint64_t{0}),
              static_cast<std::uint64_t>(n * k) + scales.size() * sizeof(float))
        << "no byte is read twice";
  });
  munmap(memory, static_cast<std::size_t>(n) * page);
}

TEST(Sum, IsInTheOrderOfRanksAndRoundedOnce) {
  const std::vector<float> first = {1, -0.0f, 1, 1}, second = {0x1p-8f, 0, 0x1p24f, 0x1p-9f},
                           third = {0x1p-16f, 0, -0x1p24f, 0};
  const auto bytes = [](const std::vector<float>& values) {
    return reinterpret_cast<const std::byte*>(values.data());
  };
  std::vector<float> sum(4);
  auto* to = reinterpret_cast<std::byte*>(sum.data());
  sum_in_order({bytes(first), bytes(second), bytes(third)}, 4, IRONCL_F32, to);
  EXPECT_EQ(sum[2], 0) << "1 is lost beside 2^24; in another order it would be left";
  sum_in_order({bytes(first)}, 4, IRONCL_F32, to);
  EXPECT_TRUE(std::signbit(sum[1])) << "a rank without a part must not turn -0";
  std::vector<std::uint16_t> rounded(4);
  sum_in_order({bytes(first), bytes(second), bytes(third)}, 4, IRONCL_BF16,
               reinterpret_cast<std::byte*>(rounded.data()));
  EXPECT_EQ(rounded[0], 0x3f81) << "1 + 2^-8 + 2^-16 is past the middle; rounded after each addition it is 1";
}

TEST(Sum, RoundsAsEveryDeviceDoes) {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    std::uint32_t bits = random();
    if (i % 4 == 0) bits = (bits & 0x80001fffu) | 0x33000000u | (bits << 9 & 0x04ffe000u);  // f16's subnormals
    if (i % 4 == 1) bits = (bits & 0xffffe000u) | 0x1000u;                                  // f16's ties
    if (i % 4 == 2) bits = (bits & 0xffff0000u) | 0x8000u;                                  // bf16's ties
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    std::uint16_t want = 0;
    numerics::encode(DType::bf16, std::span(&value, 1), &want);
    ASSERT_EQ(to_bf16(value), want) << value;
    numerics::encode(DType::f16, std::span(&value, 1), &want);
    ASSERT_EQ(to_f16(value), want) << value;
  }
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::quiet_NaN()) & 0x7fff, 0x7fc0);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::quiet_NaN()) & 0x7e00, 0x7e00);
}

/// 2^31 bytes and more, by arithmetic only.
TEST(Ranks13, MessagesAreNoLongerThanMpiCounts) {
  const std::uint64_t bytes = (std::uint64_t{5} << 30) + 7;
  const std::vector<Range> all = messages_of(bytes);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all.back(), (Range{std::int64_t{5} << 30, static_cast<std::int64_t>(bytes)}));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].begin, i == 0 ? 0 : all[i - 1].end);
    EXPECT_LT(all[i].size(), std::numeric_limits<int>::max());
  }
  EXPECT_TRUE(messages_of(0).empty());
  EXPECT_EQ(messages_of(10, 5).size(), 2u);
}

}  // namespace
}  // namespace ironcl::ranks
