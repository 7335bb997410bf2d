// SPDX-License-Identifier: Apache-2.0
// The one place that includes the OpenCL bindings and says which version is meant; and their errors by name.
#pragma once

#include "backends/opencl/calls.h"

// The bindings call these in place of functions that would have to be linked.
#define clBuildProgram ironcl::opencl::calls::clBuildProgram
#define clCreateBuffer ironcl::opencl::calls::clCreateBuffer
#define clCreateCommandQueue ironcl::opencl::calls::clCreateCommandQueue
#define clCreateCommandQueueWithProperties ironcl::opencl::calls::clCreateCommandQueueWithProperties
#define clCreateContext ironcl::opencl::calls::clCreateContext
#define clCreateKernel ironcl::opencl::calls::clCreateKernel
#define clCreateProgramWithBinary ironcl::opencl::calls::clCreateProgramWithBinary
#define clCreateProgramWithSource ironcl::opencl::calls::clCreateProgramWithSource
#define clCreateUserEvent ironcl::opencl::calls::clCreateUserEvent
#define clEnqueueBarrierWithWaitList ironcl::opencl::calls::clEnqueueBarrierWithWaitList
#define clEnqueueFillBuffer ironcl::opencl::calls::clEnqueueFillBuffer
#define clEnqueueMapBuffer ironcl::opencl::calls::clEnqueueMapBuffer
#define clEnqueueMarkerWithWaitList ironcl::opencl::calls::clEnqueueMarkerWithWaitList
#define clEnqueueNDRangeKernel ironcl::opencl::calls::clEnqueueNDRangeKernel
#define clEnqueueReadBuffer ironcl::opencl::calls::clEnqueueReadBuffer
#define clEnqueueUnmapMemObject ironcl::opencl::calls::clEnqueueUnmapMemObject
#define clEnqueueWriteBuffer ironcl::opencl::calls::clEnqueueWriteBuffer
#define clFinish ironcl::opencl::calls::clFinish
#define clFlush ironcl::opencl::calls::clFlush
#define clGetContextInfo ironcl::opencl::calls::clGetContextInfo
#define clGetDeviceIDs ironcl::opencl::calls::clGetDeviceIDs
#define clGetDeviceInfo ironcl::opencl::calls::clGetDeviceInfo
#define clGetEventInfo ironcl::opencl::calls::clGetEventInfo
#define clGetEventProfilingInfo ironcl::opencl::calls::clGetEventProfilingInfo
#define clGetMemObjectInfo ironcl::opencl::calls::clGetMemObjectInfo
#define clGetPlatformIDs ironcl::opencl::calls::clGetPlatformIDs
#define clGetPlatformInfo ironcl::opencl::calls::clGetPlatformInfo
#define clGetProgramBuildInfo ironcl::opencl::calls::clGetProgramBuildInfo
#define clGetProgramInfo ironcl::opencl::calls::clGetProgramInfo
#define clReleaseCommandQueue ironcl::opencl::calls::clReleaseCommandQueue
#define clReleaseContext ironcl::opencl::calls::clReleaseContext
#define clReleaseDevice ironcl::opencl::calls::clReleaseDevice
#define clReleaseEvent ironcl::opencl::calls::clReleaseEvent
#define clReleaseKernel ironcl::opencl::calls::clReleaseKernel
#define clReleaseMemObject ironcl::opencl::calls::clReleaseMemObject
#define clReleaseProgram ironcl::opencl::calls::clReleaseProgram
#define clRetainCommandQueue ironcl::opencl::calls::clRetainCommandQueue
#define clRetainContext ironcl::opencl::calls::clRetainContext
#define clRetainDevice ironcl::opencl::calls::clRetainDevice
#define clRetainEvent ironcl::opencl::calls::clRetainEvent
#define clRetainKernel ironcl::opencl::calls::clRetainKernel
#define clRetainMemObject ironcl::opencl::calls::clRetainMemObject
#define clRetainProgram ironcl::opencl::calls::clRetainProgram
#define clSetEventCallback ironcl::opencl::calls::clSetEventCallback
#define clSetKernelArg ironcl::opencl::calls::clSetKernelArg
#define clSetUserEventStatus ironcl::opencl::calls::clSetUserEventStatus
#define clWaitForEvents ironcl::opencl::calls::clWaitForEvents

#define CL_HPP_ENABLE_EXCEPTIONS
// The backend needs OpenCL 1.2; some releases of the bindings do not compile with 120 and a target of 200 or more.
#define CL_HPP_MINIMUM_OPENCL_VERSION 110
#define CL_HPP_TARGET_OPENCL_VERSION 300
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wignored-qualifiers"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif
#include <CL/opencl.hpp>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include <string>
#include <utility>

#include "backends/interface.h"

namespace ironcl::opencl {

/// "CL_OUT_OF_RESOURCES" for -5; a code without a name gives "OpenCL error -9999".
std::string error_name(cl_int code);

/// The status that a code of the driver stands for.
backend::Status status_of(cl_int code) noexcept;

/// An Error that says what was being done: "doing: clEnqueueNDRangeKernel answered CL_OUT_OF_RESOURCES (-5)".
backend::Error make_error(const std::string& doing, const cl::Error& error);

/// Runs `call` and turns a cl::Error into a backend::Error. `doing` says what, for the message.
template <class F>
auto guarded(const std::string& doing, F&& call) -> decltype(call()) {
  try {
    return std::forward<F>(call)();
  } catch (const cl::Error& error) {
    throw make_error(doing, error);
  }
}

}  // namespace ironcl::opencl
