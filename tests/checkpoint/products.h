// SPDX-License-Identifier: Apache-2.0
// The product of a layer as it is read, against one that somebody else computed.
#pragma once

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "host/checkpoint/matrix.h"
#include "host/checkpoint/model.h"
#include "host/layer/layer_problem.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {

/// A as the layer says that it is quantised, with the memory that it views.
struct QuantizedInput {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  numerics::Operand operand;

  QuantizedInput(const LinearLayer& layer, const Matrix& x) {
    const std::vector<double> exact = x.to_f64();
    const std::vector<float> values(exact.begin(), exact.end());
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
      numerics::quantize(DType::f32, values.data(), x.rows, x.cols, x.cols, operand.dtype, operand.grid,
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
inline double error_over_bound(const LinearLayer& layer, const Matrix& x, const Matrix& want) {
  const QuantizedInput a(layer, x);
  const layer::LayerWeights weights = layer::weights_of(layer);
  numerics::Operand b;
  b.dtype = layer.multiplied();
  b.data = weights.codes.data();
  b.rows = layer.n;
  b.cols = b.ld = layer.k;
  b.scale_dtype = layer.scale.dtype;
  b.scales = weights.scales.data();
  b.grid = layer.weight_grid;
  b.scale_ld = b.grid.scale_cols(layer.k);
  std::vector<double> scales(static_cast<std::size_t>(layer.scale.elements()));
  if (layer.global) {
    numerics::decode(layer.scale.dtype, weights.scales.data(), std::span<double>(scales));
    for (double& scale : scales) scale *= *layer.global;
    b.scale_dtype = DType::f64;
    b.scales = scales.data();
  }
  numerics::OracleResult oracle = numerics::oracle(a.operand, b);
  std::vector<double> got = oracle.value;
  if (layer.bias)
    for (std::size_t i = 0; i < got.size(); ++i)
      got[i] +=
          numerics::load_as_f64(layer.bias->dtype, layer.bias->data.data(), static_cast<std::int64_t>(i) % layer.n);
  oracle.value = want.to_f64();
  return compare(got, bounded(oracle, {DType::f64, numerics::AccuracyClass::f32, layer.k, layer.k}))
      .max_error_over_bound;
}

}  // namespace ironcl::checkpoint
