// SPDX-License-Identifier: Apache-2.0
// The one place that includes the OpenCL bindings and says which version is meant; and their errors by name.
#pragma once

#include "backends/opencl/calls.h"

// The bindings call those in place of functions that would have to be linked.
#include "opencl_call_names.inc"

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

/// Seconds of a kernel's run on the device's own clock, once it has ended; its queue must keep times.
inline double seconds_of_run(const cl::Event& event) {
  event.wait();
  return static_cast<double>(event.getProfilingInfo<CL_PROFILING_COMMAND_END>() -
                             event.getProfilingInfo<CL_PROFILING_COMMAND_START>()) *
         1e-9;
}

/// Runs `call` and turns a cl::Error into a backend::Error. `doing` says what, for the message.
template <class F>
auto guarded(const std::string& doing, F&& call) -> decltype(call()) {
  try {
    return std::forward<F>(call)();
  } catch (const cl::Error& error) {
    throw make_error(doing, error);
  }
}

/// Runs `call`, of whose failure there is nobody to tell.
template <class F>
void quietly(F&& call) {
  try {
    std::forward<F>(call)();
  } catch (const cl::Error&) {
  }
}

}  // namespace ironcl::opencl
