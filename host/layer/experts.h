// SPDX-License-Identifier: Apache-2.0
// A layer of experts on a device: its list (graph.h) on a runner, with the weights of a source. Next door:
// experts_source.h (what it is made from), docs/experts.md (the steps).
#pragma once

#include "host/include/ironcl/checkpoint.h"
#include "host/layer/experts_source.h"
#include "host/layer/graph.h"
#include "host/layer/runner.h"

namespace ironcl::layer {

/// Prepares the weights and biases of every product that a runner's list has.
void prepare(Runner& runner, const ExpertsSource& source);

/// Creates plans and buffers and prepares the weights. Throws ironcl::Error as the plugin answers, INVALID_ARGUMENT
/// for sizes that contradict each other; std::overflow_error.
Runner experts_on(const Device& device, const ExpertsSource& source, const ExpertsChoices& choices);

/// The arguments as a call of the runner. Throws ironcl::Error INVALID_ARGUMENT for spans and sizes.
Call call_of(const Runner& experts, const ironcl_experts_args& args);

/// The problem of the first grouped product, for choosing a device before there is a runner; and its plan.
GemmDesc first_problem(const ExpertsForm& form, const ExpertsChoices& choices);
PlanInfo first_plan(const Runner& experts);

}  // namespace ironcl::layer
