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

/// As a sentence has them: "f32, f16 or bf16".
std::string to_string(const Types& types);

/// True for the types that activations are quantised to: e4m3fn, e5m2, i8.
bool is_code_of_a_byte(backend::DType type) noexcept;

/// ELEMENT_... of cl/fp8.cl: the number of numerics::DType.
std::string kernel_number(backend::DType type);

}  // namespace ironcl::opencl
