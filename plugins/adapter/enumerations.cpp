// SPDX-License-Identifier: Apache-2.0
// The enumerations of the interface are cast to those of the ABI: their values are the same.
#include "backends/interface.h"
#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::adapter::enumerations {

using namespace backend;
using numerics::ScaleRounding;

#define IRONCL_SAME(cpp, c) static_assert(static_cast<std::uint32_t>(cpp) == (c))
IRONCL_SAME(Status::ok, IRONCL_OK);
IRONCL_SAME(Status::invalid_argument, IRONCL_INVALID_ARGUMENT);
IRONCL_SAME(Status::unsupported, IRONCL_UNSUPPORTED);
IRONCL_SAME(Status::unimplemented, IRONCL_UNIMPLEMENTED);
IRONCL_SAME(Status::unavailable, IRONCL_UNAVAILABLE);
IRONCL_SAME(Status::out_of_host_memory, IRONCL_OUT_OF_HOST_MEMORY);
IRONCL_SAME(Status::out_of_device_memory, IRONCL_OUT_OF_DEVICE_MEMORY);
IRONCL_SAME(Status::build_failed, IRONCL_BUILD_FAILED);
IRONCL_SAME(Status::device_lost, IRONCL_DEVICE_LOST);
IRONCL_SAME(Status::timeout, IRONCL_TIMEOUT);
IRONCL_SAME(Status::incompatible, IRONCL_INCOMPATIBLE);
IRONCL_SAME(Status::internal, IRONCL_INTERNAL);
IRONCL_SAME(LogLevel::error, IRONCL_LOG_ERROR);
IRONCL_SAME(LogLevel::warn, IRONCL_LOG_WARN);
IRONCL_SAME(LogLevel::info, IRONCL_LOG_INFO);
IRONCL_SAME(LogLevel::trace, IRONCL_LOG_TRACE);
IRONCL_SAME(DType::none, IRONCL_DTYPE_NONE);
IRONCL_SAME(DType::f32, IRONCL_F32);
IRONCL_SAME(DType::f16, IRONCL_F16);
IRONCL_SAME(DType::bf16, IRONCL_BF16);
IRONCL_SAME(DType::e4m3fn, IRONCL_F8_E4M3FN);
IRONCL_SAME(DType::e5m2, IRONCL_F8_E5M2);
IRONCL_SAME(DType::e8m0, IRONCL_F8_E8M0);
IRONCL_SAME(DType::i8, IRONCL_I8);
IRONCL_SAME(DType::s32, IRONCL_S32);
IRONCL_SAME(DType::f64, IRONCL_F64);
IRONCL_SAME(DType::e2m1, IRONCL_F4_E2M1);
IRONCL_SAME(ScaleRounding::exact, IRONCL_SCALE_EXACT);
IRONCL_SAME(ScaleRounding::power_of_two, IRONCL_SCALE_POWER_OF_TWO);
IRONCL_SAME(AccuracyClass::f32, IRONCL_ACCURACY_F32);
IRONCL_SAME(AccuracyClass::tensor14, IRONCL_ACCURACY_TENSOR14);
IRONCL_SAME(Grouping::none, IRONCL_GROUPING_NONE);
IRONCL_SAME(Grouping::contiguous, IRONCL_GROUPING_CONTIGUOUS);
IRONCL_SAME(Grouping::masked, IRONCL_GROUPING_MASKED);
IRONCL_SAME(Reason::none, IRONCL_REASON_NONE);
IRONCL_SAME(Reason::dtype, IRONCL_REASON_DTYPE);
IRONCL_SAME(Reason::scale_layout, IRONCL_REASON_SCALE_LAYOUT);
IRONCL_SAME(Reason::shape, IRONCL_REASON_SHAPE);
IRONCL_SAME(Reason::alignment, IRONCL_REASON_ALIGNMENT);
IRONCL_SAME(Reason::device_feature, IRONCL_REASON_DEVICE_FEATURE);
IRONCL_SAME(Reason::device_memory, IRONCL_REASON_DEVICE_MEMORY);
IRONCL_SAME(Reason::accuracy, IRONCL_REASON_ACCURACY);
IRONCL_SAME(Reason::grouping, IRONCL_REASON_GROUPING);
IRONCL_SAME(Reason::option, IRONCL_REASON_OPTION);
IRONCL_SAME(TimeKind::none, IRONCL_TIME_NONE);
IRONCL_SAME(TimeKind::measured, IRONCL_TIME_MEASURED);
IRONCL_SAME(TimeKind::modelled, IRONCL_TIME_MODELLED);
IRONCL_SAME(DeviceType::cpu, IRONCL_DEVICE_CPU);
IRONCL_SAME(DeviceType::gpu, IRONCL_DEVICE_GPU);
IRONCL_SAME(DeviceType::accelerator, IRONCL_DEVICE_ACCELERATOR);
IRONCL_SAME(DeviceType::model, IRONCL_DEVICE_MODEL);
IRONCL_SAME(HostSemantics::copied_before_return, IRONCL_HOST_COPIED_BEFORE_RETURN);
IRONCL_SAME(HostSemantics::stable_until_event, IRONCL_HOST_STABLE_UNTIL_EVENT);
IRONCL_SAME(Device::Memory::host_pointer, IRONCL_MEMORY_HOST_POINTER);
IRONCL_SAME(Device::Memory::cl_mem, IRONCL_MEMORY_CL_MEM);
IRONCL_SAME(Device::Memory::pinned_host, IRONCL_MEMORY_PINNED_HOST);
#undef IRONCL_SAME

}  // namespace ironcl::adapter::enumerations
