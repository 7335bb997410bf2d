// SPDX-License-Identifier: Apache-2.0
// A layer as the B of a problem: its bytes with aligned scales, and the problem that it makes with activations.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/numerics/matrix_view.h"
#include "host/checkpoint/model.h"
#include "host/cli/activations.h"
#include "host/report/problem.h"

namespace ironcl::cli {

/// B [n, k] of a layer with scales and bias. Values stay where the checkpoint has mapped them, which must outlive
/// this.
struct LayerOperand {
  numerics::Operand b;
  std::vector<std::byte> scales;  ///< Copied: a file need not align them.
  numerics::DType bias_dtype = numerics::DType::none;
  std::vector<std::byte> bias;

  LayerOperand() = default;
  LayerOperand(const LayerOperand&) = delete;  // b points into scales
  LayerOperand& operator=(const LayerOperand&) = delete;
  LayerOperand(LayerOperand&&) = default;
  LayerOperand& operator=(LayerOperand&&) = default;
};

LayerOperand operand_of(const checkpoint::LinearLayer& layer);

/// The problem of `a` times `layer`, result of type `out`.
report::Problem problem_of(const checkpoint::LinearLayer& layer, const LayerOperand& b, const Activations& a,
                           numerics::DType out, numerics::AccuracyClass weakest);

/// The layers of `checkpoint` that `glob` names, every one usable. Throws checkpoint::Error of the first that is not.
std::vector<const checkpoint::LinearLayer*> usable_layers(const checkpoint::Checkpoint& checkpoint,
                                                          const std::string& glob);

}  // namespace ironcl::cli
