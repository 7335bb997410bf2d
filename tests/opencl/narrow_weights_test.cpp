// SPDX-License-Identifier: Apache-2.0
// Weights of several codes a byte: packed and unpacked bit for bit, decoded exactly by every kernel that takes them,
// whole plans against the oracle. e2m1 is the example.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/numerics/casts.h"
#include "backends/opencl/device.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/weights.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;
using backend::Reason;

std::vector<std::uint8_t> random_bytes(std::int64_t count, std::uint32_t seed) {
  Random random(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next() >> 9);
  return bytes;
}

TEST(OpenClNarrowWeights, ArePackedAndUnpackedBitForBit) {
  struct Extent {
    std::int64_t n, k, ld;
  };
  for (const WeightFormPtr& form : {panel_form(DType::e2m1), blocked_form(0, 16, 64, DType::e2m1), lines_form()}) {
    for (const Extent& e : {Extent{1, 2, 2}, Extent{31, 6, 8}, Extent{33, 130, 130}, Extent{64, 128, 192}}) {
      const WeightExtent extent = form->extent(e.n, e.k, 1);
      EXPECT_EQ(extent.code_bytes.value(), extent.n_pad * extent.k_pad / 2) << form->name();
      const std::vector<std::uint8_t> codes = random_bytes(e.n * e.ld / 2, 7);
      std::vector<std::uint8_t> packed(extent.code_bytes.bytes() + 2, 0xaa);
      form->pack(e.n, e.k, codes.data(), e.ld, packed.data() + 1);
      EXPECT_EQ(packed.front(), 0xaa);
      EXPECT_EQ(packed.back(), 0xaa) << form->name() << " wrote past its bytes";
      std::vector<std::uint8_t> back(static_cast<std::size_t>(e.n * e.k / 2) + 1, 0xbb);
      form->unpack(e.n, e.k, packed.data() + 1, back.data());
      EXPECT_EQ(back.back(), 0xbb);
      for (std::int64_t row = 0; row < e.n; ++row) {
        ASSERT_EQ(std::memcmp(back.data() + row * e.k / 2, codes.data() + row * e.ld / 2,
                              static_cast<std::size_t>(e.k / 2)),
                  0)
            << form->name() << " row " << row << " of " << e.n << " x " << e.k;
      }
    }
  }
}

TEST(OpenClNarrowWeights, PaddingIsZeroCodes) {
  const WeightFormPtr form = panel_form(DType::e2m1);
  const std::vector<std::uint8_t> codes(3 * 2 / 2, 0xff);
  std::vector<std::uint8_t> packed(form->extent(3, 2, 1).code_bytes.bytes(), 0x77);
  form->pack(3, 2, codes.data(), 2, packed.data());
  std::int64_t ones = 0;
  for (const std::uint8_t byte : packed) ones += (byte & 0xf) / 15 + (byte >> 4) / 15;
  EXPECT_EQ(ones, 6);
  EXPECT_EQ(std::count(packed.begin(), packed.end(), 0), static_cast<std::ptrdiff_t>(packed.size()) - 3);
}

using OpenClNarrowPlans = OnDevices;

TEST_F(OpenClNarrowPlans, EveryByteIsItsTwoValuesExactly) {
  // D = I * B transposed: each of the 256 bytes, at each place of a panel, as the kernel decodes it.
  constexpr std::int64_t kSize = 64;
  Case c{.m = kSize, .n = 2 * kSize, .k = kSize, .a = DType::bf16, .b = DType::e2m1};
  c.a_scale = c.b_scale = DType::none;
  Data data = make_data(c);
  std::vector<std::uint16_t> identity(kSize * kSize, 0);
  for (std::int64_t i = 0; i < kSize; ++i) identity[static_cast<std::size_t>(i * (kSize + 1))] = 0x3f80;
  std::memcpy(data.a.data(), identity.data(), data.a.size());
  ASSERT_EQ(data.b.size(), std::size_t{2 * kSize * kSize / 2});
  for (std::size_t i = 0; i < data.b.size(); ++i) data.b[i] = static_cast<std::uint8_t>(i * 37);
  for (const auto& device : devices()) {
    for (const char* const variant :
         {"gemm_stream", "gemm_stream_bf16_fp4", "gemm_amx_fp4", "gemm_panel", "gemm_tiled", "gemm_skinny"}) {
      c.options = {{"variant", variant}};
      if (device->supports(c.desc()).reason != Reason::none) continue;
      const Outcome outcome = run(*device, c, data);
      ASSERT_EQ(outcome.info.variant, variant);
      for (std::int64_t row = 0; row < c.m; ++row) {
        for (std::int64_t col = 0; col < c.n; ++col) {
          ASSERT_EQ(outcome.d[static_cast<std::size_t>(row * c.n + col)],
                    numerics::load_as_f64(DType::e2m1, data.b.data(), col * c.k + row))
              << variant << " on " << device->props().name << ": column " << col << ", k " << row;
        }
      }
    }
  }
}

/// Weights of MXFP4, of NVFP4 with its global scale, or with f32 scales per 128 x 128.
Case narrow(std::int64_t m, int group) {
  Case c{.m = m, .n = 83, .k = 390, .b = DType::e2m1, .a_grid = {1, group == 32 ? 32 : 128}};
  c.b_grid = {group == 128 ? 128 : 1, group};
  c.b_scale = group == 32 ? DType::e8m0 : group == 16 ? DType::e4m3fn : DType::f32;
  if (group == 16) c.b_global = 0.3f;
  c.bias = m == 5 && group != 16 ? DType::bf16 : DType::none;
  c.d = m == 70 ? DType::bf16 : DType::f32;
  c.seed = static_cast<std::uint32_t>(m + group);
  return c;
}

TEST_F(OpenClNarrowPlans, AreRightWithEveryKindOfActivationsAndScales) {
  struct Kind {
    DType source, a;
  };
  int ran = 0;
  for (const auto& device : devices()) {
    std::size_t turn = 0;  // Each kind and each group with every number of rows, a third of all.
    for (const Kind& kind : {Kind{DType::bf16, DType::e4m3fn}, Kind{DType::none, DType::e4m3fn},
                             Kind{DType::none, DType::e5m2}, Kind{DType::none, DType::f32}}) {
      for (const int group : {16, 32, 128}) {
        Case c = narrow(std::array{1, 5, 70}[turn++ % 3], group);
        c.a_source = kind.source;
        c.a = kind.a;
        ASSERT_EQ(device->supports(c.desc()).text, "") << c.line();
        const Outcome outcome = run(*device, c, make_data(c));
        expect_right(outcome, c, device->props().name);
        ++ran;
      }
      ++turn;
    }
  }
  EXPECT_GE(ran, 12);
}

TEST_F(OpenClNarrowPlans, KernelsThatAreNotChosenAreRight) {
  for (const auto& device : devices()) {
    std::size_t turn =
        1;  // A third of all groups and kinds of activations with each kernel, floats with the last two.
    for (const char* const variant : {"gemm_tiled", "gemm_skinny", "gemm_stream_bf16_fp4", "gemm_amx_fp4"}) {
      for (const int group : {16, 32, 128}) {
        const auto [source, a] =
            std::array{std::pair(DType::none, DType::bf16), std::pair(DType::none, DType::e4m3fn),
                       std::pair(DType::bf16, DType::e5m2)}[turn++ % 3];
        Case c = narrow(group == 16 ? 1 : group == 32 ? 5 : 13, group);
        c.a_source = source;
        c.a = a;
        if (source != DType::none && group != 16) c.m = 4;  // Which a kernel may quantise itself.
        c.options = {{"variant", variant}};
        const auto support = device->supports(c.desc());
        if (support.reason == Reason::device_feature) continue;  // Dot products of bf16 are for few processors.
        ASSERT_EQ(support.text, "") << c.line();
        expect_right(run(*device, c, make_data(c)), c, device->props().name);
      }
      ++turn;
    }
  }
}

// NaN, the smallest scale of e8m0 for a whole column, subnormal and negative ones of e4m3, in columns of their own.
TEST_F(OpenClNarrowPlans, ScalesThatAreNoPlainNumbersAreRight) {
  for (const auto& device : devices()) {
    for (const char* const variant : {"", "gemm_stream", "gemm_stream_bf16_fp4", "gemm_amx_fp4"}) {
      for (const int group : {16, 32}) {
        Case c = narrow(1, group);
        c.a = DType::bf16;
        if (*variant != '\0') c.options = {{"variant", variant}};
        if (device->supports(c.desc()).reason != Reason::none) continue;
        Data data = make_data(c);
        const std::size_t groups = data.b_scales.size() / 83;
        for (const std::size_t column : {3, 40})
          std::fill_n(&data.b_scales[column * groups], groups, std::uint8_t{0});
        const auto codes = group == 32 ? std::array<std::uint8_t, 4>{255, 255, 1, 254}
                                       : std::array<std::uint8_t, 4>{0x7f, 0xff, 1, 0xb8};
        for (std::size_t i = 0; i < 4; ++i) data.b_scales[(9 + 20 * i) * groups + groups / 2] = codes[i];
        expect_right(run(*device, c, data), c, device->props().name);
      }
    }
  }
}

TEST_F(OpenClNarrowPlans, DenormalActivationsAreNoZeros) {
  // The instructions that multiply bf16 on processors take denormals for zero. One K group has nothing else, one has
  // them beside ordinary values.
  for (const auto& device : devices()) {
    for (const char* const variant :
         {"", "gemm_stream_bf16_fp4", "gemm_amx_fp4", "gemm_stream_bf16", "gemm_bf16", "gemm_amx"}) {
      for (const DType b : {DType::e2m1, DType::e4m3fn}) {
        Case c = narrow(3, 128);
        c.a = DType::bf16;
        c.b = b;
        c.bias = DType::none;
        if (*variant != '\0') c.options = {{"variant", variant}};
        if (device->supports(c.desc()).reason != Reason::none) continue;
        Data data = make_data(c);
        for (std::int64_t i = 0; i < c.m * c.k; ++i) {
          if (i / c.k == 1 && i % 4 != 0) continue;
          data.a[static_cast<std::size_t>(2 * i + 1)] = static_cast<std::uint8_t>(i % 3 == 0 ? 0x80 : 0);
          data.a[static_cast<std::size_t>(2 * i)] &= 0x7f;
        }
        expect_right(run(*device, c, data), c, device->props().name);
      }
    }
  }
}

TEST_F(OpenClNarrowPlans, WeightsTakeHalfTheBytesAndComeBackBitForBit) {
  for (const auto& device : devices()) {
    const std::vector<std::uint8_t> codes = random_bytes(2 * 96 * 256 / 2, 3);
    backend::WeightsDesc w = weights_desc({.n = 96, .k = 256, .b = DType::e2m1, .counts = {0, 0}}, {});
    w.scale = {};
    w.data = reinterpret_cast<const std::byte*>(codes.data());
    const auto weights = device->prepare_weights(w);
    EXPECT_EQ(weights->data_bytes(), codes.size());
    EXPECT_LT(weights->device_bytes(), 2 * codes.size());
    if (device->props().type == backend::DeviceType::cpu) {
      EXPECT_EQ(weights->form(), "panel_n32_k8_pad16_e2m1");
      EXPECT_EQ(weights->device_bytes(), codes.size() + 2 * 96 * sizeof(float));
    }
    std::vector<std::uint8_t> back(codes.size());
    weights->export_to(reinterpret_cast<std::byte*>(back.data()), nullptr);
    EXPECT_EQ(back, codes);
  }
}

TEST_F(OpenClNarrowPlans, WhatCannotBeIsRefusedWithTheReason) {
  const auto& device = devices().front();
  Case c{.m = 4, .n = 64, .k = 128, .b = DType::e2m1, .options = {{"variant", "gemm_wgmma_f16"}}};
  EXPECT_EQ(device->supports(c.desc()).reason, Reason::dtype);
  EXPECT_NE(device->supports(c.desc()).text.find(", not e4m3fn by e2m1"), std::string::npos);
  c.options.clear();
  c.a = DType::i8;
  EXPECT_EQ(device->supports(c.desc()).reason, Reason::dtype) << "int8 goes with its like";
  c.a = DType::e2m1;
  EXPECT_EQ(device->supports(c.desc()).reason, Reason::dtype) << "a type of weights only";
}

}  // namespace
}  // namespace ironcl::opencl::testing
