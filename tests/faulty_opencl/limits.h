// SPDX-License-Identifier: Apache-2.0
// Odd limits: what the device says of itself is changed, and what it then must refuse is refused.
#pragma once

#include <CL/cl.h>

#include <cstddef>
#include <string>

#include "tests/faulty_opencl/state.h"

namespace ironcl::faulty {

/// Changes an answer of clGetDeviceInfo in place.
void limit_device_info(const Limits& limits, cl_device_info what, std::size_t size, void* value);

/// Changes the options of a build; false where they ask for what the device lacks.
bool limit_build_options(const Limits& limits, std::string& options);

/// CL_SUCCESS, or why the device refuses to launch `kernel` with `local` work-items a group.
cl_int limit_launch(const Limits& limits, cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                    const std::size_t* local);

}  // namespace ironcl::faulty
