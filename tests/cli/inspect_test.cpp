// SPDX-License-Identifier: Apache-2.0
// ironcl inspect: every layer, and what is not one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;

TEST(Inspect, ListsLayersAndWhatIsNotQuantised) {
  prints(ironcl_command({"inspect", data_file("tiny-qwen3-fp8")}, Plugins::none), 0,
         {"quant_method fp8", "self_attn.q_proj", "128x128", "dynamic 1x128", "model.embed_tokens.weight"});
}

TEST(Inspect, JsonHasShapesBlocksAndBytes) {
  const json::value report =
      ironcl_command({"inspect", data_file("block256-m33-n512-k1024.safetensors"), "--json"}, Plugins::none).json();
  ASSERT_EQ(report.at("layers").as_array().size(), 1u);
  const json::value& layer = report.at("layers").at(0);
  expect_members(layer, {{"name", "weight"},
                         {"n", 512},
                         {"k", 1024},
                         {"dtype", "e4m3fn"},
                         {"block", {256, 256}},
                         {"block_source", "metadata"},
                         {"scale_dtype", "f32"},
                         {"activation_group", {1, 256}}});
  EXPECT_EQ(layer.at("bytes").to_number<std::int64_t>(), 512 * 1024 + 2 * 4 * 4);
  EXPECT_TRUE(layer.at("problem").is_null());
  EXPECT_EQ(report.at("unquantized").as_array().size(), 4u);
}

TEST(Inspect, ListsTheOthersWhereOneLayerIsBroken) {
  const Scratch scratch;
  const std::string path = scratch.path("two.safetensors");
  save(path,
       {OwnTensor("good.weight", kE4m3, {128, 128}, 0x38), OwnTensor("good.weight_scale_inv", {1, 1}, {1}),
        OwnTensor("bad.weight", kE4m3, {128, 128}, 0x38), OwnTensor("bad.weight_scale_inv", {1, 1}, {std::nanf("")})},
       {{"weight_block", "128"}});
  const Outcome outcome = prints(ironcl_command({"inspect", path}, Plugins::none), 3, {"good"});
  EXPECT_TRUE(contains(outcome.err, "bad.weight_scale_inv"));
  const json::value report = ironcl_command({"inspect", path, "--json"}, Plugins::none).json();
  EXPECT_EQ(report.at("layers").at(0).at("problem").at("kind").as_string(), "value");
}

TEST(Inspect, PerTensorIsNoBlockAndOneVocabularySaysSo) {
  const std::string folder = data_file("interop/tf-static");
  prints(ironcl_command({"inspect", folder}, Plugins::none), 0,
         {"per tensor", "static per tensor", "block: elements of a weight that share a scale"});
  const json::value layer = ironcl_command({"inspect", folder, "--json"}, Plugins::none).json().at("layers").at(0);
  expect_members(layer, {{"block", nullptr},
                         {"scales", "per tensor"},
                         {"activation_scales", "per tensor"},
                         {"format", "FP8 e4m3"},
                         {"input_scale", "model.layers.0.mlp.down_proj.activation_scale"}});
}

TEST(Inspect, UnusableLayersShowOnlyWhatIsKnown) {
  const Scratch scratch;
  const std::string path = scratch.path("lost.safetensors");
  save(path, {OwnTensor("a.weight_scale", {2, 2}, {1, 1, 1, 1})});
  prints(ironcl_command({"inspect", path}, Plugins::none), 3, {"0 quantised layers and 1 that cannot be used"});
  const json::value layer = ironcl_command({"inspect", path, "--json"}, Plugins::none).json().at("layers").at(0);
  for (const char* key :
       {"n", "k", "dtype", "format", "block", "scales", "activations", "activation_group", "file", "input_scale"})
    EXPECT_TRUE(layer.at(key).is_null()) << key << json::serialize(layer.at(key));
}

TEST(Inspect, SummaryFoldsLayersAndNamesTheirWriter) {
  const Outcome outcome = prints(
      ironcl_command({"inspect", data_file("interop/tf-experts"), "--summary"}, Plugins::none, {{"COLUMNS", "0"}}), 0,
      {"model.layers.*.mlp.experts.*.up_proj"});
  EXPECT_FALSE(contains(outcome.out, "experts.1."));
  EXPECT_TRUE(contains(outcome.out, "weights, FP8 e4m3"));
  EXPECT_TRUE(contains(outcome.out, "scales of weights"));
  const Outcome torchao = ironcl_command({"inspect", data_file("interop/ao-fp8-row"), "--summary"}, Plugins::none);
  EXPECT_TRUE(contains(torchao.out, "written by torchao"));
  const Outcome mx = ironcl_command({"inspect", data_file("interop/ct-mxfp8"), "--summary"}, Plugins::none);
  EXPECT_TRUE(contains(mx.out, "MXFP8"));
  EXPECT_TRUE(contains(mx.out, "written by compressed-tensors 0.19.0"));
}

TEST(Inspect, ManyLayersWithOneComplaintAreOneLine) {
  prints(ironcl_command({"inspect", data_file("interop/mo-int8-smooth")}, Plugins::none), 3, {});
  const Scratch scratch;
  std::vector<OwnTensor> tensors;
  for (int i = 0; i < 40; ++i)
    tensors.push_back(OwnTensor("l." + std::to_string(i) + ".weight", kE4m3, {32, 32}, 0x38));
  save(scratch.path("model-00002-of-00003.safetensors"), tensors);
  const Outcome many =
      prints(ironcl_command({"inspect", scratch.path("model-00002-of-00003.safetensors")}, Plugins::none), 3, {});
  EXPECT_EQ(std::count(many.err.begin(), many.err.end(), '\n'), 1) << many.err;
  EXPECT_TRUE(contains(many.err, "40 layers like l.*"));
}

TEST(Inspect, BlockDecidesWhereTheShapesDoNot) {
  const Scratch scratch;
  const std::string path = scratch.path("small.safetensors");
  save(path, {OwnTensor("weight", kE4m3, {96, 96}, 0x38),
              OwnTensor("weight_scale_inv", {4, 4}, std::vector<float>(16, 1))});
  complains(ironcl_command({"inspect", path}, Plugins::none), 3, {"--block"});
  prints(ironcl_command({"inspect", path, "--block", "24"}, Plugins::none), 0, {"24x24"});
}

TEST(Inspect, RanksOfAFileWithoutLayersHoldNothing) {
  prints(ironcl_command({"inspect", data_file("casts.safetensors"), "--ranks", "2"}, Plugins::none), 0,
         {"weights and scales", "1                 0 B"});
}

TEST(Inspect, LayerOfExpertsIsOneLine) {
  const Outcome outcome = prints(ironcl_command({"inspect", data_file("experts/deepseek-v3")}, Plugins::none), 0,
                                 {"sigmoid + bias, 2 of 4 groups, normalised, x2.5"});
  EXPECT_FALSE(contains(outcome.out, ".experts.3.")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "model.layers.0.mlp.shared_experts.up_proj"));
  const json::value report =
      ironcl_command({"inspect", data_file("experts/deepseek-v3"), "--json"}, Plugins::none).json();
  const json::value& layer = report.at("experts").at(0);
  expect_members(layer,
                 {{"name", "model.layers.0.mlp"}, {"experts", 8}, {"top_k", 2}, {"hidden", 160}, {"width", 96}});
  EXPECT_EQ(layer.at("matrices").as_array().size(), 24u);
  EXPECT_EQ(report.at("layers").as_array().size(), 27u);
  prints(ironcl_command({"inspect", data_file("experts/mixtral"), "--summary"}, Plugins::none), 0,
         {"layer of experts"});
}

TEST(Inspect, RoutingThatNobodySaysIsNull) {
  const Scratch scratch;
  const std::string path = scratch.path("experts.safetensors");
  std::vector<OwnTensor> tensors;
  for (const std::string name : {"gate_proj", "up_proj", "down_proj"}) {
    tensors.push_back(OwnTensor("m.experts.0." + name + ".weight", kE4m3, {128, 128}, 0x38));
    tensors.push_back(OwnTensor("m.experts.0." + name + ".weight_scale_inv", {1, 1}, {1}));
  }
  save(path, tensors);
  const json::value layer = ironcl_command({"inspect", path, "--json"}, Plugins::none).json().at("experts").at(0);
  for (const char* key :
       {"model_type", "experts", "top_k", "score", "normalize", "scale", "expert_groups", "top_groups"})
    EXPECT_TRUE(layer.at(key).is_null()) << key << json::serialize(layer.at(key));
}

TEST(Inspect, RoutingThatIsNotKnownSpoilsNoMatrix) {
  prints(ironcl_command({"inspect", data_file("interop/tf-experts-static")}, Plugins::none), 0,
         {"static scale", "experts.2.up_proj"});
}

TEST(Inspect, ExpertThatIsNotThereIsNamed) {
  const Scratch scratch;
  std::vector<OwnTensor> tensors = {OwnTensor("m.gate.weight", {2, 128}, std::vector<float>(256, 1))};
  for (const std::string name : {"0.gate_proj", "0.up_proj", "0.down_proj", "1.gate_proj", "1.down_proj"}) {
    tensors.push_back(OwnTensor("m.experts." + name + ".weight", kE4m3, {128, 128}, 0x38));
    tensors.push_back(OwnTensor("m.experts." + name + ".weight_scale_inv", {1, 1}, {1}));
  }
  save(scratch.path("model.safetensors"), tensors);
  std::ofstream(scratch.path("config.json"))
      << R"({"model_type":"qwen3_moe","num_experts":2,"num_experts_per_tok":1,)"
         R"("quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})";
  const Outcome outcome =
      prints(ironcl_command({"inspect", scratch.path("")}, Plugins::none), 3, {"m.experts.0.up_proj"});
  EXPECT_TRUE(contains(outcome.err, "m.experts.1.up_proj.weight")) << outcome.err;
}

/// The weights were left out without a word, and the status was that of success.
TEST(Inspect, AMethodWithoutALayerFailsNamingMethodAndTensor) {
  for (const char* command : {"inspect", "compare"})
    for (const auto& [folder, tensor, said] :
         {std::tuple{"vptq", "down_proj.indices", "quant_method 'vptq'"},
          {"mlx", "down_proj.weight", "is the form of MLX"},
          {"nvfp4-file/model.safetensors", "down_proj.weight", "no config says in which order"}}) {
      complains(ironcl_command({command, data_file(std::string("foreign/") + folder)}, Plugins::none), 3,
                {tensor, said});
    }
}

}  // namespace
