// SPDX-License-Identifier: Apache-2.0
// Linear layers out of the tensors of a checkpoint. Next door: folder.h (the tensors), block.h (their scales).
#pragma once

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

}  // namespace ironcl::checkpoint
