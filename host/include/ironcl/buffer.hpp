// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: bytes on a device, and the completion of commands. Next door: queue.hpp (the commands).
#pragma once

#include <cstdint>

#include "device.hpp"

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

/// Bytes on a device. Converts to the span of the whole buffer.
class Buffer : public detail::Ref<ironcl_buffer, &ironcl_plugin::buffer_destroy> {
 public:
  Buffer() = default;
  Buffer(const Device& device, std::uint64_t bytes) : Buffer(device, bytes, nullptr) {}

  /// Memory that the caller owns, wrapped: host memory (kind IRONCL_MEMORY_HOST_POINTER) or a cl_mem. It outlives the
  /// buffer and every command on it.
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

}  // namespace ironcl
