// SPDX-License-Identifier: Apache-2.0
// The element types as kernels take them. What a type is, numerics/formats.h says; how kernels decode it, a row of
// cl/fp8.cl; which types a variant multiplies, its declaration (variant.h).
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "backends/interface.h"

namespace ironcl::opencl {

/// Types that one operand of a variant comes in.
using Types = std::vector<backend::DType>;

/// Types that a variant multiplies: A of any type of `a` by B of any type of `b`.
struct Products {
  Types a, b;
};

inline bool contains(const Types& types, backend::DType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

/// ELEMENT_... of cl/fp8.cl: the number of numerics::DType.
inline std::string kernel_number(backend::DType type) { return std::to_string(static_cast<std::uint32_t>(type)); }

}  // namespace ironcl::opencl
