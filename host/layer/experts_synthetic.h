// SPDX-License-Identifier: Apache-2.0
// Layers of experts for measuring: numbers made up from a seed, and routings with an even or a skewed load.
// Next door: synthetic.h (single problems), experts_source.h.
#pragma once

#include <cstdint>
#include <memory>

#include "host/layer/experts_input.h"
#include "host/layer/experts_source.h"

namespace ironcl::layer {

/// A layer of that form whose numbers come from `seed`; every matrix has its own, the same each time.
std::unique_ptr<ExpertsSource> make_experts(const ExpertsForm& form, std::uint64_t seed);

/// x [tokens, H] in bf16, and a routing. skew: the exponent of Zipf's law that the experts' loads follow, in an order
/// of experts that the seed shuffles; 0: all are as likely. A token's experts are different ones.
ExpertsInput make_experts_input(const ExpertsForm& form, std::int64_t tokens, double skew, std::uint64_t seed);

/// Experts that get a token.
std::int64_t experts_hit(const ExpertsForm& form, const RoutedTokens& routed);

}  // namespace ironcl::layer
