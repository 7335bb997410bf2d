// SPDX-License-Identifier: Apache-2.0
// Products on tensor cores: right in every tile, part and type, where there are such tensor cores; the sums of class
// tensor14 bit for bit. Next door: tensor_cores_forms_test.cpp (where operands lie), tensor_cores_selection_test.cpp
// (which kernel is taken).
#include <array>
#include <cstring>

#include "backends/numerics/oracle_tile.h"
#include "backends/opencl/device.h"
#include "backends/opencl/trial.h"
#include "backends/opencl/variant.h"
#include "tests/numerics/fourteen_bits.h"
#include "tests/opencl/harness.h"
#include "tests/opencl/kinds_of_device.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

/// The kernel of 14 bits under a name and a class that are not its own.
Variant liar() {
  Variant variant = *find_variant("gemm_wgmma_fp8");
  variant.accuracy = backend::AccuracyClass::f32;
  return variant;
}

TEST(OpenClTensorCores, AKernelOf14BitsFailsTheTrialOfClassF32) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& device : tensor_cores()) {
    const auto context = dynamic_cast<Device&>(*device).context();
    const Variant honest = *find_variant("gemm_wgmma_fp8"), false_one = liar();
    EXPECT_EQ(make_trials(*context, nullptr)->why_not(honest), "");
    EXPECT_NE(make_trials(*context, nullptr)->why_not(false_one).find("elements are wrong"), std::string::npos);
    for (const char* name : {"gemm_wgmma_f16", "gemm_wgmma_few", "gemm_wgmma_few_f16", "gemm_wgmma_s8",
                             "gemm_mma_stream", "gemm_mma_ring"})
      EXPECT_EQ(make_trials(*context, nullptr)->why_not(*find_variant(name)), "") << name;
  }
}

TEST(OpenClTensorCores, FewRowsAreRightInEveryWidthAndDepth) {
  struct Tried {
    int tile_m, columns, warps, depth, lines;
  };
  bool ran = false;
  for (const auto& device : devices()) {
    for (const Tried& t : {Tried{1, 8, 16, 1, 0},
                           {2, 56, 12, 1, 0},
                           {8, 8, 4, 2, 0},
                           {16, 56, 8, 1, 0},
                           {16, 16, 4, 4, 0},
                           {32, 32, 8, 1, 0},
                           {1, 32, 8, 1, 1},
                           {2, 16, 12, 2, 1},
                           {8, 8, 4, 1, 1},
                           {16, 56, 8, 1, 1},
                           {32, 16, 8, 1, 1}}) {
      // Scales a block, a column, and a group of columns that no work-group begins with.
      for (const numerics::ScaleGrid& grid : {numerics::ScaleGrid{128, 128}, {1, 256}, {24, 128}}) {
        Case c{.m = t.tile_m == 16 ? 13 : t.tile_m, .n = 298, .k = 2900, .bias = DType::f32, .b_grid = grid};
        c.options = {{"variant", "gemm_mma_stream"},         {"tile_m", std::to_string(t.tile_m)},
                     {"columns", std::to_string(t.columns)}, {"warps", std::to_string(t.warps)},
                     {"depth", std::to_string(t.depth)},     {"lines", std::to_string(t.lines)}};
        if (device->supports(c.desc()).reason != backend::Reason::none) continue;
        ran = true;
        expect_right(run(*device, c, make_data(c)), c, c.line());
      }
    }
  }
  if (!ran) GTEST_SKIP() << "no device that the kernel runs on";
}

/// Runs `c` wherever there are such tensor cores, and expects D to be right.
void check_on_tensor_cores(const Case& c) {
  const Data data = make_data(c);
  for (const auto& device : tensor_cores()) expect_right(run(*device, c, data), c, device->props().name);
}

// Fewer units of columns than multiprocessors and several to each, K blocks that leave warps without any, rings
// shorter than what goes through them.
TEST(OpenClTensorCores, RowsInLocalMemoryAreRightInEveryWidth) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  struct Tried {
    int m, tile_m, columns, warps, per_unit, passes;
    std::int64_t n, k;
    int looks = -1;  // Those of work-groups that quantise together; -1: each quantises all.
  };
  for (const Tried& t : {Tried{1, 1, 32, 8, 2, 2, 12010, 4096},
                         {1, 1, 64, 8, 1, 4, 9000, 4096},
                         {2, 2, 16, 8, 1, 8, 298, 690},
                         {3, 4, 32, 16, 1, 16, 8200, 12000},
                         {4, 4, 64, 8, 1, 1, 9000, 2900},
                         {7, 8, 32, 16, 1, 8, 4300, 4096},
                         {8, 8, 16, 16, 1, 16, 130, 100},
                         {3, 4, 32, 8, 2, 1, 9000, 4096, 256},
                         {8, 8, 64, 8, 1, 1, 4300, 2900, 0},
                         {5, 16, 32, 16, 1, 1, 8200, 12288, 256},
                         {16, 16, 32, 16, 1, 1, 24576, 4096, 256},
                         {13, 16, 16, 16, 1, 1, 298, 690, 256},
                         {9, 16, 64, 8, 1, 1, 5000, 4100, 0},
                         {17, 32, 16, 16, 1, 1, 130, 100, 0},
                         {31, 32, 32, 8, 1, 1, 8200, 7168, 256}}) {
    for (const DType source : {DType::none, DType::bf16}) {
      if (t.looks >= 0 && source == DType::none) continue;
      Case c{.m = t.m, .n = t.n, .k = t.k, .a_source = source, .d = DType::bf16, .bias = DType::f32};
      c.options = {{"variant", "gemm_mma_ring"},
                   {"tile_m", std::to_string(t.tile_m)},
                   {"columns", std::to_string(t.columns)},
                   {"warps", std::to_string(t.warps)},
                   {"per_unit", std::to_string(t.per_unit)},
                   {"passes", std::to_string(t.passes)},
                   {"shares", t.looks < 0 ? "0" : "1"}};
      if (t.looks >= 0) c.options.emplace_back("looks", std::to_string(t.looks));
      check_on_tensor_cores(c);
    }
  }
}

/// `c` with types, a leading dimension and scales that differ from one `turn` to the next.
Case varied(Case c, int turn) {
  if (turn % 3 == 0) c.a = DType::e5m2;
  if (turn % 4 == 0) c.b = DType::e5m2;
  if (turn % 5 == 0) c.a_source = DType::bf16;
  if (turn % 2 == 0) c.ldd = c.n + 1 + turn % 4;
  if (turn % 7 == 0) c.b_grid = {256, 384};
  if (turn % 7 == 1 && c.a_source == DType::none) c.a_grid = {2, 256};
  return c;
}

// Scale groups of 64 and 32 of k, of both operands and of one; those of 96 and 192 have a K group of 32 and 64.
const std::vector<std::pair<numerics::ScaleGrid, numerics::ScaleGrid>> kNarrowGroups = {
    {{1, 64}, {64, 64}},   {{1, 32}, {32, 32}}, {{1, 128}, {128, 64}}, {{1, 32}, {128, 128}},
    {{1, 192}, {128, 64}}, {{1, 96}, {1, 0}},   {{4, 64}, {0, 32}}};

TEST(OpenClTensorCores, GroupsOf64And32AreRightForAnyNumberOfRows) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& [a_grid, b_grid] : kNarrowGroups) {
    for (const auto& [a, b] : std::vector<std::pair<DType, DType>>{
             {DType::e4m3fn, DType::e4m3fn}, {DType::e5m2, DType::e4m3fn}, {DType::i8, DType::i8}}) {
      for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
               {1, 200, 1500}, {7, 72, 96}, {16, 298, 640}, {30, 200, 224}, {140, 130, 1100}}) {
        for (const DType source : {DType::none, DType::bf16}) {
          if (source != DType::none && a_grid.group_rows != 1) continue;
          Case c{.m = m, .n = n, .k = k, .a_source = source, .a = a, .b = b, .a_grid = a_grid, .b_grid = b_grid};
          c.bias = DType::f32;
          c.weakest = m == 16 ? backend::AccuracyClass::tensor14 : backend::AccuracyClass::f32;
          c.options = {{"variant", "gemm_mma_stream"}};
          check_on_tensor_cores(c);
        }
      }
    }
  }
}

TEST(OpenClTensorCores, GroupsOf64And32AreRightInEveryWidthAndDepth) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& [a_grid, b_grid] : {kNarrowGroups[0], kNarrowGroups[1]}) {
    for (const auto& [tile_m, columns, warps, depth] : std::vector<std::array<int, 4>>{{1, 8, 16, 1},
                                                                                       {2, 56, 12, 1},
                                                                                       {4, 16, 4, 3},
                                                                                       {8, 32, 8, 2},
                                                                                       {16, 56, 8, 1},
                                                                                       {32, 32, 4, 1},
                                                                                       {32, 16, 8, 2}}) {
      Case c{.m = tile_m == 16 ? 13 : tile_m, .n = 298, .k = 2900, .a_grid = a_grid, .b_grid = b_grid};
      c.options = {{"variant", "gemm_mma_stream"},       {"tile_m", std::to_string(tile_m)},
                   {"columns", std::to_string(columns)}, {"warps", std::to_string(warps)},
                   {"depth", std::to_string(depth)},     {"lines", "0"}};
      check_on_tensor_cores(c);
    }
  }
}

// Columns past the last whole tile, over more and fewer tiles than there are work-groups. On 132 units the last but
// two leaves a last round of one tile of 256 columns and the next one of ten, which are made in halves; the last is
// eight K blocks.
TEST(OpenClTensorCores, LastColumnsOfATileAreRight) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{300, 320, 640},
                                                                        {130, 2112, 300},
                                                                        {9000, 576, 256},
                                                                        {200, 40, 1100},
                                                                        {16800, 300, 128},
                                                                        {1000, 384, 129},
                                                                        {17000, 40, 384},
                                                                        {9000, 400, 256},
                                                                        {9000, 160, 1000}}) {
    for (const char* width : {"64", "128", "256"}) {
      Case c{.m = m, .n = n, .k = k, .d = DType::bf16, .weakest = backend::AccuracyClass::tensor14};
      c.options = {{"variant", "gemm_wgmma_fp8"}, {"tile_n", width}, {"split_k", "1"}};
      check_on_tensor_cores(c);
    }
  }
}

// Tiles that begin and end within blocks of columns that share a scale: at each of the places where one can begin,
// with its last columns there or not, more and fewer of them than work-groups. A sum is the same in every tile.
TEST(OpenClTensorCores, TilesOfOtherWidthsMakeTheSameSums) {
  const Variant& variant = *find_variant("gemm_wgmma_fp8");
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  int turn = 0;
  for (const int width : variant.tunables.front().values) {
    if (width == 64 || width == 128 || width == 256) continue;
    for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{130, 8 * width, 300},
                                                                          {70, 8 * width - 7, 640},
                                                                          {300, width + 16, 1100},
                                                                          {257, width - 16, 128},
                                                                          {4400, 3 * width + 1, 129},
                                                                          {17000, 24, 384}}) {
      Case c{m, n, k};
      ++turn;
      c.d = turn % 3 == 0 ? DType::f32 : turn % 3 == 1 ? DType::bf16 : DType::f16;
      if (turn % 4 == 0) c.bias = DType::f32;
      if (turn % 5 == 0) c.a = DType::e5m2;
      if (turn % 5 == 1) c.b = DType::e5m2;
      if (turn % 7 == 0) c.ldd = n + 3;
      if (turn % 6 == 0) c.b_grid = {0, 0};
      if (turn % 6 == 1) c.b_grid = {256, 384};
      c.weakest = backend::AccuracyClass::tensor14;
      const Data data = make_data(c);
      for (const auto& device : tensor_cores()) {
        const auto made = [&](const std::string& of_width) {
          c.options = {{"variant", variant.name},
                       {"tile_n", of_width},
                       {"split_k", "1"},
                       {"share", "0"},
                       {"ahead", turn % 2 == 0 ? "4" : "0"}};
          Outcome outcome = run(*device, c, data);
          expect_right(outcome, c, device->props().name);
          return outcome.bytes;
        };
        EXPECT_TRUE(made(std::to_string(width)) == made("128")) << c.line();
      }
    }
  }
}

// Every tile, parts of K, halves of a last round.
TEST(OpenClTensorCores, Int8IsRightInEveryTileAndPart) {
  struct Tried {
    std::int64_t m, n, k;
    const char *width, *parts, *share;
    numerics::ScaleGrid b_grid;
  };
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const Tried& t : std::vector<Tried>{{300, 320, 640, "256", "1", "0", {128, 128}},
                                           {9000, 400, 256, "256", "1", "0", {128, 128}},
                                           {600, 520, 2100, "256", "1", "1", {128, 128}},
                                           {130, 300, 1100, "128", "3", "0", {256, 256}},
                                           {64, 200, 1024, "64", "1", "0", {128, 128}},
                                           {77, 304, 700, "64", "2", "0", {128, 128}}}) {
    for (const DType d : {DType::f32, DType::bf16}) {
      Case c{.m = t.m, .n = t.n, .k = t.k, .a = DType::i8, .b = DType::i8, .d = d, .b_grid = t.b_grid};
      c.bias = d == DType::f32 ? DType::none : DType::f32;
      c.options = {{"variant", "gemm_wgmma_s8"}, {"tile_n", t.width}, {"split_k", t.parts}, {"share", t.share}};
      check_on_tensor_cores(c);
    }
    Case from_bf16{.m = t.m, .n = t.n, .k = t.k, .a_source = DType::bf16, .a = DType::i8, .b = DType::i8};
    from_bf16.options = {{"variant", "gemm_wgmma_s8"}, {"tile_n", t.width}, {"split_k", t.parts}};
    check_on_tensor_cores(from_bf16);
  }
}

// Every tile, number of groups of K blocks and of stages; fewer K blocks than either; K and columns that end inside a
// block; rows in several tiles; D and bias of every type; and D as the caller's memory has it.
TEST(OpenClTensorCores, FewRowsOfClassTensor14AreRightInEveryTile) {
  struct Tried {
    std::int64_t m, n, k;
    const char *tile_m, *tile_n, *k_groups, *stages;
  };
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  int turn = 0;
  for (const Tried& t : std::vector<Tried>{{64, 200, 1500, "64", "64", "2", "8"},
                                           {33, 300, 4000, "64", "32", "4", "12"},
                                           {17, 40, 100, "64", "32", "4", "4"},
                                           {1, 129, 257, "64", "64", "1", "6"},
                                           {128, 320, 2100, "128", "64", "2", "8"},
                                           {77, 136, 3000, "128", "32", "2", "10"},
                                           {128, 264, 640, "128", "64", "1", "4"},
                                           {100, 2112, 7168, "64", "32", "4", "12"},
                                           {300, 72, 1111, "128", "32", "1", "10"},
                                           {130, 520, 900, "64", "64", "4", "8"}}) {
    for (const DType d : {DType::f32, DType::f16, DType::bf16}) {
      for (const DType bias : {DType::none, DType::f32, DType::bf16}) {
        ++turn;
        Case c = varied({t.m, t.n, t.k}, turn);
        c.d = d;
        c.bias = bias;
        c.weakest = backend::AccuracyClass::tensor14;
        c.options = {{"variant", "gemm_wgmma_few"},
                     {"tile_m", t.tile_m},
                     {"tile_n", t.tile_n},
                     {"k_groups", t.k_groups},
                     {"stages", t.stages}};
        check_on_tensor_cores(c);
      }
    }
  }
}

// Every tile with K whole and in parts; fewer K blocks than parts of a ring and than groups of them, odd numbers; K
// and columns that end inside a block; rows in several tiles; scales for blocks, columns and odd groups of columns; D
// and bias of every type; and D as the caller's memory has it.
TEST(OpenClTensorCores, FewRowsOfClassF32AreRightInEveryTile) {
  struct Tried {
    std::int64_t m, n, k;
    const char *tile_m, *tile_n, *split_k;
  };
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  int turn = 0;
  for (const Tried& t : std::vector<Tried>{{128, 320, 2100, "128", "64", "1"},
                                           {77, 136, 3000, "128", "64", "3"},
                                           {300, 2112, 1536, "128", "64", "1"},
                                           {513, 200, 1111, "128", "64", "4"},
                                           {40, 72, 128, "128", "64", "1"},
                                           {64, 200, 1500, "64", "64", "1"},
                                           {33, 300, 4000, "64", "64", "3"},
                                           {17, 40, 100, "64", "64", "1"},
                                           {1, 129, 257, "64", "64", "2"},
                                           {128, 320, 2100, "128", "128", "2"},
                                           {77, 136, 3000, "128", "128", "4"},
                                           {128, 264, 640, "128", "128", "1"},
                                           {100, 2112, 7168, "64", "64", "4"},
                                           {300, 72, 1111, "128", "128", "1"},
                                           {130, 520, 900, "64", "64", "1"},
                                           {65, 136, 1664, "128", "128", "7"},
                                           {40, 72, 128, "128", "128", "1"}}) {
    for (const DType d : {DType::f32, DType::f16, DType::bf16}) {
      for (const DType bias : {DType::none, DType::f32, DType::bf16}) {
        ++turn;
        Case c = varied({t.m, t.n, t.k}, turn);
        c.d = d;
        c.bias = bias;
        if (turn % 7 == 2) c.b_grid = {24, 128};
        if (turn % 7 == 4) c.b_grid = {1, 256};
        c.options = {
            {"variant", "gemm_wgmma_few_f16"}, {"tile_m", t.tile_m}, {"tile_n", t.tile_n}, {"split_k", t.split_k}};
        check_on_tensor_cores(c);
      }
    }
  }
}

TEST(OpenClTensorCores, EveryTypeAndGroupIsRightInClassTensor14) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& [a, b] : std::vector<std::pair<DType, DType>>{{DType::e4m3fn, DType::e4m3fn},
                                                                 {DType::e5m2, DType::e5m2},
                                                                 {DType::e5m2, DType::e4m3fn},
                                                                 {DType::e4m3fn, DType::e5m2}}) {
    // Blocks of 128, 256 and 512, scales of whole rows, and groups of both operands that do not begin together.
    for (const auto& [a_grid, b_grid] :
         std::vector<std::pair<numerics::ScaleGrid, numerics::ScaleGrid>>{{{1, 128}, {128, 128}},
                                                                          {{1, 256}, {256, 256}},
                                                                          {{1, 512}, {512, 512}},
                                                                          {{1, 0}, {0, 0}},
                                                                          {{1, 256}, {128, 384}}}) {
      for (const auto& [variant, width] : {std::pair{"gemm_wgmma_fp8", "64"},
                                           {"gemm_wgmma_fp8", "256"},
                                           {"gemm_wgmma_fp8", "272"},
                                           {"gemm_wgmma_few", "32"}}) {
        Case c{.m = 140, .n = 600, .k = 1500, .a = a, .b = b, .a_grid = a_grid, .b_grid = b_grid};
        c.weakest = backend::AccuracyClass::tensor14;
        c.options = {{"variant", variant}, {"tile_n", width}};
        if (std::string(variant) == "gemm_wgmma_fp8")
          c.options.insert(c.options.end(), {{"split_k", std::string(width) == "64" ? "4" : "1"}, {"share", "0"}});
        check_on_tensor_cores(c);
      }
    }
  }
}

/// Elements of D that differ from what the hardware makes of 128 k at a time in that order of their runs of eight.
std::int64_t differing(const Case& c, const Data& data, const std::vector<double>& d,
                       const std::array<int, 16>& order) {
  using ironcl::testing::Fp8Product;
  std::int64_t different = 0;
  std::vector<Fp8Product> products(128);
  for (std::int64_t row = 0; row < c.m; ++row) {
    for (std::int64_t col = 0; col < c.n; ++col) {
      float want = 0;
      for (std::int64_t first = 0; first < c.k; first += 128) {
        for (std::int64_t i = 0; i < 128; ++i) {
          const std::int64_t k = first + order[static_cast<std::size_t>(i / 8)] * 8 + i % 8;
          products[static_cast<std::size_t>(i)] =
              k >= c.k ? Fp8Product{}
                       : Fp8Product::of(c.a, data.a[static_cast<std::size_t>(row * c.k + k)], c.b,
                                        data.b[static_cast<std::size_t>(col * c.k + k)]);
        }
        want += static_cast<float>(ironcl::testing::sum_in_fourteen_bits(products));
      }
      different += d[static_cast<std::size_t>(row * c.n + col)] != static_cast<double>(want) ? 1 : 0;
    }
  }
  return different;
}

TEST(OpenClTensorCores, SumsOfClassTensor14AreTheEmulatedOnesBitForBit) {
  // What the bound of the class rests on (docs/numerics.md): what the hardware cuts, in sums whose parts are known,
  // and the orders of k that there are.
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const Variant& variant : variants()) {
    if (variant.accuracy != backend::AccuracyClass::tensor14) continue;
    for (const auto& [a_type, b_type] : std::vector<std::pair<DType, DType>>{{DType::e4m3fn, DType::e4m3fn},
                                                                             {DType::e5m2, DType::e5m2},
                                                                             {DType::e5m2, DType::e4m3fn},
                                                                             {DType::e4m3fn, DType::e5m2}}) {
      for (const bool subnormal : {false, true}) {
        for (const std::int64_t k :
             {40, 96, 128}) {  // One sum: whose f32 totals come first is the kernel's business.
          Case c{.m = 60, .n = 130, .k = k, .a = a_type, .b = b_type, .weakest = backend::AccuracyClass::tensor14};
          c.options = {{"variant", variant.name}};
          Data data = make_data(c);
          if (subnormal)
            for (std::uint8_t& code : data.a) code &= a_type == DType::e5m2 ? 0x83 : 0x87;
          // Without scales, sums of groups are what the products are.
          const auto set_to_one = [](std::vector<std::uint8_t>& scales) {
            const std::vector<float> ones(scales.size() / sizeof(float), 1.0f);
            std::memcpy(scales.data(), ones.data(), scales.size());
          };
          set_to_one(data.a_scales);
          set_to_one(data.b_scales);
          for (const auto& device : tensor_cores()) {
            const Outcome got = run(*device, c, data);
            expect_right(got, c, device->props().name);
            std::int64_t least = c.m * c.n;
            for (const auto& order : numerics::detail::kOrdersOfRuns)
              least = std::min(least, differing(c, data, got.d, order));
            EXPECT_EQ(least, 0) << "elements of " << c.m * c.n << ": " << c.line();
          }
        }
      }
    }
  }
}

// Whole tiles of 16-bit D leave by lines that change hands in local memory, others do not.
TEST(OpenClTensorCores, LinesOfDAreRight) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const char* rows : {"64", "128", "256"}) {
    for (const DType d : {DType::bf16, DType::f16}) {
      for (const DType bias : {DType::none, DType::f32}) {
        Case c{.m = 600, .n = 304, .k = 300, .d = d, .bias = bias};
        c.options = {{"variant", "gemm_wgmma_f16"}, {"tile_m", rows}, {"split_k", "1"}};
        check_on_tensor_cores(c);
      }
    }
  }
}

// Tiles of which only some rows are there make fewer products.
TEST(OpenClTensorCores, LastRowsOfATileAreRight) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const std::int64_t m : {1, 64, 65, 128, 129, 192, 193, 255, 257, 321, 449}) {
    for (const char* variant : {"gemm_wgmma_f16", "gemm_wgmma_fp8"}) {
      Case c{.m = m, .n = 200, .k = 700, .weakest = backend::AccuracyClass::tensor14};
      c.options = {{"variant", variant}, {"split_k", m % 2 == 0 ? "2" : "1"}};
      const bool f16 = std::string(variant) == "gemm_wgmma_f16";
      c.options.emplace_back(f16 ? "tile_m" : "tile_n", f16 ? "256" : m % 3 == 0 ? "64" : "128");
      check_on_tensor_cores(c);
    }
  }
}

// The first tiles of these problems are made in parts of K: one to three where all work-groups have a whole tile
// besides, or all tiles.
TEST(OpenClTensorCores, TilesInPartsOfKAreRightAndTheSameOnEveryCall) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  struct Shape {
    std::int64_t m, n, k;
    const char* tile;  ///< Of gemm_wgmma_f16: tile_m; of gemm_wgmma_fp8: tile_n.
    const char* variant;
  };
  for (const Shape& s :
       {Shape{17000, 40, 2100, "128", "gemm_wgmma_fp8"}, Shape{600, 520, 2100, "256", "gemm_wgmma_fp8"},
        Shape{300, 200, 4000, "256", "gemm_wgmma_fp8"}, Shape{17000, 40, 1100, "128", "gemm_wgmma_f16"},
        Shape{9000, 40, 2100, "64", "gemm_wgmma_f16"}, Shape{300, 200, 4000, "256", "gemm_wgmma_f16"}}) {
    for (const DType bias : {DType::none, DType::bf16}) {
      Case c{.m = s.m, .n = s.n, .k = s.k, .bias = bias};
      if (bias != DType::none) c.d = DType::bf16;
      c.weakest = backend::AccuracyClass::tensor14;
      c.options = {{"variant", s.variant},
                   {std::string(s.variant) == "gemm_wgmma_fp8" ? "tile_n" : "tile_m", s.tile},
                   {"split_k", "1"},
                   {"share", "1"}};
      for (const auto& device : tensor_cores()) {
        const Data data = make_data(c);
        const Outcome first = run(*device, c, data);
        expect_right(first, c, device->props().name);
        for (int again = 0; again < 3; ++again) EXPECT_TRUE(run(*device, c, data).bytes == first.bytes) << c.line();
      }
    }
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
