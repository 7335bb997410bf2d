// SPDX-License-Identifier: Apache-2.0
// quantization_config of the families that publish fp8 checkpoints.
#include "host/checkpoint/quantization_config.h"

#include <algorithm>

#include "host/checkpoint/names.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

QuantizationConfig read(const std::string& json) {
  const TempDir dir;
  return read_quantization_config(write_file(dir / "config.json", json));
}

QuantizationConfig read_fp8(const std::string& members) {
  return read(R"({"quantization_config":{"quant_method":"fp8")" + members + "}}");
}

QuantizationConfig read_groups(const std::string& groups, const std::string& more = "") {
  return read(R"({"quantization_config":{"quant_method":"compressed-tensors","config_groups":{)" + groups + "}" +
              more + "}}");
}

/// A malformed config is an error about the file that names the member.
void expect_refused(const std::string& json, ErrorKind kind, const std::vector<std::string>& parts) {
  const TempDir dir;
  const auto file = write_file(dir / "config.json", json);
  expect_throw([&] { read_quantization_config(file); }, kind, file, "", parts);
}

TEST(Config, WithoutQuantizationConfigHasNoMethod) {
  EXPECT_EQ(read(R"({"model_type":"llama"})").method, "");
  EXPECT_EQ(read(R"({"quantization_config":null})").method, "");
}

TEST(Config, OfAMultiModalModelMayBeInItsTextConfig) {
  const std::string fp8 = R"("quantization_config":{"quant_method":"fp8","activation_scheme":"dynamic"})";
  EXPECT_EQ(read(R"({"text_config":{)" + fp8 + "}}").method, "fp8");
  EXPECT_EQ(read(R"({"text_config":{"compression_config":{"quant_method":"modelopt"}}})").method, "modelopt");
  EXPECT_EQ(read(R"({"quantization_config":{"quant_method":"quark"},"text_config":{)" + fp8 + "}}").method, "quark")
      << "the model's own comes first";
  EXPECT_EQ(read(R"({"text_config":"none"})").method, "");
  expect_refused(R"({"text_config":{"quantization_config":5}})", ErrorKind::config,
                 {"config.text_config.quantization_config"});
}

TEST(Config, ReadsDeepSeeksForm) {
  const QuantizationConfig config =
      read_fp8(R"(,"fmt":"e4m3","activation_scheme":"dynamic","weight_block_size":[128,64],"scale_fmt":"ue8m0",)"
               R"("modules_to_not_convert":["lm_head","mlp.gate"])");
  EXPECT_EQ(config.method, "fp8");
  const QuantizationGroup* group = config.group_of("model.layers.0.self_attn.q_a_proj");
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->weight_grid, (ScaleGrid{128, 64}));
  EXPECT_EQ(group->activation_grid, (ScaleGrid{1, 64})) << "token groups are as wide as the weight's blocks along K";
  EXPECT_EQ(group->activations, ActivationScheme::dynamic);
  EXPECT_EQ(group->activation_rounding, ScaleRounding::power_of_two);
  EXPECT_EQ(config.ignored_member, "modules_to_not_convert");
  EXPECT_NE(config.ignored.find("model.layers.7.mlp.gate"), nullptr);
}

TEST(Config, ReadsQwen3sFormWithExactScales) {
  const QuantizationConfig config =
      read_fp8(R"(,"activation_scheme":"dynamic","weight_block_size":[128,128],"ignored_layers":["lm_head"])");
  EXPECT_EQ(config.groups.at(0).activation_rounding, ScaleRounding::exact);
  EXPECT_EQ(config.ignored_member, "ignored_layers");
}

TEST(Config, LeavesTheBlockToTheShapesWhereFp8HasNone) {
  const QuantizationConfig config = read_fp8(R"(,"activation_scheme":"static","weight_block_size":null)");
  EXPECT_FALSE(config.groups.at(0).weight_grid.has_value());
  EXPECT_EQ(config.groups.at(0).activations, ActivationScheme::fixed);
}

TEST(Config, ReadsCompressedTensorsBlocks) {
  const QuantizationConfig config = read_groups(
      R"("g":{"targets":["Linear"],"weights":{"strategy":"block","block_structure":[128,256],"num_bits":8},)"
      R"("input_activations":{"strategy":"group","group_size":128,"dynamic":true}})",
      R"(,"ignore":["lm_head","re:.*router.*"])");
  const QuantizationGroup* group = config.group_of("model.layers.0.mlp.up_proj");
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->weight_grid, (ScaleGrid{128, 256}));
  EXPECT_EQ(group->activation_grid, (ScaleGrid{1, 128}));
  EXPECT_EQ(group->activations, ActivationScheme::dynamic);
  EXPECT_EQ(config.ignored_member, "ignore");
  EXPECT_NE(config.ignored.find("model.layers.0.router"), nullptr);
}

TEST(Config, ReadsTheOlderTextOfABlockStructure) {
  const QuantizationConfig config =
      read_groups(R"("g":{"targets":["Linear"],"weights":{"strategy":"block","block_structure":"64x128"}})");
  EXPECT_EQ(config.groups.at(0).weight_grid, (ScaleGrid{64, 128}));
  EXPECT_EQ(config.groups.at(0).activations, ActivationScheme::none) << "no input_activations means weight-only";
}

TEST(Config, ReadsChannelTokenAndTensorStrategies) {
  const QuantizationConfig config = read_groups(
      R"("a":{"targets":["Linear"],"weights":{"strategy":"channel"},"input_activations":{"strategy":"token","dynamic":true}},)"
      R"("b":{"targets":["re:.*down_proj"],"weights":{"strategy":"tensor"},"input_activations":{"strategy":"tensor","dynamic":false}})");
  const QuantizationGroup* linear = config.group_of("x.up_proj");
  ASSERT_NE(linear, nullptr);
  EXPECT_EQ(linear->weight_grid, (ScaleGrid{1, 0}));
  EXPECT_EQ(linear->activation_grid, (ScaleGrid{1, 0}));
  const QuantizationGroup* down = config.group_of("x.down_proj");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->weight_grid, (ScaleGrid{0, 0})) << "a target by name comes before Linear";
  EXPECT_EQ(down->activations, ActivationScheme::fixed);
}

TEST(Config, ANameComesBeforeAnExpressionAndBothBeforeLinear) {
  const auto group = [](const std::string& name, const std::string& target, const std::string& strategy) {
    return "\"" + name + R"(":{"targets":[")" + target + R"("],"weights":{"num_bits":8,"strategy":")" + strategy +
           "\"}}";
  };
  const QuantizationConfig config =
      read_groups(group("a", "Linear", "tensor") + "," + group("b", "re:.*down_proj", "channel") + "," +
                  group("c", "model.0.down_proj", "tensor"));
  EXPECT_EQ(config.group_of("model.0.down_proj"), &config.groups[2]);
  EXPECT_EQ(config.group_of("model.1.down_proj"), &config.groups[1]);
  EXPECT_EQ(config.group_of("model.0.up_proj"), &config.groups[0]);
}

TEST(Config, MarksGroupsThatIronclDoesNotRead) {
  const QuantizationConfig config =
      read_groups(R"("a":{"targets":["re:a"],"weights":{"strategy":"attn_head","num_bits":8}},)"
                  R"("b":{"targets":["re:b"],"weights":{"strategy":"group","group_size":32,"num_bits":4}})");
  EXPECT_NE(config.group_of("a")->unsupported.find("strategy 'attn_head'"), std::string::npos);
  EXPECT_NE(config.group_of("b")->unsupported.find("4 bits"), std::string::npos);
}

TEST(Config, AnUnknownMethodHasNoGroups) {
  const QuantizationConfig config = read(R"({"quantization_config":{"quant_method":"modelopt","x":1}})");
  EXPECT_EQ(config.method, "modelopt");
  EXPECT_EQ(config.group_of("x"), nullptr);
}

TEST(Config, RefusesMembersOfTheWrongTypeOrRange) {
  constexpr auto kConfig = ErrorKind::config;
  const std::string fp8 = R"({"quantization_config":{"quant_method":"fp8",)";
  expect_refused(fp8 + R"("weight_block_size":[0,128]}})", kConfig,
                 {"config.quantization_config.weight_block_size", "size 0", "1 to 1073741824"});
  expect_refused(fp8 + R"("weight_block_size":[128]}})", kConfig,
                 {"weight_block_size", "[128]", "such as [128, 128]"});
  expect_refused(fp8 + R"("weight_block_size":["a",1]}})", kConfig, {"weight_block_size", "\"a\""});
  expect_refused(fp8 + R"("activation_scheme":"magic"}})", kConfig,
                 {"activation_scheme", "'magic'", "dynamic or static"});
  expect_refused(fp8 + R"("scale_fmt":"odd"}})", kConfig, {"scale_fmt", "'odd'", "ue8m0"});
  expect_refused(fp8 + R"("modules_to_not_convert":"lm_head"}})", kConfig,
                 {"modules_to_not_convert", "array of strings"});
  expect_refused(R"({"quantization_config":[]})", kConfig, {"config.quantization_config", "expected an object"});
  const std::string groups = R"({"quantization_config":{"quant_method":"compressed-tensors",)";
  expect_refused(groups + R"("ignore":["re:("]}})", kConfig, {"ignore", "malformed regular expression"});
  expect_refused(groups + R"("config_groups":{"g":{"weights":{"strategy":"group"}}}}})", kConfig,
                 {"config_groups.g.weights.group_size", "is missing"});
  expect_refused(groups + R"("config_groups":{"g":{"weights":{"strategy":"block"}}}}})", kConfig,
                 {"config_groups.g.weights.block_structure", "is missing"});
}

/// As the config.json of models with a state space has: "time_step_limit": [0.0, Infinity].
TEST(Config, NumbersThatPythonWritesAndJsonHasNotAreNobodysBusinessUntilTheyAreRead) {
  const std::string limits = R"("time_step_limit":[0.0,Infinity],"a\\":[-Infinity,NaN],"b \"NaN":"\"Infinity",)";
  const std::string fp8 = R"("quantization_config":{"quant_method":"fp8","weight_block_size":[64,64])";
  const QuantizationConfig config = read("{" + limits + fp8 + "}}");
  EXPECT_EQ(config.group_of("x")->weight_grid, (ScaleGrid{64, 64}));
  expect_refused(R"({"quantization_config":{"quant_method":"fbgemm_fp8","activation_scale_ub":Infinity}})",
                 ErrorKind::config, {"activation_scale_ub", "expected a number"});
  expect_refused("{" + limits + fp8 + "}", ErrorKind::format,
                 {fmt::format("not valid JSON at byte {}", 1 + limits.size() + fp8.size() + 1)});
  expect_refused(R"({"a":NaNs})", ErrorKind::format, {"not valid JSON"});
}

TEST(Config, ActivationsOfAnotherTypeThanTheWeightsAreKnown) {
  const QuantizationConfig config =
      read_groups(R"("a":{"targets":["re:a"],"weights":{"strategy":"channel","num_bits":8,"type":"float"},)"
                  R"("input_activations":{"strategy":"token","num_bits":8,"type":"int","dynamic":true}},)"
                  R"("b":{"targets":["re:b"],"weights":{"strategy":"channel","num_bits":8,"type":"float"},)"
                  R"("input_activations":{"strategy":"token","num_bits":8,"type":"float","dynamic":true}})");
  EXPECT_EQ(config.group_of("a")->activation_dtype, DType::i8);
  EXPECT_EQ(config.group_of("b")->activation_dtype, DType::e4m3fn);
}

TEST(Config, RefusesWhatIsNoJson) {
  expect_refused("{", ErrorKind::format, {"not valid JSON"});
  expect_refused("[]", ErrorKind::config, {"not a JSON object"});
  expect_throw([] { read_quantization_config("/no/such/config.json"); }, ErrorKind::io, "/no/such/config.json", "",
               {"cannot be read"});
}

TEST(Config, ParsesBlocksAsTextInThreeForms) {
  EXPECT_EQ(parse_block("128"), (ScaleGrid{128, 128}));
  EXPECT_EQ(parse_block("1x128"), (ScaleGrid{1, 128}));
  EXPECT_EQ(parse_block("64,256"), (ScaleGrid{64, 256}));
  for (const std::string_view text : {"", "x", "128x", "x128", "0", "-1", "1x0", "128x128x1", "1 x 2", "99999999999"})
    EXPECT_FALSE(parse_block(text).has_value()) << text;
}

// --- Names of modules, and the patterns of configs.

TEST(Names, SortDigitsAsNumbers) {
  std::vector<std::string> names = {"layers.10.a", "layers.2.b", "layers.2.a", "layers.02.a", "embed", "layers"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(names,
            (std::vector<std::string>{"embed", "layers", "layers.02.a", "layers.2.a", "layers.2.b", "layers.10.a"}));
  EXPECT_FALSE(natural_less("a1", "a1"));
}

TEST(Names, ListsAreCutWithACount) {
  EXPECT_EQ(list_names({}), "none");
  EXPECT_EQ(list_names({"a", "b", "c"}, 2), "a, b and 1 more");
  EXPECT_EQ(list_names({"a", "b"}, 2), "a, b");
}

TEST(ModuleNames, MatchWholePartsBetweenDots) {
  const ModuleNames names({"lm_head", "mlp.gate"});
  EXPECT_NE(names.find("lm_head"), nullptr);
  EXPECT_NE(names.find("model.layers.3.mlp.gate"), nullptr);
  EXPECT_EQ(names.find("model.layers.3.mlp.gate_proj"), nullptr);
  EXPECT_EQ(names.find("old_lm_head"), nullptr);
  EXPECT_EQ(*names.find("model.lm_head.0"), "lm_head");
}

TEST(ModuleNames, ExpressionsMatchFromTheStart) {
  const ModuleNames names({"re:.*self_attn.*", "re:visual"});
  EXPECT_NE(names.find("model.layers.0.self_attn.q_proj"), nullptr);
  EXPECT_NE(names.find("visual.blocks.0"), nullptr);
  EXPECT_EQ(names.find("model.visual"), nullptr);
  EXPECT_THROW(ModuleNames({"re:("}), std::runtime_error);
}

TEST(ModuleNames, LongNamesAndCostlyExpressionsEnd) {
  EXPECT_EQ(ModuleNames({"re:(a|b)*c"}).find(std::string(1'000'000, 'a')), nullptr);
  EXPECT_EQ(ModuleNames({"re:(a*)*(a*)*b"}).find(std::string(2000, 'a')), nullptr);
  // The longer the expression, the later Boost's own limit; and every name of a million may be as costly.
  std::string expression = "re:";
  for (int i = 0; i < 40; ++i) expression += "(a*,?)*";
  const ModuleNames names({expression + "b", "c"});
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(names.find(std::string(200, 'a') + std::to_string(i)), nullptr);
  EXPECT_NE(names.find("c"), nullptr);
}

}  // namespace
}  // namespace ironcl::checkpoint
