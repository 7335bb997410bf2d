// SPDX-License-Identifier: Apache-2.0
// Folders that the field's own tools wrote, against products that torch computed in float64 from the stored bytes:
// tests/data/interop, made by interop/make_folders.py. A layer that is read as its tool meant it gives torch's
// numbers.
#include <boost/json.hpp>

#include "tests/checkpoint/products.h"

namespace ironcl::checkpoint {
namespace {

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
TEST(Interop, ModeloptStaticWithACacheOfFp8) { expect_torchs_products("mo-fp8-kv"); }
TEST(Interop, ModeloptBlocksOfWeightsOnly) { expect_torchs_products("mo-2d"); }
TEST(Interop, TorchaoRows) { expect_torchs_products("ao-fp8-row"); }
TEST(Interop, QuantoE5m2) { expect_torchs_products("quanto-e5m2"); }
TEST(Interop, ComfyRows) { expect_torchs_products("comfy-row"); }
TEST(Interop, QuarkStatic) { expect_torchs_products("quark-fp8"); }

TEST(Interop, WhatIsNotReadSaysWhatToDo) {
  EXPECT_NE(problem_of_first("ct-nvfp4").find("which is not read; quantise to FP8"), std::string::npos);
  EXPECT_NE(problem_of_first("mo-int8-smooth").find("pre_quant_scale': scales the columns"), std::string::npos);
}

}  // namespace
}  // namespace ironcl::checkpoint
