// SPDX-License-Identifier: Apache-2.0
// Scale tensors: the shape each grid asks for, the block a shape implies, and values that cannot be scales.
#include <limits>

#include "host/checkpoint/block.h"
#include "host/checkpoint/model.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

const FileInfo kFrom{"f.safetensors", {}};
const std::filesystem::path& kFile = kFrom.path;

Tensor in_file(Tensor tensor) {
  tensor.from = &kFrom;
  return tensor;
}

Tensor shaped(const std::string& name, std::vector<std::int64_t> shape, DType dtype = DType::f32) {
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.dtype_name = numerics::file_name_of(dtype);
  tensor.shape = std::move(shape);
  return in_file(std::move(tensor));
}

ScaleGrid implied(std::vector<std::int64_t> scale, std::int64_t n, std::int64_t k) {
  return grid_from_shape(shaped("s", std::move(scale)), shaped("w", {n, k}, DType::e4m3fn));
}

/// Scales of this shape for a weight [576, 2048], with what the error says.
void expect_misshapen(const std::vector<std::int64_t>& shape, ScaleGrid grid, const std::vector<std::string>& parts) {
  expect_throw([&] { check_scale_shape(shaped("s", shape), "w", 576, 2048, grid); }, ErrorKind::shape, kFile, "s",
               parts);
}

TEST(ScaleShape, IsCeilDividedInBothDimensions) {
  EXPECT_NO_THROW(check_scale_shape(shaped("s", {5, 16}), "w", 576, 2048, {128, 128}));
  expect_misshapen({4, 16}, {128, 128}, {"is [4, 16], expected [5, 16]", "'w' [576, 2048]", "scales 128x128"});
  expect_misshapen({16, 5}, {128, 128}, {"is [16, 5], expected [5, 16]"});
}

TEST(ScaleShape, OfAChannelOrATensorMayLackDimensions) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{576}, {576, 1}})
    EXPECT_NO_THROW(check_scale_shape(shaped("s", shape), "w", 576, 2048, {1, 0}));
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1}, {1, 1}})
    EXPECT_NO_THROW(check_scale_shape(shaped("s", shape), "w", 576, 2048, {0, 0}));
  expect_misshapen({575}, {1, 0}, {"is [575], expected [576, 1]", "per channel"});
  expect_misshapen({2}, {0, 0}, {"is [2], expected [1, 1]", "per tensor"});
}

TEST(ScaleShape, ImpliesTheOnlyBlockThatFits) {
  for (const std::int64_t block : {32, 64, 128, 256, 512})
    EXPECT_EQ(implied({numerics::ceil_div(1536, block), numerics::ceil_div(7168, block)}, 1536, 7168),
              (ScaleGrid{block, block}));
  EXPECT_EQ(implied({5, 16}, 576, 2048), (ScaleGrid{128, 128}));
  EXPECT_EQ(implied({576, 64}, 576, 2048), (ScaleGrid{1, 32})) << "groups along K only";
  EXPECT_EQ(implied({576}, 576, 2048), (ScaleGrid{1, 0}));
  EXPECT_EQ(implied({576, 1}, 576, 2048), (ScaleGrid{1, 0}));
  EXPECT_EQ(implied({}, 576, 2048), (ScaleGrid{0, 0}));
  EXPECT_EQ(implied({1}, 576, 2048), (ScaleGrid{0, 0}));
  EXPECT_EQ(implied({1, 1}, 576, 2048), (ScaleGrid{0, 0})) << "no block of at most 512 covers the weight";
}

TEST(ScaleShape, OfOneElementIsPerTensor) {
  EXPECT_EQ(implied({1, 1}, 100, 120), (ScaleGrid{0, 0})) << "any block that covers the weight means the same";
  EXPECT_EQ(implied({1, 1}, 16, 500), (ScaleGrid{0, 0}));
  EXPECT_EQ(implied({1, 1, 1, 1}, 16, 500), (ScaleGrid{0, 0}));
}

TEST(ScaleShape, ThatNoBlockFitsSaysWhatItShouldBe) {
  expect_throw(
      [] {
        implied(std::vector<std::int64_t>{5, 17}, 576, 2048);
      },
      ErrorKind::shape, kFile, "s",
      {"is [5, 17]", "'w' [576, 2048]", "[5, 16] for 128x128", "[3, 8] for 256x256", "[2, 4] for 512x512",
       "--block"});
}

TEST(ScaleType, IsF32F16Bf16OrE8m0) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::e8m0})
    EXPECT_NO_THROW(check_scale_dtype(shaped("s", {}, dtype)));
  for (const DType dtype : {DType::f64, DType::e4m3fn, DType::i8, DType::s32})
    expect_throw([&] { check_scale_dtype(shaped("s", {}, dtype)); }, ErrorKind::dtype, kFile, "s",
                 {std::string(numerics::file_name_of(dtype)), "expected scales of F32, F16, BF16 or F8_E8M0"});
}

TEST(ScaleValues, MustBeFiniteAndNotNegative) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_NO_THROW(check_scale_values(in_file(OwnTensor("s", {2, 2}, {0.f, 1e-38f, 1, 3e38f}).view())));
  const std::vector<std::pair<float, std::string>> bad = {{NAN, "nan"}, {kInf, "inf"}, {-kInf, "-inf"}, {-1, "-1"}};
  for (const auto& [value, text] : bad)
    expect_throw(
        [&, v = value] {
          check_scale_values(in_file(OwnTensor("s", {2, 3}, {1, 1, 1, 1, 1, v}).view()));
        },
        ErrorKind::value, kFile, "s", {"scale [1, 2] is ", text});
}

TEST(ScaleValues, AreCheckedInEveryScaleType) {
  for (const auto& [dtype, fill] : {std::pair{DType::f16, 0xff}, {DType::bf16, 0xff}, {DType::e8m0, 0xff}})
    expect_throw(
        [&, d = dtype, f = fill] {
          check_scale_values(in_file(OwnTensor("s", d, {2}, static_cast<unsigned char>(f)).view()));
        },
        ErrorKind::value, kFile, "s", {"scale [0, 0] is", "nan"});
}

// --- Static scales of activations.

/// A per-tensor layer "a" with a static scale of 0.5 under this name.
std::vector<OwnTensor> layer_with(const std::string& name, float value = 0.5f) {
  return {OwnTensor("a.weight", DType::e4m3fn, {300, 200}, 0x38),
          OwnTensor("a.weight_scale", std::vector<std::int64_t>{}, {2.f}),
          OwnTensor(name, std::vector<std::int64_t>{}, {value})};
}

std::string quantised_with(const std::string& members) { return R"({"quantization_config":{)" + members + "}}"; }

/// Layer "a" of a folder of these tensors, and of this config.json where it is not empty.
LinearLayer open_layer(const std::vector<OwnTensor>& tensors, const std::string& config,
                       const std::string& hf_quant_config = "") {
  std::map<std::string, std::string> files;
  if (!hf_quant_config.empty()) files["hf_quant_config.json"] = hf_quant_config;
  const Checkpoint checkpoint = Model(tensors, config, {}, files).open();
  for (const LinearLayer& layer : checkpoint.layers())
    if (layer.name == "a") return layer;
  ADD_FAILURE() << "there is no layer a";
  return {};
}

void expect_static(const LinearLayer& layer, const std::string& name) {
  EXPECT_FALSE(layer.problem.has_value()) << layer.problem->what();
  EXPECT_EQ(layer.activations, ActivationScheme::fixed);
  EXPECT_EQ(layer.activation_grid, (ScaleGrid{0, 0}));
  ASSERT_TRUE(layer.input_scale.has_value());
  EXPECT_EQ(layer.input_scale->name, name);
}

void expect_refused(const LinearLayer& layer, ErrorKind kind, const std::string& tensor, const std::string& part) {
  ASSERT_TRUE(layer.problem.has_value()) << "the layer is used";
  EXPECT_EQ(name_of(layer.problem->kind()), name_of(kind)) << layer.problem->what();
  EXPECT_EQ(layer.problem->tensor(), tensor);
  EXPECT_NE(std::string(layer.problem->what()).find(part), std::string::npos) << layer.problem->what();
}

const std::string kModelopt =
    R"("quant_method":"modelopt","quant_algo":"FP8","ignore":["lm_head"],"config_groups":{"group_0":{)"
    R"("input_activations":{"dynamic":false,"num_bits":8,"type":"float"},)"
    R"("weights":{"dynamic":false,"num_bits":8,"type":"float"},"targets":["Linear"]}})";

TEST(StaticScales, AreUsedWithoutAConfig) {
  expect_static(open_layer(layer_with("a.input_scale"), ""), "a.input_scale");
  expect_static(open_layer(layer_with("a.input_scale"), R"({"model_type":"llama"})"), "a.input_scale");
}

TEST(StaticScales, AreUsedUnderEveryNameTheyHave) {
  for (const std::string name : {"a.input_scale", "a.activation_scale", "a.act_scale", "a.scale_input"})
    expect_static(open_layer(layer_with(name), ""), name);
  expect_static(
      open_layer(layer_with("a.activation_scale"),
                 quantised_with(R"("quant_method":"fp8","activation_scheme":"static","weight_block_size":null)")),
      "a.activation_scale");
}

TEST(StaticScales, AreUsedInALoneFile) {
  const TempDir dir;
  const auto file = save(dir / "l.safetensors", {OwnTensor("weight", DType::e4m3fn, {300, 200}, 0x38),
                                                 OwnTensor("weight_scale", std::vector<std::int64_t>{}, {2.f}),
                                                 OwnTensor("input_scale", std::vector<std::int64_t>{}, {0.5f}),
                                                 OwnTensor("x_scale", {7, 2}, std::vector<float>(14, 1))});
  expect_static(Checkpoint::open(file).layers().at(0), "input_scale");
}

TEST(StaticScales, AreUsedInModeloptsFolders) {
  const LinearLayer layer = open_layer(layer_with("a.input_scale"), quantised_with(kModelopt));
  expect_static(layer, "a.input_scale");
  EXPECT_EQ(layer.weight_grid, (ScaleGrid{0, 0})) << "no strategy is given: the shape decides";
  expect_static(
      open_layer(layer_with("a.input_scale"), "{}",
                 R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8","exclude_modules":[]}})"),
      "a.input_scale");
}

TEST(StaticScales, ThatModeloptPromisesAndDoesNotGiveAreAnError) {
  auto tensors = layer_with("a.input_scale");
  tensors.pop_back();
  expect_refused(open_layer(tensors, quantised_with(kModelopt)), ErrorKind::not_found, "a.input_scale", "is missing");
}

TEST(StaticScales, ThatContradictTheConfigAreNeverDropped) {
  const std::string dynamic = R"("quant_method":"fp8","activation_scheme":"dynamic")";
  expect_refused(open_layer(layer_with("a.input_scale"), quantised_with(dynamic)), ErrorKind::config, "a.input_scale",
                 "config.json says that they are quantised dynamically");
  const std::string weight_only =
      R"("quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"weights":{"strategy":"tensor"}}})";
  expect_refused(open_layer(layer_with("a.input_scale"), quantised_with(weight_only)), ErrorKind::config,
                 "a.input_scale", "config.json says that they are not quantised");
}

TEST(StaticScales, OfManyValuesOrOfNanAreRefused) {
  auto tensors = layer_with("a.input_scale", NAN);
  expect_refused(open_layer(tensors, ""), ErrorKind::value, "a.input_scale", "nan");
  expect_refused(open_layer(layer_with("a.input_scale", 0), ""), ErrorKind::value, "a.input_scale",
                 "activations are divided by it");
  tensors.back() = OwnTensor("a.input_scale", {200}, std::vector<float>(200, 1));
  expect_refused(open_layer(tensors, ""), ErrorKind::shape, "a.input_scale", "is [200], expected [1, 1]");
}

TEST(StaticScales, TwoOfThemAreAnError) {
  auto tensors = layer_with("a.input_scale");
  tensors.push_back(OwnTensor("a.activation_scale", std::vector<std::int64_t>{}, {1.f}));
  expect_refused(open_layer(tensors, ""), ErrorKind::config, "a.weight",
                 "'a.activation_scale' and 'a.input_scale'; one of them is wrong");
}

TEST(Parts, ThatChangeTheProductInAnotherWayRefuseTheLayer) {
  for (const auto& [leaf, part] : {std::pair{"pre_quant_scale", "scales the columns of the activations"},
                                   {"weight_scale_2", "second scale"},
                                   {"weight_rotation", "what it does to the product is not known"}})
    expect_refused(open_layer(layer_with(std::string("a.") + leaf), ""), ErrorKind::unsupported,
                   std::string("a.") + leaf, part);
}

TEST(Parts, ThatDoNotEnterTheProductAreMentioned) {
  const TempDir dir;
  auto tensors = layer_with("a.input_scale");
  tensors.push_back(OwnTensor("a.k_scale", std::vector<std::int64_t>{}, {1.f}));
  const Checkpoint checkpoint = Checkpoint::open(save(dir / "l.safetensors", tensors));
  expect_static(checkpoint.layers().at(0), "a.input_scale");
  ASSERT_EQ(checkpoint.unquantized().size(), 1u);
  EXPECT_EQ(checkpoint.unquantized()[0].name, "a.k_scale");
  EXPECT_NE(checkpoint.unquantized()[0].why.find("KV cache"), std::string::npos);
}

TEST(Ignored, ModulesAreReadUnderEveryNameOfTheList) {
  for (const std::string member : {"ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules"})
    for (const std::string entry : {"lm_head", "lm_*", "re:lm_.*", "^lm_head$"}) {
      const TempDir dir;
      save(dir / "model.safetensors", {OwnTensor("lm_head.weight", DType::bf16, {4, 8})});
      write_file(dir / "config.json",
                 quantised_with(R"("quant_method":"modelopt",")" + member + R"(":[")" + entry + R"("])"));
      const Checkpoint checkpoint = Checkpoint::open(dir.path());
      EXPECT_EQ(checkpoint.unquantized().at(0).why, member + " lists '" + entry + "'");
    }
}

TEST(Ignored, ModulesThatAreQuantisedAllTheSameAreAnError) {
  expect_refused(open_layer(layer_with("a.input_scale"),
                            quantised_with(R"("quant_method":"modelopt","quant_algo":"FP8","ignore":["a"])")),
                 ErrorKind::config, "a.weight", "ignore of config.json lists 'a'");
}

}  // namespace
}  // namespace ironcl::checkpoint
