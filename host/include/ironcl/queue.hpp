// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: commands in order. Next door: buffer.hpp, gemm.hpp, quantize.hpp, experts.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "buffer.hpp"
#include "experts.hpp"
#include "gemm.hpp"
#include "quantize.hpp"

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

  /// Enqueues one call of a plan.
  Event run(const Gemm& gemm, const GemmArgs& args) {
    auto c = detail::sized<ironcl_gemm_args>();
    c.wait_count = static_cast<std::uint32_t>(args.wait.size());
    c.wait = args.wait.data();
    c.m = args.m;
    c.weights = args.weights;
    c.a = args.a;
    c.a_scale = args.a_scale;
    c.d = args.d;
    c.d_scale = args.d_scale;
    c.bias = args.bias;
    c.matrix_rows = args.matrix_rows;
    c.workspace = args.workspace;
    c.a_global = args.a_global;
    c.d_global = args.d_global;
    c.a_quantized = args.a_quantized;
    c.a_quantized_scale = args.a_quantized_scale;
    c.a_rows = args.a_rows;
    c.a_index = args.a_index;
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->op_enqueue(gemm.handle(), handle_, &c, event, error);
    });
  }

  /// Enqueues one call of a quantiser.
  Event run(const Quantize& quantize, const QuantizeArgs& args) {
    auto c = detail::sized<ironcl_quantize_args>();
    c.wait_count = static_cast<std::uint32_t>(args.wait.size());
    c.wait = args.wait.data();
    c.rows = args.rows;
    c.x = args.x;
    c.codes = args.codes;
    c.scales = args.scales;
    c.global = args.global;
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->op_enqueue(quantize.handle(), handle_, &c, event, error);
    });
  }

  /// Enqueues one call of a router.
  Event run(const Route& route, const RouteArgs& args) {
    auto c = detail::sized<ironcl_route_args>();
    c.wait_count = static_cast<std::uint32_t>(args.wait.size());
    c.wait = args.wait.data();
    c.tokens = args.tokens;
    c.logits = args.logits;
    c.bias = args.bias;
    c.ids = args.ids;
    c.weights = args.weights;
    c.matrix_rows = args.matrix_rows;
    c.a_index = args.a_index;
    c.rows = args.rows;
    c.shared_weights = args.shared_weights;
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->op_enqueue(route.handle(), handle_, &c, event, error);
    });
  }

  /// Enqueues one call of an activation.
  Event run(const Activate& activate, const ActivateArgs& args) {
    auto c = detail::sized<ironcl_activate_args>();
    c.wait_count = static_cast<std::uint32_t>(args.wait.size());
    c.wait = args.wait.data();
    c.rows = args.rows;
    c.gate = args.gate;
    c.up = args.up;
    c.y = args.y;
    c.scales = args.scales;
    c.global = args.global;
    c.matrix_rows = args.matrix_rows;
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->op_enqueue(activate.handle(), handle_, &c, event, error);
    });
  }

  /// Enqueues one call of a combination.
  Event run(const Combine& combine, const CombineArgs& args) {
    auto c = detail::sized<ironcl_combine_args>();
    c.wait_count = static_cast<std::uint32_t>(args.wait.size());
    c.wait = args.wait.data();
    c.tokens = args.tokens;
    c.x = args.x;
    c.rows = args.rows;
    c.weights = args.weights;
    c.add = args.add;
    c.add_weights = args.add_weights;
    c.y = args.y;
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->op_enqueue(combine.handle(), handle_, &c, event, error);
    });
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
