// SPDX-License-Identifier: Apache-2.0
// The calls of OpenCL that the backend makes. They are looked up when the program that holds them is loaded, so that
// it loads where there is no libOpenCL; one that is not in the list does not link. Next door: api.h (the bindings).
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/opencl.h>

#include <string>

#include "opencl_calls.inc"  // IRONCL_OPENCL_CALLS, of the list in CMakeLists.txt.

namespace ironcl::opencl::calls {

// Each is that of a library which the process has shown to all, such as one in LD_PRELOAD; else libOpenCL.so.1 has
// it; else it answers CL_PLATFORM_NOT_FOUND_KHR, or null.
#define IRONCL_CALL(name) extern decltype(::name)& name;  // NOLINT(bugprone-macro-parentheses): a name.
IRONCL_OPENCL_CALLS(IRONCL_CALL)
#undef IRONCL_CALL

/// Why there is no libOpenCL.so.1, in the words of the dynamic linker; empty where there is one.
std::string why_missing();

}  // namespace ironcl::opencl::calls
