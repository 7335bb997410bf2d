// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of the C table are: small structs that share ownership of a backend's objects. Destroying a
// handle drops one share; commands in flight keep theirs.
#pragma once

#include <unistd.h>

#include <atomic>

#include "backends/interface.h"
#include "host/boundary/structs.h"

namespace ironcl::adapter {

using namespace boundary;

/// Handles that the host has not destroyed yet; unload() says so in the log where it is not 0.
inline constinit std::atomic<std::int64_t> live_handles{0};

/// Counts a handle for as long as it lives.
struct Counted {
  Counted() noexcept { live_handles.fetch_add(1, std::memory_order_relaxed); }
  ~Counted() { live_handles.fetch_sub(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};

/// A device and what checks need of it. Shared by its handle and by every object made on it; objects are of the same
/// device where this pointer is the same.
struct DeviceState {
  std::shared_ptr<ironcl::backend::Device> device;
  std::uint64_t buffer_alignment = 1;
  pid_t process = getpid();  ///< The one that loaded the plugin.
};

/// A handle of a backend's object.
template <class Object>
struct Handle : Counted {
  std::shared_ptr<DeviceState> device;
  std::shared_ptr<Object> object;
};

/// An operation of one kind: its description as checked, and what `create` of the backend's device makes of it.
/// `AbiDesc` and `AbiArgs` are the ABI's.
template <class AbiDesc, class AbiArgs, class Desc, auto create>
struct Op {
  using CDesc = AbiDesc;
  using CArgs = AbiArgs;
  static constexpr auto kCreate = create;
  std::shared_ptr<DeviceState> device;
  Desc desc;
  std::invoke_result_t<decltype(create), backend::Device&, const Desc&> object;
};
using backend::Device;
struct GemmOp : Op<ironcl_gemm_desc, ironcl_gemm_args, backend::GemmDesc, &Device::create_gemm> {
  std::uint64_t workspace_bytes = 0;
};
using QuantizeOp = Op<ironcl_quantize_desc, ironcl_quantize_args, backend::QuantizeDesc, &Device::create_quantize>;
using RouteOp = Op<ironcl_route_desc, ironcl_route_args, backend::RouteDesc, &Device::create_route>;
using ActivateOp = Op<ironcl_activate_desc, ironcl_activate_args, backend::ActivateDesc, &Device::create_activate>;
using CombineOp = Op<ironcl_combine_desc, ironcl_combine_args, backend::CombineDesc, &Device::create_combine>;
using SequenceOp =
    Op<ironcl_sequence_desc, ironcl_sequence_args, std::vector<backend::RecordedCall>, &Device::create_sequence>;

/// In the order of IRONCL_OP_*, which start at 1.
using Operation = std::variant<GemmOp, QuantizeOp, RouteOp, ActivateOp, CombineOp, SequenceOp>;

/// Throws unavailable in a process that was forked after `process` had loaded the plugin: the driver's threads, and
/// whoever held its locks at that moment, are not in the child.
void check_process(pid_t process);

}  // namespace ironcl::adapter

/// Owned by the plugin's instance; `state` is empty after unload.
struct ironcl_device_t {
  std::shared_ptr<ironcl::adapter::DeviceState> state;
};

struct ironcl_queue_t : ironcl::adapter::Handle<ironcl::backend::Queue> {};
struct ironcl_buffer_t : ironcl::adapter::Handle<ironcl::backend::Buffer> {};
struct ironcl_event_t : ironcl::adapter::Handle<ironcl::backend::Event> {};

struct ironcl_weights_t : ironcl::adapter::Handle<ironcl::backend::Weights> {
  ironcl::backend::WeightsDesc desc;  ///< Without memory and plan.
};

struct ironcl_op_t : ironcl::adapter::Counted {
  std::shared_ptr<ironcl::adapter::DeviceState> device;
  ironcl::adapter::Operation operation;
};

namespace ironcl::adapter {

/// The device behind a handle. Throws invalid_argument where it is NULL or its plugin was unloaded, unavailable in a
/// forked child.
const std::shared_ptr<DeviceState>& state_of(ironcl_device device);

/// The handle of a queue, buffer, weights, operation or event, usable here. Throws invalid_argument where it is
/// NULL, unavailable in a forked child. `what` names it.
template <class Handle>
Handle& usable(Handle* handle, std::string_view what) {
  require(what, handle);
  check_process(handle->device->process);
  return *handle;
}

/// Throws internal where a backend handed out nothing.
template <class T>
std::shared_ptr<T> made(std::shared_ptr<T> object, std::string_view what) {
  if (object == nullptr) refuse(IRONCL_INTERNAL, "the backend made no {}", what);
  return object;
}

/// Runs `command` on the queue and hands its event out, where one is wanted.
template <class Command>
void enqueue_with_event(const ironcl_queue_t& queue, ironcl_event* out_event, Command&& command) {
  // Before the command: once it is queued, nothing may fail.
  auto handle = out_event == nullptr ? nullptr : std::make_unique<ironcl_event_t>();
  auto event = command();
  if (handle == nullptr) return;
  handle->device = queue.device;
  handle->object = made(std::move(event), "event");
  *out_event = handle.release();
}

/// For destroy functions: nothing is reported. In a forked child the object is left as it is: to
/// release it would be to call the parent's driver.
template <class Handle>
void destroy(Handle* handle) noexcept {
  if (handle != nullptr && handle->device->process == getpid()) delete handle;
}

}  // namespace ironcl::adapter
