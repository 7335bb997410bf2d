// SPDX-License-Identifier: Apache-2.0
// The device's quantiser against numerics::quantize: every byte of codes and scales, on every device.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"
#include "backends/opencl/api.h"
#include "backends/opencl/device.h"
#include "backends/opencl/variant.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

constexpr std::array kSources{DType::f32, DType::f16, DType::bf16};
constexpr std::array kCodes{DType::e4m3fn, DType::e5m2, DType::i8};

/// Codes and scales that a plan makes of `values`.
void expect_same(backend::Device& device, const std::vector<float>& values, DType source, std::int64_t m,
                 std::int64_t k, std::int64_t lda, DType type, const numerics::ScaleGrid& grid,
                 const numerics::Quantizer& quantizer) {
  std::vector<std::uint8_t> x(values.size() * numerics::size_of(source));
  numerics::encode(source, values, x.data());
  Ready ready(device, {.m = m,
                       .k = k,
                       .a_source = source,
                       .a = type,
                       .b = type,
                       .a_grid = grid,
                       .lda = lda,
                       .a_quantizer = quantizer});
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(m * k)), want_codes = codes;
  std::vector<float> scales(static_cast<std::size_t>(grid.scale_rows(m) * grid.scale_cols(k))), want_scales = scales;
  const auto buffer = [&](std::size_t bytes) { return backend::Span{device.create_buffer(bytes), 0, bytes}; };
  ready.args.a = buffer(x.size());
  ready.args.a_quantized = buffer(codes.size());
  ready.args.a_quantized_scale = buffer(scales.size() * sizeof(float));
  ready.queue->write(ready.args.a, x.data(), backend::HostSemantics::stable_until_event);
  ready.plan->enqueue(ready.queue, ready.args);
  ready.queue->read(ready.args.a_quantized, codes.data());
  ready.queue->read(ready.args.a_quantized_scale, scales.data());
  ready.queue->finish();
  numerics::quantize(source, x.data(), m, k, lda, type, grid, quantizer, want_codes, want_scales);
  const std::string where = device.props().name + ": " + std::string(numerics::name_of(source)) + " to " +
                            std::string(numerics::name_of(type)) + ", groups of " + std::to_string(grid.group_rows) +
                            "x" + std::to_string(grid.group_cols);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(scales[i]), std::bit_cast<std::uint32_t>(want_scales[i]))
        << where << ", scale " << i << ": got " << scales[i] << ", expected " << want_scales[i];
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    ASSERT_EQ(int{codes[i]}, int{want_codes[i]})
        << where << ", row " << i / static_cast<std::size_t>(k) << ", column " << i % static_cast<std::size_t>(k);
  }
}

/// Values that a careless quantiser gets wrong: ties, subnormals, extremes, wide ranges in a group, zeros of both
/// signs.
std::vector<float> hard_values(std::int64_t count, std::uint32_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t kind = random.next() % 8;
    const float u = random.uniform() * 2 - 1;
    switch ((i / 64) % 6) {
      case 0:
        values[i] = u * 448;
        break;
      case 1:  // On and next to the ties of e4m3 under a scale of 1.
        values[i] = static_cast<float>(17 + 2 * static_cast<int>(kind)) / 16;
        if (kind % 3 != 2) values[i] = std::nextafter(values[i], kind % 3 == 0 ? 9.0f : 0.0f);
        if (u < 0) values[i] = -values[i];
        if (kind == 7) values[i] = 448;
        break;
      case 2:
        values[i] = std::ldexp(u, -static_cast<int>(random.next() % 150));
        break;
      case 3:
        values[i] = kind == 0 ? 0.0f : kind == 1 ? -0.0f : std::ldexp(u, -140);
        break;
      case 4:
        values[i] = std::ldexp(u, static_cast<int>(random.next() % 120));
        break;
      default:
        values[i] = std::ldexp(u, -static_cast<int>(random.next() % 12));
    }
  }
  return values;
}

/// The same with a NaN near the beginning and an infinity at `infinite`.
std::vector<float> values_with_none(std::int64_t count, std::uint32_t seed, std::int64_t infinite) {
  std::vector<float> values = hard_values(count, seed);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[static_cast<std::size_t>(infinite)] = std::numeric_limits<float>::infinity();
  return values;
}

using OpenClQuantiser = OnDevices;

/// D of a plan that quantises x itself must be, bit for bit, D of the same plan given numerics' codes and scales.
void expect_same_product(backend::Device& device, const std::vector<float>& values, DType source, std::int64_t m,
                         std::int64_t k, std::int64_t lda, DType type, const numerics::ScaleGrid& grid,
                         const char* variant, const backend::Options& more = {}) {
  Case quantising{.m = m, .n = 48, .k = k, .a_source = source, .a = type, .b = type, .a_grid = grid, .lda = lda};
  quantising.options = {{"variant", variant}};
  quantising.options.insert(quantising.options.end(), more.begin(), more.end());
  quantising.weakest = backend::AccuracyClass::tensor14;
  Case given = quantising;
  given.a_source = DType::none;
  given.lda = 0;
  Data data = make_data(quantising), codes = data;
  data.a.assign(values.size() * numerics::size_of(source), 0);
  numerics::encode(source, values, data.a.data());
  codes.a.assign(static_cast<std::size_t>(m * k), 0);
  std::vector<float> scales(static_cast<std::size_t>(grid.scale_rows(m) * grid.scale_cols(k)));
  numerics::quantize(source, data.a.data(), m, k, lda, type, grid, {}, codes.a, scales);
  codes.a_scales.resize(scales.size() * sizeof(float));
  std::memcpy(codes.a_scales.data(), scales.data(), codes.a_scales.size());
  const Outcome got = run(device, quantising, data), want = run(device, given, codes);
  ASSERT_EQ(got.d.size(), want.d.size());
  for (std::size_t i = 0; i < got.d.size(); ++i) {
    if (std::isnan(got.d[i]) && std::isnan(want.d[i])) continue;
    ASSERT_EQ(got.d[i], want.d[i]) << quantising.line() << " on " << device.props().name << ": row " << i / 48
                                   << ", column " << i % 48;
  }
}

TEST_F(OpenClQuantiser, IntoTilesGivesTheBitsOfCodesMadeBefore) {
  for (const auto& device : devices()) {
    // Each source and each type with each kernel, half of the pairs: drivers take long for a program.
    for (const char* const variant : {"gemm_panel", "gemm_stream"}) {
      for (std::size_t i = 0; i < kSources.size(); ++i) {
        const DType type = kCodes[(i + (variant == std::string_view("gemm_panel") ? 0 : 1)) % kCodes.size()];
        expect_same_product(*device, values_with_none(19 * 701, 11, 701 * 3 + 689), kSources[i], 19, 690, 701, type,
                            {1, 128}, variant);
      }
      for (const numerics::ScaleGrid grid : {numerics::ScaleGrid{1, 32}, {1, 64}, {1, 256}, {1, 0}, {32, 128}})
        expect_same_product(*device, hard_values(19 * 701, 12), DType::f32, 19, 690, 701, DType::e4m3fn, grid,
                            variant);
      for (const numerics::ScaleGrid grid : {numerics::ScaleGrid{1, 32}, {1, 0}})
        expect_same_product(*device, hard_values(19 * 32, 13), DType::bf16, 19, 17, 32, DType::e4m3fn, grid, variant);
    }
  }
}

TEST_F(OpenClQuantiser, IntoTilesOfBf16GivesTheBitsOfCodesMadeBefore) {
  // From bf16 they are made 32 values at a time, where every row of a tile has a scale that quotients are quick with.
  bool ran = false;
  for (const auto& device : devices()) {
    for (const char* const variant : {"gemm_bf16", "gemm_amx"}) {
      Case asked{.m = 19, .n = 48, .k = 690, .options = {{"variant", variant}}};
      if (device->supports(asked.desc()).reason != backend::Reason::none) continue;
      ran = true;
      std::uint32_t seed = 30;
      // One cut of rows, and a last tile as high in all, so that a kernel is compiled once for a grid and type.
      backend::Options cut{{"block_m", "2"}};
      if (find_tunable(*find_variant(variant), "tile_m") != nullptr) cut.emplace_back("tile_m", "14");
      for (const auto& [grid, type] : {std::pair{numerics::ScaleGrid{1, 128}, DType::e4m3fn},
                                       {{1, 128}, DType::e5m2},
                                       {{1, 64}, DType::e5m2},
                                       {{1, 256}, DType::e4m3fn},
                                       {{1, 0}, DType::e5m2}}) {
        std::vector<float> values = hard_values(40 * 701, ++seed);
        expect_same_product(*device, values, DType::bf16, 40, 690, 701, type, grid, variant, cut);
        for (float& v : values) v = std::fmod(v, 448.0f) + 0.5f;  // No row whose scale is out of reach.
        expect_same_product(*device, values, DType::bf16, 40, 690, 701, type, grid, variant, cut);
        values[5] = std::numeric_limits<float>::quiet_NaN();
        values[701 * 3 + 690 - 1] = std::numeric_limits<float>::infinity();
        expect_same_product(*device, values, DType::bf16, 40, 690, 701, type, grid, variant, cut);
        for (std::int64_t i = 0; i < 128; ++i) values[static_cast<std::size_t>(701 * 20 + i)] = -0.0f;
        expect_same_product(*device, values, DType::bf16, 26, 701, 701, type, grid, variant, cut);
      }
      expect_same_product(*device, hard_values(19 * 701, ++seed), DType::f32, 19, 690, 701, DType::e4m3fn, {1, 128},
                          variant);
      // Many: a work-item makes several groups, the last one fewer, and stores them past the caches.
      expect_same_product(*device, hard_values(330 * 4224, ++seed), DType::bf16, 330, 4218, 4224, DType::e4m3fn,
                          {1, 128}, variant);
    }
  }
  if (!ran) GTEST_SKIP() << "no device that the kernels run on";
}

TEST_F(OpenClQuantiser, InsideKernelsOfFewRowsGivesTheBitsOfCodesMadeBefore) {
  bool ran = false;
  for (const auto& device : devices()) {
    std::uint32_t turn = 0;
    for (const char* const variant : {"gemm_mma_stream", "gemm_mma_ring"}) {
      for (const std::int64_t m : {1, 2, 3, 7, 13, 20}) {
        Case asked{.m = m, .n = 48, .k = 690, .options = {{"variant", variant}}};
        if (device->supports(asked.desc()).reason != backend::Reason::none) continue;
        ran = true;
        for (const DType source : kSources) {
          // Rows at any address, a ragged last K block, values out of the quick quotients' reach, none that are
          // finite.
          const DType type = kCodes[turn % 3];
          expect_same_product(*device, values_with_none(m * 701, 50 + turn, m * 701 - 12), source, m, 690, 701, type,
                              {1, 128}, variant);
          // Whole K blocks at addresses that vectors take.
          expect_same_product(*device, hard_values(m * 704, 80 + turn), source, m, 640, 704, type, {1, 128}, variant);
          ++turn;
        }
      }
    }
  }
  if (!ran) GTEST_SKIP() << "no device that the kernel runs on";
}

TEST_F(OpenClQuantiser, InsideGemmStreamGivesTheBitsOfCodesMadeBefore) {
  const auto wide = [](const char* split_k) {
    return backend::Options{{"floats", "1"}, {"split_k", split_k}, {"tile_m", "2"}, {"block_m", "2"}};
  };
  std::uint32_t seed = 90;
  for (const auto& device : devices()) {
    // One row with K whole, more with K in parts, each source and type with both; and one of the other way round.
    for (std::size_t i = 0; i < kSources.size() + 1; ++i) {
      const char *const of_one = i < 3 ? "1" : "4", *const of_more = i < 3 ? "4" : "1";
      expect_same_product(*device, hard_values(7 * 701, ++seed), kSources[i % 3], 1, 690, 701, kCodes[i % 3],
                          {1, 128}, "gemm_stream", {{"floats", "1"}, {"split_k", of_one}});
      expect_same_product(*device, values_with_none(7 * 701, seed, 701 * 3 + 689), kSources[i % 3], 7, 690, 701,
                          kCodes[(i + 1) % 3], {1, 128}, "gemm_stream", wide(of_more));
    }
    // Scale groups that are no K groups are quantised by a kernel before it.
    for (const auto& [grid, split_k] : {std::pair{numerics::ScaleGrid{1, 32}, "1"},
                                        {{1, 64}, "4"},
                                        {{1, 256}, "4"},
                                        {{1, 0}, "1"},
                                        {{2, 128}, "4"}})
      expect_same_product(*device, hard_values(7 * 701, ++seed), DType::f32, 7, 690, 701, DType::e4m3fn, grid,
                          "gemm_stream", wide(split_k));
    // One tile of several rows, whose work-groups stay.
    for (const numerics::ScaleGrid grid : {numerics::ScaleGrid{1, 128}, {1, 64}, {2, 128}})
      expect_same_product(*device, hard_values(7 * 701, ++seed), DType::bf16, 7, 690, 701, DType::e4m3fn, grid,
                          "gemm_stream", {{"floats", "1"}, {"split_k", "1"}});
  }
}

TEST_F(OpenClQuantiser, InsideGemmStreamBf16GivesTheBitsOfCodesMadeBefore) {
  bool ran = false;
  std::uint32_t seed = 190;
  for (const auto& device : devices()) {
    Case c{.m = 1, .n = 48, .k = 690, .options = {{"variant", "gemm_stream_bf16"}}};
    if (device->supports(c.desc()).reason != backend::Reason::none) continue;
    ran = true;
    for (const auto& [source, type, m, k] : {std::tuple{DType::f32, DType::e4m3fn, 1, 690},
                                             {DType::f16, DType::e5m2, 3, 690},
                                             {DType::bf16, DType::e4m3fn, 10, 690},
                                             {DType::bf16, DType::e5m2, 1, 17}}) {
      expect_same_product(*device, hard_values(m * 701, ++seed), source, m, k, 701, type, {1, 128},
                          "gemm_stream_bf16");
      expect_same_product(*device, values_with_none(m * 701, seed, 701 * (m - 1) + k - 1), source, m, k, 701, type,
                          {1, 128}, "gemm_stream_bf16");
    }
    for (const numerics::ScaleGrid grid : {numerics::ScaleGrid{1, 64}, {1, 256}, {2, 128}})
      expect_same_product(*device, hard_values(7 * 701, ++seed), DType::bf16, 7, 690, 701, DType::e4m3fn, grid,
                          "gemm_stream_bf16");
  }
  if (!ran) GTEST_SKIP() << "no processor with dot products that work";
}

TEST_F(OpenClQuantiser, IntoTheFormsOfTensorCoresGivesTheBitsOfCodesMadeBefore) {
  bool ran = false;
  for (const auto& device : devices()) {
    std::uint32_t turn = 0;
    for (const char* const variant : {"gemm_wgmma_f16", "gemm_wgmma_fp8"}) {
      for (const DType source : kSources) {
        for (const std::int64_t m : {1, 19, 70, 130}) {
          const DType type = kCodes[++turn % 3];
          Case asked{.m = m, .n = 48, .k = 690, .a_source = source, .a = type, .b = type};
          asked.weakest = backend::AccuracyClass::tensor14;
          asked.options = {{"variant", variant}};
          if (device->supports(asked.desc()).reason != backend::Reason::none) continue;
          ran = true;
          // Rows at any address, a ragged last K block, values out of the quick quotients' reach, none that are
          // finite.
          expect_same_product(*device, values_with_none(m * 701, 110 + turn, m * 701 - 12), source, m, 690, 701, type,
                              {1, 128}, variant);
          // Rows at addresses that vectors take.
          expect_same_product(*device, hard_values(m * 704, 150 + turn), source, m, 690, 704, type, {1, 128},
                              variant);
        }
      }
    }
  }
  if (!ran) GTEST_SKIP() << "no device that the kernels run on";
}

TEST_F(OpenClQuantiser, SeesTheLargestValueInAnyColumnOfAGroup) {
  // The vectors of 16 leave up to 15 columns, which loops of their own take: each column of the last 16 is once the
  // only large one, in groups whose width, or what the edge leaves of it, is 1 to 15 beyond a multiple of 16.
  for (const auto& device : devices()) {
    for (const std::int64_t k : {15, 31, 128 + 15, 128 + 47, 128 + 1, 128 + 16, 256}) {
      constexpr std::int64_t kRows = 16;
      std::vector<float> values = hard_values(kRows * k, 21);
      for (float& v : values) v = std::fmod(v, 1.0f);
      for (std::int64_t row = 0; row < kRows; ++row) {
        if (row < k) values[static_cast<std::size_t>(row * k + k - 1 - row)] = row % 2 == 0 ? 300.0f : -300.0f;
      }
      for (const numerics::ScaleGrid grid : {numerics::ScaleGrid{1, 128}, {1, 0}, {2, 128}}) {
        expect_same(*device, values, DType::f32, kRows, k, k, DType::e4m3fn, grid, {});
      }
      for (const char* const variant : {"gemm_panel", "gemm_skinny", "gemm_stream", "gemm_tiled"}) {
        Case c{.m = kRows, .n = 48, .k = k, .options = {{"variant", variant}}};
        // A driver that compiles a kernel wrong is found by its trial; whatever else is refused here is a failure.
        if (device->supports(c.desc()).text.find("does not work on this device") != std::string::npos) continue;
        expect_same_product(*device, values, DType::f32, kRows, k, k, DType::e4m3fn, {1, 128}, variant);
        expect_same_product(*device, values, DType::f32, kRows, k, k, DType::e4m3fn, {1, 0}, variant);
      }
    }
  }
}

TEST_F(OpenClQuantiser, TilesLargerThanTheCachesAreTheSame) {
  // Stored past the caches where they are large for a device: here for one that says that its caches are small.
  auto made = make({});
  for (const auto& device : made.devices) {
    auto& features = dynamic_cast<Device&>(*device).context()->features;
    if (!features.prefers_vectors()) continue;
    features.local_bytes = 512 << 10;
    features.compute_units = 1;
    const std::int64_t m = 210, k = 1400;  // Tiles of 1.2 MB, with rows and columns left over.
    for (const char* const variant : {"gemm_panel", "gemm_stream"}) {
      expect_same_product(*device, hard_values(210 * 1408, 14), DType::f32, m, k, 1408, DType::e4m3fn, {1, 128},
                          variant);
      expect_same_product(*device, hard_values(210 * 1408, 15), DType::bf16, m, k, 1408, DType::i8, {1, 0}, variant);
    }
  }
}

TEST_F(OpenClQuantiser, DividesRightlyByEachOfItsWays) {
  // The paths of devices whose multiply-add, or whose division as well, is not to be trusted, run on the ones that
  // are here.
  for (const auto& device : devices()) {
    for (const bool own_division : {true, false}) {
      auto made = make({});
      for (const auto& other : made.devices) {
        if (other->props().name != device->props().name) continue;
        auto& features = dynamic_cast<Device&>(*other).context()->features;
        features.fma_divide = false;
        if (own_division && !features.exact_divide) continue;
        features.exact_divide = own_division;
        const auto values = hard_values(40 * 300, 10);
        expect_same(*other, values, DType::f32, 40, 300, 300, DType::e4m3fn, {1, 128}, {});
        expect_same(*other, values, DType::f32, 40, 300, 300, DType::e4m3fn, {1, 128},
                    {1e-42f, numerics::ScaleRounding::power_of_two});
        expect_same(*other, values, DType::f16, 40, 300, 300, DType::i8, {1, 128}, {});
        // A quotient of two floats lies in the middle between two floats only where it is a denormal. So do these
        // scales.
        std::vector<float> ties(64 * 128);
        for (std::size_t i = 0; i < ties.size(); ++i) {
          const std::size_t odd = 2 * (i / 128) + 1;
          ties[i] = std::ldexp(static_cast<float>(224 * odd), -149);
        }
        expect_same(*other, ties, DType::f32, 64, 128, 128, DType::e4m3fn, {1, 128}, {0.0f});
      }
    }
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
