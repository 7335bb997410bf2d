// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/api.h"

#include "opencl_errors.inc"  // IRONCL_OPENCL_ERRORS: the names of errors in CL/cl.h.

namespace ironcl::opencl {

namespace {

using backend::Status;

#define IRONCL_NAME(code) {code, #code},
constexpr std::pair<cl_int, const char*> kNames[] = {
    IRONCL_NAME(CL_SUCCESS) IRONCL_OPENCL_ERRORS(IRONCL_NAME){-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
#undef IRONCL_NAME

}  // namespace

std::string error_name(cl_int code) {
  for (const auto& [known, name] : kNames)
    if (known == code) return name;
  return "OpenCL error " + std::to_string(code);
}

Status status_of(cl_int code) noexcept {
  constexpr cl_int kNoPlatform = -1001;         // CL_PLATFORM_NOT_FOUND_KHR
  constexpr cl_int kStrayMemoryAccess = -9999;  // A driver's own, for a kernel that touched memory not its own.
  switch (code) {
    case CL_SUCCESS:
      return Status::ok;
    case CL_DEVICE_NOT_FOUND:
    case CL_COMPILER_NOT_AVAILABLE:
    case kNoPlatform:
      return Status::unavailable;
    case CL_DEVICE_NOT_AVAILABLE:
    case kStrayMemoryAccess:
      return Status::device_lost;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE:
      return Status::out_of_device_memory;
    case CL_OUT_OF_HOST_MEMORY:
      return Status::out_of_host_memory;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILE_PROGRAM_FAILURE:
    case CL_LINK_PROGRAM_FAILURE:
      return Status::build_failed;
    default:
      return Status::internal;
  }
}

backend::Error make_error(const std::string& doing, const cl::Error& error) {
  return {status_of(error.err()), error.err(),
          fmt::format("{}: {} answered {} ({})", doing, error.what(), error_name(error.err()), error.err())};
}

}  // namespace ironcl::opencl
