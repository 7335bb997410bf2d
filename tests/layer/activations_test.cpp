// SPDX-License-Identifier: Apache-2.0
// Activations: brought into the type that a device takes, and quantised by nobody before the plan does it.
#include "host/layer/activations.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"
#include "tests/cli/scratch.h"

namespace {

using namespace ironcl;
using namespace ironcl::cli_test;
using numerics::DType;

constexpr std::int64_t kK = 256;

class ActivationsTest : public ::testing::Test {
 protected:
  ActivationsTest() {
    write_layer(path("layer.safetensors"), {1, 1, 1, 1});
    checkpoint.emplace(checkpoint::Checkpoint::open(path("layer.safetensors"), {{{128, 128}}}));
    layer = checkpoint->layer("weight");
  }
  std::string path(const std::string& name) const { return scratch.path(name); }
  /// A [2, K] tensor of that type: the values 1, 2, 3, ... up to 16, again and again.
  std::string input(DType type) const {
    OwnTensor x("x", type, {2, kK});
    for (std::size_t i = 0; i < 2 * kK; ++i) {
      const double value = static_cast<double>(i % 16 + 1);
      if (type == DType::f64)
        std::memcpy(x.bytes.data() + 8 * i, &value, 8);
      else if (type == DType::i8)
        x.bytes[i] = static_cast<std::byte>(i % 16 + 1);
      else
        numerics::encode(type, std::vector<float>{static_cast<float>(value)},
                         x.bytes.data() + i * numerics::size_of(type));
    }
    save(path("x.safetensors"), {x});
    return path("x.safetensors") + ":x";
  }
  const Scratch scratch;
  std::optional<checkpoint::Checkpoint> checkpoint;
  checkpoint::LinearLayer layer;
};

TEST_F(ActivationsTest, AreLeftToThePlanToQuantise) {
  layer::ActivationSource source;
  source.input = input(DType::bf16);
  const layer::Activations a = layer::load_activations(source, layer);
  EXPECT_EQ(a.problem.a_source, DType::bf16);
  EXPECT_TRUE(a.scales.empty()) << "a host that quantises does the device's work twice";
  EXPECT_EQ(a.data.size(), 2u * kK * 2u) << "as they came";
}

TEST_F(ActivationsTest, ComeInWhatDevicesTake) {
  const std::vector<std::pair<DType, DType>> types = {
      {DType::f32, DType::f32},     {DType::f16, DType::f16},   {DType::bf16, DType::bf16}, {DType::f64, DType::f32},
      {DType::e4m3fn, DType::bf16}, {DType::e5m2, DType::bf16}, {DType::i8, DType::bf16}};
  for (const auto& [from, to] : types) {
    layer::ActivationSource source;
    source.input = input(from);
    const layer::Activations a = layer::load_activations(source, layer);
    EXPECT_EQ(a.problem.a_source, to) << numerics::name_of(from);
    for (std::int64_t i = 0; i < 4; ++i)  // up to 4 every type holds them exactly
      EXPECT_EQ(numerics::load_as_f64(to, a.data.data(), i), static_cast<double>(i + 1)) << numerics::name_of(from);
  }
}

TEST_F(ActivationsTest, AreRoundedToTheTypeThatTheCallerWants) {
  layer::ActivationSource source;
  source.input = input(DType::f64);
  source.x_dtype = DType::f16;
  EXPECT_EQ(layer::load_activations(source, layer).problem.a_source, DType::f16);
  source.input.clear();
  const layer::Activations made_up = layer::load_activations(source, layer);
  EXPECT_EQ(made_up.problem.a_source, DType::f16);
  EXPECT_EQ(made_up.problem.m, 16);
  EXPECT_NE(made_up.origin.find("f16, seed 1"), std::string::npos) << made_up.origin;
}

TEST_F(ActivationsTest, OfAFixedScaleComeWithIt) {
  const float scale = 0.25f;
  layer.activations = checkpoint::ActivationScheme::fixed;
  layer.input_scale = checkpoint::Tensor{"input_scale", DType::f32, "F32", {}, std::as_bytes(std::span(&scale, 1))};
  const std::vector<float> x(kK, 3.0f);
  const auto bytes = std::as_bytes(std::span(x));
  const layer::Activations a =
      layer::activations_of_values(layer, {.m = 1, .x = DType::f32}, {bytes.begin(), bytes.end()}, "threes");
  EXPECT_EQ(a.problem.a_source, DType::f32);
  EXPECT_TRUE(a.problem.a_quantizer.given);
  const layer::LayerWeights weights = layer::weights_of(layer);
  const layer::QuantizedA codes = layer::quantize_a(a.problem, layer::operands_of(a, weights));
  EXPECT_EQ(numerics::decode_e4m3fn(codes.codes.at(7)), 12.0f) << "3 / 0.25";
  float given = 0;
  ASSERT_EQ(a.scales.size(), sizeof given);
  std::memcpy(&given, a.scales.data(), sizeof given);
  EXPECT_EQ(given, scale);
}

TEST_F(ActivationsTest, QuantiseAsEveryDeviceMust) {
  layer::ActivationSource source;
  const layer::Activations a = layer::load_activations(source, layer);
  const layer::LayerWeights weights = layer::weights_of(layer);
  const layer::QuantizedA quantized = layer::quantize_a(a.problem, layer::operands_of(a, weights));
  std::vector<std::uint8_t> codes(16 * kK);
  std::vector<float> scales(16 * 2);
  numerics::quantize(DType::bf16, a.data.data(), 16, kK, kK, DType::e4m3fn, {1, 128}, {}, codes, scales);
  EXPECT_EQ(quantized.codes, codes);
  EXPECT_EQ(quantized.scales, scales);
}

}  // namespace
