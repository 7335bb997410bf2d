// SPDX-License-Identifier: Apache-2.0
// Grouped problems (many matrices, rows dealt to them on the device) against the f64 oracle, on every device and with
// every variant that takes them. Rows of A that no matrix has are NaN, bytes of D outside are canaries.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "backends/opencl/device.h"
#include "tests/opencl/grouped.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;
using Counts = std::vector<std::int32_t>;

using OpenClGrouped = OnDevices;

constexpr std::int32_t kTile = 3;    ///< Rows of a tile in the options of grouped_variants().
constexpr std::int32_t kBlock = 16;  ///< A height that tiled kernels have there, more than two blocks of the others.

/// Each of these counts with every variant; contiguous has `tail` rows of D that nobody has.
void check_all(const std::vector<Counts>& all, bool masked, std::int64_t tail = 0) {
  std::uint32_t seed = 20;
  int ran = 0;
  for (const backend::Options& options : grouped_variants()) {
    for (const Counts& counts : all) {
      Case g{.m = tail, .n = 70, .k = 200, .options = options, .seed = ++seed, .counts = counts, .masked = masked};
      for (const std::int32_t count : counts)
        g.m = masked ? std::max<std::int64_t>(g.m, count + tail) : g.m + std::max(count, 0);
      ran += check_grouped(g);
    }
  }
  EXPECT_GE(ran, static_cast<int>(2 * all.size()));
}

TEST_F(OpenClGrouped, EmptyMatricesAndMatricesWithEverythingAreRight) {
  check_all(
      {{40, 0, 0, 0}, {0, 0, 40, 0}, {0, 0, 0, 40}, {1, 1, 1, 1, 1, 1, 1}, {0, 1, 0, 1, 0, 1, 0}, {0, 0, 5}, {9}},
      false);
}

TEST_F(OpenClGrouped, NothingIsWrittenWhereNoMatrixHasRows) { check_all({{0, 0, 0}, {0}}, false, 30); }

TEST_F(OpenClGrouped, RowsPastTheLastMatrixAreNotTouched) { check_all({{3, 0, 20}, {1, 1}}, false, 17); }

TEST_F(OpenClGrouped, EveryPlaceOfABorderInATileIsRight) {
  check_all({{kTile - 1, kTile, kTile + 1},
             {1, kTile - 2, 1, kTile},
             {2 * kTile - 1, 2 * kTile, 2 * kTile + 1},
             {kBlock - 1, kBlock, kBlock + 1},
             {2, 3, 5, 7, 11, 13},
             {13, 11, 7, 5, 3, 2}},
            false);
}

TEST_F(OpenClGrouped, EveryHeightOfATileIsRight) {
  // The vector kernels have code for each of them, of the last tile of a matrix or of all.
  const std::vector<backend::Options> heights{
      {{"variant", "gemm_stream"}, {"tile_m", "16"}, {"tile_n", "16"}},
      {{"variant", "gemm_stream"}, {"tile_m", "9"}, {"tile_n", "32"}},
      {{"variant", "gemm_panel"}, {"tile_m", "14"}, {"tile_n", "32"}, {"block_m", "2"}, {"block_n", "32"}},
      {{"variant", "gemm_stream_bf16"}, {"tile_m", "10"}, {"block_m", "2"}},
      {{"variant", "gemm_bf16"}, {"tile_m", "14"}, {"block_m", "2"}, {"block_n", "32"}},
      {{"variant", "gemm_amx"}, {"block_m", "2"}, {"block_n", "64"}}};
  int ran = 0;
  for (const backend::Options& options : heights) {
    Case g{.n = 70, .k = 200, .options = options, .counts = Counts(35)};
    std::iota(g.counts.begin(), g.counts.end(), 0);
    g.m = std::accumulate(g.counts.begin(), g.counts.end(), std::int64_t{0});
    ran += check_grouped(g);
  }
  EXPECT_GE(ran, 3);
}

TEST_F(OpenClGrouped, MaskedRowsPastTheCountAreNeitherReadNorWritten) {
  check_all({{0, 7, 16, 1}, {16, 16}, {0, 0, 3}, {kTile, kTile + 1, kTile - 1, 2 * kTile}}, true, 2);
  check_all({{16, 0, 16}}, true);  // Capacity exactly.
}

/// Devices say that they have one compute unit, and get as few work-groups.
class OneComputeUnit {
 public:
  OneComputeUnit() {
    for (const auto& device : devices()) units_.push_back(std::exchange(of(*device), 1));
  }
  ~OneComputeUnit() {
    for (std::size_t i = 0; i < units_.size(); ++i) of(*devices()[i]) = units_[i];
  }
  OneComputeUnit(const OneComputeUnit&) = delete;
  OneComputeUnit& operator=(const OneComputeUnit&) = delete;

 private:
  static std::int64_t& of(backend::Device& device) {
    return dynamic_cast<opencl::Device&>(device).context()->features.compute_units;
  }
  std::vector<std::int64_t> units_;
};

TEST_F(OpenClGrouped, FewerWorkGroupsThanThereIsToDoTakeItInTurns) {
  const OneComputeUnit one;
  int ran = 0;
  // Those named pack and quantise by the kernels whose work-groups are counted; the first is as selected.
  for (const backend::Options& options : {backend::Options{},
                                          backend::Options{{"variant", "gemm_wgmma_f16"}},
                                          {{"variant", "gemm_wgmma_fp8"}},
                                          {{"variant", "gemm_wgmma_few"}},
                                          {{"variant", "gemm_wgmma_few_f16"}}}) {
    for (const backend::DType source : {backend::DType::none, backend::DType::bf16}) {
      for (const bool masked : {false, true}) {
        ran += check_grouped({.m = masked ? 1100 : 1803,
                              .n = 40,
                              .k = 300,
                              .a_source = source,
                              .options = options,
                              .counts = {1100, 0, 3, 700},
                              .masked = masked});
      }
    }
  }
  EXPECT_GE(ran, 4);
}

TEST_F(OpenClGrouped, AllRowsArePackedWhereTheirKGroupsAreMany) {
  // 512 K groups, a work-group each on a processor: of a grouped problem 65536 work-groups take what is dealt in
  // turn, but rows that are packed as they lie are not dealt.
  int ran = 0;
  for (const std::string variant : {"gemm_tiled", "gemm_skinny"}) {
    for (const std::int64_t a_rows : {0, 150}) {
      ran += check_grouped({.m = 136,
                            .n = 8,
                            .k = 16384,
                            .a = DType::bf16,
                            .a_scale = DType::none,
                            .b_grid = {128, 32},
                            .options = quick(variant),
                            .counts = {56, 0, 80},
                            .a_rows = a_rows});
    }
  }
  EXPECT_GE(ran, 2);
}

TEST_F(OpenClGrouped, MatricesAreDealtWhereverThereIsRoomForTheirTable) {
  // Kernels of tensor cores deal the rows of up to 257 matrices while they pack or quantise, with 128 work-items.
  int ran = 0;
  for (const backend::Options& options :
       {backend::Options{}, backend::Options{{"variant", "gemm_wgmma_f16"}}, {{"variant", "gemm_wgmma_fp8"}}}) {
    for (const std::size_t matrices : {129, 257, 258}) {
      for (const backend::DType source : {backend::DType::none, backend::DType::bf16}) {
        Case g{.n = 40, .k = 300, .a_source = source, .options = options, .counts = Counts(matrices)};
        for (std::size_t i = 0; i < matrices; i += 5) g.counts[i] = static_cast<std::int32_t>(1 + i % 7);
        g.counts[matrices - 1] = 70;
        g.m = std::accumulate(g.counts.begin(), g.counts.end(), std::int64_t{0});
        ran += check_grouped(g);
      }
    }
  }
  EXPECT_GE(ran, 6);
}

TEST_F(OpenClGrouped, CountsAreClampedAndNeverTrusted) {
  int ran = 0;
  for (const backend::Options& options : grouped_variants()) {
    for (const bool masked : {false, true}) {
      for (const Counts& counts : {Counts{-5, 4, -2147483647 - 1, 6}, Counts{4, 2147483647, 2147483647, 3},
                                   Counts{30, 5, 7}, Counts{2147483647}, Counts{-1, -1}}) {
        ran += check_grouped({.m = 20, .n = 40, .k = 130, .options = options, .counts = counts, .masked = masked});
      }
    }
  }
  EXPECT_GE(ran, 20);
}

TEST_F(OpenClGrouped, GatheredRowsAreRight) {
  int ran = 0;
  for (const backend::Options& options : grouped_variants()) {
    for (const DType source : {DType::none, DType::bf16}) {
      for (const bool masked : {false, true}) {
        ran += check_grouped({.m = masked ? 10 : 25,
                              .n = 50,
                              .k = 660,
                              .a_source = source,
                              .lda = 672,
                              .options = options,
                              .counts = {5, 0, 9, 1, 7},
                              .masked = masked,
                              .a_rows = 11});
      }
    }
  }
  EXPECT_GE(ran, 8);  // Two kernels run everywhere.
}

TEST_F(OpenClGrouped, EveryTypeGridBiasAndOutputIsRight) {
  std::uint32_t seed = 60, turn = 0;
  for (const backend::Options& options : grouped_variants()) {
    ++turn;
    // Half of them with each variant, the others with the next one: without groups each variant has them all.
    const auto with = [&](auto change) {
      if (++turn % 2 == 0) return;
      Case g{.m = 24, .n = 77, .k = 330, .options = options, .seed = ++seed, .counts = {4, 0, 18, 1}};
      change(g);
      check_grouped(g);
    };
    with([](Case& g) { g.a_source = DType::f32; });
    with([](Case& g) { g.a_source = DType::f16, g.d = DType::f16, g.bias = DType::f32; });
    with([](Case& g) { g.a = g.b = DType::i8, g.bias = DType::bf16; });
    with([](Case& g) { g.a = g.b = DType::e5m2, g.d = DType::bf16, g.ldd = 80; });
    with([](Case& g) { g.a = DType::bf16; });
    with([](Case& g) { g.a = DType::f32, g.b = DType::i8, g.bias = DType::f16; });
    with([](Case& g) { g.a_grid = {1, 32}, g.b_grid = {1, 32}, g.a_scale = g.b_scale = DType::e8m0; });
    with([](Case& g) { g.a_grid = {1, 0}, g.b_grid = {0, 0}, g.lda = 400; });
    with([](Case& g) { g.b_grid = {1, 0}, g.a_scale = DType::bf16, g.b_scale = DType::f16; });
    with([](Case& g) { g.a_scale = g.b_scale = DType::none; });
  }
}

/// Where two results with n columns differ first, how often, and both values there.
std::string first_difference(const std::vector<double>& a, const std::vector<double>& b, std::int64_t n) {
  if (a.size() != b.size()) return fmt::format(": {} and {} values", a.size(), b.size());
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
  if (x == a.end()) return ": NaN or signs of zeros";
  const std::int64_t at = x - a.begin();
  return fmt::format(": first in row {}, column {}: {:.9g} and {:.9g}", at / n, at % n, *x, *y);
}

TEST_F(OpenClGrouped, OneMatrixIsTheDensePlanBitForBit) {
  auto all = grouped_variants();
  all.push_back({});
  for (const backend::Options& options : all) {
    for (const std::int32_t m : {1, 70}) {
      for (const DType source : {DType::none, DType::f32}) {
        const Case dense = allowed({.m = m, .n = 70, .k = 1100, .a_source = source, .options = options});
        Case g = dense;
        g.counts = {m};
        const Data data = make_data(g);
        for (const auto& device : devices()) {
          const backend::Support support = device->supports(g.desc());
          ASSERT_EQ(support.reason, device->supports(dense.desc()).reason) << g.line() << support.text;
          if (support.reason != backend::Reason::none) continue;
          const Outcome outcome = run(*device, g, data), alone = run(*device, dense, data);
          EXPECT_EQ(outcome.info.variant + " " + outcome.info.tuning, alone.info.variant + " " + alone.info.tuning);
          EXPECT_TRUE(outcome.bytes == alone.bytes)
              << g.line() << " " << outcome.info.variant << first_difference(outcome.d, alone.d, g.n);
        }
      }
    }
  }
}

// Tiles that end within blocks of columns are each matrix's own.
TEST_F(OpenClGrouped, TilesOfOtherWidthsAreRight) {
  int ran = 0;
  for (const char* width : {"96", "144", "192", "272"}) {
    for (const bool masked : {false, true}) {
      ran += check_grouped(
          {.m = masked ? 260 : 397,
           .n = 600,
           .k = 700,
           .d = masked ? DType::bf16 : DType::f32,
           .bias = masked ? DType::none : DType::f32,
           .options = {{"variant", "gemm_wgmma_fp8"}, {"tile_n", width}, {"split_k", "1"}, {"share", "0"}},
           .counts = {130, 0, 1, 257, 9},
           .masked = masked});
    }
  }
  if (ran == 0) GTEST_SKIP() << "no device of compute capability 9.0";
}

TEST_F(OpenClGrouped, HeavyWeightsPastFourGiBAreFound) {
  // Zeros but for the last matrix: an offset in 32 bits would find zeros.
  constexpr std::int64_t kMatrices = 160, kN = 4096, kK = 7168;
  constexpr std::size_t kOne = std::size_t{kN} * kK;
  const std::unique_ptr<std::uint8_t, decltype(&std::free)> codes(
      static_cast<std::uint8_t*>(std::calloc(std::size_t{kMatrices}, kOne)), &std::free);
  ASSERT_NE(codes, nullptr);
  std::memset(codes.get() + (kMatrices - 1) * kOne, 0x38, kOne);  // 1 in e4m3
  const std::vector<float> scales(static_cast<std::size_t>(kMatrices * (kN / 128) * (kK / 128)), 1.0f);
  int ran = 0;
  for (const auto& device : devices()) {
    Case g{.m = 3, .n = kN, .k = kK, .counts = Counts(std::size_t{kMatrices})};
    g.counts.back() = 3;
    const backend::GemmDesc desc = g.desc();
    if (const auto support = device->supports(desc); support.reason != backend::Reason::none) {
      EXPECT_EQ(support.reason, backend::Reason::device_memory) << support.text;
      continue;
    }
    const auto plan = device->create_gemm(desc);
    backend::WeightsDesc w = weights_desc(g, {}, plan);
    w.data = reinterpret_cast<const std::byte*>(codes.get());
    w.scales = reinterpret_cast<const std::byte*>(scales.data());
    const auto queue = device->create_queue();
    const auto upload = [&](const auto& values) {
      const std::size_t size = values.size() * sizeof values[0];
      const backend::Span span{device->create_buffer(size), 0, size};
      queue->write(span, values.data(), backend::HostSemantics::copied_before_return);
      return span;
    };
    backend::GemmArgs args;
    args.m = g.m;
    args.weights = device->prepare_weights(w);
    args.a = upload(std::vector<std::uint8_t>(static_cast<std::size_t>(g.m * kK), 0x38));
    args.a_scale = upload(std::vector<float>(static_cast<std::size_t>(g.m * (kK / 128)), 1.0f));
    args.matrix_rows = upload(g.counts);
    std::vector<float> d(static_cast<std::size_t>(g.m * kN));
    args.d = upload(d);
    plan->enqueue(queue, args);
    queue->read(args.d, d.data());
    queue->finish();
    for (const float value : d) ASSERT_EQ(value, static_cast<float>(kK)) << device->props().name;
    ++ran;
  }
  if (ran == 0) GTEST_SKIP() << "no device has a buffer of " << kMatrices * kN * kK << " bytes";
}

}  // namespace
}  // namespace ironcl::opencl::testing
