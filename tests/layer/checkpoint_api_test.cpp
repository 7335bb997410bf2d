// SPDX-License-Identifier: Apache-2.0
// The checkpoint reader of the installed library, through C and C++: problems and weights that a device multiplies
// rightly, from bf16 values, static scales and biases too.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <ironcl/checkpoint.hpp>
#include <optional>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "host/layer/c_checkpoint.h"
#include "host/layer/synthetic.h"
#include "tests/c_api.h"
#include "tests/cli/scratch.h"
#include "tests/errors.h"
#include "tests/layer/devices.h"

namespace {

using namespace ironcl;
using namespace ironcl::cli_test;
using numerics::DType;

constexpr std::int64_t kM = 3;

/// Runs a layer on bf16 values as an engine does; the result in f32, as the device gave it.
std::vector<float> run(const Layer& layer, const std::vector<std::uint16_t>& x) {
  const Registry registry = toys();
  const Device device = registry.device("toy:0");
  const GemmDesc desc = layer.problem({.m = kM, .d = IRONCL_F32});
  const Gemm gemm(device, desc);
  const Weights weights = layer.prepare(device, &gemm);
  Queue queue(device);
  const auto values = bytes_of(x);
  const Buffer a(device, values.size()), d(device, static_cast<std::uint64_t>(kM * layer.n()) * sizeof(float));
  queue.write(a, values);
  GemmArgs args{.m = kM, .weights = weights, .a = a, .d = d};
  Buffer scale, bias;
  if (layer.is_static()) {
    scale = Buffer(device, sizeof(float));
    queue.write(scale, std::span(&layer.info().input_scale, 1));
    args.a_scale = scale;
  }
  if (!layer.bias().empty()) {
    bias = Buffer(device, layer.bias().size());
    queue.write(bias, layer.bias());
    args.bias = bias;
  }
  queue.run(gemm, args);
  std::vector<float> result(static_cast<std::size_t>(kM * layer.n()));
  queue.read(d, std::span(result)).wait();
  return result;
}

/// Three layers: dynamic, static with a bias, broken.
class CheckpointApi : public ::testing::Test {
 protected:
  CheckpointApi() {
    OwnTensor bias("static.bias", DType::bf16, {2});
    numerics::encode(DType::bf16, std::vector<float>{100, -100}, bias.bytes.data());
    save(scratch.path("model.safetensors"),
         {OwnTensor("dynamic.weight", kE4m3, {128, 256}, 0x38), OwnTensor("dynamic.weight_scale_inv", {1, 2}, {1, 2}),
          OwnTensor("static.weight", kE4m3, {2, 256}, 0x40), OwnTensor("static.weight_scale", {1}, {0.5f}),
          OwnTensor("static.input_scale", {1}, {0.25f}), bias, OwnTensor("broken.weight", kE4m3, {64, 64}, 0x38)},
         {});
    checkpoint.emplace(scratch.path("model.safetensors"));
  }
  const Scratch scratch;
  std::optional<Checkpoint> checkpoint;
};

TEST_F(CheckpointApi, ListsLayersAndWhatIsWrongWithThem) {
  const std::vector<Layer> layers = checkpoint->layers();
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].name(), "broken");
  EXPECT_FALSE(layers[0].usable());
  EXPECT_NE(layers[0].problem_text().find("scale"), std::string::npos) << layers[0].problem_text();
  EXPECT_THROW(layers[0].problem({.m = 1}), Error);
  const Layer dynamic = checkpoint->layer("dynamic");
  EXPECT_TRUE(dynamic.usable()) << dynamic.problem_text();
  EXPECT_EQ(dynamic.info().activations, std::uint32_t{IRONCL_ACTIVATIONS_DYNAMIC});
  EXPECT_EQ(dynamic.n(), 128);
  EXPECT_EQ(dynamic.k(), 256);
  EXPECT_TRUE(dynamic.bias().empty());
  const Layer fixed = checkpoint->layer("static");
  EXPECT_TRUE(fixed.is_static());
  EXPECT_EQ(fixed.info().input_scale, 0.25f);
  EXPECT_EQ(fixed.info().bias_dtype, std::uint32_t{IRONCL_BF16});
  EXPECT_EQ(fixed.bias().size(), 4u);
}

TEST_F(CheckpointApi, ADynamicLayersNumbersHaveItsScales) {
  const Layer layer = checkpoint->layer("dynamic");
  const std::vector<std::uint16_t> x(static_cast<std::size_t>(kM * layer.k()), 0x43e0);  // 448: the scale is 1
  for (const float value : run(layer, x)) EXPECT_EQ(value, 448 * (128 * 1 + 128 * 2)) << "exact";
}

TEST_F(CheckpointApi, AStaticLayersNumbersHaveItsScaleAndBias) {
  const Layer layer = checkpoint->layer("static");
  const std::vector<std::uint16_t> x(static_cast<std::size_t>(kM * layer.k()), 0x3f80);
  const std::vector<float> y = run(layer, x);
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], 256 * 2 * 0.5f + (i % 2 == 0 ? 100 : -100)) << "codes of 4 under 0.25, weights of 2 under 0.5";
}

TEST_F(CheckpointApi, AClippingSchemeSaysWhere) {
  EXPECT_EQ(checkpoint->layer("dynamic").info().activation_limit, 0);
  save(scratch.path("model.safetensors"),
       {OwnTensor("a.weight", kE4m3, {2, 256}, 0x38), OwnTensor("a.weight_scale", {2, 1}, {1, 2})}, {});
  scratch.file("config.json",
               R"({"quantization_config":{"quant_method":"fbgemm_fp8","activation_scale_ub":1200.0}})");
  const Checkpoint clipping(std::filesystem::path(scratch.path("model.safetensors")).parent_path().string());
  EXPECT_EQ(clipping.layer("a").info().activation_limit, 1200.0f);
}

TEST_F(CheckpointApi, APublishedLayoutsNumbersAreWithinTheBound) {
  for (const char* name : {"tiny-qwen3-fp8", "tiny-compressed-tensors", "tiny-deepseek-fp8"}) {
    const Checkpoint folder(data_file(name));
    ASSERT_GT(folder.size(), 0u) << name;
    for (const Layer& layer : folder.layers()) {
      ASSERT_TRUE(layer.usable()) << layer.problem_text();
      const std::vector<std::uint16_t> x = layer::heavy_tailed_activations(kM, layer.k(), 5);
      const std::vector<float> y = run(layer, x);
      // The oracle of the plain definition: dynamic activations quantised by the host.
      auto w = detail::sized<ironcl_weights_desc>();
      detail::check(ironcl_layer_weights, layer.handle(), &w);
      const ironcl_layer_info& info = layer.info();
      const numerics::ScaleGrid a_grid{info.activation_scale.group_rows, info.activation_scale.group_cols},
          b_grid{w.scale.group_rows, w.scale.group_cols};
      std::vector<std::uint8_t> codes(x.size());
      std::vector<float> scales(static_cast<std::size_t>(a_grid.scale_rows(kM) * a_grid.scale_cols(w.k)));
      numerics::Quantizer quantizer;
      quantizer.rounding = static_cast<numerics::ScaleRounding>(layer.problem({.m = kM}).a_quantizer.scale_rounding);
      numerics::quantize(DType::bf16, x.data(), kM, w.k, w.k, DType::e4m3fn, a_grid, quantizer, codes, scales);
      const numerics::Operand a{DType::e4m3fn, codes.data(),          kM, w.k, w.k, DType::f32, scales.data(),
                                a_grid,        a_grid.scale_cols(w.k)};
      const numerics::Operand b{
          static_cast<DType>(w.dtype), w.data, w.n, w.k, w.k, static_cast<DType>(w.scale.dtype), w.scales, b_grid,
          b_grid.scale_cols(w.k)};
      const numerics::OracleResult oracle = numerics::oracle(a, b, static_cast<DType>(info.bias_dtype), info.bias);
      const std::vector<double> got(y.begin(), y.end());
      const numerics::Comparison comparison = compare(got, bounded(oracle, {.out = DType::f32, .k = w.k}));
      EXPECT_TRUE(comparison.pass) << name << " " << layer.name() << " " << comparison.max_error_over_bound;
    }
  }
}

TEST_F(CheckpointApi, LayersOutliveTheObjectThatOpenedThem) {
  std::optional<Layer> kept;
  {
    const Checkpoint closed(scratch.path("model.safetensors"));
    kept = closed.layer("dynamic");
  }
  EXPECT_EQ(kept->name(), "dynamic");
  EXPECT_EQ(kept->problem({.m = 7}).m, 7);
}

ironcl_status status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return IRONCL_OK;
}

TEST_F(CheckpointApi, ALayerThatWasMovedFromKeepsItsCheckpoint) {
  // What is freed has other bytes then, where the allocator or a sanitizer sees to it (MALLOC_PERTURB_).
  Layer layer = Checkpoint(scratch.path("model.safetensors")).layer("dynamic");
  { const Layer other = std::move(layer); }
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what it is then is the question.
  EXPECT_EQ(layer.problem({.m = 1}).n, 128);
}

TEST_F(CheckpointApi, SaysWhatIsWrong) {
  EXPECT_EQ(status_of([] { Checkpoint("/nowhere"); }), std::uint32_t{IRONCL_UNAVAILABLE});
  expect_error<Error>(IRONCL_UNAVAILABLE, "did you mean 'dynamic'", [&] { checkpoint->layer("dynamik"); });
  const Layer layer = checkpoint->layer("dynamic");
  EXPECT_EQ(status_of([&] { layer.problem({.m = -1}); }), std::uint32_t{IRONCL_INVALID_ARGUMENT});
  EXPECT_EQ(status_of([&] { layer.problem({.m = 1, .x = IRONCL_F8_E4M3FN}); }),
            std::uint32_t{IRONCL_INVALID_ARGUMENT});
  EXPECT_EQ(status_of([&] { layer.problem({.m = 1, .d = 99}); }), std::uint32_t{IRONCL_INVALID_ARGUMENT});
}

TEST_F(CheckpointApi, RefusesNullsAndStructsWithoutASize) {
  ironcl_error error = detail::make_error();
  ironcl_checkpoint none = nullptr;
  EXPECT_EQ(ironcl_checkpoint_open(nullptr, nullptr, &none, &error), std::uint32_t{IRONCL_INVALID_ARGUMENT});
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(ironcl_checkpoint_layer_count(nullptr), 0u);
  ironcl_checkpoint_close(nullptr);
  const Layer layer = checkpoint->layer("dynamic");
  ironcl_layer_info info{};
  EXPECT_EQ(ironcl_layer_get_info(layer.handle(), &info, &error), std::uint32_t{IRONCL_INVALID_ARGUMENT});
  EXPECT_NE(std::string(error.message).find("struct_size"), std::string::npos) << error.message;
  EXPECT_EQ(ironcl_layer_get_info(layer.handle(), nullptr, nullptr), std::uint32_t{IRONCL_INVALID_ARGUMENT});
  ironcl_layer found = nullptr;
  auto options = sized<ironcl_checkpoint_options>();
  options.flags = 8;
  EXPECT_EQ(ironcl_checkpoint_open("x", &options, &none, &error), std::uint32_t{IRONCL_UNIMPLEMENTED});
  EXPECT_EQ(found, nullptr);
}

/// A model whose layers lie transposed would else be twice in memory.
TEST_F(CheckpointApi, CopiesGoWithTheLastThatUsesThem) {
  ironcl_checkpoint checkpoint = nullptr;
  ASSERT_EQ(ironcl_checkpoint_open(TEST_DATA "/experts/qwen3-vl-transposed", nullptr, &checkpoint, nullptr),
            IRONCL_OK);
  ironcl_layer layer = nullptr;
  for (std::uint32_t i = 0; i < ironcl_checkpoint_layer_count(checkpoint); ++i) {
    ASSERT_EQ(ironcl_checkpoint_layer(checkpoint, i, &layer, nullptr), IRONCL_OK);
    if (layer->source->transposed) break;
  }
  ASSERT_TRUE(layer->source->transposed);
  auto first = ironcl::detail::sized<ironcl_weights_desc>(), second = first;
  ASSERT_EQ(ironcl_layer_weights(layer, &first, nullptr), IRONCL_OK);
  ASSERT_EQ(ironcl_layer_weights(layer, &second, nullptr), IRONCL_OK);
  EXPECT_EQ(first.data, second.data);
  const auto* data = static_cast<const std::byte*>(first.data);
  const std::vector<std::byte> codes(data, data + first.data_bytes);
  ironcl_layer_release_weights(layer);
  EXPECT_TRUE(std::equal(codes.begin(), codes.end(), data)) << "somebody uses them";
  ironcl_layer_release_weights(layer);
  EXPECT_TRUE(layer->copies.turned.empty() && layer->copies.scales.empty());
  ironcl_layer_release_weights(layer);  // Once too often: nothing happens.
  ironcl_layer_release_weights(nullptr);
  ASSERT_EQ(ironcl_layer_weights(layer, &second, nullptr), IRONCL_OK);
  EXPECT_TRUE(std::equal(codes.begin(), codes.end(), static_cast<const std::byte*>(second.data)));
  ironcl_checkpoint_close(checkpoint);
}

}  // namespace
