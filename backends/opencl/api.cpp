// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/api.h"

namespace ironcl::opencl {

namespace {

using backend::Status;

struct Code {
  cl_int code;
  const char* name;  ///< Null: it has none.
  Status status;
};

#define IRONCL_ROW(code, status) \
  { code, #code, Status::status }
constexpr Code kCodes[] = {
    IRONCL_ROW(CL_SUCCESS, ok),
    IRONCL_ROW(CL_DEVICE_NOT_FOUND, unavailable),
    IRONCL_ROW(CL_DEVICE_NOT_AVAILABLE, device_lost),
    IRONCL_ROW(CL_COMPILER_NOT_AVAILABLE, unavailable),
    IRONCL_ROW(CL_MEM_OBJECT_ALLOCATION_FAILURE, out_of_device_memory),
    IRONCL_ROW(CL_OUT_OF_RESOURCES, out_of_device_memory),
    IRONCL_ROW(CL_OUT_OF_HOST_MEMORY, out_of_host_memory),
    IRONCL_ROW(CL_PROFILING_INFO_NOT_AVAILABLE, internal),
    IRONCL_ROW(CL_MEM_COPY_OVERLAP, internal),
    IRONCL_ROW(CL_BUILD_PROGRAM_FAILURE, build_failed),
    IRONCL_ROW(CL_MAP_FAILURE, internal),
    IRONCL_ROW(CL_MISALIGNED_SUB_BUFFER_OFFSET, internal),
    IRONCL_ROW(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, internal),
    IRONCL_ROW(CL_COMPILE_PROGRAM_FAILURE, build_failed),
    IRONCL_ROW(CL_LINKER_NOT_AVAILABLE, internal),
    IRONCL_ROW(CL_LINK_PROGRAM_FAILURE, build_failed),
    IRONCL_ROW(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, internal),
    IRONCL_ROW(CL_INVALID_VALUE, internal),
    IRONCL_ROW(CL_INVALID_DEVICE_TYPE, internal),
    IRONCL_ROW(CL_INVALID_PLATFORM, internal),
    IRONCL_ROW(CL_INVALID_DEVICE, internal),
    IRONCL_ROW(CL_INVALID_CONTEXT, internal),
    IRONCL_ROW(CL_INVALID_QUEUE_PROPERTIES, internal),
    IRONCL_ROW(CL_INVALID_COMMAND_QUEUE, internal),
    IRONCL_ROW(CL_INVALID_HOST_PTR, internal),
    IRONCL_ROW(CL_INVALID_MEM_OBJECT, internal),
    IRONCL_ROW(CL_INVALID_BINARY, internal),
    IRONCL_ROW(CL_INVALID_BUILD_OPTIONS, internal),
    IRONCL_ROW(CL_INVALID_PROGRAM, internal),
    IRONCL_ROW(CL_INVALID_PROGRAM_EXECUTABLE, internal),
    IRONCL_ROW(CL_INVALID_KERNEL_NAME, internal),
    IRONCL_ROW(CL_INVALID_KERNEL_DEFINITION, internal),
    IRONCL_ROW(CL_INVALID_KERNEL, internal),
    IRONCL_ROW(CL_INVALID_ARG_INDEX, internal),
    IRONCL_ROW(CL_INVALID_ARG_VALUE, internal),
    IRONCL_ROW(CL_INVALID_ARG_SIZE, internal),
    IRONCL_ROW(CL_INVALID_KERNEL_ARGS, internal),
    IRONCL_ROW(CL_INVALID_WORK_DIMENSION, internal),
    IRONCL_ROW(CL_INVALID_WORK_GROUP_SIZE, internal),
    IRONCL_ROW(CL_INVALID_WORK_ITEM_SIZE, internal),
    IRONCL_ROW(CL_INVALID_GLOBAL_OFFSET, internal),
    IRONCL_ROW(CL_INVALID_EVENT_WAIT_LIST, internal),
    IRONCL_ROW(CL_INVALID_EVENT, internal),
    IRONCL_ROW(CL_INVALID_OPERATION, internal),
    IRONCL_ROW(CL_INVALID_BUFFER_SIZE, out_of_device_memory),
    IRONCL_ROW(CL_INVALID_GLOBAL_WORK_SIZE, internal),
    IRONCL_ROW(CL_INVALID_PROPERTY, internal),
    IRONCL_ROW(CL_INVALID_COMPILER_OPTIONS, internal),
    IRONCL_ROW(CL_INVALID_LINKER_OPTIONS, internal),
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR", Status::unavailable},
    {-9999, nullptr,
     Status::device_lost},  // A driver's own code for a kernel that touched memory that is not its own.
};
#undef IRONCL_ROW

/// The row of a code, or null.
const Code* row_of(cl_int code) noexcept {
  for (const Code& row : kCodes)
    if (row.code == code) return &row;
  return nullptr;
}

}  // namespace

std::string error_name(cl_int code) {
  const Code* const row = row_of(code);
  return row != nullptr && row->name != nullptr ? row->name : "OpenCL error " + std::to_string(code);
}

Status status_of(cl_int code) noexcept {
  const Code* const row = row_of(code);
  return row != nullptr ? row->status : Status::internal;
}

backend::Error make_error(const std::string& doing, const cl::Error& error) {
  return {status_of(error.err()), error.err(),
          fmt::format("{}: {} answered {} ({})", doing, error.what(), error_name(error.err()), error.err())};
}

}  // namespace ironcl::opencl
