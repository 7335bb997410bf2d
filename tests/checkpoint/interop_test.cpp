// SPDX-License-Identifier: Apache-2.0
// Folders that the field's own tools wrote, against products that torch computed in float64 from the stored bytes:
// tests/data/interop, made by interop/make_folders.py. A layer that is read as its tool meant it gives torch's
// numbers.
#include <boost/json.hpp>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "host/checkpoint/matrix.h"
#include "host/checkpoint/model.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

const std::filesystem::path kInterop = std::filesystem::path(IRONCL_TESTS_DATA) / "interop";

/// A as the layer says that it is quantised, with the memory that it views.
struct QuantizedInput {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  numerics::Operand operand;

  QuantizedInput(const LinearLayer& layer, const Matrix& x) {
    const std::vector<float> values = x.to_f32();
    operand.rows = x.rows;
    operand.cols = operand.ld = x.cols;
    if (layer.activations == ActivationScheme::none) {
      operand.dtype = x.tensor.dtype;
      operand.data = x.tensor.data.data();
      return;
    }
    operand.dtype = layer.weight.dtype == DType::i8 ? DType::i8 : DType::e4m3fn;
    operand.grid = layer.activation_grid;
    operand.scale_dtype = DType::f32;
    operand.scale_ld = operand.grid.scale_cols(x.cols);
    codes.resize(values.size());
    scales.resize(static_cast<std::size_t>(operand.grid.scale_rows(x.rows) * operand.scale_ld));
    if (layer.activations == ActivationScheme::dynamic) {
      numerics::quantize({values.data(), x.rows, x.cols, x.cols}, operand.dtype, operand.grid,
                         {.rounding = layer.activation_rounding}, codes, scales);
    } else {
      scales[0] =
          static_cast<float>(numerics::load_as_f64(layer.input_scale->dtype, layer.input_scale->data.data(), 0));
      for (std::size_t i = 0; i < values.size(); ++i)
        codes[i] = numerics::quantize_one(values[i], scales[0], operand.dtype);
    }
    operand.data = codes.data();
    operand.scales = scales.data();
  }
};

/// The largest error of the layer's product over the bound of an exact one, against torch's.
double error_over_bound(const LinearLayer& layer, const Matrix& x, const Matrix& want) {
  const QuantizedInput a(layer, x);
  const std::vector<std::byte> scales(layer.scale.data.begin(), layer.scale.data.end());
  numerics::Operand b;
  b.dtype = layer.weight.dtype;
  b.data = layer.weight.data.data();
  b.rows = layer.n;
  b.cols = b.ld = layer.k;
  b.scale_dtype = layer.scale.dtype;
  b.scales = scales.data();
  b.grid = layer.weight_grid;
  b.scale_ld = b.grid.scale_cols(layer.k);
  numerics::OracleResult oracle = numerics::oracle(a.operand, b);
  const std::vector<double> got = oracle.value;
  oracle.value = want.to_f64();
  return numerics::compare(got, oracle, {DType::f64, numerics::AccuracyClass::f32, layer.k, layer.k})
      .max_error_over_bound;
}

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
