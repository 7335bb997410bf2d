// SPDX-License-Identifier: Apache-2.0
// How much VMEM a plan occupies: by the published kernel's formula, and truly (native tiles, as the engine
// allocates).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/ironwood/plan.h"

namespace ironcl::ironwood {

/// One buffer of a plan.
struct VmemPart {
  std::string name;
  int slots = 1;
  std::int64_t rows = 0, cols = 0;
  std::uint32_t element_bytes = 1;
  std::int64_t bytes = 0;  ///< Of all slots, in native tiles.
};

struct VmemUse {
  std::vector<VmemPart> parts;
  std::int64_t footprint_bytes = 0;  ///< Sum of the parts.
  std::int64_t formula_bytes = 0;    ///< get_vmem_limit of the published kernel, before its clamp; of a
                                     ///< grouped problem gmm_v2's estimate.
};

VmemUse vmem_of(const Plan& plan);

/// Refuses a plan that passes its VMEM limit by its rule, with both numbers.
std::optional<Refusal> check_vmem(const Plan& plan);

}  // namespace ironcl::ironwood
