// SPDX-License-Identifier: Apache-2.0
// The element types on the kernels' side. A type is one row of the table in elements.cpp and one in cl/fp8.cl
// with the functions that it names; everything else asks here. Next door: numerics/formats.h (the same types on the
// host's side).
#pragma once

#include <array>
#include <string>

#include "backends/interface.h"

namespace ironcl::opencl {

/// What kernels can do with a type.
struct Element {
  backend::DType type = backend::DType::none;
  bool real = false;     ///< Activations, outputs and biases come in it, and it is quantised from.
  bool code = false;     ///< Quantised activations come in it.
  bool weight = false;   ///< Quantised weights come in it.
  bool scale = false;    ///< Scales come in it.
  bool usual = false;    ///< Kernels with a decoder of their own know it: code_words.cl, amx.cl, ptx.cl.
  bool integer = false;  ///< Codes of one kind go with their like only.
};

/// The row of a type; all false where kernels do not know it.
const Element& element(backend::DType type) noexcept;

/// The names of the types for which `member` is true, as a sentence has them: "f32, f16 or bf16".
std::string names_of(bool Element::*member);

/// ELEMENT_... of cl/fp8.cl: the number of numerics::DType.
std::string kernel_number(backend::DType type);

/// For each byte of a type of weights, whether a code in it is NaN.
const std::array<bool, 256>& nan_codes(backend::DType type);

}  // namespace ironcl::opencl
