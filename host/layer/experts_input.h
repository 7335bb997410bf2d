// SPDX-License-Identifier: Apache-2.0
// What enters a layer of experts: x, and the routing of its tokens where the caller gives it. Next door:
// activations.h.
#pragma once

#include "host/layer/activations.h"
#include "host/layer/expected.h"
#include "host/layer/oracle.h"

namespace ironcl::layer {

struct ExpertsInput {
  std::int64_t tokens = 0;
  numerics::DType x_dtype = numerics::DType::bf16;
  std::vector<std::byte> x;  ///< [T, H], tight.
  std::string origin;        ///< As printed.
  std::optional<RoutedTokens> routed;
};

/// Reads or makes x [T, H]; `routing` is empty or "FILE:IDS,WEIGHTS", tensors I32 or I64 [T, k] and F32 [T, k]. An id
/// below 0 is ignored. Throws checkpoint::Error: bad file, tensor, shape, type, value.
ExpertsInput load_experts_input(const ActivationSource& source, const std::string& routing, const ExpertsForm& form);

/// What a call with that input brings.
std::vector<Brought> brought_by(const ExpertsInput& input);

/// The oracle of a layer with that input, routed by itself where the input has no routing. The source outlives it.
Oracle oracle_of(const ExpertsSource& source, const ExpertsInput& input);

/// The experts that no token goes to.
std::vector<std::int32_t> unchosen_experts(const ExpertsForm& form, const RoutedTokens& routed);

/// Calls that bring a row of x to each of those, with a weight of 1: of at most as many tokens as `input` has. Rows
/// that are zero or not finite would show nothing and are left out.
std::vector<ExpertsInput> inputs_of_the_unchosen(const ExpertsForm& form, const ExpertsInput& input,
                                                 const RoutedTokens& routed);

}  // namespace ironcl::layer
