// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of the C API of checkpoints. Next door: c_api.cpp.
#pragma once

#include <deque>
#include <mutex>

#include "host/include/ironcl/checkpoint.h"
#include "host/layer/layer_problem.h"

/// A layer with the copies of its weights that callers use: aligned scales, and codes where the layer lies
/// transposed.
struct ironcl_layer_t {
  explicit ironcl_layer_t(const ironcl::checkpoint::LinearLayer& of) : source(&of) {
    if (of.bias) bias.assign(of.bias->data.begin(), of.bias->data.end());
  }

  /// The copies, for one more user.
  const ironcl::layer::LayerWeights& acquire() const {
    const std::lock_guard lock(mutex);
    if (users == 0) copies = ironcl::layer::weights_of(*source);
    ++users;
    return copies;
  }
  /// Frees them after the last.
  void release() const {
    const std::lock_guard lock(mutex);
    if (users != 0 && --users == 0) copies = {};
  }

  const ironcl::checkpoint::LinearLayer* source;
  std::vector<std::byte> bias;  ///< Aligned.
  mutable std::mutex mutex;
  mutable std::size_t users = 0;
  mutable ironcl::layer::LayerWeights copies;
};

struct ironcl_checkpoint_t {
  explicit ironcl_checkpoint_t(ironcl::checkpoint::Checkpoint opened) : checkpoint(std::move(opened)) {
    for (const ironcl::checkpoint::LinearLayer& one : checkpoint.layers()) layers.emplace_back(one);
  }
  ironcl::checkpoint::Checkpoint checkpoint;
  std::deque<ironcl_layer_t> layers;  ///< In the checkpoint's order; they stay where they are.
};
