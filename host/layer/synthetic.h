// SPDX-License-Identifier: Apache-2.0
// Made-up numbers, from a seed, heavy-tailed like trained weights and activations. Next door: operands.h,
// experts_source.h.
#pragma once

#include "host/layer/experts_input.h"
#include "host/layer/experts_source.h"
#include "host/layer/operands.h"

namespace ironcl::layer {

/// x [m, k] in bf16 (bits), tight: Student t with four degrees of freedom, about one column in a hundred 20 times as
/// large. The same numbers for the same (k, seed), whatever m is: row i does not depend on how many follow.
std::vector<std::uint16_t> heavy_tailed_activations(std::int64_t m, std::int64_t k, std::uint64_t seed);

/// Operands that own their memory.
struct MadeOperands {
  std::vector<std::byte> a, a_scale, b, b_scale, bias;
  std::vector<std::int32_t> counts;
  std::vector<float> b_global{};

  operator Operands() const noexcept { return {a, a_scale, b, b_scale, bias, counts, b_global}; }
};

/// Operands whose values follow Student's t with four degrees of freedom and whose scales vary by a factor of 16, so
/// that a scale read from the wrong place shows. The same seed gives the same bytes everywhere, and the same B for
/// every M. Throws std::invalid_argument for what is not generated; std::overflow_error for sizes.
MadeOperands make_operands(const report::Problem& problem, std::uint64_t seed);

/// A layer of that form whose numbers come from `seed`; every matrix has its own, the same each time.
std::unique_ptr<ExpertsSource> make_experts(const ExpertsForm& form, std::uint64_t seed);

/// `top_k` different experts for each token, [tokens, top_k]; the same for the same seed on every host. skew: the
/// exponent of Zipf's law that the experts' loads follow; 0: all are as likely.
std::vector<std::int32_t> make_ids(std::int64_t tokens, std::int64_t experts, std::int64_t top_k, double skew,
                                   std::uint64_t seed);

/// x [tokens, H] in bf16, and a routing by make_ids().
ExpertsInput make_experts_input(const ExpertsForm& form, std::int64_t tokens, double skew, std::uint64_t seed);

}  // namespace ironcl::layer
