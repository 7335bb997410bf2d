// SPDX-License-Identifier: Apache-2.0
// Products against the f64 oracle, on every device and with every variant.
#include <array>
#include <cmath>
#include <cstring>

#include "backends/numerics/quantize.h"
#include "backends/opencl/variant.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

using OpenClGemm = OnDevices;

/// The variant that the case's options name, or null.
const Variant* named(const Case& c) {
  for (const auto& [key, value] : c.options) {
    if (key == "variant") return find_variant(value);
  }
  return nullptr;
}

/// False where the device or the problem has not what the variant that `c` names needs, or its trial went badly, or
/// the device has less local memory than the least that the variant takes (a decoded panel: more than 32 KiB).
bool runs(backend::Device& device, const Case& c) {
  const Variant* const variant = named(c);
  if (variant == nullptr) return true;
  const backend::Support support = device.supports(c.desc());
  return support.reason == backend::Reason::none ||
         (variant->needs == nullptr && !variant->trial && support.text.find("of local memory") == std::string::npos);
}

void check(const Case& asked, std::int64_t rows = -1, bool weights_with_plan = true) {
  Case c = asked;
  const Variant* const variant = named(c);
  if (variant != nullptr) c.weakest = variant->accuracy;
  const Data data = make_data(c);
  for (const auto& device : devices()) {
    // A variant that needs what not all devices have, or not all problems, says so; the others run everything.
    // Tiles that are asked for by name may need more local memory than a GPU has; that refusal has its own test.
    if (!runs(*device, c)) continue;
    const Outcome outcome = run(*device, c, data, rows, weights_with_plan);
    expect_right(outcome, c, device->props().name);
  }
}

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const Variant& variant : variants()) names.push_back(variant.name);
  return names;
}

TEST_F(OpenClGemm, IsRightForRaggedShapesWithEveryVariant) {
  std::uint32_t seed = 100;
  for (const std::string& name : variant_names()) {
    // Few numbers of rows: for each a kernel takes tiles of its own, and drivers take long for a program.
    for (const auto& [m, n, k] : std::vector<std::tuple<int, int, int>>{{1, 1, 1},
                                                                        {1, 17, 129},
                                                                        {3, 127, 128},
                                                                        {17, 129, 576},
                                                                        {17, 3, 448},
                                                                        {128, 64, 320},
                                                                        {129, 448, 200},
                                                                        {3, 576, 1030},
                                                                        {17, 33, 96}}) {
      Case c{.m = m, .n = n, .k = k, .options = {{"variant", name}}, .seed = ++seed};
      check(c);
    }
  }
}

void check_grids(const numerics::ScaleGrid& a, const numerics::ScaleGrid& b, std::uint32_t seed) {
  for (const std::string& name : variant_names()) {
    Case c{.m = 19, .n = 150, .k = 700, .a_grid = a, .b_grid = b, .options = quick(name), .seed = seed};
    check(c);
  }
}

TEST_F(OpenClGemm, IsRightForUsualScaleGrids) {
  check_grids({1, 128}, {128, 128}, 201);
  check_grids({1, 256}, {256, 256}, 202);
  check_grids({512, 512}, {512, 512}, 203);
  check_grids({128, 128}, {256, 256}, 204);
  check_grids({1, 512}, {128, 128}, 205);
  check_grids({1, 0}, {1, 0}, 206);
  check_grids({0, 0}, {128, 128}, 207);
  check_grids({1, 32}, {64, 64}, 208);
}

TEST_F(OpenClGemm, QuantisesActivationsAsNumericsDoes) {
  std::uint32_t seed = 300;
  for (const std::string& name : variant_names()) {
    for (const numerics::ScaleGrid a : {numerics::ScaleGrid{1, 128}, {128, 128}, {1, 256}, {512, 512}}) {
      Case c{19, 150, 700};  // As check_grids() has, so that kernels are shared.
      c.a_source = std::array{DType::f32, DType::f16, DType::bf16}[seed % 3];  // Each grid has each, by one variant.
      c.a_grid = a;
      c.lda = 711;
      c.options = quick(name);
      c.seed = ++seed;
      check(c);
    }
  }
}

TEST_F(OpenClGemm, IsRightForUnquantisedWeights) {
  int taken = 0;
  for (const Variant& variant : variants()) {
    if (std::none_of(variant.products.begin(), variant.products.end(),
                     [](const Products& one) { return contains(one.b, DType::bf16); }))
      continue;
    Case c{.m = 19, .n = 77, .k = 400, .a = DType::f32, .b = DType::bf16, .options = quick(variant.name)};
    check(c);
    // Rows that need no padding and lie where vectors take them.
    c.k = 384, c.lda = 400;
    c.a = DType::bf16, c.b = DType::f16, c.b_grid = {1, 128};
    check(c);
    c.a = DType::f16, c.b = DType::f32, c.b_scale = DType::none;
    check(c);
    ++taken;
  }
  EXPECT_GE(taken, 3);
}

TEST_F(OpenClGemm, IsRightForOtherElementScaleAndOutputTypesBiasAndLeadingDimensions) {
  // What D and the bias are goes with the other types, as drivers take long for a program; D is narrow where only the
  // scales are not f32.
  struct Types {
    DType a, b, d, bias;
    std::int64_t lda = 0;
  };
  std::uint32_t seed = 500;
  for (const std::string& name : variant_names()) {
    for (const Types& t : {Types{DType::e5m2, DType::e5m2, DType::f32, DType::bf16},
                           Types{DType::e4m3fn, DType::e5m2, DType::f32, DType::bf16, 413},
                           Types{DType::i8, DType::i8, DType::f32, DType::f32},
                           Types{DType::f32, DType::e4m3fn, DType::f32, DType::f16, 401},
                           Types{DType::bf16, DType::e4m3fn, DType::f32, DType::f16},
                           Types{DType::f16, DType::i8, DType::f32, DType::f16},
                           Types{DType::bf16, DType::i8, DType::f32, DType::f16, 413}}) {
      Case c{.m = 19, .n = 77, .k = 400, .a = t.a, .b = t.b, .d = t.d, .bias = t.bias, .lda = t.lda, .ldd = 80};
      c.options = quick(name), c.seed = ++seed;
      check(c);
    }
    for (const DType scale : {DType::none, DType::f16, DType::bf16, DType::e8m0}) {
      Case c{.m = 19, .n = 77, .k = 384, .a_scale = scale, .b_scale = scale, .options = quick(name), .seed = ++seed};
      c.d = scale == DType::none ? DType::f16 : DType::bf16;
      if (scale != DType::none) c.bias = DType::f16;
      check(c);
    }
    Case c{.m = 19, .n = 77, .k = 400, .a_source = DType::f32, .a = DType::i8, .b = DType::i8, .bias = DType::f32};
    c.options = quick(name);
    check(c);
  }
}

TEST_F(OpenClGemm, RunsFewerRowsThanPlannedAndLeavesTheOthersAlone) {
  for (const std::string& name : variant_names()) {
    for (const std::int64_t rows : {1, 7, 13}) {
      Case c{.m = 19, .n = 150, .k = 700, .a_source = DType::bf16, .options = quick(name)};
      check(c, rows);
    }
  }
}

TEST_F(OpenClGemm, DecodesEveryCodeOfBothOperands) {
  // A = row of one, B holds every code in its own column, and the other way round. Scales of powers of two: exact.
  for (const std::string& name : variant_names()) {
    for (const bool codes_in_a : {false, true}) {
      Case c{.m = codes_in_a ? 256 : 1, .n = codes_in_a ? 1 : 256, .k = 256, .options = quick(name)};
      c.weakest = named(c)->accuracy;
      Data data = make_data(c);
      std::fill(data.a.begin(), data.a.end(), 0);
      std::fill(data.b.begin(), data.b.end(), 0);
      for (int code = 0; code < 256; ++code) {
        const auto all = static_cast<std::size_t>(code * c.k + 77);
        (codes_in_a ? data.a : data.b)[all] = static_cast<std::uint8_t>(code);
      }
      (codes_in_a ? data.b : data.a)[77] = 0x38;  // 1.0
      for (const auto& device : devices()) {
        if (!runs(*device, c)) continue;
        const Outcome outcome = run(*device, c, data);
        for (int code = 0; code < 256; ++code) {
          const double got = outcome.d[static_cast<std::size_t>(code)],
                       want = outcome.oracle.value[static_cast<std::size_t>(code)];
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(got)) << name << " code " << code << " gave " << got;
          } else {
            EXPECT_NEAR(got, want, std::abs(want) * 0x1p-23)
                << name << " code " << code << (codes_in_a ? " in a" : " in b");
            EXPECT_EQ(got == 0, want == 0) << name << " code " << code << (codes_in_a ? " in a" : " in b");
          }
        }
      }
    }
  }
}

TEST_F(OpenClGemm, IsRightForBlocksPartsAndVectorsOfTheVectorKernels) {
  const std::vector<backend::Options> all{
      {{"variant", "gemm_stream"}, {"tile_m", "5"}, {"block_m", "3"}, {"block_n", "64"}, {"split_k", "4"}},
      {{"variant", "gemm_stream"}, {"tile_m", "16"}, {"tile_n", "16"}, {"block_m", "2"}, {"block_n", "128"}},
      {{"variant", "gemm_stream"}, {"tile_m", "1"}, {"split_k", "16"}},
      {{"variant", "gemm_panel"},
       {"tile_m", "5"},
       {"tile_n", "16"},
       {"block_m", "3"},
       {"block_n", "96"},
       {"vector", "8"}},
      {{"variant", "gemm_panel"},
       {"tile_m", "3"},
       {"tile_n", "32"},
       {"block_m", "20"},
       {"block_n", "256"},
       {"vector", "4"}}};
  for (const auto& options : all) {
    Case c{.m = 43, .n = 330, .k = 900, .a_source = DType::bf16, .bias = DType::f32, .options = options};
    check(c);
  }
}

TEST_F(OpenClGemm, MakesEveryTileOnceWhereRowsAreWalkedTogether) {
  // Whole strips of eight tiles of rows and a last one of one, two or none; with parts of k a strip for each part.
  for (const std::int64_t m : {136, 142, 128}) {
    for (const char* parts : {"1", "3"}) {
      Case c{.m = m, .n = 70, .k = 96, .a_grid = {1, 32}, .b_grid = {32, 32}};
      c.options = {{"variant", "gemm_tiled"}, {"tile_m", "8"}, {"tile_n", "16"}, {"tile_k", "16"},
                   {"work_m", "4"},           {"work_n", "4"}, {"slots", "2"},   {"rows_together", "8"},
                   {"split_k", parts}};
      check(c);
    }
  }
}

TEST_F(OpenClGemm, AddsEveryPartOfK) {
  // As many K groups as parts, so that no part is empty, for numbers of parts that no rule of thumb takes here.
  for (const auto& [parts, width] : {std::pair{2, 128}, {4, 32}, {8, 128}, {16, 32}}) {
    Case c{.m = 3, .n = 70, .k = parts * width - 5, .a_grid = {1, width}, .b_grid = {width, width}};
    c.options = {{"variant", "gemm_stream"}, {"split_k", std::to_string(parts)}};
    c.seed = static_cast<std::uint32_t>(600 + parts);
    check(c);
  }
}

TEST_F(OpenClGemm, AddsEveryPartOfKWhereGroupsDoNotDivideAmongThem) {
  for (const int parts : {2, 3, 4}) {
    for (const std::string variant : {"gemm_tiled", "gemm_skinny"}) {
      Case c{.m = 3, .n = 70, .k = (2 * parts + 1) * 32 - 5, .a_grid = {1, 32}, .b_grid = {32, 32}};
      c.options = variant == "gemm_tiled"
                      ? quick(variant)
                      : backend::Options{
                            {"variant", variant}, {"tile_m", "2"}, {"work_n", "1"}, {"lanes", "4"}, {"slices", "4"}};
      c.options.emplace_back("split_k", std::to_string(parts));
      c.seed = static_cast<std::uint32_t>(650 + parts);
      check(c);
    }
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
