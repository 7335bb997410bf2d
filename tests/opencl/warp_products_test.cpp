// SPDX-License-Identifier: Apache-2.0
// Products of a warp on NVIDIA's tensor cores, done by hand on devices that have none (cl/mma_by_hand.cl): fragments,
// decoding by integers, scales and quantising of gemm_mma_stream; rings of tiles of gemm_mma_tiled. Next door:
// tensor_cores_test.cpp (where there are such devices), vendor_products_test.cpp (products of other vendors).
#include <algorithm>
#include <tuple>

#include "backends/opencl/device.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/trial.h"
#include "backends/opencl/variant.h"
#include "tests/opencl/grouped.h"
#include "tests/opencl/own_kernels.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

Variant warp_by_hand() { return another("warp_by_hand", "gemm_mma_stream"); }
Variant four_bits_by_hand() { return another("four_bits_by_hand", "gemm_mma_stream_fp4"); }

class OpenClWarpProducts : public OwnKernels {};

constexpr const char* kMmaByHand = "#define MMA_BY_HAND 1\n#include \"gemm_mma_stream.cl\"\n";

backend::Options of_mma(const backend::Options& more = {}) { return options_of("warp_by_hand", more); }
backend::Options of_fp4(const backend::Options& more) { return options_of("four_bits_by_hand", more); }

// Widths and depths; rows of one tile and of several; K blocks that do not come out even among warps, and a part of
// one; scales a block, a column, and a group of columns that no work-group begins with.
TEST_F(OpenClWarpProducts, AreRightByHand) {
  const auto made = with_file(warp_by_hand, kMmaByHand);
  for (const auto& device : made.devices) {
    expect_right_with(*device, problem(1, 5, 16), of_mma());
    expect_right_with(*device, problem(5, 130, 1100), of_mma());
    Case blocks = problem(13, 72, 1300);
    blocks.b_grid = {256, 256};
    blocks.a_grid = {1, 256};
    blocks.d = DType::bf16;
    blocks.bias = DType::f32;
    expect_right_with(*device, blocks, of_mma({{"tile_m", "16"}, {"columns", "32"}, {"lines", "1"}}));
    Case columns = problem(2, 70, 900);
    columns.b_grid = {1, 128};
    expect_right_with(*device, columns, of_mma({{"tile_m", "2"}, {"columns", "56"}, {"warps", "12"}}));
    columns.b_grid = {24, 0};
    columns.d = DType::f16;
    expect_right_with(*device, columns, of_mma({{"columns", "8"}, {"warps", "4"}, {"depth", "3"}}));
    Case many = problem(77, 70, 700);
    many.a_grid = {2, 128};
    expect_right_with(*device, many, of_mma({{"tile_m", "32"}, {"columns", "32"}, {"warps", "4"}}));
  }
}

TEST_F(OpenClWarpProducts, TakeEveryTypeAndGroup) {
  const auto made = with_file(warp_by_hand, kMmaByHand);
  for (const auto& device : made.devices) {
    for (const auto& [a, b] : std::vector<std::pair<DType, DType>>{{DType::e5m2, DType::e4m3fn},
                                                                   {DType::e4m3fn, DType::e5m2},
                                                                   {DType::e5m2, DType::e5m2},
                                                                   {DType::i8, DType::i8}})
      expect_right_with(*device, problem(7, 40, 300, a, b), of_mma({{"tile_m", "8"}}));
    for (const std::int64_t group : {64, 32}) {
      Case c = problem(40, 40, 416, DType::e4m3fn, DType::e4m3fn, group);
      c.b_grid = {64, group};
      expect_right_with(*device, c, of_mma({{"tile_m", "32"}, {"columns", "32"}, {"warps", "4"}}));
      c.m = 3;
      c.b_grid = {1, 2 * group};
      expect_right_with(*device, c, of_mma({{"tile_m", "4"}, {"depth", "2"}}));
    }
  }
}

// MXFP4 and NVFP4 by activations that stay bf16, and by codes, in scale groups as short as the weights'; K blocks
// that are whole (A then has no scales), also fewer than warps, are not, or are shorter than a scale group of
// weights; columns past the last group; scales of e8m0 from small to large, some past what one factor of bf16
// reaches.
TEST_F(OpenClWarpProducts, TakeWeightsOfFourBits) {
  const auto made = with_file(four_bits_by_hand, kMmaByHand);
  for (const auto& device : made.devices) {
    for (const auto& [group, m, k, a, options] : std::vector<std::tuple<int, int, int, DType, backend::Options>>{
             {32, 1, 2176, DType::bf16, {{"tile_m", "1"}, {"warps", "4"}, {"depth", "2"}}},
             {16, 20, 390, DType::bf16, {{"tile_m", "32"}, {"columns", "32"}, {"warps", "4"}}},
             {16, 7, 1160, DType::e4m3fn, {{"tile_m", "8"}, {"columns", "16"}, {"warps", "4"}}},
             {16, 2, 14, DType::bf16, {{"tile_m", "2"}, {"columns", "16"}, {"warps", "4"}}},
             {16, 5, 384, DType::bf16, {{"tile_m", "8"}, {"columns", "16"}, {"warps", "4"}}},
             {16, 1, 1160, DType::bf16, {{"tile_m", "1"}, {"warps", "4"}}},
             {32, 1, 70, DType::bf16, {{"tile_m", "1"}, {"warps", "8"}}},
             {32, 9, 512, DType::e5m2, {{"tile_m", "16"}, {"columns", "16"}, {"warps", "12"}}}}) {
      Case c = problem(m, 83, k, a, DType::e2m1);
      c.b_grid = {1, group};
      c.b_scale = group == 32 ? DType::e8m0 : DType::e4m3fn;
      if (group == 16) c.b_global = 0.3f;
      if (a == DType::e5m2) c.a_grid = {1, 32};
      c.options = of_fp4(options);
      Data data = make_data(c);
      for (std::size_t i = 0; group == 32 && i < data.b_scales.size(); i += 3)
        data.b_scales[i] = static_cast<std::uint8_t>(100 + i % 64);
      if (m == 1) {  // A value that is large, a column of the smallest scales, and a NaN of either type.
        const std::size_t groups = data.b_scales.size() / 83;
        data.a[2 * 5 + 1] = k == 70 ? 0x3f : 0x5d;
        std::fill_n(&data.b_scales[3 * groups], groups, std::uint8_t{0});
        data.b_scales[21 * groups + groups / 2] = group == 32 ? 0xff : 0x7f;
      }
      expect_right(run(*device, c, data), c, device->props().name);
    }
    Case g{.n = 20, .k = 288, .options = of_fp4({{"tile_m", "4"}, {"warps", "4"}}), .counts = {3, 0, 5}};
    g.a = DType::bf16;
    g.b = DType::e2m1;
    g.a_scale = DType::none;
    g.b_scale = DType::e8m0;
    g.b_grid = {1, 32};
    expect_right_in_both_layouts(*device, g, 8, 6);
  }
}

// Gates and ups in turns: one scale for the gates of a block and one for its ups, or one for each column.
TEST_F(OpenClWarpProducts, ActivateOnTheWayOut) {
  const auto made = with_file(warp_by_hand, kMmaByHand);
  for (const auto& device : made.devices) {
    Case c = problem(5, 192, 300);
    c.activation = backend::Activation::silu;
    expect_right_with(*device, c, of_mma({{"columns", "32"}, {"lines", "1"}}));
    c.d = DType::bf16, c.bias = DType::f32;
    c.activation = backend::Activation::swiglu_oai, c.activation_limit = 7;
    expect_right_with(*device, c, of_mma({{"columns", "56"}, {"warps", "4"}}));
    c.n = 70;
    expect_right_with(*device, c, of_mma({{"columns", "8"}}));
  }
  const auto four_bits = with_file(four_bits_by_hand, kMmaByHand);
  for (const auto& device : four_bits.devices) {
    Case c = problem(3, 83, 390, DType::bf16, DType::e2m1);
    c.b_grid = {1, 16}, c.b_scale = DType::e4m3fn;
    c.activation = backend::Activation::silu;
    expect_right_with(*device, c, of_fp4({{"tile_m", "4"}, {"columns", "16"}, {"warps", "4"}}));
  }
}

// The trial is what a GPU is asked on which nobody has run this: right by hand, and red where scales are twice as
// large.
TEST_F(OpenClWarpProducts, TheTrialOfFourBitsSeesAWrongScale) {
  const auto trial = [this] {
    const auto made = with_file(four_bits_by_hand, kMmaByHand);
    Variant v = four_bits_by_hand();
    v.trial = find_variant("gemm_mma_stream_fp4")->trial;
    return made.devices.empty() ? std::string("no device")
                                : attempt_trial(*dynamic_cast<Device&>(*made.devices.front()).context(), v, nullptr);
  };
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  EXPECT_EQ(trial(), "");
  edit("gemm_mma_stream.cl", "1.0f : 0x1p124f))", "1.0f : 0x1p125f))");
  EXPECT_NE(trial().find("elements are wrong"), std::string::npos) << trial();
}

/// All 256 codes of A, `rows` of them in a run, or of B beside ones of the other, each in a row of 32 k and at each
/// place of a word: a NaN code makes its row or column of D NaN.
void expect_every_code_decoded(backend::Device& device, DType type, bool codes_in_a, int rows,
                               const backend::Options& options) {
  Case c = problem(codes_in_a ? rows : 1, codes_in_a ? 1 : rows, 32, type, type, 32);
  c.options = options;
  c.a_grid = c.b_grid = {0, 0};
  Data data = make_data(c);
  std::vector<std::uint8_t>&codes = codes_in_a ? data.a : data.b, &others = codes_in_a ? data.b : data.a;
  std::fill(others.begin(), others.end(), type == DType::e4m3fn ? 0x38 : 0x3c);
  for (int first = 0; first < 256; first += rows) {
    for (int turn = 0; turn < 4; ++turn) {
      for (int row = 0; row < rows; ++row)
        for (int k = 0; k < 32; ++k)
          codes[static_cast<std::size_t>(row) * 32 + static_cast<std::size_t>(k)] =
              static_cast<std::uint8_t>(k == (4 * row + turn) % 32 ? first + row : 0);
      expect_right(run(device, c, data), c, device.props().name);
    }
  }
}

TEST_F(OpenClWarpProducts, DecodeEveryCodeByIntegers) {
  const auto made = with_file(warp_by_hand, kMmaByHand);
  for (const auto& device : made.devices) {
    for (const DType type : {DType::e4m3fn, DType::e5m2}) {
      expect_every_code_decoded(*device, type, true, 32, of_mma({{"tile_m", "32"}, {"warps", "4"}}));
      expect_every_code_decoded(*device, type, false, 256, of_mma({{"tile_m", "1"}}));
    }
  }
}

TEST_F(OpenClWarpProducts, QuantiseWhatTheyMultiply) {
  const auto made = with_file(warp_by_hand, kMmaByHand);
  for (const auto& device : made.devices) {
    for (const auto& [rows, source, code] :
         std::vector<std::tuple<int, DType, DType>>{{1, DType::bf16, DType::e4m3fn},
                                                    {4, DType::f32, DType::e5m2},
                                                    {8, DType::f16, DType::i8},
                                                    {13, DType::bf16, DType::e5m2},
                                                    {13, DType::f32, DType::e4m3fn}}) {
      Case c = problem(rows, 40, 300, code, code == DType::i8 ? code : DType::e4m3fn);
      c.a_source = source;
      expect_right_with(*device, c, of_mma({{"warps", "4"}, {"tile_m", rows == 13 ? "16" : std::to_string(rows)}}));
    }
  }
}

// Their rows gathered and as they lie, codes that are given and floats that the kernel quantises.
TEST_F(OpenClWarpProducts, ServeManyMatrices) {
  const auto made = with_file(warp_by_hand, kMmaByHand);
  for (const auto& device : made.devices) {
    Case g{.n = 70, .k = 300, .options = of_mma({{"tile_m", "8"}, {"warps", "4"}}), .counts = {3, 0, 20, 9}};
    for (const DType source : {DType::none, DType::bf16}) {
      g.a_source = source;
      expect_right_in_both_layouts(*device, g, 40, 21);
      Case stays = g;  // Work-groups that stay for several units.
      stays.options.emplace_back("columns", "32");
      expect_right_in_both_layouts(*device, stays, 40, 21);
    }
    // So many tiles could be there that a kernel before it schedules rows.
    expect_right_in_both_layouts(*device, g, 40, 840);
  }
}

// Work-groups that are few or stay schedule rows themselves; where each of many would, a kernel does before them.
TEST_F(OpenClWarpProducts, ScheduleRowsThemselvesWhereTheyAreFew) {
  const auto made = with_file(warp_by_hand, kMmaByHand);
  for (const auto& device : made.devices) {
    const Context& context = *dynamic_cast<Device&>(*device).context();
    const auto steps = [&](std::int64_t rows, const char* columns) {
      Case g{
          .m = rows, .n = 70, .k = 256, .options = of_mma({{"tile_m", "8"}, {"warps", "4"}, {"columns", columns}})};
      g.counts = {3, 0, 20, 9};
      Choice choice;
      EXPECT_EQ(choose(context.selection(), g.desc(), &choice).text, "");
      return route_of(choice, context.features).steps.size();  // Which builds nothing.
    };
    for (const auto& [rows, want] : {std::pair<std::int64_t, std::size_t>{32, 1}, {32000, 2}}) {
      EXPECT_EQ(steps(rows, "32"), 1U) << "they stay";
      EXPECT_EQ(steps(rows, "16"), want) << rows;
    }
  }
}

Variant tiles_by_hand() { return another("mma_tiles_by_hand", "gemm_mma_tiled"); }

constexpr const char* kTilesByHand = "#define MMA_BY_HAND 1\n#include \"gemm_mma_tiled.cl\"\n";

backend::Options of_tiles(const backend::Options& more = {}) { return options_of("mma_tiles_by_hand", more); }

// Tiles of all shapes; rows, columns and k that no tile divides; scales a block, a column, and for groups of columns;
// D that is stored four columns at a time and one by one.
TEST_F(OpenClWarpProducts, OfTilesAreRightByHand) {
  const auto made = with_file(tiles_by_hand, kTilesByHand);
  for (const auto& device : made.devices) {
    for (const char* const half : {"0", "1"}) {
      expect_right_with(*device, problem(1, 5, 16), of_tiles({{"half_rows", half}}));
      Case blocks = problem(131, 136, 300);
      blocks.b_grid = {256, 256};
      blocks.a_grid = {1, 256};
      blocks.d = DType::bf16;
      blocks.bias = DType::f32;
      expect_right_with(*device, blocks,
                        of_tiles({{"half_rows", half}, {"tile_m", "128"}, {"tile_k", "32"}, {"stages", "4"}}));
      Case columns = problem(66, 70, 300);
      columns.b_grid = {1, 128};
      columns.a_grid = {2, 128};
      expect_right_with(*device, columns, of_tiles({{"half_rows", half}, {"stages", "2"}}));
      columns.b_grid = {24, 0};
      columns.d = DType::f16;
      expect_right_with(*device, columns, of_tiles({{"half_rows", half}, {"tile_m", "128"}, {"tile_n", "64"}}));
      columns.n = 136;
      expect_right_with(
          *device, columns,
          of_tiles({{"half_rows", half}, {"tile_n", "64"}, {"tile_k", "32"}, {"stages", "4"}, {"split_k", "2"}}));
    }
  }
}

TEST_F(OpenClWarpProducts, OfTilesTakeEveryTypeAndGroup) {
  const auto made = with_file(tiles_by_hand, kTilesByHand);
  for (const auto& device : made.devices) {
    for (const auto& [a, b, half] :
         std::vector<std::tuple<DType, DType, const char*>>{{DType::e5m2, DType::e4m3fn, "0"},
                                                            {DType::e4m3fn, DType::e5m2, "1"},
                                                            {DType::i8, DType::i8, "0"},
                                                            {DType::i8, DType::i8, "1"}})
      expect_right_with(*device, problem(70, 40, 300, a, b), of_tiles({{"half_rows", half}, {"tile_n", "64"}}));
    for (const auto& [group, half] : {std::pair{64, "0"}, {64, "1"}, {32, "0"}, {32, "1"}}) {
      Case c = problem(40, 40, 416, DType::e4m3fn, DType::e4m3fn, group);
      const bool whole = (group == 64) == (*half == '0');
      c.b_grid = {whole ? 64 : 1, whole ? group : 2 * group};
      expect_right_with(*device, c,
                        of_tiles({{"half_rows", half},
                                  {"tile_n", "64"},
                                  whole ? std::pair{"warp_m", "32"} : std::pair{"split_k", "2"}}));
    }
  }
}

TEST_F(OpenClWarpProducts, OfTilesDecodeEveryCodeByIntegers) {
  const auto made = with_file(tiles_by_hand, kTilesByHand);
  for (const auto& device : made.devices) {
    for (const DType type : {DType::e4m3fn, DType::e5m2}) {
      for (const char* const half : {"0", "1"})
        expect_every_code_decoded(*device, type, true, 256, of_tiles({{"half_rows", half}, {"tile_n", "64"}}));
      // Weights are decoded in the same way by both.
      expect_every_code_decoded(*device, type, false, 256, of_tiles({{"half_rows", "0"}, {"tile_n", "64"}}));
    }
  }
}

// One setting: a driver of a processor compiles such a tile for twenty seconds.
TEST_F(OpenClWarpProducts, OfTilesServeManyMatrices) {
  const auto made = with_file(tiles_by_hand, kTilesByHand);
  for (const auto& device : made.devices) {
    Case g{.n = 70, .k = 300, .counts = {3, 0, 70}};
    g.options = of_tiles({{"tile_n", "64"}, {"half_rows", "1"}, {"split_k", "2"}});
    expect_right_in_both_layouts(*device, g, 80, 71);
  }
}

Variant floats_by_hand() { return another("floats_by_hand", "gemm_mma_floats"); }

// Tiles of all widths; rows, columns and k that none divides, slices without any k, and the trial that a GPU is
// asked.
TEST_F(OpenClWarpProducts, OfFloatsAreRightByHand) {
  const auto made = with_file(floats_by_hand, "#define MMA_BY_HAND 1\n#include \"gemm_mma_floats.cl\"\n");
  for (const auto& device : made.devices) {
    for (const auto& [m, n, k, options] : std::vector<std::tuple<int, int, int, backend::Options>>{
             {1, 5, 16, {{"tile_n", "8"}, {"slices", "4"}}},
             {37, 70, 1164, {{"tile_n", "64"}, {"slices", "4"}, {"depth", "1"}}},
             {16, 128, 704, {{"tile_n", "16"}, {"slices", "8"}}},
             {17, 33, 520, {{"tile_n", "32"}}}}) {
      Case c = problem(m, n, k, DType::bf16, DType::bf16);
      c.a_scale = c.b_scale = DType::none;
      c.d = m == 16 ? DType::bf16 : DType::f32;
      if (m > 16) c.bias = DType::f32;
      expect_right_with(*device, c, options_of("floats_by_hand", options));
    }
    Variant tried = floats_by_hand();
    tried.trial = Trial{19, 70, 1100};
    EXPECT_EQ(attempt_trial(*dynamic_cast<Device&>(*device).context(), tried, nullptr), "");
  }
}

TEST_F(OpenClWarpProducts, AreRefusedWhereTheDeviceHasNone) {
  for (const auto& device : devices()) {
    if (dynamic_cast<Device&>(*device).context()->features.ptx_sm_80) continue;
    for (const char* const name : {"gemm_mma_stream", "gemm_mma_tiled"}) {
      Case c = problem(19, 130, 300);
      c.options = {{"variant", name}};
      expect_lacks(*device, c, "compute capability 8.0");
    }
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
