// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: bytes on a device, and the completion of commands. Next door: queue.hpp (the commands).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

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
      if (error.status() != IRONCL_UNIMPLEMENTED && error.status() != IRONCL_UNSUPPORTED) throw;
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

}  // namespace ironcl
