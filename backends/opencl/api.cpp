// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/api.h"

namespace ironcl::opencl {

std::string error_name(cl_int code) {
  switch (code) {
#define IRONCL_NAME(x) \
  case x:              \
    return #x
    IRONCL_NAME(CL_SUCCESS);
    IRONCL_NAME(CL_DEVICE_NOT_FOUND);
    IRONCL_NAME(CL_DEVICE_NOT_AVAILABLE);
    IRONCL_NAME(CL_COMPILER_NOT_AVAILABLE);
    IRONCL_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE);
    IRONCL_NAME(CL_OUT_OF_RESOURCES);
    IRONCL_NAME(CL_OUT_OF_HOST_MEMORY);
    IRONCL_NAME(CL_PROFILING_INFO_NOT_AVAILABLE);
    IRONCL_NAME(CL_MEM_COPY_OVERLAP);
    IRONCL_NAME(CL_BUILD_PROGRAM_FAILURE);
    IRONCL_NAME(CL_MAP_FAILURE);
    IRONCL_NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET);
    IRONCL_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    IRONCL_NAME(CL_COMPILE_PROGRAM_FAILURE);
    IRONCL_NAME(CL_LINKER_NOT_AVAILABLE);
    IRONCL_NAME(CL_LINK_PROGRAM_FAILURE);
    IRONCL_NAME(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
    IRONCL_NAME(CL_INVALID_VALUE);
    IRONCL_NAME(CL_INVALID_DEVICE_TYPE);
    IRONCL_NAME(CL_INVALID_PLATFORM);
    IRONCL_NAME(CL_INVALID_DEVICE);
    IRONCL_NAME(CL_INVALID_CONTEXT);
    IRONCL_NAME(CL_INVALID_QUEUE_PROPERTIES);
    IRONCL_NAME(CL_INVALID_COMMAND_QUEUE);
    IRONCL_NAME(CL_INVALID_HOST_PTR);
    IRONCL_NAME(CL_INVALID_MEM_OBJECT);
    IRONCL_NAME(CL_INVALID_BINARY);
    IRONCL_NAME(CL_INVALID_BUILD_OPTIONS);
    IRONCL_NAME(CL_INVALID_PROGRAM);
    IRONCL_NAME(CL_INVALID_PROGRAM_EXECUTABLE);
    IRONCL_NAME(CL_INVALID_KERNEL_NAME);
    IRONCL_NAME(CL_INVALID_KERNEL_DEFINITION);
    IRONCL_NAME(CL_INVALID_KERNEL);
    IRONCL_NAME(CL_INVALID_ARG_INDEX);
    IRONCL_NAME(CL_INVALID_ARG_VALUE);
    IRONCL_NAME(CL_INVALID_ARG_SIZE);
    IRONCL_NAME(CL_INVALID_KERNEL_ARGS);
    IRONCL_NAME(CL_INVALID_WORK_DIMENSION);
    IRONCL_NAME(CL_INVALID_WORK_GROUP_SIZE);
    IRONCL_NAME(CL_INVALID_WORK_ITEM_SIZE);
    IRONCL_NAME(CL_INVALID_GLOBAL_OFFSET);
    IRONCL_NAME(CL_INVALID_EVENT_WAIT_LIST);
    IRONCL_NAME(CL_INVALID_EVENT);
    IRONCL_NAME(CL_INVALID_OPERATION);
    IRONCL_NAME(CL_INVALID_BUFFER_SIZE);
    IRONCL_NAME(CL_INVALID_GLOBAL_WORK_SIZE);
    IRONCL_NAME(CL_INVALID_PROPERTY);
    IRONCL_NAME(CL_INVALID_COMPILER_OPTIONS);
    IRONCL_NAME(CL_INVALID_LINKER_OPTIONS);
#undef IRONCL_NAME
    case -1001:
      return "CL_PLATFORM_NOT_FOUND_KHR";
    default:
      return "OpenCL error " + std::to_string(code);
  }
}

backend::Status status_of(cl_int code) noexcept {
  using backend::Status;
  switch (code) {
    case CL_SUCCESS:
      return Status::ok;
    case CL_OUT_OF_HOST_MEMORY:
      return Status::out_of_host_memory;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE:
      return Status::out_of_device_memory;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILE_PROGRAM_FAILURE:
    case CL_LINK_PROGRAM_FAILURE:
      return Status::build_failed;
    case CL_DEVICE_NOT_FOUND:
    case CL_COMPILER_NOT_AVAILABLE:
    case -1001:
      return Status::unavailable;
    case CL_DEVICE_NOT_AVAILABLE:
    case -9999:  // A driver's own code for a kernel that touched memory that is not its own.
      return Status::device_lost;
    default:
      return Status::internal;
  }
}

backend::Error make_error(const std::string& doing, const cl::Error& error) {
  return {
      status_of(error.err()),
      doing + ": " + error.what() + " answered " + error_name(error.err()) + " (" + std::to_string(error.err()) + ")",
      error.err()};
}

}  // namespace ironcl::opencl
