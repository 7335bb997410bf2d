// SPDX-License-Identifier: Apache-2.0
// Layers by name.
#include "host/layer/selection.h"

namespace ironcl::layer {

std::vector<const checkpoint::LinearLayer*> usable_layers(const checkpoint::Checkpoint& checkpoint,
                                                          const std::string& glob) {
  if (checkpoint.layers().empty()) {
    throw checkpoint::Error(checkpoint::ErrorKind::not_found, checkpoint.path(), {},
                            "there is no quantised linear layer; `ironcl inspect` lists what is there");
  }
  const auto layers = checkpoint.match(glob);
  for (const checkpoint::LinearLayer* layer : layers) layer->check();
  return layers;
}

}  // namespace ironcl::layer
