// SPDX-License-Identifier: Apache-2.0
#define CL_TARGET_OPENCL_VERSION 300
#include "tests/faulty_opencl/limits.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ironcl::faulty {
namespace {

/// Lowers the T at `value` to `most`.
template <class T>
void lower(void* value, std::uint64_t most) {
  T now;
  std::memcpy(&now, value, sizeof(now));
  now = static_cast<T>(std::min<std::uint64_t>(now, most));
  std::memcpy(value, &now, sizeof(now));
}

template <class T>
void put(void* value, T now) {
  std::memcpy(value, &now, sizeof(now));
}

template <class T>
void clear(void* value, T bits) {
  T now;
  std::memcpy(&now, value, sizeof(now));
  put<T>(value, now & ~bits);
}

/// Blanks the name of an extension.
void hide(char* list, std::size_t size, std::string_view name) {
  const std::string_view text(list, strnlen(list, size));
  if (const auto at = text.find(name); at != std::string_view::npos) std::memset(list + at, ' ', name.size());
}

}  // namespace

void limit_device_info(const Limits& l, cl_device_info what, std::size_t size, void* value) {
  switch (what) {
    case CL_DEVICE_TYPE:
      if (l.gpu) put<cl_device_type>(value, CL_DEVICE_TYPE_GPU);
      break;
    case CL_DEVICE_LOCAL_MEM_TYPE:
      if (l.gpu) put<cl_device_local_mem_type>(value, CL_LOCAL);
      break;
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
      if (l.gpu) put<cl_bool>(value, CL_FALSE);
      break;
    case CL_DEVICE_LOCAL_MEM_SIZE:
      if (l.local) lower<cl_ulong>(value, *l.local);
      break;
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
      if (l.memory) lower<cl_ulong>(value, *l.memory);
      break;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
      if (l.group) lower<std::size_t>(value, *l.group);
      break;
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
      for (std::size_t at = 0; l.group && at + sizeof(std::size_t) <= size; at += sizeof(std::size_t))
        lower<std::size_t>(static_cast<char*>(value) + at, *l.group);
      break;
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
      if (l.align) put<cl_uint>(value, static_cast<cl_uint>(*l.align * 8));  // The query answers in bits.
      break;
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
      if (l.width) put<cl_uint>(value, static_cast<cl_uint>(*l.width));
      break;
    case CL_DEVICE_SINGLE_FP_CONFIG:
      if (!l.divide) clear<cl_device_fp_config>(value, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT);
      if (!l.fma) clear<cl_device_fp_config>(value, CL_FP_FMA);
      break;
    case CL_DEVICE_EXTENSIONS:
      if (!l.half) hide(static_cast<char*>(value), size, "cl_khr_fp16");
      break;
    default:
      break;
  }
}

bool limit_build_options(const Limits& l, std::string& options) {
  if (!l.divide && options.find("-cl-fp32-correctly-rounded-divide-sqrt") != std::string::npos) return false;
  if (!l.fma && options.find("USE_FMA=1") != std::string::npos)
    return false;  // As one that has it in software: no use.
  if (!l.half) options += " -D __fp16=a_type_that_this_device_lacks";
  return true;
}

cl_int limit_launch(const Limits& l, cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                    const std::size_t* local) {
  if (l.group && local != nullptr) {
    std::size_t items = 1;
    for (cl_uint i = 0; i < dimensions; ++i) items *= local[i];
    if (items > *l.group) return CL_INVALID_WORK_GROUP_SIZE;
  }
  if (l.local) {
    cl_device_id device = nullptr;
    cl_ulong used = 0;
    if (clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), static_cast<void*>(&device), nullptr) ==
            CL_SUCCESS &&
        clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(used), &used, nullptr) ==
            CL_SUCCESS &&
        used > *l.local) {
      return CL_OUT_OF_RESOURCES;
    }
  }
  return CL_SUCCESS;
}

}  // namespace ironcl::faulty
