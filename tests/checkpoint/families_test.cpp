// SPDX-License-Identifier: Apache-2.0
// Forms in which tools write quantised layers, each cut down to one or two layers. Folders that the tools themselves
// wrote are in foreign_test.cpp.
#include "host/checkpoint/model.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

/// The open folder of these tensors and this quantization_config.
struct Family : Model {
  Checkpoint checkpoint;
  Family(const std::vector<OwnTensor>& tensors, const std::string& config = "", const Metadata& metadata = {},
         const std::map<std::string, std::string>& files = {})
      : Model(tensors, config.empty() ? "" : R"({"quantization_config":{)" + config + "}}", metadata, files),
        checkpoint(open()) {}
  /// Expects this layer to be refused with these words.
  void expect_refused(const std::string& layer, const std::vector<std::string>& parts) const {
    for (const LinearLayer& candidate : checkpoint.layers()) {
      if (candidate.name != layer) continue;
      ASSERT_TRUE(candidate.problem.has_value()) << layer;
      for (const std::string& part : parts)
        EXPECT_NE(std::string(candidate.problem->what()).find(part), std::string::npos) << candidate.problem->what();
      return;
    }
    ADD_FAILURE() << "there is no layer " << layer;
  }
};

/// A tensor of U8, which the writer does not know: a file by hand, e8m0 renamed.
Checkpoint open_as_u8(const TempDir& dir, const std::vector<OwnTensor>& tensors, const std::string& config) {
  const auto file = save(dir / "model.safetensors", tensors);
  std::string bytes = read_file(file);
  const std::string from = "\"F8_E8M0\"", to = "\"U8\"     ";
  for (std::size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from))
    bytes.replace(at, from.size(), to);
  write_file(file, bytes);
  if (!config.empty()) write_file(dir / "config.json", R"({"quantization_config":{)" + config + "}}");
  return Checkpoint::open(dir.path());
}

/// [experts, rows, cols] with the values 0, 1, 2, ...
OwnTensor counting(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return OwnTensor(name, shape, values);
}

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

const std::string kBlocks64 = R"("quant_method":"fp8","activation_scheme":"dynamic","weight_block_size":[64,64])";

TEST(Mxfp8, ExponentsStoredAsU8AreE8m0InGroupsOf32) {
  const std::vector<OwnTensor> tensors = {OwnTensor("a.weight", kE4m3, {48, 100}, 0x38),
                                          OwnTensor("a.weight_scale", DType::e8m0, {48, 4}, 120)};
  for (
      const std::string config :
      {"", R"("quant_method":"modelopt","quant_algo":"MXFP8")",
       R"("quant_method":"fp8","activation_scheme":"dynamic","weight_block_size":[1,32])",
       R"("quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"weights":{"strategy":"group","group_size":32,"scale_dtype":"torch.uint8"},"input_activations":{"strategy":"group","group_size":32,"dynamic":true,"scale_dtype":"torch.uint8"}}})"}) {
    const TempDir dir;
    const Checkpoint checkpoint = open_as_u8(dir, tensors, config);
    const LinearLayer& layer = checkpoint.layer("a");
    EXPECT_EQ(layer.scale.dtype, DType::e8m0) << config;
    EXPECT_EQ(layer.weight_grid, (ScaleGrid{1, 32}));
    EXPECT_EQ(layer.activation_grid, (ScaleGrid{1, 32}));
    EXPECT_EQ(layer.activation_rounding, ScaleRounding::power_of_two);
    EXPECT_EQ(layer.format(), "MXFP8");
  }
}

TEST(Mxfp8, U8ScalesOfAnotherGridAreRefused) {
  const TempDir dir;
  const Checkpoint checkpoint = open_as_u8(
      dir, {OwnTensor("a.weight", kE4m3, {48, 100}, 0x38), OwnTensor("a.weight_scale", DType::e8m0, {48, 2}, 120)},
      "");
  ASSERT_TRUE(checkpoint.layers().at(0).problem.has_value());
  EXPECT_EQ(checkpoint.layers()[0].problem->kind(), ErrorKind::dtype) << checkpoint.layers()[0].problem->what();
}

TEST(Modelopt, BlockScalesWithDimensionsOfOneAreTwoDimensional) {
  const Family folder({OwnTensor("a.weight", kE4m3, {300, 200}, 0x38), counting("a.weight_scale", {3, 1, 2, 1})},
                      R"("quant_method":"modelopt","quant_algo":"fp8_pb_wo")");
  const LinearLayer& layer = folder.checkpoint.layer("a");
  EXPECT_EQ(layer.weight_grid, (ScaleGrid{128, 128}));
  EXPECT_EQ(layer.activations, ActivationScheme::none);
}

TEST(Modelopt, AlgorithmsThatAreNotReadSaySo) {
  const Family folder({OwnTensor("a.weight", kE4m3, {300, 200}, 0x38), counting("a.weight_scale", {})},
                      R"("quant_method":"modelopt","quant_algo":"W4A8_AWQ")");
  folder.expect_refused("a", {"W4A8_AWQ of modelopt, which is not read", "quantise with FP8"});
}

TEST(Experts, OfOneTensorAreLayersWithTheirOwnRows) {
  const Family folder({OwnTensor("m.experts.gate_up_proj", kE4m3, {3, 128, 96}, 0x38),
                       counting("m.experts.gate_up_proj_scale_inv", {3, 2, 2}),
                       OwnTensor("m.experts.down_proj", kE4m3, {3, 96, 64}, 0x38),
                       counting("m.experts.down_proj_scale_inv", {3, 2, 1})},
                      kBlocks64);
  ASSERT_EQ(folder.checkpoint.layers().size(), 6u);
  const LinearLayer& layer = folder.checkpoint.layer("m.experts.2.gate_up_proj");
  EXPECT_EQ(layer.n, 128);
  EXPECT_EQ(layer.k, 96);
  EXPECT_EQ(layer.expert, 2);
  EXPECT_EQ(values_of(layer.scale), (std::vector<float>{8, 9, 10, 11}));
  EXPECT_EQ(layer.weight.data.size(), 128u * 96u);
  EXPECT_EQ(values_of(folder.checkpoint.layer("m.experts.1.down_proj").scale), (std::vector<float>{2, 3}));
  EXPECT_TRUE(folder.checkpoint.unquantized().empty());
}

TEST(Experts, WithStaticScalesHaveOneEach) {
  const Family folder(
      {OwnTensor("m.experts.down_proj", kE4m3, {3, 96, 64}, 0x38),
       counting("m.experts.down_proj_scale_inv", {3, 1, 1}), counting("m.experts.down_proj_activation_scale", {3})},
      R"("quant_method":"fp8","activation_scheme":"static","weight_block_size":null)");
  const LinearLayer& layer = folder.checkpoint.layer("m.experts.2.down_proj");
  EXPECT_EQ(layer.activations, ActivationScheme::fixed);
  EXPECT_EQ(values_of(*layer.input_scale), std::vector<float>{2});
  EXPECT_EQ(layer.weight_grid, (ScaleGrid{0, 0}));
}

TEST(Experts, OfOneTensorWithAPartThatIsNotComputedAreRefused) {
  const auto stack = [](const std::string& part, DType type) {
    return std::vector<OwnTensor>{OwnTensor("m.experts.down_proj", kE4m3, {2, 96, 64}, 0x38),
                                  counting("m.experts.down_proj_scale", {2, 96, 1}),
                                  OwnTensor("m.experts.down_proj_" + part, type, {2, 96, 1}, 0x3f)};
  };
  for (const auto& [part, why] : {std::pair{"pre_quant_scale", "scales the columns of the activations"},
                                  {"weight_scale_2", "second scale"},
                                  {"zero_point", "asymmetric quantisation"},
                                  {"other", "not known here"},
                                  {"scale_inv", "has two scales"}}) {
    const Family folder(stack(part, DType::f32));
    ASSERT_EQ(folder.checkpoint.layers().size(), 2u);
    for (const LinearLayer& layer : folder.checkpoint.layers()) folder.expect_refused(layer.name, {why});
  }
  Family(stack("weight_zero_point", DType::i8)).expect_refused("m.experts.1.down_proj", {"asymmetric quantisation"});
  EXPECT_NO_THROW(Family(stack("output_scale", DType::f32)).checkpoint.layer("m.experts.1.down_proj"));
}

TEST(Experts, OfOneModuleWithAPartThatIsNotComputedAreRefused) {
  const auto stack = [](const std::string& weight, const std::string& part) {
    return std::vector<OwnTensor>{OwnTensor("m.experts.down_proj." + weight, kE4m3, {2, 96, 64}, 0x38),
                                  counting("m.experts.down_proj.weight_scale", {2, 96, 1}),
                                  OwnTensor("m.experts.down_proj." + part, DType::f32, {2, 96, 1}, 0x3f)};
  };
  Family(stack("weight", "pre_quant_scale"))
      .expect_refused("m.experts.1.down_proj", {"'m.experts.down_proj.pre_quant_scale'", "scales the columns"});
  Family(stack("weight", "weight_scale_inv")).expect_refused("m.experts.0.down_proj", {"has two scales"});
  Family(stack("_weight_qdata", "bias_of_nobody")).expect_refused("m.experts.0.down_proj", {"stacks are not read"});
  Family(stack("weight", "other")).expect_refused("m.experts.1.down_proj", {"down_proj.other", "not known here"});
}

TEST(Experts, AreNoConvolution) {
  const Family folder({OwnTensor("m.conv.weight", kE4m3, {48, 32, 4}, 0x38), counting("m.conv.weight_scale", {})});
  ASSERT_EQ(folder.checkpoint.layers().size(), 1u) << "48 layers [32, 4] of a convolution over 48 channels";
  folder.expect_refused("m.conv", {"is [48, 32, 4], expected a matrix"});
}

TEST(Experts, OfOneTensorNameTheLayerOfABadScale) {
  OwnTensor scales = counting("m.experts.down_proj_scale_inv", {3, 2, 1});
  const float bad = -1;
  std::memcpy(scales.bytes.data() + 5 * sizeof(float), &bad, sizeof bad);
  const Family folder({OwnTensor("m.experts.down_proj", kE4m3, {3, 96, 64}, 0x38), scales}, kBlocks64);
  EXPECT_NO_THROW(folder.checkpoint.layer("m.experts.1.down_proj"));
  folder.expect_refused("m.experts.2.down_proj", {"scale [1, 0] of layer m.experts.2.down_proj is -1"});
}

TEST(Experts, StoredTransposedAreRefused) {
  const Family folder({OwnTensor("m.experts.gate_up_proj", kE4m3, {2, 96, 128}, 0x38),
                       counting("m.experts.gate_up_proj_scale_inv", {2, 2, 2}),
                       OwnTensor("m.experts.down_proj", kE4m3, {2, 64, 96}, 0x38),
                       counting("m.experts.down_proj_scale_inv", {2, 1, 2})},
                      kBlocks64);
  ASSERT_EQ(folder.checkpoint.layers().size(), 4u);
  for (const LinearLayer& layer : folder.checkpoint.layers())
    folder.expect_refused(layer.name, {"experts stored as [E, K, N], which is not read"});
}

TEST(Experts, OfTheirOwnShareStackedScalesInTheRightRows) {
  const auto weights = [](const std::string& expert) {
    return std::vector<OwnTensor>{OwnTensor("m.experts." + expert + ".gate_proj.weight", kE4m3, {64, 96}, 0x38),
                                  OwnTensor("m.experts." + expert + ".up_proj.weight", kE4m3, {64, 96}, 0x38),
                                  OwnTensor("m.experts." + expert + ".down_proj.weight", kE4m3, {96, 64}, 0x38)};
  };
  std::vector<OwnTensor> tensors = {counting("m.experts.gate_up_proj_scale_inv", {2, 4, 3}),
                                    counting("m.experts.down_proj_scale_inv", {2, 3, 2})};
  for (const std::string expert : {"0", "1"})
    for (OwnTensor& weight : weights(expert)) tensors.push_back(std::move(weight));
  const std::string blocks32 = R"("quant_method":"fp8","activation_scheme":"dynamic","weight_block_size":[32,32])";
  const Family folder(tensors, blocks32);
  ASSERT_EQ(folder.checkpoint.layers().size(), 6u);
  EXPECT_EQ(values_of(folder.checkpoint.layer("m.experts.1.gate_proj").scale),
            (std::vector<float>{12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(values_of(folder.checkpoint.layer("m.experts.1.up_proj").scale),
            (std::vector<float>{18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(values_of(folder.checkpoint.layer("m.experts.1.down_proj").scale),
            (std::vector<float>{6, 7, 8, 9, 10, 11}));
  EXPECT_TRUE(folder.checkpoint.unquantized().empty());
}

TEST(Experts, WhoseSharedBlockSpansTwoProjectionsAreRefused) {
  const Family folder({OwnTensor("m.experts.0.gate_proj.weight", kE4m3, {96, 64}, 0x38),
                       OwnTensor("m.experts.0.up_proj.weight", kE4m3, {96, 64}, 0x38),
                       counting("m.experts.gate_up_proj_scale_inv", {1, 3, 1})},
                      kBlocks64);
  folder.expect_refused("m.experts.0.gate_proj", {"blocks of 64 rows over 2 projections of 96 rows"});
}

/// Each of these was read beyond its end, or divided by its first dimension of 0.
TEST(Experts, WhoseSharedTensorsAreTooShortAreRefused) {
  const std::vector<OwnTensor> weights = {OwnTensor("m.experts.0.up_proj.weight", kE4m3, {64, 64}, 0x38),
                                          OwnTensor("m.experts.1.up_proj.weight", kE4m3, {64, 64}, 0x38),
                                          OwnTensor("m.experts.2.up_proj.weight", kE4m3, {64, 64}, 0x38),
                                          OwnTensor("m.experts.up_proj_scale_inv", {3, 1, 1}, {1, 1, 1})};
  for (const std::int64_t given : {0, 2}) {
    std::vector<OwnTensor> tensors = weights;
    tensors.emplace_back("m.experts.up_proj_activation_scale", std::vector{given}, std::vector<float>{1, 1});
    const Family folder(tensors);
    const bool second = given > 1;
    EXPECT_EQ(!folder.checkpoint.layers()[1].problem.has_value(), second);
    folder.expect_refused("m.experts.2.up_proj",
                          {"m.experts.up_proj_activation_scale", fmt::format("[{}]", given), "nothing for expert 2"});
  }
}

TEST(Experts, ShareScalesWhateverDimensionsOfOneTheyHave) {
  const Family folder({OwnTensor("m.experts.0.gate_proj.weight", kE4m3, {64, 64}, 0x38),
                       OwnTensor("m.experts.0.up_proj.weight", kE4m3, {64, 64}, 0x38),
                       OwnTensor("m.experts.1.up_proj.weight", kE4m3, {64, 64}, 0x38),
                       OwnTensor("m.experts.gate_up_proj_scale_inv", {2, 1, 2, 1}, {1, 2, 3, 4})},
                      kBlocks64);
  EXPECT_EQ(values_of(folder.checkpoint.layer("m.experts.0.gate_proj").scale), (std::vector<float>{1}));
  EXPECT_EQ(values_of(folder.checkpoint.layer("m.experts.0.up_proj").scale), (std::vector<float>{2}));
  EXPECT_EQ(values_of(folder.checkpoint.layer("m.experts.1.up_proj").scale), (std::vector<float>{4}));
}

TEST(Torchao, LayersSayInMetadataHowTheyAreQuantised) {
  const auto tensors = [](const std::vector<std::int64_t>& scale) {
    return std::vector<OwnTensor>{OwnTensor("a._weight_qdata", kE4m3, {48, 96}, 0x38),
                                  counting("a._weight_scale", scale)};
  };
  const std::string config = R"("quant_method":"torchao","quant_type":{})";
  const auto said = [](const std::string& data) {
    return Metadata{{"a.weight", R"({"_type":"Float8Tensor","_data":{)" + data + "}}"}};
  };
  const Family weight_only(tensors({48, 1}), config, said(R"("block_size":[1,96],"act_quant_kwargs":null)"));
  EXPECT_EQ(weight_only.checkpoint.layer("a").activations, ActivationScheme::none);
  EXPECT_EQ(weight_only.checkpoint.layer("a").weight_grid, (ScaleGrid{1, 0}));
  EXPECT_EQ(weight_only.checkpoint.layer("a").writer, "torchao");
  const Family per_tensor(tensors({1, 1}), config,
                          said(R"("act_quant_kwargs":{"_data":{"granularity":{"_type":"PerTensor"}}})"));
  EXPECT_EQ(per_tensor.checkpoint.layer("a").activations, ActivationScheme::dynamic);
  EXPECT_EQ(per_tensor.checkpoint.layer("a").activation_grid, (ScaleGrid{0, 0}));
  const auto activations = [&](const std::string& more) {
    return said(R"("act_quant_kwargs":{"_data":{"granularity":{"_type":"PerRow"},)" + more + "}}");
  };
  const Family bounded(tensors({48, 1}), config, activations(R"("hp_value_lb":null,"hp_value_ub":12.5)"));
  EXPECT_EQ(bounded.checkpoint.layer("a").activation_limit, 12.5);
  Family(tensors({48, 1}), config, activations(R"("hp_value_lb":0.5)")).expect_refused("a", {"activation_value_lb"});
  Family(tensors({48, 1}), config, activations(R"("float8_dtype":{"_type":"torch.dtype","_data":"float8_e5m2"})"))
      .expect_refused("a", {"F8_E4M3 with activations of e5m2"});
  Family(tensors({48, 1}), config, said(R"("is_swizzled_scales":true)")).expect_refused("a", {"swizzled scales"});
  Family(tensors({48, 1}), config).expect_refused("a", {"metadata does not say how"});
  Family(tensors({48, 1}), config, {{"a.weight", R"({"_type":"NVFP4Tensor"})"}})
      .expect_refused("a", {"a NVFP4Tensor of torchao, which is not read", "convert it with llmcompressor"});
}

TEST(Quanto, InputScalesCountOnlyWhereActivationsAreQuantised) {
  const std::vector<OwnTensor> tensors = {
      OwnTensor("a.weight._data", DType::e5m2, {48, 96}, 0x38), counting("a.weight._scale", {48, 1}),
      OwnTensor("a.input_scale", {1}, {1.f}), OwnTensor("a.output_scale", {1}, {1.f})};
  const Family plain(tensors, "", {},
                     {{"quanto_qmap.json", R"({"a":{"weights":"qfloat8_e5m2","activations":"none"}})"}});
  EXPECT_EQ(plain.checkpoint.layer("a").activations, ActivationScheme::none);
  EXPECT_EQ(plain.checkpoint.layer("a").format(), "FP8 e5m2");
  const Family both(tensors, "", {},
                    {{"quanto_qmap.json", R"({"a":{"weights":"qfloat8_e5m2","activations":"qfloat8_e4m3fn"}})"}});
  EXPECT_EQ(both.checkpoint.layer("a").activations, ActivationScheme::fixed);
  const Family odd(tensors, "", {}, {{"quanto_qmap.json", R"({"a":{"activations":"qfloat8_e5m2"}})"}});
  odd.expect_refused("a", {"activations of qfloat8_e5m2 (quanto)"});
}

TEST(Quanto, ACalibratedScaleWithoutTheMapIsNotDropped) {
  const auto tensors = [](float scale) {
    return std::vector<OwnTensor>{OwnTensor("a.weight._data", kE4m3, {48, 96}, 0x38),
                                  counting("a.weight._scale", {48, 1}), OwnTensor("a.input_scale", {1}, {scale})};
  };
  EXPECT_EQ(Family(tensors(1)).checkpoint.layer("a").activations, ActivationScheme::none);
  Family(tensors(0.25f)).expect_refused("a", {"no quanto_qmap.json says", "open the folder that quanto wrote"});
}

TEST(Comfy, ReadsItsTensorOfJson) {
  const auto layer = [](const std::string& json) {
    OwnTensor quant("a.comfy_quant", DType::i8, {static_cast<std::int64_t>(json.size())});
    std::memcpy(quant.bytes.data(), json.data(), json.size());
    return std::vector<OwnTensor>{OwnTensor("a.weight", kE4m3, {48, 96}, 0x38), counting("a.weight_scale", {}),
                                  quant};
  };
  const Family plain(layer(R"({"format":"float8_e4m3fn"})"));
  EXPECT_EQ(plain.checkpoint.layer("a").writer, "comfy_quant");
  EXPECT_EQ(plain.checkpoint.layer("a").activations, ActivationScheme::dynamic);
  const Family full(layer(R"({"format":"float8_e4m3fn","full_precision_matrix_mult":true})"));
  EXPECT_EQ(full.checkpoint.layer("a").activations, ActivationScheme::none);
  Family(layer(R"({"format":"float8_e4m3fn","convrot":true})")).expect_refused("a", {"is rotated"});
  Family(layer(R"({"format":"mxfp8"})")).expect_refused("a", {"format 'mxfp8' of ComfyUI, which is not read"});
  Family(layer("{")).expect_refused("a", {"not valid JSON"});
}

TEST(Comfy, ItsMarkerOfTwoElementsLeavesActivationsUnquantised) {
  const auto tensors = [](std::int64_t elements) {
    return std::vector<OwnTensor>{
        OwnTensor("model.a.weight", kE4m3, {48, 96}, 0x38), OwnTensor("model.a.scale_weight", {1}, {2.f}),
        OwnTensor("model.a.scale_input", {1}, {0.5f}),      OwnTensor("other.b.weight", kE4m3, {48, 96}, 0x38),
        OwnTensor("other.b.scale_weight", {1}, {2.f}),      OwnTensor("model.scaled_fp8", kE4m3, {elements})};
  };
  const Family none(tensors(2));
  EXPECT_EQ(none.checkpoint.layer("model.a").activations, ActivationScheme::none);
  EXPECT_EQ(none.checkpoint.layer("other.b").activations, ActivationScheme::dynamic) << "it is of another model";
  ASSERT_EQ(none.checkpoint.layers().size(), 2u) << "the marker is no broken layer";
  ASSERT_EQ(none.checkpoint.unquantized().size(), 1u);
  EXPECT_EQ(none.checkpoint.unquantized()[0].why, "marks a file of scaled fp8 weights (ComfyUI)");
  EXPECT_EQ(Family(tensors(0)).checkpoint.layer("model.a").activations, ActivationScheme::fixed);
}

TEST(Comfy, ReadsItsMetadataOfAFile) {
  // Scales of MXFP8 in ComfyUI lie in tiles: dimensions that fill them look like scales in rows.
  const std::vector<OwnTensor> tensors = {
      OwnTensor("model.a.weight", kE4m3, {128, 128}, 0x38), counting("model.a.weight_scale", {128, 4}),
      OwnTensor("model.b.weight", kE4m3, {48, 96}, 0x38),   counting("model.b.weight_scale", {}),
      OwnTensor("model.c.weight", kE4m3, {48, 96}, 0x38),   counting("model.c.weight_scale", {})};
  const Family folder(
      tensors, "",
      {{"_quantization_metadata", R"({"format_version":"1.0","layers":{"a":{"format":"mxfp8"},)"
                                  R"("model.b":{"format":"float8_e4m3fn","full_precision_matrix_mult":true}}})"}});
  folder.expect_refused("model.a", {"format 'mxfp8' of ComfyUI, which is not read"});
  EXPECT_EQ(folder.checkpoint.layer("model.b").writer, "comfy_quant");
  EXPECT_EQ(folder.checkpoint.layer("model.b").activations, ActivationScheme::none);
  folder.expect_refused("model.c", {"not named by the file's '_quantization_metadata'"});
  Family(tensors, "", {{"_quantization_metadata", "[]"}}).expect_refused("model.b", {"has no object 'layers'"});
}

TEST(Fbgemm, IsPerChannelAndKnowsItsUpperBound) {
  const Family folder({OwnTensor("a.weight", kE4m3, {48, 96}, 0x38), counting("a.weight_scale", {48, 1})},
                      R"("quant_method":"fbgemm_fp8","activation_scale_ub":1200.0)");
  const LinearLayer& layer = folder.checkpoint.layer("a");
  EXPECT_EQ(layer.weight_grid, (ScaleGrid{1, 0}));
  EXPECT_EQ(layer.activation_limit, 1200.0);
}

TEST(Quark, ReadsItsGlobalConfig) {
  const std::vector<OwnTensor> tensors = {OwnTensor("a.weight", kE4m3, {48, 96}, 0x38),
                                          counting("a.weight_scale", {}), OwnTensor("a.input_scale", {1}, {1.f})};
  const std::string weight = R"("weight":{"dtype":"fp8_e4m3","qscheme":"per_tensor","is_dynamic":false})";
  const Family folder(tensors,
                      R"("quant_method":"quark","global_quant_config":{)" + weight +
                          R"(,"input_tensors":{"dtype":"fp8_e4m3","qscheme":"per_tensor","is_dynamic":false}})");
  EXPECT_EQ(folder.checkpoint.layer("a").activations, ActivationScheme::fixed);
  Family(tensors, R"("quant_method":"quark","global_quant_config":{"weight":{"dtype":"mx","qscheme":"per_group"}})")
      .expect_refused("a", {"of quark"});
}

TEST(Quark, ActivationsThatAreComputedOtherwiseAreRefused) {
  const std::vector<OwnTensor> tensors = {OwnTensor("a.weight", kE4m3, {48, 96}, 0x38),
                                          counting("a.weight_scale", {})};
  const auto inputs = [](const std::string& said) {
    return R"("quant_method":"quark","global_quant_config":{"weight":{"dtype":"fp8_e4m3","qscheme":"per_tensor"},)"
           R"("input_tensors":{"qscheme":"per_token","is_dynamic":true,)" +
           said + "}}";
  };
  EXPECT_NO_THROW(Family(tensors, inputs(R"("dtype":"fp8_e4m3")")).checkpoint.layer("a"));
  Family(tensors, inputs(R"("dtype":"int8")"))
      .expect_refused("a", {"F8_E4M3 with activations of i8", "quantise both"});
  Family(tensors, inputs(R"("dtype":"fp8_e5m2")")).expect_refused("a", {"activations of e5m2"});
  Family(tensors, inputs(R"("dtype":"fp8_e4m3","symmetric":false)")).expect_refused("a", {"asymmetric activations"});
}

TEST(Quark, SchemesOfSomeLayersAreRefused) {
  const std::vector<OwnTensor> tensors = {OwnTensor("a.weight", kE4m3, {48, 96}, 0x38),
                                          counting("a.weight_scale", {})};
  for (const std::string member : {"layer_quant_config", "layer_type_quant_config"}) {
    const auto config = [&](const std::string& layers) {
      return R"("quant_method":"quark",")" + member + R"(":{)" + layers +
             R"(},"global_quant_config":{"weight":{"dtype":"fp8_e4m3","qscheme":"per_tensor"}})";
    };
    EXPECT_NO_THROW(Family(tensors, config("")).checkpoint.layer("a")) << member;
    Family(tensors, config(R"("Linear":{"weight":{"dtype":"int8"}})")).expect_refused("a", {"with a " + member});
  }
}

TEST(Strangers, AreRefusedWithWhatToDo) {
  const Family unknown({OwnTensor("a.weight", kE4m3, {48, 96}, 0x38), counting("a.weight_scale", {})},
                       R"("quant_method":"somebodys")");
  unknown.expect_refused("a", {"quant_method 'somebodys', which is not read", "convert it with llmcompressor"});
  const Family codes({OwnTensor("a.codes", kE4m3, {48, 96}, 0x38), OwnTensor("b.weight", DType::bf16, {2, 2})});
  ASSERT_EQ(codes.checkpoint.layers().size(), 1u) << "fp8 tensors that nobody claims are no silent success";
  codes.expect_refused(
      "a.codes", {"is F8_E4M3 [48, 96] and not the weight of any known kind of layer", "convert the checkpoint"});
  const Family int8({OwnTensor("a.weight", DType::i8, {48, 96}), counting("a.SCB", {48})},
                    R"("quant_method":"bitsandbytes","load_in_8bit":true)");
  EXPECT_EQ(int8.checkpoint.layer("a").activations, ActivationScheme::none);
  EXPECT_EQ(values_of(int8.checkpoint.layer("a").scale)[2], 2 / 127.f);
  const Family gptq({OwnTensor("a.qweight", DType::s32, {12, 96}), counting("a.scales", {1, 96})});
  gptq.expect_refused("a", {"GPTQ or AWQ, which is not read"});
  const Family rotated({OwnTensor("a.weight", kE4m3, {48, 96}, 0x38), counting("a.weight_scale", {})},
                       R"("quant_method":"compressed-tensors","transform_config":{"config_groups":{"r":{}}},)"
                       R"("config_groups":{"g":{"targets":["Linear"],"weights":{"strategy":"tensor"}}})");
  rotated.expect_refused("a", {"transform_config (rotations"});
}

}  // namespace
}  // namespace ironcl::checkpoint
