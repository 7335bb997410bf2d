// SPDX-License-Identifier: Apache-2.0
// What the variants for matrix products of waves (cl/wave_products.cl) need.
#pragma once

#include <optional>

#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// Why such a kernel cannot run; empty where its trial may decide.
inline std::optional<Refusal> refuse_without_waves(const Features& f) {
  if (f.wave_lanes != 0) return std::nullopt;
  return Refusal{backend::Reason::device_feature,
                 "this kernel needs waves of 32 or 64 work-items, of which the device says nothing "
                 "(cl_amd_device_attribute_query)"};
}

}  // namespace ironcl::opencl
