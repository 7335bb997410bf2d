// SPDX-License-Identifier: Apache-2.0
#include "backends/numerics/scale_grid.h"

#include <numeric>

namespace ironcl::numerics {

std::int64_t common_group(std::int64_t group_cols_a, std::int64_t group_cols_b, std::int64_t k) noexcept {
  const auto changes_every = [k](std::int64_t group) { return group <= 0 || group >= k ? 0 : group; };
  const std::int64_t common = std::gcd(changes_every(group_cols_a), changes_every(group_cols_b));
  if (common != 0) return common;
  return k > 0 ? k : 1;
}

}  // namespace ironcl::numerics
