// SPDX-License-Identifier: Apache-2.0
// The conventions of other people's checkpoints: tests/data/foreign, made by foreign/make_folders.py. Each is read as
// its tool means it, against products of plain Python, or refused in words that name it.
#include <boost/json.hpp>

#include "tests/checkpoint/products.h"

namespace ironcl::checkpoint {
namespace {

namespace fs = std::filesystem;
const fs::path kForeign = fs::path(IRONCL_TESTS_DATA) / "foreign";

boost::json::array rows() { return boost::json::parse(read_file(kForeign / "folders.json")).as_array(); }

std::string text(const boost::json::value& row, const char* member) {
  return boost::json::value_to<std::string>(row.at(member));
}

fs::path path_of(const boost::json::value& row) {
  return kForeign / text(row, row.as_object().contains("path") ? "path" : "name");
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

TEST(Foreign, WhatIsReadGivesTheProductThatItsToolMeant) {
  int read = 0;
  for (const boost::json::value& row : rows()) {
    if (!row.at("supported").as_bool()) continue;
    const std::string name = text(row, "name");
    SCOPED_TRACE(name);
    EXPECT_EQ(complaints(path_of(row)), "");
    const fs::path file = kForeign / (name + ".expect.safetensors");
    const Checkpoint checkpoint = Checkpoint::open(path_of(row));
    const std::string layer = boost::json::value_to<std::string>(row.at("layers").at(0));
    const double error = error_over_bound(checkpoint.layer(layer), load_matrix(file, "x0"), load_matrix(file, "y0"));
    EXPECT_LT(error, 0.02) << "a bound is some roundings of f32; scales, rows or activations are not its tool's";
    ++read;
  }
  EXPECT_GE(read, 20);
}

TEST(Foreign, WhatIsNotReadIsRefusedByItsName) {
  int refused = 0;
  for (const boost::json::value& row : rows()) {
    if (row.at("supported").as_bool()) continue;
    EXPECT_NE(complaints(path_of(row)).find(text(row, "says")), std::string::npos)
        << text(row, "name") << ": " << complaints(path_of(row));
    ++refused;
  }
  EXPECT_GE(refused, 50);
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

}  // namespace
}  // namespace ironcl::checkpoint
