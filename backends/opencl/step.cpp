// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/step.h"

#include <algorithm>
#include <climits>

namespace ironcl::opencl {

Memory Call::at(const Place& place) const {
  const auto moved = [&](const Memory& memory) { return Memory{memory.buffer, memory.at + place.at}; };
  switch (place.source) {
    case Source::a:
      return moved(a);
    case Source::a_scale:
      return moved(a_scale);
    case Source::a_codes:
      return moved(a_codes);
    case Source::a_code_scales:
      return moved(a_code_scales);
    case Source::a_index:
      return moved(a_index);
    case Source::matrix_rows:
      return moved(matrix_rows);
    case Source::d:
      return moved(d);
    case Source::bias:
      return moved(bias);
    case Source::counter:
      return moved(counter);
    case Source::workspace:
      return moved(workspace);
    case Source::none:
      break;
  }
  return null_buffer;
}

bool Call::has(Source source) const { return dry() || at({source, 0}).buffer != nullptr; }

Defines device_defines(const Features& f) {
  Defines defines{{"USE_FMA", f.fma ? "1" : "0"}};
  if (f.type == backend::DeviceType::cpu) defines["PROCESSOR"] = "1";
  if (f.min_vector_width) defines["MIN_VECTOR_WIDTH"] = "1";
  if (f.half_vectors) defines["HALF_VECTORS"] = "1";
  if (f.half_bits != 0) defines["HALF_BITS"] = std::to_string(f.half_bits);
  if (f.byte_dots) defines["BYTE_DOTS"] = "1";
  if (f.dpas_lanes != 0) defines["DPAS_LANES"] = std::to_string(f.dpas_lanes);
  if (f.wave_lanes != 0) defines["WAVE_LANES"] = std::to_string(f.wave_lanes);
  if (f.cache_builtins) defines["CACHE_BUILTINS"] = "1";
  if (f.ptx_sm_80) defines["PTX_SM_80"] = "1";
  if (f.ptx_sm_89) defines["PTX_SM_89"] = "1";
  if (f.ptx_sm_90) defines["PTX_SM_90"] = "1";
  if (f.amx_why_not.empty()) defines["AMX"] = "1";
  if (f.dot_products_why_not.empty()) defines["DOT_PRODUCTS"] = "1";
  return defines;
}

int reach(std::int64_t extent) {
  return extent == 0 ? INT_MAX : static_cast<int>(std::min<std::int64_t>(extent, INT_MAX));
}

}  // namespace ironcl::opencl
