// SPDX-License-Identifier: Apache-2.0
// Layers of experts: names of every family, both orientations of stacked tensors, what is missing, routing out of
// config.json. The checkpoints of tests/data/experts are of transformers' shapes (make_experts.py).

#include <ctime>

#include "host/checkpoint/model.h"
#include "host/layer/layer_problem.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

const std::filesystem::path kFolders = std::filesystem::path(IRONCL_TESTS_DATA) / "experts";

const std::string kQuantization =
    R"("quantization_config":{"quant_method":"fp8","activation_scheme":"dynamic","weight_block_size":[64,64]})";

/// config.json of a model type with these members beside E = 2 and k = 1.
std::string config_of(const std::string& type, const std::string& members = "") {
  return fmt::format(R"({{"model_type":"{}","num_experts":2,"num_experts_per_tok":1,{}{}{}}})", type, members,
                     members.empty() ? "" : ",", kQuantization);
}

void add_matrix(std::vector<OwnTensor>& tensors, const std::string& name, std::int64_t n, std::int64_t k) {
  tensors.emplace_back(name + ".weight", kE4m3, std::vector{n, k}, 0x38);
  tensors.emplace_back(name + ".weight_scale_inv", DType::f32, std::vector{(n + 63) / 64, (k + 63) / 64});
}

/// Two experts of H = 96, I = 64 with these names of gate, up and down, and their router.
std::vector<OwnTensor> two_experts(const std::string& base, const std::vector<std::string>& names) {
  std::vector<OwnTensor> tensors;
  for (const std::string expert : {"0", "1"}) {
    add_matrix(tensors, base + ".experts." + expert + "." + names[0], 64, 96);
    add_matrix(tensors, base + ".experts." + expert + "." + names[1], 64, 96);
    add_matrix(tensors, base + ".experts." + expert + "." + names[2], 96, 64);
  }
  tensors.emplace_back(base + ".gate.weight", DType::bf16, std::vector<std::int64_t>{2, 96});
  return tensors;
}
const std::vector<std::string> kProjections = {"gate_proj", "up_proj", "down_proj"};

struct Opened : Model {
  Checkpoint checkpoint = open();
  using Model::Model;
  const ExpertsLayer& only() const {
    if (checkpoint.experts().size() != 1) throw std::runtime_error("not one layer of experts");
    return checkpoint.experts().front();
  }
  void expect_refused(const std::vector<std::string>& parts) const {
    ASSERT_TRUE(only().problem.has_value());
    for (const std::string& part : parts)
      EXPECT_NE(std::string(only().problem->what()).find(part), std::string::npos) << only().problem->what();
  }
};

std::vector<OwnTensor> without(std::vector<OwnTensor> tensors, const std::string& prefix) {
  std::erase_if(tensors, [&](const OwnTensor& one) { return one.tensor.name.starts_with(prefix); });
  return tensors;
}

TEST(ExpertsLayer, OfDeepSeekHasRouterBiasGroupsAndSharedExpert) {
  const Checkpoint checkpoint = Checkpoint::open(kFolders / "deepseek-v3");
  ASSERT_EQ(checkpoint.experts().size(), 1u);
  const ExpertsLayer& layer = checkpoint.experts()[0];
  ASSERT_FALSE(layer.problem) << layer.problem->what();
  EXPECT_EQ(layer.name, "model.layers.0.mlp");
  EXPECT_EQ(layer.hidden, 160);
  EXPECT_EQ(layer.width, 96);
  EXPECT_EQ(layer.shared_width, 96);
  EXPECT_EQ(layer.experts.gate.size(), 8u);
  EXPECT_EQ(checkpoint.layers()[layer.experts.up[7]].name, "model.layers.0.mlp.experts.7.up_proj");
  EXPECT_EQ(checkpoint.layers()[layer.shared->down[0]].name, "model.layers.0.mlp.shared_experts.down_proj");
  EXPECT_EQ(layer.router.shape, (std::vector<std::int64_t>{8, 160}));
  ASSERT_TRUE(layer.correction_bias);
  EXPECT_EQ(layer.correction_bias->dtype, DType::f32);
  const Routing& routing = layer.routing;
  EXPECT_EQ(routing.score, RouterScore::sigmoid);
  EXPECT_TRUE(routing.normalize);
  EXPECT_EQ(routing.scale, 2.5);
  EXPECT_EQ(routing.expert_groups, 4);
  EXPECT_EQ(routing.top_groups, 2);
  EXPECT_EQ(routing.top_k, 2);
  EXPECT_FALSE(layer.shared_gate);
  std::uint64_t bytes = 0;
  for (const SafetensorsFile& file : checkpoint.files())
    for (const Tensor& tensor : file.tensors()) bytes += tensor.data.size();
  EXPECT_EQ(layer.bytes, bytes);
}

TEST(ExpertsLayer, OfMixtralTakesW1AsGateAndW3AsUp) {
  const Checkpoint checkpoint = Checkpoint::open(kFolders / "mixtral");
  ASSERT_EQ(checkpoint.experts().size(), 1u);
  const ExpertsLayer& layer = checkpoint.experts()[0];
  ASSERT_FALSE(layer.problem) << layer.problem->what();
  EXPECT_EQ(layer.name, "model.layers.0.block_sparse_moe");
  const LinearLayer& gate = checkpoint.layers()[layer.experts.gate[3]];
  EXPECT_EQ(gate.name, "model.layers.0.block_sparse_moe.experts.3.w1");
  EXPECT_EQ(gate.weight_grid, (ScaleGrid{1, 0}));
  EXPECT_EQ(checkpoint.layers()[layer.experts.up[3]].name, "model.layers.0.block_sparse_moe.experts.3.w3");
  EXPECT_EQ(checkpoint.layers()[layer.experts.down[3]].name, "model.layers.0.block_sparse_moe.experts.3.w2");
  EXPECT_TRUE(layer.routing.normalize);
}

TEST(ExpertsLayer, WithZeroPointsIsRefusedAsAWhole) {
  std::vector<OwnTensor> tensors = two_experts("m", kProjections);
  for (OwnTensor& one : tensors)
    if (one.tensor.dtype == kE4m3) one = OwnTensor(one.tensor.name, DType::i8, one.tensor.shape, 1);
  const std::string config =
      R"({"model_type":"qwen3_moe","num_experts":2,"num_experts_per_tok":1,"quantization_config":{)"
      R"("quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],)"
      R"("weights":{"num_bits":8,"type":"int","strategy":"block","block_structure":[64,64]}}}}})";
  EXPECT_FALSE(Opened(tensors, config).only().problem);
  tensors.emplace_back("m.experts.1.up_proj.weight_zero_point", DType::i8, std::vector<std::int64_t>{1, 2}, 3);
  const Opened opened(tensors, config);
  EXPECT_EQ(opened.checkpoint.layer("m.experts.1.up_proj").multiplied(), DType::bf16);
  opened.expect_refused({"up_proj.weight_zero_point", "has zero points other than 0", "one by one"});
}

TEST(ExpertsLayer, StackedWithItsSharedExpertAndGate) {
  const Checkpoint checkpoint = Checkpoint::open(kFolders / "qwen3-5-stacked");
  ASSERT_EQ(checkpoint.experts().size(), 1u);
  const ExpertsLayer& layer = checkpoint.experts()[0];
  ASSERT_FALSE(layer.problem) << layer.problem->what();
  ASSERT_TRUE(layer.experts.fused());
  EXPECT_EQ(checkpoint.layers()[layer.experts.gate_up[2]].n, 384);
  EXPECT_EQ(layer.width, 192);
  EXPECT_EQ(layer.shared_width, 64);
  ASSERT_TRUE(layer.shared_gate);
  EXPECT_EQ(layer.shared_gate->shape, (std::vector<std::int64_t>{1, 96}));
}

TEST(ExpertsLayer, StoredTransposedIsTurned) {
  const Checkpoint checkpoint = Checkpoint::open(kFolders / "qwen3-vl-transposed");
  ASSERT_EQ(checkpoint.experts().size(), 1u);
  const ExpertsLayer& layer = checkpoint.experts()[0];
  ASSERT_FALSE(layer.problem) << layer.problem->what();
  const LinearLayer& both = checkpoint.layers()[layer.experts.gate_up[1]];
  EXPECT_TRUE(both.transposed);
  EXPECT_EQ(both.n, 256);
  EXPECT_EQ(both.k, 160);
  const layer::LayerWeights weights = layer::weights_of(both);
  const Tensor& stored = checkpoint.files()[0].at("model.language_model.layers.0.mlp.experts.gate_up_proj");
  ASSERT_EQ(stored.shape, (std::vector<std::int64_t>{3, 160, 256}));
  for (const std::int64_t n : {0, 1, 127, 128, 255})
    for (const std::int64_t k : {0, 1, 159})
      EXPECT_EQ(weights.codes[static_cast<std::size_t>(n * 160 + k)],
                stored.data[static_cast<std::size_t>(160 * 256 + k * 256 + n)])
          << n << ", " << k;
  const Tensor& scales = checkpoint.files()[0].at("model.language_model.layers.0.mlp.experts.gate_up_proj_scale_inv");
  ASSERT_EQ(scales.shape, (std::vector<std::int64_t>{3, 2, 2}));
  std::vector<float> turned(4), as_stored(4);
  std::memcpy(turned.data(), weights.scales.data(), 16);
  std::memcpy(as_stored.data(), scales.data.data() + 16, 16);
  EXPECT_EQ(turned, (std::vector<float>{as_stored[0], as_stored[2], as_stored[1], as_stored[3]}));
}

TEST(ExpertsLayer, StackedAgainstItsModelTypeIsRefused) {
  const std::vector<OwnTensor> rows_first = {OwnTensor("m.experts.gate_up_proj", kE4m3, {2, 128, 96}, 0x38),
                                             OwnTensor("m.experts.gate_up_proj_scale_inv", DType::f32, {2, 2, 2}),
                                             OwnTensor("m.experts.down_proj", kE4m3, {2, 96, 64}, 0x38),
                                             OwnTensor("m.experts.down_proj_scale_inv", DType::f32, {2, 2, 1}),
                                             OwnTensor("m.gate.weight", DType::bf16, {2, 96})};
  EXPECT_FALSE(Opened(rows_first, config_of("qwen3_moe")).only().problem);
  Opened(rows_first, config_of("qwen3_vl_moe"))
      .expect_refused({"stores experts as [E, K, N], the shapes beside it say [E, N, K]"});
}

/// A stack whose two dimensions are equal says nothing: the model type alone does.
TEST(ExpertsLayer, SquareStackFollowsTheModelType) {
  const std::vector<OwnTensor> square = {OwnTensor("m.experts.down_proj", kE4m3, {2, 64, 64}, 0x38),
                                         OwnTensor("m.experts.down_proj_scale_inv", DType::f32, {2, 1, 1})};
  EXPECT_FALSE(Opened(square, config_of("qwen3_moe")).checkpoint.layers()[0].transposed);
  EXPECT_TRUE(Opened(square, config_of("gpt_oss")).checkpoint.layers()[0].transposed);
}

TEST(ExpertsLayer, JoinedScalesOfHalfABlockMakeGateAndUp) {
  // I = 96 in blocks of 64: 1.5 blocks. Joined: 2 + 2 rows; together: 3.
  const auto tensors = [](std::int64_t scale_rows) {
    return std::vector<OwnTensor>{OwnTensor("m.experts.gate_up_proj", kE4m3, {2, 192, 64}, 0x38),
                                  OwnTensor("m.experts.gate_up_proj_scale_inv", DType::f32, {2, scale_rows, 1}),
                                  OwnTensor("m.experts.down_proj", kE4m3, {2, 64, 96}, 0x38),
                                  OwnTensor("m.experts.down_proj_scale_inv", DType::f32, {2, 1, 2}),
                                  OwnTensor("m.gate.weight", DType::bf16, {2, 64})};
  };
  const Opened joined(tensors(4), config_of("qwen3_moe"));
  ASSERT_FALSE(joined.only().problem) << joined.only().problem->what();
  EXPECT_FALSE(joined.only().experts.fused());
  const LinearLayer& up = joined.checkpoint.layer("m.experts.1.up_proj");
  EXPECT_EQ(up.n, 96);
  EXPECT_EQ(up.weight.data.data(),
            joined.checkpoint.files()[0].at("m.experts.gate_up_proj").data.data() + 192 * 64 + 96 * 64);
  EXPECT_EQ(up.scale.shape, (std::vector<std::int64_t>{2, 1}));
  const Opened together(tensors(3), config_of("qwen3_moe"));
  ASSERT_FALSE(together.only().problem) << together.only().problem->what();
  EXPECT_TRUE(together.only().experts.fused());
}

TEST(ExpertsLayer, JoinedHalvesCutTheirBiasOrRefuseIt) {
  const auto open = [](std::int64_t bias) {
    return Opened({OwnTensor("m.experts.gate_up_proj", kE4m3, {2, 192, 64}, 0x38),
                   OwnTensor("m.experts.gate_up_proj_scale_inv", DType::f32, {2, 4, 1}),
                   OwnTensor("m.experts.gate_up_proj_bias", DType::f32, {2, bias}),
                   OwnTensor("m.experts.down_proj", kE4m3, {2, 64, 96}, 0x38),
                   OwnTensor("m.experts.down_proj_scale_inv", DType::f32, {2, 1, 2})},
                  config_of("qwen3_moe"))
        .checkpoint;
  };
  const Checkpoint fits = open(192);
  EXPECT_EQ(fits.layer("m.experts.1.up_proj").bias->data.data(),
            fits.files()[0].at("m.experts.gate_up_proj_bias").data.data() + (192 + 96) * sizeof(float));
  for (const std::int64_t bias : {0, 3, 193}) {
    const Checkpoint checkpoint = open(bias);
    for (const std::string half : {"m.experts.0.gate_proj", "m.experts.1.up_proj"})
      expect_throw([&] { checkpoint.layer(half); }, ErrorKind::shape, checkpoint.files()[0].path(),
                   "m.experts.gate_up_proj_bias", {fmt::format("is [{}] for one expert, expected [192]", bias)});
  }
}

/// Blocks that the file's metadata or only the shapes say are asked, too, before anything is guessed.
TEST(ExpertsLayer, ScalesThatMayBeEitherAreRefusedWhoeverSaysTheBlocks) {
  const auto open = [](std::int64_t width, const Metadata& metadata) {
    const std::int64_t blocks = (width + 63) / 64;
    const TempDir dir;
    return Checkpoint::open(save(dir / "model.safetensors",
                                 {OwnTensor("m.experts.gate_up_proj", kE4m3, {2, 2 * width, 128}, 0x38),
                                  OwnTensor("m.experts.gate_up_proj_scale_inv", DType::f32, {2, 2 * blocks, 2}),
                                  OwnTensor("m.experts.down_proj", kE4m3, {2, 128, width}, 0x38),
                                  OwnTensor("m.experts.down_proj_scale_inv", DType::f32, {2, 2, blocks})},
                                 metadata));
  };
  for (const Metadata& metadata : {Metadata(), Metadata{{"weight_block", "64"}}}) {
    const Checkpoint either = open(40, metadata);
    expect_throw([&] { either.layer("m.experts.0.gate_up_proj"); }, ErrorKind::ambiguous, either.files()[0].path(),
                 "m.experts.gate_up_proj_scale_inv", {"of both together or of each alone"});
  }
  EXPECT_NO_THROW(open(96, {{"weight_block", "64"}}).layer("m.experts.1.up_proj"));
  EXPECT_NO_THROW(open(64, {}).layer("m.experts.1.gate_up_proj"));
}

TEST(ExpertsLayer, ScalesThatMayBeEitherAreRefused) {
  // I = 40 in blocks of 64: joined 1 + 1 rows, together 2.
  const Opened either({OwnTensor("m.experts.gate_up_proj", kE4m3, {2, 80, 64}, 0x38),
                       OwnTensor("m.experts.gate_up_proj_scale_inv", DType::f32, {2, 2, 1}),
                       OwnTensor("m.experts.down_proj", kE4m3, {2, 64, 40}, 0x38),
                       OwnTensor("m.experts.down_proj_scale_inv", DType::f32, {2, 1, 1}),
                       OwnTensor("m.gate.weight", DType::bf16, {2, 64})},
                      config_of("qwen3_moe"));
  either.expect_refused({"of both together or of each alone", "save gate and up by themselves"});
}

TEST(ExpertsLayer, MissingMatrixIsNamed) {
  auto tensors = without(two_experts("m", kProjections), "m.experts.1.up_proj");
  Opened(tensors, config_of("qwen3_moe"))
      .expect_refused({"tensor 'm.experts.1.up_proj.weight'", "expert 1 of 2 is not whole"});
  tensors = without(two_experts("m", kProjections), "m.experts.1.");
  Opened(tensors, config_of("qwen3_moe"))
      .expect_refused({"tensor 'm.experts.1.gate_proj.weight'", "all of expert 1", "1 of 2 experts are there"});
  tensors = without(two_experts("m", kProjections), "m.gate.weight");
  Opened(tensors, config_of("qwen3_moe")).expect_refused({"tensor 'm.gate.weight'", "the router [2, 96]"});
  Opened(two_experts("m", kProjections), config_of("glm4_moe"))
      .expect_refused({"m.gate.e_score_correction_bias", "is missing"});
}

TEST(ExpertsLayer, ScaleInAnotherShardIsFound) {
  const TempDir dir;
  std::vector<OwnTensor> first, second;
  for (OwnTensor& tensor : two_experts("m", kProjections))
    (tensor.tensor.name == "m.experts.1.up_proj.weight_scale_inv" || tensor.tensor.name == "m.gate.weight" ? second
                                                                                                           : first)
        .push_back(std::move(tensor));
  save(dir / "a.safetensors", first);
  save(dir / "b.safetensors", second);
  std::string map;
  for (const auto* shard : {&first, &second})
    for (const OwnTensor& tensor : *shard)
      map += fmt::format(R"({}"{}":"{}.safetensors")", map.empty() ? "" : ",", tensor.tensor.name,
                         shard == &first ? "a" : "b");
  write_file(dir / "model.safetensors.index.json", R"({"weight_map":{)" + map + "}}");
  write_file(dir / "config.json", config_of("qwen3_moe"));
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  ASSERT_EQ(checkpoint.experts().size(), 1u);
  EXPECT_FALSE(checkpoint.experts()[0].problem) << checkpoint.experts()[0].problem->what();
  EXPECT_EQ(checkpoint.layer("m.experts.1.up_proj").scale.file().filename(), "b.safetensors");
}

TEST(ExpertsLayer, UnlikeExpertsAreRefused) {
  auto tensors = without(two_experts("m", kProjections), "m.experts.1.");
  add_matrix(tensors, "m.experts.1.gate_proj", 64, 96);
  add_matrix(tensors, "m.experts.1.up_proj", 64, 96);
  add_matrix(tensors, "m.experts.1.down_proj", 96, 32);
  Opened(tensors, config_of("qwen3_moe"))
      .expect_refused({"m.experts.1.down_proj.weight", "[96, 32]", "'m.experts.0.down_proj.weight' has [96, 64]"});
}

TEST(ExpertsLayer, SharedExpertThatIsNotWholeIsRefused) {
  auto tensors = two_experts("m", kProjections);
  add_matrix(tensors, "m.shared_experts.gate_proj", 64, 96);
  add_matrix(tensors, "m.shared_experts.down_proj", 96, 64);
  Opened(tensors, config_of("qwen3_moe"))
      .expect_refused({"m.shared_experts.up_proj.weight", "the shared expert is not whole"});
}

TEST(ExpertsLayer, SharedExpertThatTheConfigHasAndTheFilesLackIsNamed) {
  // Without it y would lack a summand, and every device and the oracle agree on what is left.
  for (const std::string member : {R"("n_shared_experts":1)", R"("shared_expert_intermediate_size":64)"}) {
    auto tensors = two_experts("m", kProjections);
    Opened(tensors, config_of("qwen3_moe", member))
        .expect_refused(
            {"m.shared_expert(s).down_proj.weight", "config.json says that these experts have a shared one"});
    add_matrix(tensors, "m.shared_expert.gate_proj", 64, 96);
    add_matrix(tensors, "m.shared_expert.up_proj", 64, 96);
    add_matrix(tensors, "m.shared_expert.down_proj", 96, 64);
    EXPECT_FALSE(Opened(tensors, config_of("qwen3_moe", member)).only().problem) << member;
  }
  for (const std::string member :
       {R"("n_shared_experts":0)", R"("n_shared_experts":null)", R"("n_shared_experts":"1")"})
    EXPECT_FALSE(Opened(two_experts("m", kProjections), config_of("qwen3_moe", member)).only().problem) << member;
}

TEST(ExpertsLayer, GateOfASharedExpertThatTheTypeHasAndTheFilesLackIsNamed) {
  auto tensors = two_experts("m", kProjections);
  add_matrix(tensors, "m.shared_expert.gate_proj", 64, 96);
  add_matrix(tensors, "m.shared_expert.up_proj", 64, 96);
  add_matrix(tensors, "m.shared_expert.down_proj", 96, 64);
  Opened(tensors, config_of("qwen2_moe"))
      .expect_refused({"m.shared_expert_gate.weight", "model type qwen2_moe scales the shared expert by it"});
  tensors.emplace_back("m.shared_expert_gate.weight", DType::bf16, std::vector<std::int64_t>{1, 96});
  EXPECT_TRUE(Opened(tensors, config_of("qwen2_moe")).only().shared_gate);
}

TEST(ExpertsLayer, SharedExpertWithOtherActivationsIsRefused) {
  // x is quantised once: by the groups of the experts, whatever the shared expert's are.
  const auto opened = [](const std::string& shared_inputs) {
    auto tensors = two_experts("m", kProjections);
    for (const auto& [projection, n, k] :
         {std::tuple{"gate_proj", 64, 96}, {"up_proj", 64, 96}, {"down_proj", 96, 64}}) {
      const std::string name = std::string("m.shared_experts.") + projection;
      tensors.emplace_back(name + ".weight", kE4m3, std::vector<std::int64_t>{n, k}, 0x38);
      tensors.emplace_back(name + ".weight_scale", DType::f32, std::vector<std::int64_t>{n, 1}, 0x3f);
    }
    const std::string bits = R"("num_bits":8,"type":"float","dynamic":true)";
    return Opened(tensors,
                  R"({"model_type":"qwen3_moe","num_experts":2,"num_experts_per_tok":1,)"
                  R"("quantization_config":{"quant_method":"compressed-tensors","config_groups":{)"
                  R"("shared":{"targets":["re:.*shared_experts.*"],"weights":{"num_bits":8,"strategy":"channel"})" +
                      shared_inputs +
                      R"(},"all":{"targets":["Linear"],"weights":{"num_bits":8,)"
                      R"("strategy":"block","block_structure":[64,64]},"input_activations":{)" +
                      bits + R"(,"strategy":"group","group_size":64}}}}})");
  };
  const std::string group = R"(,"input_activations":{"num_bits":8,"type":"float","dynamic":true,)";
  const Opened alike(opened(group + R"("strategy":"group","group_size":64})"));
  EXPECT_FALSE(alike.only().problem) << alike.only().problem->what();
  const std::vector<std::string> why = {"m.shared_experts.gate_proj.weight",
                                        "otherwise than 'm.experts.0.gate_proj.weight'"};
  opened(group + R"("strategy":"token"})").expect_refused(why);
  opened("").expect_refused(why);
}

TEST(ExpertsLayer, RouterWithABiasIsRefused) {
  auto tensors = two_experts("m", kProjections);
  tensors.emplace_back("m.gate.bias", DType::bf16, std::vector<std::int64_t>{2});
  Opened(tensors, config_of("qwen3_moe")).expect_refused({"'m.gate.bias'", "is a bias of a router"});
}

TEST(ExpertsLayer, QuantisedRouterIsRefused) {
  auto tensors = without(two_experts("m", kProjections), "m.gate.");
  add_matrix(tensors, "m.gate", 2, 96);
  Opened(tensors, config_of("qwen3_moe")).expect_refused({"m.gate.weight", "a router stays unquantised"});
}

TEST(Routing, OfUnknownTypesIsRefusedAndTheirMatricesStayUsable) {
  const Opened unknown(two_experts("m", kProjections), config_of("surprise_moe"));
  unknown.expect_refused({"surprise_moe", "whose routing of tokens is unknown", "qwen3_moe"});
  EXPECT_NO_THROW(unknown.checkpoint.layer("m.experts.0.up_proj"));
  Opened(two_experts("m", kProjections), "").expect_refused({"no config.json"});
  Opened(two_experts("m", kProjections), config_of("llama4_text")).expect_refused({"input of an expert"});
  Opened(two_experts("m", kProjections), config_of("deepseek_v4"))
      .expect_refused({"model_type deepseek_v4 scores experts by sqrt(softplus)", "hash of token ids"});
  Opened(two_experts("m", kProjections), config_of("gpt_oss")).expect_refused({"missing: the bias of an expert"});
}

TEST(Routing, HasTheDefaultsOfItsTypeAndTheValuesOfTheConfig) {
  const auto routing = [](const std::string& config) {
    const TempDir dir;
    return *read_routing(write_file(dir / "config.json", config));
  };
  EXPECT_FALSE(routing(config_of("qwen3_moe")).normalize);
  EXPECT_TRUE(routing(config_of("qwen3_moe", R"("norm_topk_prob":true)")).normalize);
  EXPECT_TRUE(routing(config_of("qwen3_next")).normalize);
  EXPECT_TRUE(routing(config_of("mixtral", R"("norm_topk_prob":false)")).normalize);
  EXPECT_EQ(routing(config_of("minimax_m2")).score, RouterScore::sigmoid);
  EXPECT_TRUE(routing(config_of("minimax_m2")).has_correction_bias);
  EXPECT_EQ(routing(config_of("glm4_moe", R"("routed_scaling_factor":1.5)")).scale, 1.5);
  const Routing v2 = routing(
      R"({"model_type":"deepseek_v2","n_routed_experts":8,"num_experts_per_tok":2,"topk_method":"group_limited_greedy","n_group":4,"topk_group":2,"routed_scaling_factor":16.0})");
  EXPECT_EQ(v2.score, RouterScore::softmax);
  EXPECT_EQ(v2.expert_groups, 4);
  EXPECT_EQ(v2.top_groups, 2);
  EXPECT_FALSE(v2.has_correction_bias);
  EXPECT_EQ(
      routing(
          R"({"model_type":"deepseek_v2","n_routed_experts":8,"num_experts_per_tok":2,"n_group":4,"topk_group":2})")
          .expert_groups,
      1)
      << "greedy looks at all experts";
}

TEST(Routing, ThatContradictsItselfIsRefused) {
  const auto refused = [](const std::string& config, const std::vector<std::string>& parts) {
    Opened(two_experts("m", kProjections), config).expect_refused(parts);
  };
  refused(config_of("glm4_moe", R"("n_group":3)"), {"n_group is 3", "does not divide the 2 experts"});
  refused(config_of("glm4_moe", R"("n_group":2,"topk_group":3)"), {"topk_group is 3", "more than the 2 groups"});
  refused(config_of("qwen3_moe", R"("scoring_func":"sigmoid")"), {"scoring_func is 'sigmoid'", "'softmax'"});
  refused(config_of("deepseek_v3", R"("n_group":1,"topk_group":1,"topk_method":"greedy")"),
          {"topk_method is 'greedy'"});
  refused(config_of("glm4_moe", R"("routed_scaling_factor":-1)"), {"routed_scaling_factor is -1"});
  refused(config_of("glm4_moe", R"("routed_scaling_factor":1e300)"), {"routed_scaling_factor is 1e+300", "f32"});
  refused(config_of("glm4_moe", R"("routed_scaling_factor":1e-300)"), {"routed_scaling_factor is 1e-300", "f32"});
  refused(R"({"model_type":"qwen3_moe","num_experts":2,)" + kQuantization + "}", {"num_experts_per_tok is missing"});
  refused(R"({"model_type":"qwen3_moe","num_experts":2,"num_experts_per_tok":3,)" + kQuantization + "}",
          {"num_experts_per_tok is 3, more than the 2 experts"});
  refused(config_of("qwen3_moe", R"("hidden_act":"gelu")"), {"hidden_act is 'gelu'"});
}

}  // namespace
}  // namespace ironcl::checkpoint
