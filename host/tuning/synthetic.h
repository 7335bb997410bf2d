// SPDX-License-Identifier: Apache-2.0
// Operands for measuring: heavy-tailed like trained weights and activations, from a seed, as fast as memory allows.
// Next door: workload.h (a problem with such operands on a device).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/report/problem.h"

namespace ironcl::tuning {

/// The operands of a problem in host memory, tight and row-major.
struct Operands {
  std::vector<std::byte> a;        ///< [m, k] of a_source where the plan quantises A, else of a.
  std::vector<std::byte> a_scale;  ///< Empty where the plan quantises A or A has no scales.
  std::vector<std::byte> b;        ///< [n, k].
  std::vector<std::byte> b_scale;
};

/// Operands whose values follow Student's t with four degrees of freedom and whose scales vary by a factor of 16
/// between groups, so that a scale read from the wrong place shows. The same seed gives the same bytes everywhere,
/// and the same B for every M. Throws std::invalid_argument for an element type that operands do not come in,
/// std::overflow_error for sizes.
Operands make_operands(const report::Problem& problem, std::uint64_t seed);

}  // namespace ironcl::tuning
