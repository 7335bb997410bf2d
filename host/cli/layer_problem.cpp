// SPDX-License-Identifier: Apache-2.0
// A layer as the B of a problem.
#include "host/cli/layer_problem.h"

#include <fmt/format.h>

#include "host/cli/exit_status.h"

namespace ironcl::cli {

LayerOperand operand_of(const checkpoint::LinearLayer& layer) {
  LayerOperand operand;
  operand.scales.assign(layer.scale.data.begin(), layer.scale.data.end());
  if (layer.bias) {
    operand.bias_dtype = layer.bias->dtype;
    operand.bias.assign(layer.bias->data.begin(), layer.bias->data.end());
  }
  numerics::Operand& b = operand.b;
  b.dtype = layer.weight.dtype;
  b.data = layer.weight.data.data();
  b.rows = layer.n;
  b.cols = layer.k;
  b.ld = layer.k;
  b.scale_dtype = layer.scale.dtype;
  b.scales = operand.scales.data();
  b.grid = layer.weight_grid;
  b.scale_ld = layer.weight_grid.scale_cols(layer.k);
  return operand;
}

report::Problem problem_of(const checkpoint::LinearLayer& layer, const LayerOperand& b, const Activations& a,
                           numerics::DType out, numerics::AccuracyClass weakest) {
  report::Problem problem;
  problem.m = a.m;
  problem.n = layer.n;
  problem.k = layer.k;
  problem.a_source = a.source;
  problem.a = a.dtype;
  problem.b = b.b.dtype;
  problem.d = out;
  problem.bias = b.bias_dtype;
  problem.a_scale = a.scale;
  problem.b_scale = {b.b.scale_dtype, b.b.grid};
  problem.a_quantizer = a.quantizer;
  problem.weakest_accuracy = weakest;
  return problem;
}

std::vector<const checkpoint::LinearLayer*> usable_layers(const checkpoint::Checkpoint& checkpoint,
                                                          const std::string& glob) {
  if (checkpoint.layers().empty()) {
    throw CommandError(ExitStatus::bad_input,
                       fmt::format("{}: there is no quantised linear layer; `ironcl inspect` lists what is there",
                                   checkpoint.path().string()));
  }
  const auto layers = checkpoint.match(glob);
  for (const checkpoint::LinearLayer* layer : layers) layer->check();
  return layers;
}

}  // namespace ironcl::cli
