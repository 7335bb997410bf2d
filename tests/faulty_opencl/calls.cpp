// SPDX-License-Identifier: Apache-2.0
// One wrapper for each call of OpenCL that IronCL makes: it asks state.h, then calls the next library's function.
// A call that is not here passes unseen; check_calls.sh compares this library with the list of the backend.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/opencl/calls.h"
#include "tests/faulty_opencl/limits.h"
#include "tests/faulty_opencl/shim.h"
#include "tests/faulty_opencl/state.h"

namespace ironcl::faulty {
namespace {

/// The function of this name in the library behind this one.
template <class F>
F next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "libironcl_faulty_opencl: no library behind it has %s\n", name);
    std::abort();
  }
  return reinterpret_cast<F>(found);
}

/// A call that answers a code.
template <class... A>
cl_int pass(cl_int (*real)(A...), const char* name, A... arguments) {
  const Verdict verdict = judge(name, false);
  return verdict.code != CL_SUCCESS ? verdict.code : real(arguments...);
}

/// One reference more. A refusal is made up after nothing was done.
template <class T>
cl_int retain(cl_int (*real)(T), const char* name, Kind kind, T object) {
  const Verdict verdict = judge(name, true);
  if (verdict.code != CL_SUCCESS) return verdict.code;
  const cl_int answer = real(object);
  if (answer == CL_SUCCESS) count(kind, 1);
  return answer;
}

/// One reference less. A failure is made up after the work was done, so that nothing of the driver's is lost by it.
template <class T>
cl_int release(cl_int (*real)(T), const char* name, Kind kind, T object) {
  const Verdict verdict = judge(name, true);
  const cl_int answer = real(object);
  if (answer == CL_SUCCESS) count(kind, -1);
  return verdict.code != CL_SUCCESS ? verdict.code : answer;
}

/// A call that makes an object and writes its code through its last argument.
template <class F, class... A>
auto make(F real, const char* name, Kind kind, cl_int* code, A... arguments) -> decltype(real(arguments..., code)) {
  const Verdict verdict = judge(name, false);
  if (verdict.code != CL_SUCCESS) {
    if (code != nullptr) *code = verdict.code;
    return nullptr;
  }
  const auto made = real(arguments..., code);
  if (made != nullptr) count(kind, 1);
  return made;
}

/// Events that end with a code by command. PoCL 3.1 cannot fail a command without hanging or aborting afterwards, so
/// the work is left out, the driver's event ends well, and whoever asks is told the code.
class Failures {
 public:
  void set(cl_event event, cl_int code) {
    const std::lock_guard lock(mutex_);
    codes_[event] = code;
  }
  /// A driver may give an ended event's address to a new one.
  void forget(cl_event event) {
    const std::lock_guard lock(mutex_);
    codes_.erase(event);
  }
  cl_int of(cl_event event) const {
    const std::lock_guard lock(mutex_);
    const auto found = codes_.find(event);
    return found == codes_.end() ? CL_SUCCESS : found->second;
  }
  bool any(cl_uint count, const cl_event* list) const {
    for (cl_uint i = 0; i < count; ++i)
      if (of(list[i]) != CL_SUCCESS) return true;
    return false;
  }

 private:
  mutable std::mutex mutex_;
  std::map<cl_event, cl_int> codes_;
};

Failures& failures() {
  static auto* const made = new Failures;
  return *made;
}

/// A call that enqueues: refused, failed later, or passed on; its event, where asked for, is an object. What waits
/// for a failed event fails; what only comes later in the queue does not, as OpenCL allows.
template <class F, class... A>
cl_int enqueue(F real, const char* name, bool may_fail_later, cl_command_queue queue, cl_uint waits,
               const cl_event* list, cl_event* event, A... arguments) {
  const Verdict verdict = judge(name, false);
  cl_int answer = verdict.code, fails_with = CL_SUCCESS;
  if (answer == CL_SUCCESS && failures().any(waits, list)) fails_with = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  if (verdict.later && may_fail_later) fails_with = verdict.code;
  if (answer == CL_SUCCESS && (fails_with == CL_SUCCESS || !may_fail_later)) {
    answer = real(queue, arguments..., waits, list, event);
  } else if (fails_with != CL_SUCCESS) {  // Accepted, and not done.
    answer = next<decltype(&clEnqueueMarkerWithWaitList)>("clEnqueueMarkerWithWaitList")(queue, waits, list, event);
  }
  if (answer == CL_SUCCESS && event != nullptr) {
    count(Kind::event, 1);
    failures().forget(*event);
    if (fails_with != CL_SUCCESS) failures().set(*event, fails_with);
  }
  return answer;
}

/// A write that blocks and is late: its bytes are taken at once, and reach the buffer when a thread lets them.
cl_int write_late(cl_command_queue queue, cl_mem to, size_t at, size_t size, const void* from, cl_uint waits,
                  const cl_event* list, cl_event* event) {
  cl_context context = nullptr;
  cl_int code = next<decltype(&clGetCommandQueueInfo)>("clGetCommandQueueInfo")(queue, CL_QUEUE_CONTEXT,
                                                                                sizeof(context), &context, nullptr);
  if (code != CL_SUCCESS) return code;
  const cl_event gate = next<decltype(&clCreateUserEvent)>("clCreateUserEvent")(context, &code);
  if (gate == nullptr) return code;
  std::vector<cl_event> all(list, list + waits);
  all.push_back(gate);
  auto* const bytes = new std::vector<char>(static_cast<const char*>(from), static_cast<const char*>(from) + size);
  cl_event done = nullptr;
  code = next<decltype(&clEnqueueWriteBuffer)>("clEnqueueWriteBuffer")(
      queue, to, CL_FALSE, at, size, bytes->data(), static_cast<cl_uint>(all.size()), all.data(), &done);
  if (code == CL_SUCCESS && event != nullptr) {
    next<decltype(&clRetainEvent)>("clRetainEvent")(done);
    *event = done;
  }
  std::thread([gate, done, bytes, late = code == CL_SUCCESS] {
    if (late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      next<decltype(&clSetUserEventStatus)>("clSetUserEventStatus")(gate, CL_COMPLETE);
      next<decltype(&clWaitForEvents)>("clWaitForEvents")(1, &done);
      next<decltype(&clReleaseEvent)>("clReleaseEvent")(done);
    }
    next<decltype(&clReleaseEvent)>("clReleaseEvent")(gate);
    delete bytes;
  }).detach();
  return code;
}

/// With `turns`, held while a program or a kernel is made, built or released. A driver may call these of its own.
std::unique_lock<std::recursive_mutex> turn() {
  static auto* const mutex = new std::recursive_mutex;
  return limits().turns ? std::unique_lock(*mutex) : std::unique_lock<std::recursive_mutex>();
}

void CL_CALLBACK memory_is_gone(cl_mem, void* bytes) { give_back_memory(reinterpret_cast<std::uintptr_t>(bytes)); }

}  // namespace

std::vector<std::string> wrapped() {
#define IRONCL_NAME(name) #name,
  return {IRONCL_OPENCL_CALLS(IRONCL_NAME)};
}

}  // namespace ironcl::faulty

using namespace ironcl::faulty;
#define EXPORT extern "C" __attribute__((visibility("default")))
#define REAL(name) next<decltype(&(name))>(#name), #name

EXPORT cl_int clGetPlatformIDs(cl_uint n, cl_platform_id* ids, cl_uint* count) {
  return pass(REAL(clGetPlatformIDs), n, ids, count);
}
EXPORT cl_int clGetPlatformInfo(cl_platform_id p, cl_platform_info what, size_t size, void* value, size_t* needed) {
  // As above: opencl.hpp reads the version's digits out of whatever it got.
  if (what == CL_PLATFORM_VERSION)
    return next<decltype(&clGetPlatformInfo)>("clGetPlatformInfo")(p, what, size, value, needed);
  return pass(REAL(clGetPlatformInfo), p, what, size, value, needed);
}
EXPORT cl_int clGetDeviceIDs(cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id* ids, cl_uint* count) {
  return pass(REAL(clGetDeviceIDs), p, type, n, ids, count);
}
EXPORT cl_int clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t size, void* value, size_t* needed) {
  // opencl.hpp asks for the platform of every device that it wraps and does not look at the answer: nothing that a
  // program in C++ could do about it, so this one question never fails.
  if (what == CL_DEVICE_PLATFORM)
    return next<decltype(&clGetDeviceInfo)>("clGetDeviceInfo")(d, what, size, value, needed);
  const cl_int answer = pass(REAL(clGetDeviceInfo), d, what, size, value, needed);
  if (answer == CL_SUCCESS && value != nullptr) limit_device_info(limits(), what, size, value);
  return answer;
}
EXPORT cl_int clGetContextInfo(cl_context c, cl_context_info what, size_t size, void* value, size_t* needed) {
  // As above, for the version of a context's device.
  if (what == CL_CONTEXT_DEVICES)
    return next<decltype(&clGetContextInfo)>("clGetContextInfo")(c, what, size, value, needed);
  return pass(REAL(clGetContextInfo), c, what, size, value, needed);
}
EXPORT cl_int clGetMemObjectInfo(cl_mem m, cl_mem_info what, size_t size, void* value, size_t* needed) {
  return pass(REAL(clGetMemObjectInfo), m, what, size, value, needed);
}
EXPORT cl_int clGetProgramInfo(cl_program p, cl_program_info what, size_t size, void* value, size_t* needed) {
  const cl_int answer = pass(REAL(clGetProgramInfo), p, what, size, value, needed);
  if (answer == CL_SUCCESS && value != nullptr && what == CL_PROGRAM_BINARY_SIZES && !limits().binaries)
    std::memset(value, 0, size);
  return answer;
}
EXPORT cl_int clGetProgramBuildInfo(cl_program p, cl_device_id d, cl_program_build_info what, size_t size,
                                    void* value, size_t* needed) {
  return pass(REAL(clGetProgramBuildInfo), p, d, what, size, value, needed);
}
EXPORT cl_int clGetEventInfo(cl_event e, cl_event_info what, size_t size, void* value, size_t* needed) {
  const cl_int answer = pass(REAL(clGetEventInfo), e, what, size, value, needed);
  if (answer == CL_SUCCESS && value != nullptr && what == CL_EVENT_COMMAND_EXECUTION_STATUS) {
    cl_int now;
    std::memcpy(&now, value, sizeof(now));
    if (const cl_int code = failures().of(e); now == CL_COMPLETE && code != CL_SUCCESS)
      std::memcpy(value, &code, sizeof(code));
  }
  return answer;
}
EXPORT cl_int clGetEventProfilingInfo(cl_event e, cl_profiling_info what, size_t size, void* value, size_t* needed) {
  return pass(REAL(clGetEventProfilingInfo), e, what, size, value, needed);
}

EXPORT cl_int clSetMemObjectDestructorCallback(cl_mem m, void(CL_CALLBACK* notify)(cl_mem, void*), void* data) {
  return pass(REAL(clSetMemObjectDestructorCallback), m, notify, data);
}

EXPORT cl_context clCreateContext(const cl_context_properties* properties, cl_uint n, const cl_device_id* devices,
                                  void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*), void* data,
                                  cl_int* code) {
  return make(REAL(clCreateContext), Kind::context, code, properties, n, devices, notify, data);
}
EXPORT cl_command_queue clCreateCommandQueue(cl_context c, cl_device_id d, cl_command_queue_properties properties,
                                             cl_int* code) {
  return make(REAL(clCreateCommandQueue), Kind::queue, code, c, d, properties);
}
EXPORT cl_command_queue clCreateCommandQueueWithProperties(cl_context c, cl_device_id d,
                                                           const cl_queue_properties* properties, cl_int* code) {
  return make(REAL(clCreateCommandQueueWithProperties), Kind::queue, code, c, d, properties);
}
EXPORT cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t size, void* host, cl_int* code) {
  const Limits l = limits();
  const bool own_memory = (flags & CL_MEM_USE_HOST_PTR) == 0;
  if (!own_memory && l.align && reinterpret_cast<std::uintptr_t>(host) % *l.align != 0) {
    if (code != nullptr) *code = CL_INVALID_HOST_PTR;
    return nullptr;
  }
  if (own_memory && !take_memory(size)) {
    if (code != nullptr) *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  const cl_mem made = make(REAL(clCreateBuffer), Kind::buffer, code, c, flags, size, host);
  if (made == nullptr) {
    if (own_memory) give_back_memory(size);
  } else if (own_memory) {
    next<decltype(&clSetMemObjectDestructorCallback)>("clSetMemObjectDestructorCallback")(
        made, memory_is_gone, reinterpret_cast<void*>(size));
  }
  return made;
}
EXPORT cl_program clCreateProgramWithSource(cl_context c, cl_uint n, const char** texts, const size_t* sizes,
                                            cl_int* code) {
  const auto held = turn();
  return make(REAL(clCreateProgramWithSource), Kind::program, code, c, n, texts, sizes);
}
EXPORT cl_program clCreateProgramWithBinary(cl_context c, cl_uint n, const cl_device_id* devices, const size_t* sizes,
                                            const unsigned char** binaries, cl_int* status, cl_int* code) {
  if (!limits().binaries) {
    if (code != nullptr) *code = CL_INVALID_BINARY;
    return nullptr;
  }
  const auto held = turn();
  return make(REAL(clCreateProgramWithBinary), Kind::program, code, c, n, devices, sizes, binaries, status);
}
EXPORT cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id* devices, const char* options,
                             void(CL_CALLBACK* notify)(cl_program, void*), void* data) {
  std::string text = options == nullptr ? "" : options;
  if (!limit_build_options(limits(), text)) return CL_INVALID_BUILD_OPTIONS;
  const auto held = turn();
  return pass(REAL(clBuildProgram), p, n, devices, text.c_str(), notify, data);
}
EXPORT cl_kernel clCreateKernel(cl_program p, const char* name, cl_int* code) {
  const auto held = turn();
  return make(REAL(clCreateKernel), Kind::kernel, code, p, name);
}
EXPORT cl_event clCreateUserEvent(cl_context c, cl_int* code) {
  return make(REAL(clCreateUserEvent), Kind::event, code, c);
}
EXPORT cl_int clSetUserEventStatus(cl_event e, cl_int status) { return pass(REAL(clSetUserEventStatus), e, status); }
EXPORT cl_int clSetEventCallback(cl_event e, cl_int when, void(CL_CALLBACK* notify)(cl_event, cl_int, void*),
                                 void* data) {
  return pass(REAL(clSetEventCallback), e, when, notify, data);
}
EXPORT cl_int clSetKernelArg(cl_kernel k, cl_uint index, size_t size, const void* value) {
  return pass(REAL(clSetKernelArg), k, index, size, value);
}

EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dimensions, const size_t* offset,
                                     const size_t* global, const size_t* local, cl_uint waits, const cl_event* list,
                                     cl_event* event) {
  if (const cl_int refused = limit_launch(limits(), q, k, dimensions, local); refused != CL_SUCCESS) return refused;
  return enqueue(REAL(clEnqueueNDRangeKernel), true, q, waits, list, event, k, dimensions, offset, global, local);
}
EXPORT cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t at, size_t size, void* to,
                                  cl_uint waits, const cl_event* list, cl_event* event) {
  return enqueue(REAL(clEnqueueReadBuffer), blocking == CL_FALSE, q, waits, list, event, m, blocking, at, size, to);
}
EXPORT cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t at, size_t size,
                                   const void* from, cl_uint waits, const cl_event* list, cl_event* event) {
  if (blocking == CL_TRUE && limits().late_writes) {
    return enqueue([=](cl_command_queue queue, cl_uint count, const cl_event* before,
                       cl_event* after) { return write_late(queue, m, at, size, from, count, before, after); },
                   "clEnqueueWriteBuffer", false, q, waits, list, event);
  }
  return enqueue(REAL(clEnqueueWriteBuffer), blocking == CL_FALSE, q, waits, list, event, m, blocking, at, size,
                 from);
}
EXPORT void* clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags how, size_t at,
                                size_t size, cl_uint waits, const cl_event* list, cl_event* event, cl_int* code) {
  const Verdict verdict = judge("clEnqueueMapBuffer", false);
  if (verdict.code != CL_SUCCESS) {
    if (code != nullptr) *code = verdict.code;
    return nullptr;
  }
  void* const data = next<decltype(&clEnqueueMapBuffer)>("clEnqueueMapBuffer")(q, m, blocking, how, at, size, waits,
                                                                               list, event, code);
  if (data != nullptr && event != nullptr) count(Kind::event, 1);
  return data;
}
// A failure is made up after the work was done: memory that stays mapped cannot be released.
EXPORT cl_int clEnqueueUnmapMemObject(cl_command_queue q, cl_mem m, void* data, cl_uint waits, const cl_event* list,
                                      cl_event* event) {
  const Verdict verdict = judge("clEnqueueUnmapMemObject", false);
  const cl_int answer =
      next<decltype(&clEnqueueUnmapMemObject)>("clEnqueueUnmapMemObject")(q, m, data, waits, list, event);
  if (answer == CL_SUCCESS && event != nullptr) count(Kind::event, 1);
  return verdict.code != CL_SUCCESS ? verdict.code : answer;
}
EXPORT cl_int clEnqueueFillBuffer(cl_command_queue q, cl_mem m, const void* pattern, size_t pattern_size, size_t at,
                                  size_t size, cl_uint waits, const cl_event* list, cl_event* event) {
  return enqueue(REAL(clEnqueueFillBuffer), true, q, waits, list, event, m, pattern, pattern_size, at, size);
}
EXPORT cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint waits, const cl_event* list, cl_event* event) {
  return enqueue(REAL(clEnqueueMarkerWithWaitList), true, q, waits, list, event);
}
EXPORT cl_int clEnqueueBarrierWithWaitList(cl_command_queue q, cl_uint waits, const cl_event* list, cl_event* event) {
  return enqueue(REAL(clEnqueueBarrierWithWaitList), false, q, waits, list, event);
}
// A lost device ends waits: what never ends would hang whoever tests it.
EXPORT cl_int clWaitForEvents(cl_uint n, const cl_event* list) {
  const Verdict verdict = judge("clWaitForEvents", false);
  cl_int answer = next<decltype(&clWaitForEvents)>("clWaitForEvents")(n, list);
  if (answer == CL_SUCCESS && failures().any(n, list)) answer = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  return verdict.code != CL_SUCCESS ? verdict.code : answer;
}
EXPORT cl_int clFinish(cl_command_queue q) {
  const Verdict verdict = judge("clFinish", false);
  const cl_int answer = next<decltype(&clFinish)>("clFinish")(q);
  return verdict.code != CL_SUCCESS ? verdict.code : answer;
}
EXPORT cl_int clFlush(cl_command_queue q) { return pass(REAL(clFlush), q); }

EXPORT cl_int clRetainDevice(cl_device_id d) { return retain(REAL(clRetainDevice), Kind::device, d); }
EXPORT cl_int clRetainContext(cl_context c) { return retain(REAL(clRetainContext), Kind::context, c); }
EXPORT cl_int clRetainCommandQueue(cl_command_queue q) { return retain(REAL(clRetainCommandQueue), Kind::queue, q); }
EXPORT cl_int clRetainMemObject(cl_mem m) { return retain(REAL(clRetainMemObject), Kind::buffer, m); }
EXPORT cl_int clRetainProgram(cl_program p) { return retain(REAL(clRetainProgram), Kind::program, p); }
EXPORT cl_int clRetainKernel(cl_kernel k) { return retain(REAL(clRetainKernel), Kind::kernel, k); }
EXPORT cl_int clRetainEvent(cl_event e) { return retain(REAL(clRetainEvent), Kind::event, e); }
EXPORT cl_int clReleaseDevice(cl_device_id d) { return release(REAL(clReleaseDevice), Kind::device, d); }
EXPORT cl_int clReleaseContext(cl_context c) { return release(REAL(clReleaseContext), Kind::context, c); }
EXPORT cl_int clReleaseCommandQueue(cl_command_queue q) {
  return release(REAL(clReleaseCommandQueue), Kind::queue, q);
}
EXPORT cl_int clReleaseMemObject(cl_mem m) { return release(REAL(clReleaseMemObject), Kind::buffer, m); }
EXPORT cl_int clReleaseProgram(cl_program p) {
  const auto held = turn();
  return release(REAL(clReleaseProgram), Kind::program, p);
}
EXPORT cl_int clReleaseKernel(cl_kernel k) {
  const auto held = turn();
  return release(REAL(clReleaseKernel), Kind::kernel, k);
}
EXPORT cl_int clReleaseEvent(cl_event e) { return release(REAL(clReleaseEvent), Kind::event, e); }
