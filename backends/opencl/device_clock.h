// SPDX-License-Identifier: Apache-2.0
// Times on a device's own clock. Below what uses them: probes (probe.cpp) and ceilings (ceilings.cpp).
#pragma once

#include "backends/opencl/api.h"

namespace ironcl::opencl {

/// Seconds of a kernel's run, once it has ended; its queue must keep times.
inline double seconds_of_run(const cl::Event& event) {
  event.wait();
  return static_cast<double>(event.getProfilingInfo<CL_PROFILING_COMMAND_END>() -
                             event.getProfilingInfo<CL_PROFILING_COMMAND_START>()) *
         1e-9;
}

}  // namespace ironcl::opencl
