// SPDX-License-Identifier: Apache-2.0
// Whole folders: what is written, read back by the checkpoint reader; what stops a run and what a later one keeps.
// Next door: kill_test.py (real kills), quantize_reference.py (other people's readers).
#include "host/quantize/convert.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <random>

#include "backends/numerics/casts.h"
#include "host/checkpoint/json_input.h"
#include "tests/checkpoint/support.h"

namespace ironcl::quantize {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using checkpoint::Checkpoint;
using checkpoint::ErrorKind;
using checkpoint::Model;
using checkpoint::OwnTensor;

OwnTensor heavy(const std::string& name, std::int64_t n, std::int64_t k, unsigned seed = 1) {
  OwnTensor tensor(name, DType::bf16, {n, k});
  std::mt19937 random(seed);
  std::student_t_distribution<float> t(4);
  std::vector<float> x(static_cast<std::size_t>(n * k));
  for (float& value : x) value = t(random);
  numerics::encode(DType::bf16, x, tensor.bytes.data());
  return tensor;
}

const std::string kLayer = "model.layers.0.mlp.";

std::vector<OwnTensor> tensors() {
  OwnTensor ids("model.ids", DType::bf16, {3}, 7);
  return {heavy(kLayer + "down_proj.weight", 200, 320), heavy(kLayer + "experts.0.up_proj.weight", 96, 64, 2),
          heavy("model.embed_tokens.weight", 16, 64, 3), OwnTensor(kLayer + "down_proj.bias", DType::bf16, {200}, 1),
          ids};
}

constexpr const char* kConfig =
    R"({"model_type": "llama", "rms_norm_eps": 1e-06, "time_step_limit": [0.0, Infinity]})";

Request request(const fs::path& in, const fs::path& out, const FormatTexts& texts) {
  return {.in = in, .out = out, .format = make_format(texts)};
}

void run(const fs::path& in, const fs::path& out, const FormatTexts& texts, const InputClips& clips = {}) {
  Request asked = request(in, out, texts);
  asked.clips = clips;
  Conversion(std::move(asked)).run({});
}

/// The layer's weight as its reader says it is.
std::vector<float> values(const checkpoint::LinearLayer& layer) {
  std::vector<float> x(static_cast<std::size_t>(layer.n * layer.k));
  Weight{.tensor = {}, .layer = &layer, .n = layer.n, .k = layer.k}.read(0, layer.n, x);
  return x;
}

/// Of the folder and of those in it.
std::set<std::string> files_of(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), folder).string());
  return names;
}

double snr_db(std::span<const float> before, std::span<const float> after) {
  Loss loss;
  loss.add(before, after);
  EXPECT_EQ(loss.nonfinite, 0);
  return loss.snr_db();
}

TEST(QuantizeFolder, TheReaderTakesEveryFormatThatItReads) {
  const Model model(tensors(), kConfig);
  const TempDir dir;
  struct Case {
    FormatTexts texts;
    InputClips clips;
    ScaleGrid grid;
    checkpoint::ActivationScheme activations;
  };
  const InputClips clips = {{kLayer + "down_proj", {3, 320}}, {kLayer + "experts.0.up_proj", {5, 64}}};
  using enum checkpoint::ActivationScheme;
  const std::vector<Case> cases = {
      {{.scheme = "block"}, {}, {128, 128}, dynamic},
      {{.scheme = "block", .scale_type = "bf16", .block = ScaleGrid{32, 32}}, {}, {32, 32}, dynamic},
      {{.scheme = "block", .scale_type = "e8m0"}, {}, {128, 128}, dynamic},
      {{.scheme = "block", .type = "e5m2"}, {}, {128, 128}, dynamic},
      {{.scheme = "block", .type = "int8"}, {}, {128, 128}, dynamic},
      {{.scheme = "block", .dialect = "compressed-tensors"}, {}, {128, 128}, dynamic},
      {{.scheme = "block", .dialect = "modelopt"}, {}, {128, 128}, none},
      {{.scheme = "channel"}, {}, {1, 0}, dynamic},
      {{.scheme = "channel", .type = "int8"}, {}, {1, 0}, dynamic},
      {{.scheme = "channel", .dialect = "modelopt"}, {}, {1, 0}, dynamic},
      {{.scheme = "channel"}, clips, {1, 0}, fixed},
      {{.scheme = "tensor"}, {}, {0, 0}, dynamic},
      {{.scheme = "tensor"}, clips, {0, 0}, fixed},
      {{.scheme = "tensor", .dialect = "fp8"}, clips, {0, 0}, fixed},
      {{.scheme = "tensor", .dialect = "modelopt"}, clips, {0, 0}, fixed},
      {{.scheme = "mxfp8"}, {}, {1, 32}, dynamic},
      {{.scheme = "mxfp8", .dialect = "modelopt"}, {}, {1, 32}, dynamic},
      {{.scheme = "mxfp4"}, {}, {1, 32}, none},
      {{.scheme = "nvfp4"}, {}, {1, 16}, none},
      {{.scheme = "nvfp4"}, clips, {1, 16}, none},
      {{.scheme = "nvfp4", .dialect = "modelopt"}, clips, {1, 16}, none},
  };
  std::vector<float> before(200 * 320);
  numerics::decode(DType::bf16, tensors()[0].bytes.data(), std::span<float>(before));
  int number = 0;
  for (const Case& one : cases) {
    const fs::path out = dir / ("out" + std::to_string(number++));
    run(model.dir.path(), out, one.texts, one.clips);
    const std::string what = describe(make_format(one.texts)) + (one.clips.empty() ? "" : ", static");
    const Checkpoint made = Checkpoint::open(out);
    ASSERT_EQ(made.layers().size(), 2u) << what;
    for (const auto& layer : made.layers()) EXPECT_FALSE(layer.problem) << what << ": " << layer.problem->what();
    const auto& layer = made.layer(kLayer + "down_proj");
    EXPECT_EQ(layer.weight_grid, one.grid) << what;
    EXPECT_EQ(layer.activations, one.activations) << what;
    if (one.activations == fixed) {
      EXPECT_NEAR(numerics::load_as_f64(DType::f32, layer.input_scale->data.data(), 0), 3.0 / 448, 1e-8) << what;
    }
    const bool four_bits = layer.weight.dtype == DType::e2m1;
    EXPECT_EQ(layer.leaves_activations, four_bits && !one.clips.empty()) << what;
    EXPECT_GT(snr_db(before, values(layer)), four_bits ? 16 : one.texts.type == "e5m2" ? 23 : 28) << what;
  }
}

TEST(QuantizeFolder, FourBitFoldersAreReadBackByVerifyAndAreInputs) {
  const Model model(tensors(), kConfig);
  const TempDir dir;
  for (const auto& [scheme, least] : {std::pair{"mxfp4", 16.0}, {"nvfp4", 19.0}}) {
    Conversion conversion(request(model.dir.path(), dir / scheme, {.scheme = scheme}));
    conversion.run({});
    const auto losses = conversion.verify({});
    ASSERT_EQ(losses.size(), 2u);
    for (const LayerLoss& one : losses) EXPECT_GT(one.loss.snr_db(), least) << scheme << one.name;
    const Checkpoint made = Checkpoint::open(dir / scheme);
    const std::vector<float> want = values(made.layer(kLayer + "down_proj"));
    const std::string name = kLayer + "down_proj.weight";
    run(dir / scheme, dir / (scheme + std::string("-f32")), {.scheme = "none", .type = "f32"});
    const auto back = checkpoint::SafetensorsFile::open(dir / (scheme + std::string("-f32/model.safetensors")));
    EXPECT_EQ(back.tensors().size(), tensors().size()) << "scales that say nothing any more";
    const auto bytes = std::as_bytes(std::span(want));
    EXPECT_TRUE(std::ranges::equal(back.at(name).data, bytes)) << scheme;
    run(dir / scheme, dir / (scheme + std::string("-fp8")), {.scheme = "block"});
    const Checkpoint fp8 = Checkpoint::open(dir / (scheme + std::string("-fp8")));
    EXPECT_GT(snr_db(want, values(fp8.layer(kLayer + "down_proj"))), 28) << scheme;
  }
  run(dir / "mxfp4", dir / "again", {.scheme = "mxfp4"});
  EXPECT_EQ(read_file(dir / "again/model.safetensors"), read_file(dir / "mxfp4/model.safetensors"));
}

TEST(QuantizeFolder, WhatIsNoWeightComesAlong) {
  const Model model(tensors(), kConfig, {{"note", "kept"}},
                    {{"tokenizer.json", "{}"},
                     {"pytorch_model.bin", "old"},
                     {".hidden", "x"},
                     {"hf_quant_config.json", "{}"},
                     {"params.json", "{}"}});
  fs::create_directories(model.dir / "pooling");
  checkpoint::write_file(model.dir / "pooling/config.json", "its own");
  checkpoint::write_file(model.dir / "pooling/model.safetensors", "of another model");
  const TempDir dir;
  Conversion conversion(request(model.dir.path(), dir / "out", {.scheme = "block"}));
  EXPECT_EQ(conversion.facts().left_behind,
            (std::vector<std::string>{"pooling/model.safetensors", "pytorch_model.bin"}));
  conversion.run({});
  EXPECT_EQ(files_of(dir / "out"),
            (std::set<std::string>{"config.json", "model.safetensors", "pooling/config.json", "tokenizer.json"}));
  const auto file = checkpoint::SafetensorsFile::open(dir / "out/model.safetensors");
  EXPECT_EQ(file.metadata().at("note"), "kept");
  const auto all = tensors();
  for (const std::size_t same : {2, 3, 4}) {
    const auto& tensor = file.at(all[same].tensor.name);
    EXPECT_TRUE(std::ranges::equal(tensor.data, all[same].bytes)) << tensor.name;
  }
  const std::string config = read_file(dir / "out/config.json");
  EXPECT_NE(config.find("[0, Infinity]"), std::string::npos) << config;
  const json::object read = checkpoint::read_object(dir / "out/config.json");
  EXPECT_EQ(read.at("quantization_config").at("modules_to_not_convert"),
            (json::array{"lm_head", "model.embed_tokens"}));
}

TEST(QuantizeFolder, FilesOfACacheOfLinksComeAlongUnderTheirNames) {
  const Model model(tensors(), kConfig, {}, {{"tokenizer.json", "{}"}});
  const TempDir dir;
  fs::create_directories(dir / "cache/blobs");
  fs::create_directories(dir / "cache/snapshots/main");
  int number = 0;
  for (const auto& entry : fs::directory_iterator(model.dir.path())) {
    const std::string blob = std::to_string(number++);
    fs::copy_file(entry.path(), dir / "cache/blobs" / blob);
    fs::create_symlink("../../blobs/" + blob, dir / "cache/snapshots/main" / entry.path().filename());
  }
  fs::create_symlink("../../blobs/never_fetched", dir / "cache/snapshots/main/chat_template.jinja");
  fs::create_directory_symlink("..", dir / "cache/snapshots/main/others");
  Conversion conversion(request(dir / "cache/snapshots/main", dir / "quantised/here/out/", {.scheme = "block"}));
  EXPECT_EQ(conversion.facts().left_behind, (std::vector<std::string>{"chat_template.jinja", "others"}));
  conversion.run({});
  EXPECT_EQ(files_of(dir / "quantised"),
            (std::set<std::string>{"here/out/config.json", "here/out/model.safetensors", "here/out/tokenizer.json"}));
}

TEST(QuantizeFolder, NamesTheWeightsThatANonFiniteValueSpoils) {
  const std::array<float, 1> bad = {std::numeric_limits<float>::quiet_NaN()};
  std::vector<OwnTensor> all = {heavy("a.q_proj.weight", 64, 64), heavy("a.k_proj.weight", 64, 64, 2),
                                heavy("b.weight", 64, 64, 3)};
  numerics::encode(DType::bf16, bad, all[0].bytes.data());
  const Model model(all, kConfig);
  const TempDir dir;
  for (const char* scheme : {"block", "channel", "tensor", "mxfp8", "mxfp4", "nvfp4"}) {
    Conversion conversion(request(model.dir.path(), dir / scheme, {.scheme = scheme}));
    conversion.run({});
    std::vector<std::string> want = {"a.q_proj"};
    if (scheme == std::string("nvfp4")) want.insert(want.begin(), "a.k_proj");  // they have one global scale
    EXPECT_EQ(conversion.facts().spoiled, want) << scheme;
    EXPECT_EQ(conversion.verify({})[2].loss.nonfinite, 0) << scheme;
  }
}

TEST(QuantizeFolder, ComesBackAsBf16AndGoesFromOneFormatToAnother) {
  const Model model(tensors(), kConfig);
  const TempDir dir;
  run(model.dir.path(), dir / "fp8", {.scheme = "block"});
  const Checkpoint fp8 = Checkpoint::open(dir / "fp8");
  const std::vector<float> before = values(fp8.layer(kLayer + "down_proj"));
  {
    Conversion back(request(dir / "fp8", dir / "bf16", {.scheme = "none"}));
    EXPECT_TRUE(back.facts().plan.converts);
    back.run({});
    for (const LayerLoss& one : back.verify({})) EXPECT_GT(one.loss.snr_db(), 50) << one.name;  // of rounding to bf16
  }
  const Checkpoint bf16 = Checkpoint::open(dir / "bf16");
  EXPECT_TRUE(bf16.layers().empty());
  EXPECT_TRUE(bf16.config().method.empty());
  std::vector<float> rounded(before.size());
  numerics::decode(DType::bf16, bf16.files()[0].at(kLayer + "down_proj.weight").data.data(),
                   std::span<float>(rounded));
  for (std::size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(rounded[i], numerics::decode_bf16(numerics::encode_bf16(before[i])));
  EXPECT_EQ(bf16.files()[0].find(kLayer + "down_proj.weight_scale_inv"), nullptr);

  // Codes by powers of two of the same codes: nothing is lost but what leaves the range.
  run(dir / "fp8", dir / "channel", {.scheme = "channel"});
  const Checkpoint channel = Checkpoint::open(dir / "channel");
  EXPECT_GT(snr_db(before, values(channel.layer(kLayer + "down_proj"))), 28);
  run(dir / "fp8", dir / "again", {.scheme = "block"});
  EXPECT_EQ(read_file(dir / "again/model.safetensors"), read_file(dir / "fp8/model.safetensors"));
}

TEST(QuantizeFolder, ShardsAndTheirIndexKeepTheirPlaces) {
  const TempDir dir;
  fs::create_directories(dir / "in");
  checkpoint::save(dir / "in/model-00001-of-00002.safetensors",
                   {heavy("a.q_proj.weight", 64, 64), heavy("a.k_proj.weight", 64, 64, 2)});
  checkpoint::save(dir / "in/model-00002-of-00002.safetensors",
                   {heavy("a.v_proj.weight", 64, 64, 3), heavy("b.weight", 64, 64, 4)});
  checkpoint::write_file(dir / "in/model.safetensors.index.json",
                         R"({"weight_map": {"a.q_proj.weight": "model-00001-of-00002.safetensors",
 "a.k_proj.weight": "model-00001-of-00002.safetensors", "a.v_proj.weight": "model-00002-of-00002.safetensors",
 "b.weight": "model-00002-of-00002.safetensors"}})");
  run(dir / "in", dir / "out", {.scheme = "nvfp4"});
  const auto first = checkpoint::SafetensorsFile::open(dir / "out/model-00001-of-00002.safetensors");
  const auto second = checkpoint::SafetensorsFile::open(dir / "out/model-00002-of-00002.safetensors");
  const auto global = [](const checkpoint::SafetensorsFile& file, const char* name) {
    return numerics::load_as_f64(DType::f32, file.at(name).data.data(), 0);
  };
  // Engines make one matrix of q, k and v, with one global scale, wherever they lie.
  EXPECT_EQ(global(first, "a.q_proj.weight_global_scale"), global(second, "a.v_proj.weight_global_scale"));
  EXPECT_NE(global(first, "a.q_proj.weight_global_scale"), global(second, "b.weight_global_scale"));
  const json::object index = checkpoint::read_object(dir / "out/model.safetensors.index.json");
  EXPECT_EQ(index.at("weight_map").at("a.v_proj.weight_scale"), "model-00002-of-00002.safetensors");
  EXPECT_EQ(index.at("weight_map").as_object().size(), 12u);
}

TEST(QuantizeFolder, StackedExpertsOfFloatsAndOfCodesGiveTheSameMatrices) {
  // [E, 2 I, H] and [E, H, I] with I = 32, H = 64: gate and up are the halves of the rows.
  const std::string base = "model.layers.0.mlp.experts.";
  OwnTensor up = heavy(base + "gate_up_proj", 3 * 64, 64), down = heavy(base + "down_proj", 3 * 64, 32, 2);
  up.tensor.shape = {3, 64, 64};
  down.tensor.shape = {3, 64, 32};
  const Model model({up, down}, kConfig);
  const TempDir dir;
  run(model.dir.path(), dir / "fp8", {.scheme = "block", .block = ScaleGrid{16, 16}});
  const Checkpoint fp8 = Checkpoint::open(dir / "fp8");
  ASSERT_EQ(fp8.layers().size(), 9u);
  std::vector<float> before(32 * 64);
  numerics::decode(DType::bf16, up.bytes.data() + (2 * 64 + 32) * 64 * 2,
                   std::span<float>(before));  // up of the third
  EXPECT_GT(snr_db(before, values(fp8.layer(base + "2.up_proj"))), 28);

  // The same as a stack of codes, whose scales begin anew at up's rows or in the middle of a block.
  for (const std::int64_t block : {16, 64}) {
    OwnTensor codes(base + "gate_up_proj", DType::e4m3fn, {3, 64, 64}, 0x38),
        more(base + "down_proj", DType::e4m3fn, {3, 64, 32}, 0x38);
    std::vector<float> scales;
    for (int i = 0; i < 3 * 64 / block * 64 / block; ++i) scales.push_back(static_cast<float>(1 + i));
    const OwnTensor scale(base + "gate_up_proj_scale_inv", {3, 64 / block, 64 / block}, scales);
    const OwnTensor other(base + "down_proj_scale_inv", {3, 64 / block, std::max<std::int64_t>(1, 32 / block)},
                          std::vector<float>(3 * 64 / block * std::max<std::int64_t>(1, 32 / block), 2.0f));
    const Model stacked(
        {codes, scale, more, other},
        R"({"model_type": "qwen3_moe", "quantization_config": {"quant_method": "fp8", "weight_block_size": [)" +
            std::to_string(block) + ", " + std::to_string(block) + "]}}");
    const fs::path out = dir / ("back" + std::to_string(block));
    run(stacked.dir.path(), out, {.scheme = "none", .type = "f32"});
    const auto file = checkpoint::SafetensorsFile::open(out / "model.safetensors");
    EXPECT_EQ(file.tensors().size(), 9u);
    const auto& third = file.at(base + "2.up_proj.weight");
    EXPECT_EQ(third.shape, (std::vector<std::int64_t>{32, 64}));
    const std::int64_t cols = 64 / block, first = (2 * 64 + 32) / block * cols;
    EXPECT_EQ(numerics::load_as_f64(DType::f32, third.data.data(), 0), scales[static_cast<std::size_t>(first)]);
    EXPECT_EQ(numerics::load_as_f64(DType::f32, third.data.data(), 63),
              scales[static_cast<std::size_t>(first + cols - 1)]);
  }
}

TEST(QuantizeFolder, ALaterRunKeepsWhatIsDoneAndTheSameWishesOnly) {
  const Model model(tensors(), kConfig);
  const TempDir dir;
  const fs::path out = dir / "out", part = dir / "out.part";
  run(model.dir.path(), dir / "whole", {.scheme = "block"});
  {
    // As a run leaves it that is ended while it copies the rest: a folder of that name is in its way.
    fs::create_directories(part / "out" / "config.json");
    fs::remove_all(part);
    Conversion begun(request(model.dir.path(), out, {.scheme = "block"}));
    EXPECT_THROW(begun.run([](std::uint64_t done, std::uint64_t all, const std::string&) {
      if (done == all) throw std::runtime_error("ended");
    }),
                 std::runtime_error);
  }
  EXPECT_FALSE(fs::exists(out));
  ASSERT_TRUE(fs::exists(part / "state.json"));
  fs::copy_file(dir / "whole/model.safetensors", part / "out/model.safetensors");
  checkpoint::write_file(part / "out/model.safetensors.0123.partial", "half");
  checkpoint::expect_throw([&] { run(model.dir.path(), out, {.scheme = "channel"}); }, ErrorKind::config, part, "",
                           {"other options", "remove it first"});
  Conversion again(request(model.dir.path(), out, {.scheme = "block"}));
  again.run({});
  EXPECT_EQ(again.facts().resumed, std::vector<std::string>{"model.safetensors"});
  EXPECT_FALSE(fs::exists(part));
  EXPECT_FALSE(fs::exists(out / "model.safetensors.0123.partial"));
  EXPECT_EQ(read_file(out / "config.json"), read_file(dir / "whole/config.json"));
}

TEST(QuantizeFolder, RefusesPlacesWhereSomethingWouldBeLost) {
  const Model model(tensors(), kConfig);
  const TempDir dir;
  const fs::path in = model.dir.path();
  const auto refused = [&](const fs::path& out, const fs::path& about, ErrorKind kind,
                           const std::vector<std::string>& parts) {
    checkpoint::expect_throw([&] { run(in, out, {.scheme = "block"}); }, kind, about, "", parts);
  };
  refused(in, in, ErrorKind::config, {"is the input"});
  refused(dir / "..", dir / "..", ErrorKind::config, {"not a name"});
  refused(dir / "x/.", dir / "x/.", ErrorKind::config, {"not a name"});
  refused(in / "sub", in / "sub", ErrorKind::config, {"inside of it"});
  fs::create_directories(dir / "there");
  fs::create_directories(dir / "there.part");
  refused(dir / "there", dir / "there", ErrorKind::io, {"exists already"});
  EXPECT_FALSE(fs::exists(dir / "there.part")) << "a run was ended just before it removed this";
  fs::create_directories(dir / "new.part/precious");
  refused(dir / "new", dir / "new.part", ErrorKind::config, {"precious", "remove it first"});
  EXPECT_TRUE(fs::exists(dir / "new.part/precious"));
  checkpoint::expect_throw([&] { run(model.file, dir / "x", {.scheme = "block"}); }, ErrorKind::config, model.file,
                           "", {"name the folder"});
  const Model gpt2(tensors(), R"({"model_type": "gpt2"})");
  checkpoint::expect_throw([&] { run(gpt2.dir.path(), dir / "x", {.scheme = "block"}); }, ErrorKind::unsupported,
                           gpt2.dir / "config.json", "", {"[K, N]"});
}

TEST(QuantizeFolder, VerifyFindsBytesThatAreOther) {
  const Model model(tensors(), kConfig);
  const TempDir dir;
  Conversion conversion(request(model.dir.path(), dir / "out", {.scheme = "block"}));
  conversion.run({});
  const fs::path file = dir / "out/model.safetensors";
  const std::string whole = read_file(file);
  const auto flip = [&](const std::string& tensor) {
    const auto opened = checkpoint::SafetensorsFile::open(file);
    const std::string bytes(reinterpret_cast<const char*>(opened.at(tensor).data.data()), 3);
    std::string damaged = whole;
    damaged[damaged.rfind(bytes)] ^= 0x40;
    checkpoint::write_file(file, damaged);
  };
  flip("model.embed_tokens.weight");
  checkpoint::expect_throw([&] { conversion.verify({}); }, ErrorKind::value, file, "model.embed_tokens.weight",
                           {"other bytes"});
  checkpoint::write_file(file, whole);
  EXPECT_GT(conversion.verify({})[0].loss.snr_db(), 28);
}

}  // namespace
}  // namespace ironcl::quantize
