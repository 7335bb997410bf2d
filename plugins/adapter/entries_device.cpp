// SPDX-License-Identifier: Apache-2.0
// Entries about a device: what it is, what it can do, its facts as text. Next door: entries.h.
#include <fmt/format.h>

#include "plugins/adapter/entries.h"
#include "plugins/adapter/guard.h"
#include "plugins/adapter/handles.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

using backend::AccuracyClass;
using backend::DeviceType;
using backend::DType;
using backend::Grouping;
using backend::HostSemantics;
using backend::LogLevel;
using backend::Reason;
using backend::Status;
using backend::TimeKind;
using numerics::ScaleRounding;

// The enumerations of the interface are cast to those of the ABI: their values are the same.
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
IRONCL_SAME(backend::Device::Memory::host_pointer, IRONCL_MEMORY_HOST_POINTER);
IRONCL_SAME(backend::Device::Memory::cl_mem, IRONCL_MEMORY_CL_MEM);
#undef IRONCL_SAME

const std::shared_ptr<DeviceState>& state_of(ironcl_device device) {
  require(device, "device");
  if (device->state == nullptr) invalid("device: its plugin was unloaded; call load() and enumerate() again");
  check_process(device->state->process);
  return device->state;
}

void check_process(pid_t process) {
  if (const pid_t here = getpid(); here != process) {
    refuse(Status::unavailable,
           fmt::format("this process ({}) was forked from the one that loaded the plugin ({}), and a driver does not "
                       "survive that: load plugins after the fork, or let the child call exec",
                       here, process));
  }
}

namespace entries {

namespace {
constexpr std::uint32_t bit(bool set, std::uint32_t cap) { return set ? cap : 0; }
}  // namespace

ironcl_status device_props(ironcl_device device, ironcl_device_props* out_props, ironcl_error* error) noexcept {
  return guard("device_props", error, [&] {
    const auto& state = state_of(device);
    check_out(out_props, "device_props");
    const backend::DeviceProps props = state->device->props();
    ironcl_device_props full{};
    full.type = static_cast<std::uint32_t>(props.type);
    full.vendor_id = props.vendor_id;
    full.caps = bit(props.import_host_pointer, IRONCL_CAP_IMPORT_HOST_POINTER) |
                bit(props.import_cl_mem, IRONCL_CAP_IMPORT_CL_MEM) |
                bit(props.event_profiling, IRONCL_CAP_EVENT_PROFILING) |
                bit(props.bitwise_repeatable, IRONCL_CAP_BITWISE_REPEATABLE);
    full.memory_bytes = props.memory_bytes;
    full.max_buffer_bytes = props.max_buffer_bytes;
    full.buffer_alignment = state->buffer_alignment;
    copy_text(full.name, props.name);
    copy_text(full.driver, props.driver);
    copy_text(full.stable_id, props.stable_id);
    write_struct(out_props, full);
  });
}

ironcl_status device_query(ironcl_device device, const char* key, const void* desc, char* out_text, uint64_t capacity,
                           uint64_t* out_size, ironcl_error* error) noexcept {
  return guard("device_query", error, [&] {
    const auto& state = state_of(device);
    require(key, "key");
    require(out_size, "out_size");
    if (capacity != 0) require(out_text, "out_text");
    std::string text;
    if (desc == nullptr) {
      text = state->device->query(key, nullptr);
    } else {
      const backend::GemmDesc known = gemm_desc(static_cast<const ironcl_gemm_desc*>(desc));
      text = state->device->query(key, &known);
    }
    if (capacity != 0) copy_text(out_text, std::min<std::uint64_t>(capacity, text.size() + 1), text);
    *out_size = text.size() + 1;
  });
}

}  // namespace entries
}  // namespace ironcl::adapter
