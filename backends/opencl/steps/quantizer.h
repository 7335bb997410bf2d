// SPDX-License-Identifier: Apache-2.0
// What the steps that quantise set for cl/quantizer.cl.
#pragma once

#include "backends/opencl/step.h"

namespace ironcl::opencl {

/// The definitions of cl/quantizer.cl.
Defines quantizer_defines(const Features& features, backend::DType source, backend::DType code,
                          const numerics::Quantizer& quantizer);

/// The compiler's options: where the device's division was seen to be exact with one, that one.
std::string quantizer_options(const Features& features);

}  // namespace ironcl::opencl
