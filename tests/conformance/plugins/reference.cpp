// SPDX-License-Identifier: Apache-2.0
// The table of the reference plugin. One device in host memory; load options: fault=NAME, delay_us=N (before each
// GEMM).
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {
namespace {

constexpr std::uint64_t kAlignment = 16;
ironcl_device_t the_device;
bool loaded = false;
pid_t process = 0;  // that loaded it: a forked child has none of the queues' threads
std::atomic<int> delay_us{0};
std::atomic<bool> fail_next{false};

bool in_forked_child() { return process != 0 && process != getpid() && !fault("fork_ignored"); }

/// Runs `body`; a Refusal becomes its status and text.
template <class F>
ironcl_status guard(ironcl_error* error, F body) {
  ironcl_status status = IRONCL_OK;
  std::string text;
  try {
    if (in_forked_child()) throw Refusal(IRONCL_UNAVAILABLE, "forked after load()");
    status = body();
    text = "nothing is wrong";
  } catch (const Refusal& e) {
    status = e.status, text = e.what();
  } catch (const std::bad_alloc&) {
    status = IRONCL_OUT_OF_HOST_MEMORY, text = "out of memory";
  } catch (const std::length_error&) {
    status = IRONCL_OUT_OF_HOST_MEMORY, text = "out of memory";
  } catch (const std::exception& e) {
    status = IRONCL_INTERNAL, text = e.what();
  }
  if (error == nullptr || fault("error_not_filled")) return status;
  if (status == IRONCL_OK && !fault("error_on_success")) return status;
  ironcl_error filled{};
  filled.struct_size = error->struct_size;
  filled.status = status;
  const std::size_t head = offsetof(ironcl_error, message);
  std::size_t room = std::min<std::size_t>(error->struct_size, sizeof filled);
  if (room < head + 1) return status;
  if (fault("error_not_cut")) room = sizeof filled;
  const std::size_t length = std::min(text.size(), room - head - 1);
  std::memcpy(filled.message, text.data(), length);
  std::memcpy(error, &filled, room);
  return status;
}

template <class T>
void need(T* pointer, const char* name) {
  if (pointer == nullptr) throw Refusal(IRONCL_INVALID_ARGUMENT, fmt::format("{} is NULL", name));
}

void touch(void* out, std::size_t size) {
  if (out != nullptr && fault("out_touched_on_failure")) std::memset(out, 0, size);
}

ironcl_status load(const ironcl_host*, const ironcl_key_value* options, uint32_t count, ironcl_error* error) {
  return guard(error, [&] {
    if (loaded && !fault("second_load_accepted")) throw Refusal(IRONCL_INVALID_ARGUMENT, "load: already loaded");
    plant({});
    delay_us = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const std::string key = options[i].key, value = options[i].value;
      if (key == "fault" && plant(value)) continue;
      if (key != "delay_us") throw Refusal(IRONCL_INVALID_ARGUMENT, fmt::format("load: no option {}={}", key, value));
      delay_us = std::stoi(value);
    }
    loaded = true;
    process = getpid();
    return IRONCL_OK;
  });
}

void unload() {
  if (process != getpid()) return;
  Worker::join_all();
  loaded = false;
}

ironcl_status enumerate(ironcl_device* out, uint32_t capacity, uint32_t* count, ironcl_error* error) {
  return guard(error, [&] {
    need(count, "out_count");
    if (capacity > 0) need(out, "out_devices");
    if (capacity > 0 || (out != nullptr && fault("capacity_ignored"))) out[0] = &the_device;
    *count = 1;
    return IRONCL_OK;
  });
}

ironcl_status device_props(ironcl_device device, ironcl_device_props* out, ironcl_error* error) {
  return guard(error, [&] {
    if (device == nullptr) touch(out, sizeof *out);
    need(device, "device");
    ironcl_device_props p{};
    p.type = IRONCL_DEVICE_MODEL;
    p.caps = IRONCL_CAP_EVENT_PROFILING | IRONCL_CAP_BITWISE_REPEATABLE | IRONCL_CAP_IMPORT_HOST_POINTER;
    p.memory_bytes = p.max_buffer_bytes = std::uint64_t{1} << 32;
    p.buffer_alignment = kAlignment;
    std::strcpy(p.name, "host memory");
    std::strcpy(p.driver, "reference");
    fill_struct(out, p, "out_props");
    return IRONCL_OK;
  });
}

/// Kind of a description or of arguments, which begin alike.
std::uint32_t kind_of(const void* in, const char* name) {
  need(in, name);
  std::uint32_t head[2] = {};
  std::memcpy(head, in, sizeof head[0]);
  if (head[0] < sizeof head) throw Refusal(IRONCL_INVALID_ARGUMENT, std::string(name) + ".struct_size is not set");
  std::memcpy(head, in, sizeof head);
  if (head[1] == 0) throw Refusal(IRONCL_INVALID_ARGUMENT, std::string(name) + ".kind is 0");
  if (head[1] > IRONCL_OP_COMBINE) throw Refusal(IRONCL_UNIMPLEMENTED, std::string(name) + ".kind is unknown");
  return head[1];
}

ironcl_op_t described(const void* desc) {
  ironcl_op_t op{kind_of(desc, "gemm_desc"), nullptr, {}, {}, {}, {}};
  if (op.kind == IRONCL_OP_GEMM) {
    op.data = std::make_shared<PlanData>();
    op.data->desc = check_desc(static_cast<const ironcl_gemm_desc*>(desc));
  } else if (op.kind == IRONCL_OP_QUANTIZE) {
    op.quantize = check_quantize(static_cast<const ironcl_quantize_desc*>(desc));
  } else if (op.kind == IRONCL_OP_ROUTE) {
    op.route = check_route(static_cast<const ironcl_route_desc*>(desc));
  } else if (op.kind == IRONCL_OP_ACTIVATE) {
    op.activate = check_activate(static_cast<const ironcl_activate_desc*>(desc));
  } else {
    op.combine = check_combine(static_cast<const ironcl_combine_desc*>(desc));
  }
  return op;
}

ironcl_status supports(ironcl_device device, const void* desc, ironcl_support* out, ironcl_error* error) {
  return guard(error, [&] {
    need(device, "device");
    need(out, "out_support");
    const ironcl_op_t op = described(desc);
    ironcl_support s{};
    const std::string text = op.data == nullptr ? "" : refusal_of(op.data->desc, &s.reason, false);
    if (text.empty()) s.reason = IRONCL_REASON_NONE;
    if (op.data != nullptr) s.workspace_bytes = workspace_bytes(op.data->desc);
    text.copy(s.text, sizeof s.text - 1);
    fill_struct(out, s, "out_support");
    return IRONCL_OK;
  });
}

ironcl_status device_query(ironcl_device device, const char* key, const void*, char* out, uint64_t capacity,
                           uint64_t* size, ironcl_error* error) {
  return guard(error, [&] {
    need(device, "device");
    need(key, "key");
    need(size, "out_size");
    std::string text = "{}";
    if (std::strcmp(key, "testing.fail_next_gemm") == 0) {
      fail_next = true;
    } else if (std::strcmp(key, "features") == 0) {
      text = "{\"device\": \"host memory\"}";
    } else {
      throw Refusal(IRONCL_UNIMPLEMENTED, "device_query: known keys are features and testing.fail_next_gemm");
    }
    *size = text.size() + 1;
    if (capacity == 0) return IRONCL_OK;
    const std::size_t length = std::min<std::size_t>(text.size(), capacity - (fault("query_not_cut") ? 0 : 1));
    std::memcpy(out, text.data(), length);
    if (!fault("query_not_cut") || length < capacity) out[length] = '\0';
    return IRONCL_OK;
  });
}

ironcl_status queue_create(ironcl_device device, uint32_t flags, ironcl_queue* out, ironcl_error* error) {
  return guard(error, [&] {
    if (device == nullptr || flags != 0) touch(out, sizeof *out);
    need(device, "device");
    need(out, "out_queue");
    if (flags != 0) throw Refusal(IRONCL_UNIMPLEMENTED, "queue_create: flags");
    *out = new ironcl_queue_t{Worker::start()};
    return IRONCL_OK;
  });
}

ironcl_status queue_finish(ironcl_queue queue, ironcl_error* error) {
  return guard(error, [&] {
    need(queue, "queue");
    queue->worker->finish();
    return IRONCL_OK;
  });
}

ironcl_status queue_wait(ironcl_queue queue, ironcl_event event, ironcl_error* error) {
  return guard(error, [&] {
    need(queue, "queue");
    need(event, "event");
    if (fault("queue_wait_ignored")) return IRONCL_OK;
    Command command;
    command.orders_only = true;
    command.wait = {event->completion};
    queue->worker->push(std::move(command));
    return IRONCL_OK;
  });
}

void queue_destroy(ironcl_queue queue) {
  if (in_forked_child()) return;
  if (queue != nullptr) queue->worker->close();
  delete queue;
}

std::shared_ptr<Memory> import_memory(const ironcl_chain& part, std::uint64_t size) {
  const auto& native = reinterpret_cast<const ironcl_native_memory&>(part);
  if (native.kind != IRONCL_MEMORY_HOST_POINTER) throw Refusal(IRONCL_UNIMPLEMENTED, "native_memory.kind");
  need(native.handle, "native_memory.handle");
  const bool aligned = reinterpret_cast<std::uintptr_t>(native.handle) % kAlignment == 0;
  if (!aligned && !fault("imports_off_the_alignment"))
    throw Refusal(IRONCL_INVALID_ARGUMENT, "native_memory.handle is not on the buffer_alignment");
  if (!fault("imports_copy")) return std::make_shared<Memory>(native.handle, size);
  auto copy = std::make_shared<Memory>(size);
  std::memcpy(copy->data, native.handle, size);
  return copy;
}

ironcl_status buffer_create(ironcl_device device, const ironcl_buffer_desc* desc, ironcl_buffer* out,
                            ironcl_error* error) {
  return guard(error, [&] {
    need(device, "device");
    need(out, "out_buffer");
    const auto d = read_struct(desc, "buffer_desc");
    if (d.flags != 0) throw Refusal(IRONCL_UNIMPLEMENTED, "buffer_desc.flags");
    const ironcl_chain* native = d.next;
    while (native != nullptr && (native->type & ~IRONCL_CHAIN_REQUIRED) != IRONCL_CHAIN_NATIVE_MEMORY)
      native = native->next;
    if (native == nullptr) check_chain(d.next);
    if (d.size == 0) throw Refusal(IRONCL_INVALID_ARGUMENT, "buffer_desc.size is 0");
    if (d.size > std::uint64_t{1} << 32) throw Refusal(IRONCL_OUT_OF_DEVICE_MEMORY, "buffer_desc.size");
    *out = new ironcl_buffer_t{native == nullptr ? std::make_shared<Memory>(d.size) : import_memory(*native, d.size)};
    return IRONCL_OK;
  });
}

void buffer_destroy(ironcl_buffer buffer) {
  if (buffer != nullptr && fault("buffers_go_at_once"))
    std::fill_n(buffer->memory->data, buffer->memory->size, std::byte{0});
  delete buffer;
}

/// Hands `work` to the queue and the completion to the caller.
ironcl_status enqueue(ironcl_queue queue, std::vector<std::shared_ptr<Completion>> wait, std::function<void()> work,
                      ironcl_event* out) {
  Command command;
  command.wait = std::move(wait);
  command.work = std::move(work);
  auto completion = queue->worker->push(std::move(command));
  if (out != nullptr) *out = new ironcl_event_t{std::move(completion)};
  return IRONCL_OK;
}

Region transfer(const ironcl_span& span) {
  if (span.size == 0) throw Refusal(IRONCL_INVALID_ARGUMENT, "span.size is 0");
  return check_span(span, "span", span.size, 1);
}

ironcl_status write(ironcl_queue queue, ironcl_span dst, const void* src, uint32_t semantics, ironcl_event* out,
                    ironcl_error* error) {
  return guard(error, [&] {
    need(queue, "queue");
    need(src, "src");
    if (semantics > IRONCL_HOST_STABLE_UNTIL_EVENT) throw Refusal(IRONCL_UNIMPLEMENTED, "host_semantics");
    const Region to = transfer(dst);
    const auto* from = static_cast<const std::byte*>(src);
    const bool stable = semantics == IRONCL_HOST_STABLE_UNTIL_EVENT && !fault("events_end_at_once");
    if (stable || fault("write_keeps_the_pointer")) {
      const bool late = fault("write_keeps_the_pointer");
      return enqueue(
          queue, {},
          [to, from, late] {
            if (late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            std::memcpy(to.at(), from, to.size);
          },
          out);
    }
    auto copy = std::make_shared<Bytes>(from, from + to.size);
    return enqueue(
        queue, {}, [to, copy] { std::memcpy(to.at(), copy->data(), to.size); }, out);
  });
}

ironcl_status read(ironcl_queue queue, ironcl_span src, void* dst, ironcl_event* out, ironcl_error* error) {
  return guard(error, [&] {
    need(queue, "queue");
    need(dst, "dst");
    const Region from = transfer(src);
    // An event that ends at once lets the caller have its memory back at once: this copy is early, never late.
    if (fault("events_end_at_once")) {
      std::memcpy(dst, from.at(), from.size);
      return enqueue(queue, {}, {}, out);
    }
    return enqueue(
        queue, {}, [from, dst] { std::memcpy(dst, from.at(), from.size - (fault("read_is_short") ? 1 : 0)); }, out);
  });
}

ironcl_status weights_prepare(ironcl_device device, const ironcl_weights_desc* desc, ironcl_weights* out,
                              ironcl_error* error) {
  return guard(error, [&] {
    need(device, "device");
    need(out, "out_weights");
    *out = new ironcl_weights_t{prepare(check_weights(desc))};
    return IRONCL_OK;
  });
}

ironcl_status weights_export(ironcl_weights weights, void* data, uint64_t data_bytes, void* scales,
                             uint64_t scale_bytes, ironcl_error* error) {
  return guard(error, [&] {
    need(weights, "weights");
    need(data, "data");
    need(scales, "scales");
    const WeightsData& w = *weights->data;
    if (data_bytes < w.data.size() || scale_bytes < w.scales.size()) {
      throw Refusal(IRONCL_INVALID_ARGUMENT, "weights_export: too little room");
    }
    export_weights(w, static_cast<std::byte*>(data), static_cast<std::byte*>(scales));
    return IRONCL_OK;
  });
}

ironcl_status weights_info(ironcl_weights weights, ironcl_weights_info* out, ironcl_error* error) {
  return guard(error, [&] {
    need(weights, "weights");
    ironcl_weights_info info{};
    info.data_bytes = weights->data->data.size() + (fault("export_is_padded") ? 128 : 0);
    info.scale_bytes = weights->data->scales.size();
    info.device_bytes = info.data_bytes + info.scale_bytes;
    std::strcpy(info.form, "row_major");
    fill_struct(out, info, "out_info");
    return IRONCL_OK;
  });
}

void weights_destroy(ironcl_weights weights) { delete weights; }

ironcl_status op_create(ironcl_device device, const void* desc, ironcl_op* out, ironcl_error* error) {
  return guard(error, [&] {
    need(device, "device");
    need(out, "out_op");
    ironcl_op_t op = described(desc);
    ironcl_status reason = 0;
    const std::string text = op.data == nullptr ? "" : refusal_of(op.data->desc, &reason, true);
    if (!text.empty()) throw Refusal(IRONCL_UNSUPPORTED, text);
    *out = new ironcl_op_t(std::move(op));
    return IRONCL_OK;
  });
}

ironcl_status op_info(ironcl_op gemm, ironcl_op_info* out, ironcl_error* error) {
  return guard(error, [&] {
    need(gemm, "op");
    ironcl_op_info info{};
    info.kind = gemm->kind;
    if (gemm->data == nullptr) {
      fill_struct(out, info, "out_info");
      return IRONCL_OK;
    }
    const auto allowed = gemm->data->desc.weakest_accuracy;
    if (fault("weaker_than_allowed")) info.accuracy_class = IRONCL_ACCURACY_TENSOR14;
    if (fault("classes_differ")) info.accuracy_class = allowed;
    info.accumulation_length = accumulation_length(gemm->data->desc);
    info.workspace_bytes = workspace_bytes(gemm->data->desc);
    std::strcpy(info.variant, "loops");
    fill_struct(out, info, "out_info");
    return IRONCL_OK;
  });
}

/// What runs when it is the call's turn.
std::function<void()> work_of(const ironcl_op_t& op, const void* args, WaitList* wait) {
  if (kind_of(args, "gemm_args") != op.kind) throw Refusal(IRONCL_INVALID_ARGUMENT, "args.kind is another's");
  if (op.kind == IRONCL_OP_QUANTIZE) {
    const auto call = check_quantize_call(static_cast<const ironcl_quantize_args*>(args), op.quantize, wait);
    return [call] { quantize(call); };
  }
  if (op.kind == IRONCL_OP_ROUTE) {
    const auto call = check_route_call(static_cast<const ironcl_route_args*>(args), op.route, wait);
    return [call] { route(call); };
  }
  if (op.kind == IRONCL_OP_ACTIVATE) {
    const auto call = check_activate_call(static_cast<const ironcl_activate_args*>(args), op.activate, wait);
    return [call] { activate(call); };
  }
  if (op.kind == IRONCL_OP_COMBINE) {
    const auto call = check_combine_call(static_cast<const ironcl_combine_args*>(args), op.combine, wait);
    return [call] { combine(call); };
  }
  const Call call = check_call(static_cast<const ironcl_gemm_args*>(args), op, wait);
  return [call, fails = fail_next.exchange(false), delay = delay_us.load()] {
    if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    if (fails) throw Refusal(IRONCL_DEVICE_LOST, "told to fail");
    multiply(call);
  };
}

ironcl_status op_enqueue(ironcl_op op, ironcl_queue queue, const void* args, ironcl_event* out, ironcl_error* error) {
  return guard(error, [&] {
    need(op, "op");
    need(queue, "queue");
    WaitList wait;
    auto work = work_of(*op, args, &wait);
    if (out == nullptr && fault("unwatched_calls_are_dropped")) return ironcl_status{IRONCL_OK};
    return enqueue(queue, std::move(wait), std::move(work), out);
  });
}

void op_destroy(ironcl_op op) {
  if (op != nullptr && op->data != nullptr && fault("plans_go_at_once")) op->data->desc.k = 1;
  delete op;
}

ironcl_status event_wait(ironcl_event event, uint64_t timeout_ns, ironcl_error* error) {
  return guard(error, [&] {
    need(event, "event");
    const ironcl_status status = wait_for(*event->completion, timeout_ns);
    if (fault("event_ends_twice") && status == IRONCL_OK) event->completion->done = false;
    return status;
  });
}

ironcl_status event_profile(ironcl_event event, ironcl_event_profile* out, ironcl_error* error) {
  return guard(error, [&] {
    need(event, "event");
    const Completion& c = *event->completion;
    if (!c.done) throw Refusal(IRONCL_INVALID_ARGUMENT, "event_profile: the command has not ended");
    ironcl_event_profile p{};
    p.time_kind = fault("modelled_is_measured") ? IRONCL_TIME_MEASURED : IRONCL_TIME_MODELLED;
    p.queued_ns = c.queued_ns, p.start_ns = c.start_ns, p.end_ns = c.end_ns;
    fill_struct(out, p, "out_profile");
    return IRONCL_OK;
  });
}

void event_destroy(ironcl_event event) { delete event; }

constexpr ironcl_plugin kTable{sizeof(ironcl_plugin),
                               IRONCL_ABI_MAJOR,
                               IRONCL_ABI_MINOR,
                               0,
                               "reference",
                               "test",
                               nullptr,
                               load,
                               unload,
                               enumerate,
                               device_props,
                               nullptr,
                               device_query,
                               queue_create,
                               queue_finish,
                               queue_wait,
                               queue_destroy,
                               buffer_create,
                               buffer_destroy,
                               write,
                               read,
                               weights_prepare,
                               weights_export,
                               weights_info,
                               weights_destroy,
                               supports,
                               op_create,
                               op_info,
                               op_enqueue,
                               op_destroy,
                               event_wait,
                               event_profile,
                               event_destroy};

}  // namespace
}  // namespace ironcl::reference

extern "C" IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t, uint32_t) {
  return &ironcl::reference::kTable;
}
