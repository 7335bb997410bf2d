// SPDX-License-Identifier: Apache-2.0
// OpenCL C whose binary nobody asks for. To give one, a driver may compile every kernel again, for work-groups of any
// size, which kernels of one processor's own instructions do not all survive: PoCL 5.0's compiler then ends the
// process.
#pragma once

#include "backends/opencl/toolchain.h"

namespace ironcl::opencl {

/// opencl_c(), but for the program cache: what it builds is not kept there. The driver's own cache may keep it.
const Toolchain& opencl_c_unsaved();

}  // namespace ironcl::opencl
