// SPDX-License-Identifier: Apache-2.0
// Layers out of tensors: which belong together, where blocks come from, and what makes one layer unusable.
#include "host/checkpoint/model.h"

#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

const std::string kFp8Config = R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128],)"
                               R"("activation_scheme":"dynamic","modules_to_not_convert":["lm_head"]}})";

/// A weight of 300 x 200: 128x128 blocks need scales [3, 2], and no other power of two gives that.
OwnTensor weight(const std::string& name) { return OwnTensor(name, kE4m3, {300, 200}, 0x38); }
OwnTensor scale(const std::string& name) { return OwnTensor(name, {3, 2}, {1, 2, 3, 4, 5, 6}); }

TEST(Layers, PairWeightsWithEitherNameOfTheirScale) {
  const Model model({weight("m.a.weight"), scale("m.a.weight_scale_inv"), weight("m.b.weight"),
                     scale("m.b.weight_scale"), weight("m.c.weight"), scale("m.c.scale")},
                    kFp8Config);
  const Checkpoint checkpoint = model.open();
  ASSERT_EQ(checkpoint.layers().size(), 3u);
  for (const LinearLayer& layer : checkpoint.layers()) {
    EXPECT_FALSE(layer.problem.has_value()) << layer.problem->what();
    EXPECT_EQ(layer.n, 300);
    EXPECT_EQ(layer.k, 200);
    EXPECT_EQ(layer.weight_grid, (ScaleGrid{128, 128}));
    EXPECT_EQ(layer.activation_grid, (ScaleGrid{1, 128}));
    EXPECT_EQ(layer.block_source, BlockSource::config);
    EXPECT_EQ(layer.bytes, 300u * 200u + 6u * 4u);
    EXPECT_EQ(layer.weight.file(), model.file);
  }
  EXPECT_EQ(checkpoint.layer("m.b").scale.name, "m.b.weight_scale");
  EXPECT_TRUE(checkpoint.unquantized().empty());
}

TEST(Layers, FindAScaleInAnotherShard) {
  const TempDir dir;
  save(dir / "s1.safetensors", {weight("a.weight")});
  save(dir / "s2.safetensors", {scale("a.weight_scale_inv")});
  write_file(dir / "model.safetensors.index.json",
             R"({"weight_map":{"a.weight":"s1.safetensors","a.weight_scale_inv":"s2.safetensors"}})");
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  const LinearLayer& layer = checkpoint.layer("a");
  EXPECT_EQ(layer.weight.file(), dir / "s1.safetensors");
  EXPECT_EQ(layer.scale.file(), dir / "s2.safetensors");
  const Checkpoint alone = Checkpoint::open(dir / "s1.safetensors");
  expect_error(*alone.layers().at(0).problem, ErrorKind::not_found, dir / "s1.safetensors", "a.weight_scale_inv",
               {"is a shard missing?", "it is in s2.safetensors: open the folder"});
}

TEST(Layers, ALoneLayerIsCalledWeight) {
  const Model model({weight("weight"), scale("weight_scale_inv"), OwnTensor("x", {1, 200}, {})}, "");
  const Checkpoint checkpoint = model.open();
  EXPECT_EQ(checkpoint.layer("weight").n, 300);
  ASSERT_EQ(checkpoint.unquantized().size(), 1u);
  EXPECT_EQ(checkpoint.unquantized()[0].name, "x");
  EXPECT_EQ(checkpoint.unquantized()[0].why, "not a layer's weight");
}

TEST(Layers, TakeBlocksFromConfigThenMetadataThenCallerThenShape) {
  const std::vector<OwnTensor> tensors = {weight("weight"), scale("weight_scale_inv")};
  const Metadata metadata = {{"weight_block", "128"}, {"x_group", "512x512"}};
  EXPECT_EQ(Model(tensors, kFp8Config, metadata).open().layer("weight").block_source, BlockSource::config);
  const Checkpoint said = Model(tensors, "", metadata).open();
  EXPECT_EQ(said.layer("weight").block_source, BlockSource::metadata);
  EXPECT_EQ(said.layer("weight").activation_grid, (ScaleGrid{512, 512}));
  const Checkpoint asked = Model(tensors, "").open({.block = ScaleGrid{128, 128}});
  EXPECT_EQ(asked.layer("weight").block_source, BlockSource::caller);
  const Checkpoint guessed = Model(tensors, "").open();
  EXPECT_EQ(guessed.layer("weight").block_source, BlockSource::shape);
  EXPECT_EQ(guessed.layer("weight").weight_grid, (ScaleGrid{128, 128}));
  EXPECT_EQ(guessed.layer("weight").activation_grid, (ScaleGrid{1, 128}));
}

TEST(Layers, OneScaleIsPerTensorWhateverItsShape) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1}, {1, 1}, {1, 1, 1}})
    for (const std::string config :
         {"", R"({"quantization_config":{"quant_method":"fp8","weight_block_size":null}})"}) {
      const Model model({weight("weight"), OwnTensor("weight_scale_inv", shape, {2})}, config);
      const Checkpoint checkpoint = model.open();
      EXPECT_EQ(checkpoint.layer("weight").weight_grid, (ScaleGrid{0, 0})) << shape.size();
      EXPECT_EQ(checkpoint.layer("weight").activation_grid, (ScaleGrid{1, 0}));
    }
  const Model model({OwnTensor("weight", kE4m3, {100, 120}), OwnTensor("weight_scale_inv", {1, 1}, {1})}, "");
  EXPECT_EQ(model.open({.block = ScaleGrid{256, 256}}).layer("weight").weight_grid, (ScaleGrid{256, 256}));
}

TEST(Layers, ACallerThatContradictsTheFileIsAnError) {
  const Model model({weight("weight"), scale("weight_scale_inv")}, kFp8Config);
  model.expect_problem(ErrorKind::config, "weight", {"128x128 (quantization_config)", "--block says 64x64"},
                       {.block = ScaleGrid{64, 64}});
}

TEST(Layers, MalformedMetadataIsAnErrorOfTheLayer) {
  const Model model({weight("weight"), scale("weight_scale_inv")}, "", {{"weight_block", "big"}});
  model.expect_problem(ErrorKind::config, "", {"metadata weight_block is 'big'", "128 or 1x128"});
}

TEST(Layers, AMissingScaleNamesTheShapeItShouldHave) {
  Model({weight("m.a.weight")}, kFp8Config)
      .expect_problem(ErrorKind::not_found, "m.a.weight_scale_inv",
                      {"is missing", "'m.a.weight' is F8_E4M3 [300, 200]", "a scale of shape [3, 2]", "128x128"});
  Model({weight("m.a.weight"), OwnTensor("m.b.amax", {1}, {1.f})}, "")
      .expect_problem(ErrorKind::not_found, "m.a.weight_scale_inv",
                      {"shape [3, 2] (for blocks of 128x128)", "'m.b.amax' is there"});
}

TEST(Layers, AMisshapenScaleNamesTheShapeItShouldHave) {
  Model({weight("m.a.weight"), OwnTensor("m.a.weight_scale_inv", {2, 2}, {1, 1, 1, 1})}, kFp8Config)
      .expect_problem(ErrorKind::shape, "m.a.weight_scale_inv",
                      {"is [2, 2], expected [3, 2]", "'m.a.weight' [300, 200]"});
}

TEST(Layers, AScaleWithoutItsWeightIsABrokenLayer) {
  Model({scale("m.a.weight_scale_inv")}, kFp8Config)
      .expect_problem(ErrorKind::not_found, "m.a.weight_scale_inv",
                      {"a scale [3, 2] without its weight 'm.a.weight'"});
}

TEST(Layers, TwoScalesForOneWeightAreAnError) {
  Model({weight("a.weight"), scale("a.weight_scale_inv"), scale("a.weight_scale")}, kFp8Config)
      .expect_problem(ErrorKind::config, "a.weight", {"two scales, 'a.weight_scale' and 'a.weight_scale_inv'"});
}

TEST(Layers, NanScalesAreFoundWithTheirPlace) {
  const Model model({weight("a.weight"), OwnTensor("a.weight_scale_inv", {3, 2}, {1, 2, 3, NAN, 5, 6})}, kFp8Config);
  model.expect_problem(ErrorKind::value, "a.weight_scale_inv", {"scale [1, 1] is nan"});
  EXPECT_NO_THROW(model.open({.check_values = false}).layer("a"));
}

TEST(Layers, WeightsAndScalesOfOtherTypesAreRefused) {
  Model({OwnTensor("a.weight", DType::bf16, {300, 200}), scale("a.weight_scale_inv")}, kFp8Config)
      .expect_problem(ErrorKind::dtype, "a.weight", {"is BF16 and has a scale", "F8_E4M3, F8_E5M2 or I8"});
  Model({weight("a.weight"), OwnTensor("a.weight_scale_inv", DType::f64, {3, 2})}, kFp8Config)
      .expect_problem(ErrorKind::dtype, "a.weight_scale_inv", {"is F64, expected scales of"});
  Model({OwnTensor("a.weight", kE4m3, {1, 300, 200}), scale("a.weight_scale_inv")}, kFp8Config)
      .expect_problem(ErrorKind::unsupported, "a.weight",
                      {"is [1, 300, 200], expected a matrix [N, K]", "experts in"});
  Model({OwnTensor("experts.a.weight", kE4m3, {1, 300, 200}), scale("experts.a.weight_scale_inv")}, kFp8Config)
      .expect_problem(ErrorKind::unsupported, "experts.a.weight",
                      {"is [1, 300, 200], but 'experts.a.weight_scale_inv' is [3, 2]: both need the experts"});
  Model({OwnTensor("a.weight", kE4m3, {0, 200}), OwnTensor("a.weight_scale_inv", {0, 2}, {})}, kFp8Config)
      .expect_problem(ErrorKind::shape, "a.weight", {"is [0, 200]", "at least 1"});
}

TEST(Layers, FnuzWeightsAreNotTakenForE4m3fn) {
  const TempDir dir;
  const auto file =
      write_file(dir / "f.safetensors",
                 raw_safetensors(R"({"weight_scale":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                 R"("weight":{"dtype":"F8_E4M3FNUZ","shape":[2,2],"data_offsets":[4,8]}})",
                                 8));
  const Checkpoint checkpoint = Checkpoint::open(file);
  expect_error(*checkpoint.layers().at(0).problem, ErrorKind::unsupported, file, "weight", {"is F8_E4M3FNUZ"});
}

TEST(Layers, OneBrokenLayerDoesNotHideTheOthers) {
  const Model model({weight("l.0.weight"), scale("l.0.weight_scale_inv"), weight("l.1.weight"), weight("l.10.weight"),
                     scale("l.10.weight_scale_inv"), weight("l.2.weight"), scale("l.2.weight_scale_inv")},
                    kFp8Config);
  const Checkpoint checkpoint = model.open();
  std::vector<std::string> names;
  for (const LinearLayer& layer : checkpoint.layers()) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"l.0", "l.1", "l.2", "l.10"}));
  EXPECT_EQ(checkpoint.layers()[1].n, 300) << "known even though the layer is broken";
  EXPECT_NO_THROW(checkpoint.layer("l.10"));
  EXPECT_THROW(checkpoint.layer("l.1"), Error);
}

TEST(Layers, MatchGlobsAndNameWhatIsThereWhenNothingMatches) {
  const Model model({weight("m.0.q_proj.weight"), scale("m.0.q_proj.weight_scale_inv"), weight("m.0.k_proj.weight"),
                     scale("m.0.k_proj.weight_scale_inv")},
                    kFp8Config);
  const Checkpoint checkpoint = model.open();
  EXPECT_EQ(checkpoint.match("*").size(), 2u);
  EXPECT_EQ(checkpoint.match("*.q_proj").at(0)->name, "m.0.q_proj");
  EXPECT_EQ(checkpoint.match("m.[0-9].[kq]_proj").size(), 2u);
  expect_throw([&] { checkpoint.match("*.v_proj"); }, ErrorKind::not_found, model.dir.path(), "",
               {"no quantised layer matches '*.v_proj'", "there are 2: m.0.k_proj, m.0.q_proj"});
  for (const auto& [name, hint] : std::map<std::string, std::string>{{"q_proj", "did you mean 'm.0.q_proj'?"},
                                                                     {"proj", "'m.0.k_proj' or 'm.0.q_proj'?"},
                                                                     {"m.0.qproj", "did you mean 'm.0.q_proj' or"},
                                                                     {"lm_head", "the first of 2 is 'm.0.k_proj'"}})
    expect_throw([&, name = name] { checkpoint.layer(name); }, ErrorKind::not_found, model.dir.path(), "",
                 {"has no quantised layer '" + name + "'", hint});
}

TEST(Layers, SayWhyTheRestIsNotQuantised) {
  const Model model({OwnTensor("lm_head.weight", DType::bf16, {4, 8}), OwnTensor("embed.weight", DType::bf16, {4, 8}),
                     OwnTensor("norm.weight", DType::bf16, {8}), OwnTensor("rope.inv_freq", DType::f32, {4})},
                    kFp8Config);
  const Checkpoint checkpoint = model.open();
  EXPECT_TRUE(checkpoint.layers().empty());
  std::map<std::string, std::string> why;
  for (const Unquantized& rest : checkpoint.unquantized()) why[rest.name] = rest.why;
  EXPECT_EQ(why["lm_head.weight"], "modules_to_not_convert lists 'lm_head'");
  EXPECT_EQ(why["embed.weight"], "BF16 without a scale");
  EXPECT_EQ(why["norm.weight"], "not a matrix");
  EXPECT_EQ(why["rope.inv_freq"], "not a layer's weight");
}

TEST(Layers, TakeABiasThatFitsAndRefuseOneThatDoesNot) {
  const std::vector<OwnTensor> base = {weight("a.weight"), scale("a.weight_scale_inv")};
  auto fits = base;
  fits.push_back(OwnTensor("a.bias", DType::bf16, {300}));
  const Checkpoint checkpoint = Model(fits, kFp8Config).open();
  ASSERT_TRUE(checkpoint.layer("a").bias.has_value());
  EXPECT_EQ(checkpoint.layer("a").bytes, 300u * 200u + 24u + 600u);
  auto wrong = base;
  wrong.push_back(OwnTensor("a.bias", DType::bf16, {200}));
  Model(wrong, kFp8Config).expect_problem(ErrorKind::shape, "a.bias", {"is [200], expected [300]"});
  wrong.back() = OwnTensor("a.bias", DType::i8, {300});
  Model(wrong, kFp8Config).expect_problem(ErrorKind::dtype, "a.bias", {"is I8, expected a bias of F32"});
}

TEST(Layers, StaticActivationsNeedTheirScale) {
  const std::string config = R"({"quantization_config":{"quant_method":"fp8","activation_scheme":"static"}})";
  std::vector<OwnTensor> tensors = {weight("a.weight"),
                                    OwnTensor("a.weight_scale", std::vector<std::int64_t>{}, {2.f})};
  Model(tensors, config).expect_problem(ErrorKind::not_found, "a.input_scale", {"is missing", "static"});
  tensors.push_back(OwnTensor("a.input_scale", {1}, {0.5f}));
  const Checkpoint checkpoint = Model(tensors, config).open();
  const LinearLayer& layer = checkpoint.layer("a");
  EXPECT_EQ(layer.activations, ActivationScheme::fixed);
  EXPECT_EQ(layer.weight_grid, (ScaleGrid{0, 0}));
  EXPECT_TRUE(layer.input_scale.has_value());
}

TEST(Layers, PackedAndAsymmetricWeightsAreUnsupported) {
  const Model packed({OwnTensor("a.weight_packed", DType::s32, {300, 25}), scale("a.weight_scale")}, "");
  const Checkpoint checkpoint = packed.open();
  expect_error(*checkpoint.layers().at(0).problem, ErrorKind::unsupported, packed.file, "a.weight_packed",
               {"packed"});
  const std::vector<OwnTensor> base = {OwnTensor("a.weight", DType::i8, {300, 200}),
                                       OwnTensor("a.weight_scale", {300, 1}, std::vector<float>(300, 1))};
  auto zeros = base;
  zeros.push_back(OwnTensor("a.weight_zero_point", DType::i8, {300, 1}, 0));
  EXPECT_EQ(Model(zeros, "").open().layer("a").weight_grid, (ScaleGrid{1, 0}));
  zeros.back() = OwnTensor("a.weight_zero_point", DType::i8, {300, 1}, 3);
  Model(zeros, "").expect_problem(ErrorKind::unsupported, "a.weight_zero_point", {"asymmetric"});
}

}  // namespace
}  // namespace ironcl::checkpoint
