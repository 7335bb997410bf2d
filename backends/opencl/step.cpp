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
    case Source::nothing:
      break;
  }
  return nothing;
}

bool Call::has(Source source) const { return dry_ || at({source, 0}).buffer != nullptr; }

void Call::launch(const cl::Kernel& kernel, const cl::NDRange& work_groups, const cl::NDRange& local) {
  const std::size_t* const l = local.get();
  const std::size_t* const g = work_groups.get();
  const cl::NDRange global = dry_ ? cl::NDRange(l[0], l[1]) : cl::NDRange(g[0] * l[0], g[1] * l[1]);
  // Its place is there before the command is: whoever waits for what was launched must find all of it.
  launched_.emplace_back();
  try {
    queue_.enqueueNDRangeKernel(kernel, cl::NullRange, global, local, wait.empty() ? nullptr : &wait,
                                &launched_.back());
  } catch (...) {
    launched_.pop_back();
    throw;
  }
  wait = needed_;
}

void Call::depend_on_last() {
  needed_.push_back(launched_.back());
  wait.push_back(launched_.back());
}

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
