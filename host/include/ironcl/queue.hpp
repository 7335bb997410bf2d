// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: commands in order. Next door: buffer.hpp, operations.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "buffer.hpp"
#include "operations.hpp"

namespace ironcl {

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
