// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: bytes on a device, commands in order, and their completion. Next door: operations.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "operations.hpp"

namespace ironcl {

/// Completion of a command. Destroying it is legal at any time and waits for nothing.
class Event : public detail::Ref<ironcl_event, &ironcl_plugin::event_destroy> {
 public:
  using Ref::Ref;
  /// Waits; throws the command's own failure.
  void wait() const { detail::check(api_->event_wait, handle_, UINT64_MAX); }
  /// Waits at most `timeout_ns`; false when that was not enough, throws the command's own failure.
  bool wait_for(std::uint64_t timeout_ns) const {
    ironcl_error error = detail::make_error();
    const ironcl_status status = api_->event_wait(handle_, timeout_ns, &error);
    if (status == IRONCL_TIMEOUT) return false;
    if (status != IRONCL_OK) throw Error(status, error.native_code, error.message);
    return true;
  }
  /// Times of the command; after it has completed.
  ironcl_event_profile profile() const {
    auto profile = detail::sized<ironcl_event_profile>();
    detail::check(api_->event_profile, handle_, &profile);
    return profile;
  }
  operator ironcl_event() const noexcept { return handle_; }
};

/// Bytes on a device, or none. Converts to the span of the whole buffer.
class Buffer : public detail::Ref<ironcl_buffer, &ironcl_plugin::buffer_destroy> {
 public:
  Buffer() = default;
  Buffer(const Device& device, std::uint64_t bytes) : Buffer(device, bytes == 0 ? 1 : bytes, nullptr) {
    size_ = bytes;
  }

  /// Memory that the caller owns, wrapped: host memory (kind IRONCL_MEMORY_HOST_POINTER) or a cl_mem. It outlives the
  /// buffer and every command on it. IRONCL_MEMORY_PINNED_HOST: see HostMemory.
  static Buffer wrap(const Device& device, std::uint32_t kind, void* native, std::uint64_t bytes) {
    ironcl_native_memory memory{};
    memory.chain.struct_size = sizeof memory;
    memory.chain.type = IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED;
    memory.kind = kind;
    memory.handle = native;
    return Buffer(device, bytes, &memory.chain);
  }

  std::uint64_t size() const noexcept { return size_; }
  ironcl_span span() const noexcept { return {handle_, 0, size_}; }
  ironcl_span span(std::uint64_t offset, std::uint64_t bytes) const noexcept { return {handle_, offset, bytes}; }
  operator ironcl_span() const noexcept { return span(); }

 private:
  Buffer(const Device& device, std::uint64_t bytes, const ironcl_chain* next)
      : Ref(device.owner(), &device.api(), nullptr), size_(bytes) {
    auto desc = detail::sized<ironcl_buffer_desc>();
    desc.size = bytes;
    desc.next = next;
    detail::check(api_->buffer_create, device.handle(), &desc, &handle_);
  }
  std::uint64_t size_ = 0;
};

/// Host memory for what goes to a device or comes from it: pinned where the plugin has that, else ordinary. Not
/// initialised.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(const Device& device, std::size_t bytes) {
    if (bytes == 0) return;
    void* address = nullptr;
    try {
      pinned_ = Buffer::wrap(device, IRONCL_MEMORY_PINNED_HOST, &address, bytes);
    } catch (const Error& error) {
      if (!error.is_refusal()) throw;
      ordinary_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      address = ordinary_.get();
    }
    bytes_ = {static_cast<std::byte*>(address), bytes};
  }
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  bool pinned() const noexcept { return static_cast<bool>(pinned_); }

 private:
  Buffer pinned_;
  std::unique_ptr<std::byte[]> ordinary_;
  std::span<std::byte> bytes_;
};

/// Commands in order. One thread at a time.
class Queue : public detail::Ref<ironcl_queue, &ironcl_plugin::queue_destroy> {
 public:
  Queue() = default;
  explicit Queue(const Device& device) : Ref(device.owner(), &device.api(), nullptr) {
    detail::check(api_->queue_create, device.handle(), std::uint32_t{0}, &handle_);
  }

  /// Copies host values to `dst`. By default the values may be reused on return; with IRONCL_HOST_STABLE_UNTIL_EVENT
  /// the caller keeps them until the event completes. The span must be as large as the values.
  template <class T>
  Event write(ironcl_span dst, std::span<T> values, std::uint32_t semantics = IRONCL_HOST_COPIED_BEFORE_RETURN) {
    static_assert(std::is_trivially_copyable_v<T>);
    require_size("write", dst, values.size_bytes());
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->write(handle_, dst, values.data(), semantics, event, error);
    });
  }

  /// Copies `src` to host values, which are filled when the event completes.
  template <class T>
  [[nodiscard]] Event read(ironcl_span src, std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
    require_size("read", src, values.size_bytes());
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->read(handle_, src, values.data(), event, error);
    });
  }

  /// Enqueues one call of an operation.
  template <class Description>
  Event run(const Operation<Description>& operation, const typename Description::Args& args) {
    const auto c = args.to_c();
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->op_enqueue(operation.handle(), handle_, &c, event, error);
    });
  }

  /// The same without an event, which costs a driver time: finish(), or the event of a later command of this queue,
  /// tells when the call has ended.
  template <class Description>
  void submit(const Operation<Description>& operation, const typename Description::Args& args) {
    const auto c = args.to_c();
    detail::check(api_->op_enqueue, operation.handle(), handle_, &c, static_cast<ironcl_event*>(nullptr));
  }

  /// Commands enqueued later run after `event`, which may be another queue's of the same plugin.
  void wait(const Event& event) { detail::check(api_->queue_wait, handle_, event.handle()); }
  /// Waits until every command is done.
  void finish() { detail::check(api_->queue_finish, handle_); }

 private:
  static void require_size(const char* what, ironcl_span span, std::uint64_t bytes) {
    if (span.size == bytes) return;
    throw Error(IRONCL_INVALID_ARGUMENT, 0,
                std::string(what) + ": the host has " + std::to_string(bytes) + " bytes, the span of the buffer " +
                    std::to_string(span.size) + "; give the part that is meant with Buffer::span(offset, bytes)");
  }
  template <class F>
  Event command(F&& enqueue) {
    ironcl_event event = nullptr;
    detail::check(enqueue, &event);
    return Event(owner_, api_.get(), event);
  }
};

}  // namespace ironcl
