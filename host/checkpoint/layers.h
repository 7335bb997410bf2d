// SPDX-License-Identifier: Apache-2.0
// Linear layers out of the tensors of a checkpoint, and layers of experts out of linear ones. Next door: folder.h
// (the tensors), block.h (their scales).
#pragma once

#include <optional>
#include <vector>

#include "host/checkpoint/folder.h"
#include "host/checkpoint/model.h"
#include "host/checkpoint/routing.h"

namespace ironcl::checkpoint {

struct LayerList {
  std::vector<LinearLayer> layers;
  std::vector<Unquantized> unquantized;
};

/// Sorts the tensors of `folder` into quantised layers and the rest. What is wrong with a layer goes into its
/// problem.
/// `stacked`: how the model type stores experts of one tensor.
LayerList find_layers(const Folder& folder, const QuantizationConfig& config, const OpenOptions& options,
                      StackedForm stacked = StackedForm::unknown);

/// The layers of experts among `layers` (sorted, as in the checkpoint), in the order of a reader. `routing`: of the
/// config, where it has one. What is wrong with one goes into its problem. Costs what the names cost: linear.
std::vector<ExpertsLayer> find_experts(const Folder& folder, const std::vector<LinearLayer>& layers,
                                       const std::optional<Routing>& routing);

}  // namespace ironcl::checkpoint
