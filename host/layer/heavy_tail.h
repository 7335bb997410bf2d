// SPDX-License-Identifier: Apache-2.0
// Made-up activations that look like a language model's: heavy tails and a few columns far larger than the rest.
#pragma once

#include <cstdint>
#include <vector>

namespace ironcl::layer {

/// x [m, k] in bf16 (bits), tight: Student t with four degrees of freedom, about one column in a hundred 20 times as
/// large. The same numbers for the same (k, seed), whatever m is: row i does not depend on how many follow.
std::vector<std::uint16_t> heavy_tailed_activations(std::int64_t m, std::int64_t k, std::uint64_t seed);

}  // namespace ironcl::layer
