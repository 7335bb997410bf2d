// SPDX-License-Identifier: Apache-2.0
// The conventions of other people's checkpoints: tests/data/foreign, made by foreign/make_folders.py. Each is read as
// its tool means it, against products of plain Python, or refused in words that name it.
#include <boost/json.hpp>
#include <cstdlib>
#include <iostream>
#include <set>

#include "tests/checkpoint/products.h"

namespace ironcl::checkpoint {
namespace {

namespace fs = std::filesystem;
const fs::path kForeign = fs::path(IRONCL_TESTS_DATA) / "foreign";

/// The folders that a folders.json lists: of foreign/make_folders.py, or of interop/make_folders.py.
boost::json::array rows(const fs::path& root = kForeign) {
  return boost::json::parse(read_file(root / "folders.json")).as_array();
}

std::string text(const boost::json::value& row, const char* member) {
  const boost::json::value* found = row.as_object().if_contains(member);
  return found == nullptr ? std::string() : boost::json::value_to<std::string>(*found);
}

/// Everything that a reader is told of a folder; empty where nothing is wrong with it.
std::string complaints(const fs::path& path) {
  try {
    const Checkpoint checkpoint = Checkpoint::open(path);
    std::string all = checkpoint.problem() ? checkpoint.problem()->what() : "";
    for (const LinearLayer& layer : checkpoint.layers())
      if (layer.problem) all += std::string("\n") + layer.problem->what();
    return all;
  } catch (const Error& error) {
    return error.what();
  }
}

/// Of every row: the product that its tool meant, or a refusal that says what it should. How many of each.
std::pair<int, int> expect_right_or_refused(const fs::path& root) {
  int read = 0, refused = 0;
  for (const boost::json::value& row : rows(root)) {
    if (row.as_object().contains("failed")) continue;
    const std::string name = text(row, "name"), inside = text(row, "path");
    const fs::path path = root / (inside.empty() ? name : inside);
    SCOPED_TRACE(name);
    const std::string said = complaints(path);
    if (!row.at("supported").as_bool()) {
      EXPECT_NE(said, "") << "it is not refused";
      EXPECT_NE(said.find(text(row, "says")), std::string::npos) << said;
      ++refused;
      continue;
    }
    EXPECT_EQ(said, "");
    const fs::path file = root / (name + ".expect.safetensors");
    const Checkpoint checkpoint = Checkpoint::open(path);
    const boost::json::array& layers = row.at("layers").as_array();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string layer = boost::json::value_to<std::string>(layers[i]), number = std::to_string(i);
      const double error =
          error_over_bound(checkpoint.layer(layer), load_matrix(file, "x" + number), load_matrix(file, "y" + number));
      EXPECT_LT(error, 0.02) << layer << ": a bound is some roundings of f32; scales, rows or activations are not "
                             << "its tool's";
    }
    ++read;
  }
  return {read, refused};
}

TEST(Foreign, IsReadAsItsToolMeantOrRefusedByItsName) {
  const auto [read, refused] = expect_right_or_refused(kForeign);
  EXPECT_GE(read, 20);
  EXPECT_GE(refused, 50);
}

/// The whole of the table of docs/checkpoints.md, where interop/make_folders.py has made its folders.
TEST(Foreign, EveryFolderOfTheFieldsToolsIsRightOrRefused) {
  const char* folders = std::getenv("IRONCL_INTEROP_FOLDERS");
  if (folders == nullptr) GTEST_SKIP() << "IRONCL_INTEROP_FOLDERS names no folder of interop/make_folders.py";
  const auto [read, refused] = expect_right_or_refused(folders);
  EXPECT_GE(read, 40);
  std::cout << read << " right, " << refused << " refused\n";
}

TEST(Foreign, EveryConventionOfTheListIsThere) {
  std::set<std::string> conventions;
  for (const boost::json::value& row : rows()) conventions.insert(text(row, "tool"));
  EXPECT_EQ(conventions.size(), 25u);
}

TEST(Foreign, AMethodWithoutLayersIsAnErrorOfTheFolder) {
  const TempDir dir;
  save(dir / "model.safetensors", {OwnTensor("a.weight", DType::bf16, {4, 8})});
  write_file(dir / "config.json", R"({"quantization_config":{"quant_method":"fp8"}})");
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.problem().has_value());
  expect_error(*checkpoint.problem(), ErrorKind::unsupported, dir / "config.json", "",
               {"no quantised layer is found", "quant_method 'fp8'", "dequantised"});
  EXPECT_FALSE(Checkpoint::open(dir / "model.safetensors").problem()) << "a shard may have none";
}

TEST(Foreign, CastsKeepTheirFormatAndNormsAreListed) {
  const Checkpoint checkpoint = Checkpoint::open(kForeign / "cast-e4m3");
  ASSERT_EQ(checkpoint.layers().size(), 1u);
  EXPECT_EQ(checkpoint.layers()[0].format(), "FP8 e4m3 (cast)");
  EXPECT_EQ(checkpoint.layers()[0].activations, ActivationScheme::none);
  ASSERT_EQ(checkpoint.unquantized().size(), 2u);
  EXPECT_EQ(checkpoint.unquantized()[0].why, "cast to fp8, and no matrix");
}

// --- A dozen of the folders of interop/make_folders.py, in tests/data/interop: torch's products in float64 from the
// stored bytes, which a layer that is read as its tool meant it gives.

const std::filesystem::path kInterop = std::filesystem::path(IRONCL_TESTS_DATA) / "interop";

/// Every layer that torch computed, of the folder of this name.
void expect_torchs_products(const std::string& name) {
  SCOPED_TRACE(name);
  const Checkpoint checkpoint = Checkpoint::open(kInterop / name);
  for (const LinearLayer& layer : checkpoint.layers())
    EXPECT_FALSE(layer.problem.has_value()) << layer.problem->what();
  const std::filesystem::path file = kInterop / (name + ".expect.safetensors");
  const auto metadata = SafetensorsFile::open(file).metadata();
  const auto layers = boost::json::parse(metadata.at("layers")).as_array();
  ASSERT_GE(layers.size(), 2u);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string layer(layers[i].as_string());
    const double error = error_over_bound(checkpoint.layer(layer), load_matrix(file, "x" + std::to_string(i)),
                                          load_matrix(file, "y" + std::to_string(i)));
    EXPECT_LT(error, 1e-6) << layer << ": scales, rows or activations are not those of the tool that wrote it";
  }
}

std::string problem_of_first(const std::string& name) {
  const Checkpoint checkpoint = Checkpoint::open(kInterop / name);
  for (const LinearLayer& layer : checkpoint.layers()) EXPECT_TRUE(layer.problem.has_value()) << layer.name;
  return checkpoint.layers().empty() ? "no layers" : checkpoint.layers().front().problem->what();
}

TEST(Interop, TransformersStaticScalesOfNullBlocks) { expect_torchs_products("tf-static"); }
TEST(Interop, TransformersExpertsWithStackedScalesBesideTheirWeights) { expect_torchs_products("tf-experts"); }
TEST(Interop, TransformersStackedExperts) { expect_torchs_products("tf-experts-stacked"); }
TEST(Interop, TransformersExpertsWithStaticScales) { expect_torchs_products("tf-experts-static"); }
TEST(Interop, CompressedTensorsBlocks) { expect_torchs_products("ct-fp8-block"); }
TEST(Interop, CompressedTensorsMxfp8) { expect_torchs_products("ct-mxfp8"); }
TEST(Interop, CompressedTensorsNvfp4) { expect_torchs_products("ct-nvfp4"); }
TEST(Interop, ModeloptNvfp4) { expect_torchs_products("mo-nvfp4"); }
TEST(Interop, ModeloptStaticWithACacheOfFp8) { expect_torchs_products("mo-fp8-kv"); }
TEST(Interop, ModeloptBlocksOfWeightsOnly) { expect_torchs_products("mo-2d"); }
TEST(Interop, TorchaoRows) { expect_torchs_products("ao-fp8-row"); }
TEST(Interop, QuantoE5m2) { expect_torchs_products("quanto-e5m2"); }
TEST(Interop, ComfyRows) { expect_torchs_products("comfy-row"); }
TEST(Interop, QuarkStatic) { expect_torchs_products("quark-fp8"); }

TEST(Interop, WhatIsNotReadSaysWhatToDo) {
  EXPECT_NE(problem_of_first("mo-int8-smooth").find("pre_quant_scale': scales the columns"), std::string::npos);
}

}  // namespace
}  // namespace ironcl::checkpoint
