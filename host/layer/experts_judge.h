// SPDX-License-Identifier: Apache-2.0
// A layer of experts on several devices: all are given the same ids and weights, and judged by the composed bound;
// each one's own routing is judged apart. Where something is wrong, the first wrong step is found: which expert,
// which matrix. Next door: judge.h (one matrix, and the reports), experts_oracle.h.
#pragma once

#include <string>
#include <vector>

#include "host/layer/experts_input.h"
#include "host/layer/judge.h"

namespace ironcl::layer {

/// What a call left in host memory.
struct ExpertsOutput {
  std::vector<std::byte> y;   ///< [T, H] of the output type; what the device did not write is NaN.
  RoutedTokens routed;        ///< Made, or as given.
  std::vector<float> logits;  ///< [T, logits()]; empty where the routing was given.
  Timing timing;
};

/// Runs one call and reads what it left.
ExpertsOutput compute(const Device& device, Experts& experts, const ExpertsInput& input);

/// The time of all steps of a call together, the last one's event apart; of a model the sum of their times.
Timing time_of(const std::vector<Event>& steps, const Event& last);

/// Which step of a layer that ran on those ids and weights is wrong first, in words: "expert 3, up: ...". Reads the
/// layer's own buffers, so nothing else ran on it since. Empty where every step is within its bound.
std::string first_wrong_step(const Device& device, const Experts& experts, const ExpertsOracle& oracle,
                             std::int64_t tokens);

/// The layer on every device. Throws checkpoint::Error and std::overflow_error for operands only.
CaseReport judge(const ExpertsSource& source, const ExpertsInput& input, const std::vector<ironcl::Device>& devices,
                 const JudgeSettings& settings);

}  // namespace ironcl::layer
