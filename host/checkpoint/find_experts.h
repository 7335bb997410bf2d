// SPDX-License-Identifier: Apache-2.0
// Layers of experts out of the single matrices of a checkpoint. Next door: experts.h (what one is), layers.h.
#pragma once

#include <optional>
#include <vector>

#include "host/checkpoint/experts.h"
#include "host/checkpoint/folder.h"
#include "host/checkpoint/model.h"

namespace ironcl::checkpoint {

/// The layers of experts among `layers` (sorted, as in the checkpoint), in the order of a reader. `routing`: of the
/// config, where it has one. What is wrong with one goes into its problem. Costs what the names cost: linear.
std::vector<ExpertsLayer> find_experts(const Folder& folder, const std::vector<LinearLayer>& layers,
                                       const std::optional<Routing>& routing);

}  // namespace ironcl::checkpoint
