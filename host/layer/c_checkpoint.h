// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of the C API of checkpoints. Next door: c_api.cpp.
#pragma once

#include <deque>
#include <mutex>

#include "host/checkpoint/model.h"
#include "host/include/ironcl/checkpoint.h"
#include "host/layer/layer_problem.h"

/// A layer with the copies of its weights that callers use: aligned scales, and codes where the layer lies
/// transposed.
struct ironcl_layer_t {
  explicit ironcl_layer_t(const ironcl::checkpoint::LinearLayer& of)
      : source(&of), problem(of.problem ? of.problem->what() : "") {}

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
  /// Aligned, until the checkpoint is closed.
  const std::vector<std::byte>& bias() const {
    std::call_once(once, [this] {
      kept_bias = acquire().bias;
      release();
    });
    return kept_bias;
  }

  const ironcl::checkpoint::LinearLayer* source;
  std::string problem;
  mutable std::mutex mutex;
  mutable std::size_t users = 0;
  mutable ironcl::layer::LayerWeights copies;
  mutable std::once_flag once;
  mutable std::vector<std::byte> kept_bias;
};

struct ironcl_checkpoint_t {
  explicit ironcl_checkpoint_t(ironcl::checkpoint::Checkpoint opened) : checkpoint(std::move(opened)) {
    for (const ironcl::checkpoint::LinearLayer& one : checkpoint.layers()) layers.emplace_back(one);
  }
  ironcl::checkpoint::Checkpoint checkpoint;
  std::deque<ironcl_layer_t> layers;  ///< In the checkpoint's order; they stay where they are.
};
