// SPDX-License-Identifier: Apache-2.0
// The calls of OpenCL that the backend makes. They are looked up when the program that holds them is loaded, so that
// it loads where there is no libOpenCL; one that is not in the list does not link. Next door: api.h (the bindings).
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/opencl.h>

#include <string>

// By hand: clang-format indents one macro behind another.
// clang-format off
#define IRONCL_OPENCL_CALLS(X) \
  X(clBuildProgram) X(clCreateBuffer) X(clCreateCommandQueue) X(clCreateCommandQueueWithProperties) \
  X(clCreateContext) X(clCreateKernel) X(clCreateProgramWithBinary) X(clCreateProgramWithSource) \
  X(clCreateUserEvent) X(clEnqueueBarrierWithWaitList) X(clEnqueueFillBuffer) X(clEnqueueMapBuffer) \
  X(clEnqueueMarkerWithWaitList) X(clEnqueueNDRangeKernel) X(clEnqueueReadBuffer) X(clEnqueueUnmapMemObject) \
  X(clEnqueueWriteBuffer) X(clFinish) X(clFlush) X(clGetContextInfo) X(clGetDeviceIDs) X(clGetDeviceInfo) \
  X(clGetEventInfo) X(clGetEventProfilingInfo) X(clGetMemObjectInfo) X(clGetPlatformIDs) X(clGetPlatformInfo) \
  X(clGetProgramBuildInfo) X(clGetProgramInfo) X(clReleaseCommandQueue) X(clReleaseContext) X(clReleaseDevice) \
  X(clReleaseEvent) X(clReleaseKernel) X(clReleaseMemObject) X(clReleaseProgram) X(clRetainCommandQueue) \
  X(clRetainContext) X(clRetainDevice) X(clRetainEvent) X(clRetainKernel) X(clRetainMemObject) \
  X(clRetainProgram) X(clSetEventCallback) X(clSetKernelArg) X(clSetUserEventStatus) X(clWaitForEvents)
// clang-format on

namespace ironcl::opencl::calls {

// Each is that of a library which the process has shown to all, such as one in LD_PRELOAD; else libOpenCL.so.1 has
// it; else it answers CL_PLATFORM_NOT_FOUND_KHR, or null.
#define IRONCL_CALL(name) extern decltype(::name)& name;  // NOLINT(bugprone-macro-parentheses): a name.
IRONCL_OPENCL_CALLS(IRONCL_CALL)
#undef IRONCL_CALL

/// Why there is no libOpenCL.so.1, in the words of the dynamic linker; empty where there is one.
std::string why_missing();

}  // namespace ironcl::opencl::calls
