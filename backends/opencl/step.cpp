// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/step.h"

#include <bit>
#include <climits>

#include "backends/opencl/elements.h"

namespace ironcl::opencl {

Defines device_defines(const Features& f) {
  Defines defines{{"USE_FMA", f.fma ? "1" : "0"}};
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, int>>{{"PROCESSOR", f.type == backend::DeviceType::cpu},
                                                          {"MIN_VECTOR_WIDTH", f.min_vector_width},
                                                          {"HALF_VECTORS", f.half_vectors},
                                                          {"HALF_BITS", f.half_bits},
                                                          {"BYTE_DOTS", f.byte_dots},
                                                          {"DPAS_LANES", f.dpas_lanes},
                                                          {"WAVE_LANES", f.wave_lanes},
                                                          {"CACHE_BUILTINS", f.cache_builtins},
                                                          {"PTX_SM_80", f.ptx_sm_80},
                                                          {"PTX_SM_89", f.ptx_sm_89},
                                                          {"PTX_SM_90", f.ptx_sm_90},
                                                          {"AMX", f.amx_why_not.empty()},
                                                          {"DOT_PRODUCTS", f.dot_products_why_not.empty()}}) {
    if (value != 0) defines[name] = std::to_string(value);
  }
  return defines;
}

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

std::int64_t lanes_of(const Features& f, std::uint64_t most) {
  return f.prefers_vectors() ? 1 : std::bit_floor(std::min<std::uint64_t>(most, f.max_work_group));
}

int reach(std::int64_t extent) {
  return extent == 0 ? INT_MAX : static_cast<int>(std::min<std::int64_t>(extent, INT_MAX));
}

}  // namespace ironcl::opencl
