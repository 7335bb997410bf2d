// SPDX-License-Identifier: Apache-2.0
// The steps of experts.h in f64, with how far a device's f32 may be from them, and the verdict on a choice of
// experts. docs/numerics.md derives the bounds. Next door: oracle.h (the products), bounds.h (the verdict on their
// results).
#pragma once

#include <string>

#include "backends/numerics/bounds.h"
#include "backends/numerics/experts.h"
#include "backends/numerics/oracle.h"

namespace ironcl::numerics {

/// A number and how far from it f32 may be.
struct Within {
  double value = 0;
  double error = 0;
};

/// The scores of one token's logits, and their errors. Not finite where scores() is not.
std::vector<Within> score_oracle(Score score, std::span<const float> logits);

/// What is wrong with a token's experts and weights that a device has chosen; empty where nothing is. Right is every
/// choice that some scores within the bound lead to; where logit and bias of two experts are the same, the smaller id
/// goes first. bias may be empty.
std::string judge_choice(const Routing& routing, std::span<const float> logits, std::span<const float> bias,
                         std::span<const std::int32_t> ids, std::span<const float> weights);

/// activation(gate, up) in f64, and the error that f32 may add to it before rounding to the output type.
Within activation_oracle(Activation activation, double gate, double up, double limit) noexcept;

/// The same of a gate and an up that have errors already: these as far as the function lets them through, and its
/// own.
Within activation_oracle(Activation activation, const Within& gate, const Within& up, double limit) noexcept;

}  // namespace ironcl::numerics
