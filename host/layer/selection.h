// SPDX-License-Identifier: Apache-2.0
// Which layers of a checkpoint are run.
#pragma once

#include <string>
#include <vector>

#include "host/checkpoint/model.h"

namespace ironcl::layer {

/// The layers of `checkpoint` that `glob` names, every one usable. Throws checkpoint::Error: not_found (there is
/// none, or none of that name), or the problem of the first that is not usable.
std::vector<const checkpoint::LinearLayer*> usable_layers(const checkpoint::Checkpoint& checkpoint,
                                                          const std::string& glob);

}  // namespace ironcl::layer
