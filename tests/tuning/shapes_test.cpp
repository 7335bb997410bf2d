// SPDX-License-Identifier: Apache-2.0
// Shapes out of a config.json: rows of layers that the model has, and of no others.
#include "host/tuning/shapes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/scratch.h"

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

}  // namespace
}  // namespace ironcl::tuning
