// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/calls.h"

#include <dlfcn.h>

#include <type_traits>

namespace ironcl::opencl::calls {
namespace {

/// Never closed: drivers do not survive it.
void* library() {
  static void* const handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <class Result, class... Arguments>
auto find(const char* name, Result(CL_API_CALL*)(Arguments...)) -> Result(CL_API_CALL&)(Arguments...) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr && library() != nullptr) found = dlsym(library(), name);
  if (found != nullptr) return *reinterpret_cast<Result(CL_API_CALL*)(Arguments...)>(found);
  return *+[](Arguments...) -> Result {
    if constexpr (std::is_same_v<Result, cl_int>)
      return CL_PLATFORM_NOT_FOUND_KHR;
    else
      return nullptr;
  };
}

}  // namespace

// NOLINTNEXTLINE(bugprone-macro-parentheses): a name.
#define IRONCL_CALL(name) decltype(::name)& name = find(#name, static_cast<decltype(&::name)>(nullptr));
IRONCL_OPENCL_CALLS(IRONCL_CALL)
#undef IRONCL_CALL

std::string why_missing() {
  if (library() != nullptr || dlsym(RTLD_DEFAULT, "clGetPlatformIDs") != nullptr) return "";
  dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  const char* const why = dlerror();
  return why != nullptr ? why : "libOpenCL.so.1 was missing when the plugin was loaded";
}

}  // namespace ironcl::opencl::calls
