// SPDX-License-Identifier: Apache-2.0
// Entries about plugins, devices, queues, buffers, prepared weights and events. Next door: operations.cpp, entries.h.

#include "plugins/adapter/entries.h"
#include "plugins/adapter/handles.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

const std::shared_ptr<DeviceState>& state_of(ironcl_device device) {
  require("device", device);
  if (device->state == nullptr) invalid("device: its plugin was unloaded; call load() and enumerate() again");
  check_process(device->state->process);
  return device->state;
}

void check_process(pid_t process) {
  if (const pid_t here = getpid(); here != process)
    refuse(IRONCL_UNAVAILABLE,
           "this process ({}) was forked from the one that loaded the plugin ({}), and a driver does not "
           "survive that: load plugins after the fork, or let the child call exec",
           here, process);
}

namespace entries {

namespace {

constexpr std::uint32_t bit(bool set, std::uint32_t cap) { return set ? cap : 0; }

/// Host memory to import. Kernels read and write whole vectors: what is off the alignment would fault.
void check_host_memory(const void* pointer, std::uint64_t size, const DeviceState& device) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (const std::uint64_t past = address % device.buffer_alignment; past != 0)
    invalid(
        "native_memory.handle is {} bytes past a multiple of {}, the device's buffer_alignment, on which "
        "imported host memory must start; use aligned_alloc, or create a buffer and write to it",
        past, device.buffer_alignment);
  if (size > UINTPTR_MAX - address)
    invalid("native_memory.handle with buffer_desc.size {} reaches past the end of memory", size);
}

}  // namespace

void device_props(ironcl_device device, ironcl_device_props* out_props, ironcl_error*) {
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
}

void device_query(ironcl_device device, const char* key, const void* desc, char* out_text, uint64_t capacity,
                  uint64_t* out_size, ironcl_error*) {
  const auto& state = state_of(device);
  require("key", key);
  require("out_size", out_size);
  if (capacity != 0) require("out_text", out_text);
  std::optional<backend::GemmDesc> known;
  if (desc != nullptr) known = adapter::read(static_cast<const ironcl_gemm_desc*>(desc));
  const std::string text = state->device->query(key, known ? &*known : nullptr);
  if (capacity != 0) copy_text(out_text, std::min<std::uint64_t>(capacity, text.size() + 1), text);
  *out_size = text.size() + 1;
}

void queue_create(ironcl_device device, uint32_t flags, ironcl_queue* out_queue, ironcl_error*) {
  const auto& state = state_of(device);
  check_flags(flags, 0, {});
  require("out_queue", out_queue);
  *out_queue = new ironcl_queue_t{{{}, state, made(state->device->create_queue(), "queue")}};
}

void queue_finish(ironcl_queue queue, ironcl_error*) {
  usable(queue, "queue");
  queue->object->finish();
}

void queue_wait(ironcl_queue queue, ironcl_event event, ironcl_error*) {
  usable(queue, "queue");
  usable(event, "event");
  queue->object->wait_for(event->object);
}

void queue_destroy(ironcl_queue queue) { destroy(queue); }

void buffer_create(ironcl_device device, const ironcl_buffer_desc* desc, ironcl_buffer* out_buffer, ironcl_error*) {
  const auto& state = state_of(device);
  const auto known = read_struct(desc, "buffer_desc", 0, IRONCL_CHAIN_NATIVE_MEMORY);
  if (known.size == 0) invalid("buffer_desc.size is 0, expected at least 1 byte");
  require("out_buffer", out_buffer);
  auto handle = std::make_unique<ironcl_buffer_t>();
  handle->device = state;
  if (const auto* part = find_in_chain(known.next, IRONCL_CHAIN_NATIVE_MEMORY, "buffer_desc")) {
    const auto memory = read_struct(reinterpret_cast<const ironcl_native_memory*>(part), "native_memory");
    if (memory.kind < IRONCL_MEMORY_HOST_POINTER || memory.kind > IRONCL_MEMORY_PINNED_HOST)
      unimplemented("native_memory.kind is {}; this plugin knows 1 (host pointer), 2 (cl_mem) and 3 (pinned host)",
                    memory.kind);
    require("native_memory.handle", memory.handle);
    if (memory.kind == IRONCL_MEMORY_HOST_POINTER) check_host_memory(memory.handle, known.size, *state);
    handle->object = made(
        state->device->import_buffer(static_cast<backend::Device::Memory>(memory.kind), memory.handle, known.size),
        "buffer");
    if (memory.kind != IRONCL_MEMORY_PINNED_HOST) handle->object->imported = memory.handle;
    handle->object->is_host_pointer = memory.kind == IRONCL_MEMORY_HOST_POINTER;
  } else {
    handle->object = made(state->device->create_buffer(known.size), "buffer");
  }
  *out_buffer = handle.release();
}

void buffer_destroy(ironcl_buffer buffer) { destroy(buffer); }

void write(ironcl_queue queue, ironcl_span dst, const void* src, uint32_t host_semantics, ironcl_event* out_event,
           ironcl_error*) {
  usable(queue, "queue");
  const backend::Span span = transfer_span(dst, "dst", *queue->device);
  require("src", src);
  if (host_semantics > IRONCL_HOST_STABLE_UNTIL_EVENT)
    unimplemented("host_semantics is {}; this plugin knows 0 and 1", host_semantics);
  enqueue_with_event(*queue, out_event, [&] {
    return queue->object->write(span, src, static_cast<backend::HostSemantics>(host_semantics));
  });
}

void read(ironcl_queue queue, ironcl_span src, void* dst, ironcl_event* out_event, ironcl_error*) {
  usable(queue, "queue");
  const backend::Span span = transfer_span(src, "src", *queue->device);
  require("dst", dst);
  enqueue_with_event(*queue, out_event, [&] { return queue->object->read(span, dst); });
}

void weights_prepare(ironcl_device device, const ironcl_weights_desc* desc, ironcl_weights* out_weights,
                     ironcl_error*) {
  const auto& state = state_of(device);
  backend::WeightsDesc known = adapter::read(desc, *state);
  require("out_weights", out_weights);
  auto weights = made(state->device->prepare_weights(known), "weights");
  known.plan = nullptr;
  known.data = known.scales = nullptr;
  known.global_scales = nullptr;
  *out_weights = new ironcl_weights_t{{{}, state, std::move(weights)}, std::move(known)};
}

void weights_export(ironcl_weights weights, void* data, uint64_t data_bytes, void* scales, uint64_t scale_bytes,
                    ironcl_error*) {
  usable(weights, "weights");
  backend::Weights& held = *weights->object;
  require("data", data);
  if (data_bytes < held.data_bytes())
    invalid("data_bytes is {}, expected at least {} (weights_info.data_bytes)", data_bytes, held.data_bytes());
  if (held.scale_bytes() != 0) require("scales", scales);
  if (scale_bytes < held.scale_bytes())
    invalid("scale_bytes is {}, expected at least {} (weights_info.scale_bytes)", scale_bytes, held.scale_bytes());
  held.export_to(static_cast<std::byte*>(data), static_cast<std::byte*>(scales));
}

void weights_info(ironcl_weights weights, ironcl_weights_info* out_info, ironcl_error*) {
  usable(weights, "weights");
  check_out(out_info, "weights_info");
  ironcl_weights_info full{};
  full.device_bytes = weights->object->device_bytes();
  full.data_bytes = weights->object->data_bytes();
  full.scale_bytes = weights->object->scale_bytes();
  copy_text(full.form, weights->object->form());
  write_struct(out_info, full);
}

void weights_destroy(ironcl_weights weights) { destroy(weights); }

void event_wait(ironcl_event event, uint64_t timeout_ns, ironcl_error*) {
  usable(event, "event");
  constexpr std::uint64_t kForever = std::chrono::nanoseconds::max().count();
  const auto ended =
      event->object->wait(std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(timeout_ns, kForever))));
  if (ended == backend::Status::ok) return;
  if (ended == backend::Status::timeout)
    refuse(IRONCL_TIMEOUT, "event_wait: the command has not ended yet; wait again");
  refuse(IRONCL_INTERNAL, "event_wait: the backend returned a failure instead of throwing it");
}

void event_profile(ironcl_event event, ironcl_event_profile* out_profile, ironcl_error*) {
  usable(event, "event");
  check_out(out_profile, "event_profile");
  if (event->object->wait(std::chrono::nanoseconds(0)) != backend::Status::ok)
    invalid("event_profile: the command has not ended yet; call event_wait first");
  const backend::Profile profile = event->object->profile();
  ironcl_event_profile full{};
  full.time_kind = static_cast<std::uint32_t>(profile.kind);
  full.queued_ns = profile.queued_ns;
  full.start_ns = profile.start_ns;
  full.end_ns = profile.end_ns;
  write_struct(out_profile, full);
}

void event_destroy(ironcl_event event) { destroy(event); }

}  // namespace entries
}  // namespace ironcl::adapter
