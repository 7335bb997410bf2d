// SPDX-License-Identifier: Apache-2.0
// Move-only owners of a plugin's objects. Release calls appear only here.
#pragma once

#include <utility>

#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::conformance {

/// Owns one handle and destroys it through the table that made it.
template <class H, void (*ironcl_plugin::*kDestroy)(H)>
class Handle {
 public:
  Handle() = default;
  Handle(const ironcl_plugin& table, H handle) : table_(&table), handle_(handle) {}
  Handle(Handle&& other) noexcept : table_(other.table_), handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      table_ = other.table_;
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Handle() { reset(); }

  H get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  void reset() noexcept {
    if (handle_ != nullptr) (table_->*kDestroy)(handle_);
    handle_ = nullptr;
  }

 private:
  const ironcl_plugin* table_ = nullptr;
  H handle_ = nullptr;
};

using Queue = Handle<ironcl_queue, &ironcl_plugin::queue_destroy>;
using Buffer = Handle<ironcl_buffer, &ironcl_plugin::buffer_destroy>;
using Weights = Handle<ironcl_weights, &ironcl_plugin::weights_destroy>;
using Op = Handle<ironcl_op, &ironcl_plugin::op_destroy>;
using Event = Handle<ironcl_event, &ironcl_plugin::event_destroy>;

}  // namespace ironcl::conformance
