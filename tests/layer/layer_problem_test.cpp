// SPDX-License-Identifier: Apache-2.0
// A layer's problem: what its settings, its weights and the caller's choices make of it.
#include "host/layer/layer_problem.h"

#include <gtest/gtest.h>

#include <cstring>

#include "host/layer/selection.h"
#include "tests/cli/scratch.h"

namespace {

using namespace ironcl;
using namespace ironcl::cli_test;
using checkpoint::ActivationScheme;
using numerics::DType;

/// A layer of 256 x 256 in 128 x 128 blocks.
class LayerProblem : public ::testing::Test {
 protected:
  LayerProblem() {
    write_layer(scratch.path("layer.safetensors"), {1, 2, 3, 4});
    checkpoint.emplace(checkpoint::Checkpoint::open(scratch.path("layer.safetensors"), {{{128, 128}}}));
    layer = checkpoint->layer("weight");
  }
  const Scratch scratch;
  std::optional<checkpoint::Checkpoint> checkpoint;
  checkpoint::LinearLayer layer;
};

TEST_F(LayerProblem, IsThatOfADecoderWhereNothingElseIsSaid) {
  const report::Problem problem = layer::describe(layer, {.m = 5});
  EXPECT_EQ(report::to_line(problem), "--src=bf16 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 5x256:256x256");
}

TEST_F(LayerProblem, FollowsTheLayersOwnSettings) {
  layer.activation_grid = {1, 0};
  layer.activation_rounding = numerics::ScaleRounding::power_of_two;
  EXPECT_EQ(report::to_line(layer::describe(layer, {.m = 5, .x = DType::f16, .out = DType::f32})),
            "--src=f16 --dt=e4m3fn:e4m3fn:f32 --scale=1xall:128x128 --quantizer=1e-10:pow2 5x256:256x256");
  layer.activations = ActivationScheme::none;
  EXPECT_EQ(report::to_line(layer::describe(layer, {.m = 5})),
            "--dt=bf16:e4m3fn:bf16 --scale=none:128x128 5x256:256x256");
  EXPECT_EQ(layer::describe(layer, {.m = 5, .x_block = numerics::ScaleGrid{1, 64}}).a_scale.grid.group_cols, 64)
      << "the caller may quantise what the layer leaves as it is";
}

TEST_F(LayerProblem, AFixedScaleIsGivenToThePlan) {
  layer.activations = ActivationScheme::fixed;
  EXPECT_THROW(layer::describe(layer, {.m = 5}), checkpoint::Error) << "there is none";
  const float scale = 0.25f;
  checkpoint::Tensor tensor{"input_scale", DType::f32, "F32", {1}, std::as_bytes(std::span(&scale, 1))};
  layer.input_scale = tensor;
  EXPECT_EQ(report::to_line(layer::describe(layer, {.m = 5})),
            "--src=bf16 --dt=e4m3fn:e4m3fn:bf16 --scale=allxall:128x128 --quantizer=given 5x256:256x256");
}

TEST_F(LayerProblem, TheWeightsAreTheFilesBytes) {
  const layer::LayerWeights weights = layer::weights_of(layer);
  EXPECT_EQ(weights.codes.size(), 256u * 256u);
  EXPECT_EQ(weights.codes.data(), layer.weight.data.data()) << "mapped, not copied";
  std::vector<float> scales(4);
  ASSERT_EQ(weights.scales.size(), 16u);
  std::memcpy(scales.data(), weights.scales.data(), 16);
  EXPECT_EQ(scales, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_TRUE(weights.bias.empty());
}

TEST_F(LayerProblem, AnEmptyCheckpointHasNothingToSelect) {
  const std::string plain = scratch.path("plain.safetensors");
  save(plain, {OwnTensor("weight", {2, 2}, {1, 2, 3, 4})});
  try {
    layer::select_layers(checkpoint::Checkpoint::open(plain), "*");
    FAIL() << "it has no quantised layer";
  } catch (const checkpoint::Error& error) {
    EXPECT_EQ(error.kind(), checkpoint::ErrorKind::not_found);
    EXPECT_NE(error.message().find("no quantised linear layer"), std::string::npos);
  }
}

}  // namespace
