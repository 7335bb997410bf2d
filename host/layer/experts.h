// SPDX-License-Identifier: Apache-2.0
// A layer of experts on a device: its list (graph.h) on a runner, with the weights of a source. Next door:
// experts_source.h (what it is made from), docs/experts.md (the steps).
#pragma once

#include "host/include/ironcl/checkpoint.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/experts_source.h"
#include "host/layer/graph.h"
#include "host/layer/runner.h"

namespace ironcl::layer {

/// Prepares the weights and biases of every product that a runner's list has.
void prepare(Runner& runner, const ExpertsSource& source);

/// Buffers are the layer's own, so its calls go to one queue, or wait for one another. One thread at a time.
class Experts {
 public:
  /// Creates plans and buffers and prepares the weights. Throws ironcl::Error as the plugin answers, INVALID_ARGUMENT
  /// for sizes that contradict each other; std::overflow_error.
  Experts(const Device& device, const ExpertsSource& source, const ExpertsChoices& choices);

  /// Enqueues one call; its event is that of the last step. Throws ironcl::Error INVALID_ARGUMENT for spans and
  /// sizes.
  Event enqueue(Queue& queue, const ironcl_experts_args& args) { return runner_.enqueue(queue, call_of(args)); }
  /// The arguments as a call of the runner.
  Call call_of(const ironcl_experts_args& args) const;

  /// The problem of its first grouped product, for choosing a device before there is one.
  static GemmDesc describe(const ExpertsForm& form, const ExpertsChoices& choices);

  const Runner& runner() const noexcept { return runner_; }
  Runner& runner() noexcept { return runner_; }
  PlanInfo first_product() const;  ///< The plan of the experts' gate.
  std::uint64_t weights_bytes() const { return runner_.weights_bytes(); }

 private:
  std::int64_t tokens_;
  Runner runner_;
};

}  // namespace ironcl::layer
