// SPDX-License-Identifier: Apache-2.0
// Shapes out of a config.json: rows of layers that the model has, and of no others.
#include "host/tuning/shapes.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cli/scratch.h"
#include "tests/errors.h"

namespace ironcl::tuning {
namespace {

std::vector<std::string> names_of(const std::string& more) {
  const cli_test::Scratch scratch;
  const std::string file =
      scratch.file("config.json", R"({"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,)"
                                  R"("head_dim":128,"intermediate_size":6144)" +
                                      more + "}");
  std::vector<std::string> names;
  for (const LayerShape& shape : layers_of(read_model_config(file), 1)) names.push_back(shape.layer);
  return names;
}

const std::vector<std::string> kDense = {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"};
const std::vector<std::string> kSparse = {"qkv_proj", "o_proj", "expert_gate_up_proj", "expert_down_proj"};
const std::vector<std::string> kBoth = {
    "qkv_proj", "o_proj", "gate_up_proj", "down_proj", "expert_gate_up_proj", "expert_down_proj"};

TEST(Shapes, AModelWithoutExpertsHasDenseLayers) { EXPECT_EQ(names_of(""), kDense); }

TEST(Shapes, AnAllSparseModelHasNoDenseRows) {
  // Qwen3-30B-A3B: intermediate_size is there and belongs to no layer.
  EXPECT_EQ(
      names_of(R"(,"num_experts":128,"moe_intermediate_size":768,"decoder_sparse_step":1,"mlp_only_layers":[])"),
      kSparse);
  // Mixtral: the experts' size is called intermediate_size.
  EXPECT_EQ(names_of(R"(,"num_local_experts":8)"), kSparse);
}

TEST(Shapes, AModelOfBothHasBoth) {
  EXPECT_EQ(names_of(R"(,"n_routed_experts":256,"moe_intermediate_size":768,"first_k_dense_replace":3)"), kBoth);
  EXPECT_EQ(names_of(R"(,"num_experts":16,"moe_intermediate_size":768,"mlp_only_layers":[0])"), kBoth);
  EXPECT_EQ(names_of(R"(,"num_experts":16,"moe_intermediate_size":768,"decoder_sparse_step":2)"), kBoth);
}

/// Sizes from outside are multiplied: they are bounded before.
TEST(Shapes, SizesThatNoLayerHasAreRefused) {
  const auto layers = [](const std::string& json) {
    const cli_test::Scratch scratch;
    return layers_of(read_model_config(scratch.file("config.json", json)), 1);
  };
  const auto refused = [&](const std::string& json, const std::string& part) {
    const std::string error = error_of([&] { layers(json); });
    EXPECT_NE(error.find(part), std::string::npos) << json << ": " << error;
  };
  const std::string heads = R"("num_attention_heads":32,)";
  refused("{" + heads + R"("hidden_size":4611686018427387904})", "'hidden_size' is 4611686018427387904");
  refused("{" + heads + R"("hidden_size":64,"head_dim":-1})", "'head_dim' is -1");
  refused("{" + heads + R"("hidden_size":64,"head_dim":1073741824})", "qkv_proj would be [103079215104, 64]");
  refused("{" + heads + R"("hidden_size":64,"kv_lora_rank":512})", "expected sizes from 1 to 2147483647");
  refused("{" + heads + R"("hidden_size":64,"hidden_size":64})", "twice");
}

TEST(Shapes, OfAMultiModalModelAreThoseOfItsText) {
  const cli_test::Scratch scratch;
  const std::string file =
      scratch.file("config.json",
                   R"({"time_step_limit":[0.0,Infinity],"text_config":{"hidden_size":256,"num_attention_heads":4}})");
  const std::vector<LayerShape> layers = layers_of(read_model_config(file), 1);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[1].n, 256);
}

TEST(ModelsOfExperts, AreSplitByTheirWidth) {
  EXPECT_EQ(experts_of("qwen3-30b-a3b", 8, 0).experts.width, 96);
  EXPECT_EQ(experts_of("gpt-oss-120b", 8, 16).experts.width, 360);
  EXPECT_EQ(experts_of("gpt-oss-120b", 8, 16).routing.experts, 16);
  EXPECT_THROW(experts_of("gpt-oss-120b", 7, 0), std::invalid_argument);
  EXPECT_THROW(experts_of("qwen3-next-80b-a3b", 1, 9), std::invalid_argument);  // Ten of nine.
}

}  // namespace
}  // namespace ironcl::tuning
