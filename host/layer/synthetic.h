// SPDX-License-Identifier: Apache-2.0
// Operands for measuring: heavy-tailed like trained weights and activations, from a seed, as fast as memory allows.
// Next door: heavy_tail.h (activations with outlier columns, for comparing).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/layer/operands.h"

namespace ironcl::layer {

/// Operands that own their memory.
struct MadeOperands {
  std::vector<std::byte> a, a_scale, b, b_scale, bias;
  std::vector<std::int32_t> counts;

  operator Operands() const noexcept { return {a, a_scale, b, b_scale, bias, counts}; }
};

/// Operands whose values follow Student's t with four degrees of freedom and whose scales vary by a factor of 16
/// between groups, so that a scale read from the wrong place shows. The same seed gives the same bytes everywhere,
/// and the same B for every M. Of a grouped problem each row has its matrix by chance, all as likely. Throws
/// std::invalid_argument for an element type that operands do not come in and for a masked problem, whose rows nobody
/// has counted; std::overflow_error for sizes.
MadeOperands make_operands(const report::Problem& problem, std::uint64_t seed);

}  // namespace ironcl::layer
