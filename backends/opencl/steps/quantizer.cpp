// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/quantizer.h"

#include "backends/opencl/elements.h"

namespace ironcl::opencl {

Defines quantizer_defines(const Features& f, backend::DType source, backend::DType code,
                          const numerics::Quantizer& quantizer) {
  Defines defines = device_defines(f);
  defines["SOURCE"] = kernel_number(source);
  defines["CODE"] = kernel_number(code);
  defines["POWER_OF_TWO"] = quantizer.rounding == numerics::ScaleRounding::power_of_two ? "1" : "0";
  defines["FMA_DIVIDE"] = f.fma_divide ? "1" : "0";
  defines["EXACT_DIVIDE"] = f.exact_divide ? "1" : "0";
  return defines;
}

std::string quantizer_options(const Features& f) {
  return f.exact_divide ? "-cl-fp32-correctly-rounded-divide-sqrt" : "";
}

}  // namespace ironcl::opencl
