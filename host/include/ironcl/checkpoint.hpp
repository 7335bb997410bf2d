// SPDX-License-Identifier: Apache-2.0
// checkpoint.hpp: the C API of checkpoint.h as C++20. Header-only; link ironcl::ironcl. Next door: ironcl.hpp
// (devices, plans, weights), host/examples/run_checkpoint.cpp.
//
//   const ironcl::Checkpoint checkpoint("Qwen3-8B-FP8");
//   const ironcl::Layer layer = checkpoint.layer("model.layers.0.self_attn.q_proj");
//   const ironcl::GemmDesc desc = layer.problem({.m = 16});   // bf16 in, bf16 out
//   const ironcl::Device device = registry.select(desc);
//   const ironcl::Gemm gemm(device, desc);
//   const ironcl::Weights weights = layer.prepare(device, &gemm);
//
// Errors: every failing call throws ironcl::Error. Threads: immutable, any thread. Ownership: a Layer keeps its
// checkpoint open; prepared weights and layers of experts do not need it any more.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "checkpoint.h"
#include "ironcl.hpp"

namespace ironcl {

/// The caller's choices for a layer's problem; every field as in ironcl_layer_choices.
struct LayerChoices {
  std::int64_t m = 0;
  ironcl_dtype x = IRONCL_BF16;
  ironcl_dtype d = IRONCL_BF16;
  std::uint32_t weakest_accuracy = IRONCL_ACCURACY_F32;
};

/// A quantised linear layer: a reference, cheap to copy.
class Layer {
 public:
  Layer(std::shared_ptr<ironcl_checkpoint_t> owner, ironcl_layer handle) : owner_(std::move(owner)), handle_(handle) {
    info_ = detail::sized<ironcl_layer_info>();
    detail::check(ironcl_layer_get_info, handle_, &info_);
  }
  // Copies, no moves: a layer that was moved from would not keep its checkpoint.
  Layer(const Layer&) = default;
  Layer& operator=(const Layer&) = default;

  std::string name() const { return info_.name; }
  /// Why it cannot be used; empty where it can.
  std::string problem_text() const { return info_.problem; }
  bool usable() const noexcept { return info_.problem[0] == '\0'; }
  const ironcl_layer_info& info() const noexcept { return info_; }
  std::int64_t n() const noexcept { return info_.n; }
  std::int64_t k() const noexcept { return info_.k; }
  bool is_static() const noexcept { return info_.activations == IRONCL_ACTIVATIONS_STATIC; }
  /// [n] of info().bias_dtype; empty where there is none.
  std::span<const std::byte> bias() const noexcept {
    return {static_cast<const std::byte*>(info_.bias), static_cast<std::size_t>(info_.bias_bytes)};
  }

  /// The problem for a plan and for Registry::select. Throws where the layer is unusable.
  GemmDesc problem(const LayerChoices& choices) const {
    const ironcl_layer_choices given{sizeof given, choices.x, choices.d, choices.weakest_accuracy, choices.m};
    auto c = detail::sized<ironcl_gemm_desc>();
    detail::check(ironcl_layer_problem, handle_, &given, &c);
    return GemmDesc::from_c(c);
  }

  /// Calls use(WeightsDesc) with its weights as they are in the file, mapped, and its scales; they end with the call.
  template <class Use>
  auto with_weights(Use use) const {
    auto c = detail::sized<ironcl_weights_desc>();
    detail::check(ironcl_layer_weights, handle_, &c);
    const std::unique_ptr<std::remove_pointer_t<ironcl_layer>, decltype(&ironcl_layer_release_weights)> used(
        handle_, &ironcl_layer_release_weights);
    const auto bytes = [](const void* data, std::uint64_t size) {
      return std::span(static_cast<const std::byte*>(data), static_cast<std::size_t>(size));
    };
    return use(WeightsDesc{.n = c.n,
                           .k = c.k,
                           .dtype = c.dtype,
                           .scale = c.scale,
                           .data = bytes(c.data, c.data_bytes),
                           .scales = bytes(c.scales, c.scale_bytes),
                           .global_scales = {c.global_scales, c.global_scales == nullptr ? 0u : 1u}});
  }
  /// Its weights, prepared for a device. `plan`: whose form; null: one that every plan of the device takes.
  Weights prepare(const Device& device, const Gemm* plan = nullptr) const {
    return with_weights([&](const WeightsDesc& desc) { return Weights(device, desc, plan); });
  }

  ironcl_layer handle() const noexcept { return handle_; }

 private:
  std::shared_ptr<ironcl_checkpoint_t> owner_;
  ironcl_layer handle_ = nullptr;
  ironcl_layer_info info_{};
};

/// Sizes and name of a layer of experts; every field as in ironcl_experts_info.
struct ExpertsInfo {
  std::string name, problem;
  std::uint32_t experts = 0, top_k = 0;
  bool shared = false;
  std::int64_t hidden = 0, width = 0;
  std::uint64_t bytes = 0;
};

/// An open checkpoint.
class Checkpoint {
 public:
  /// A folder or one safetensors file. `block`: rows and columns of a weight block where nothing else says them.
  explicit Checkpoint(const std::string& path, std::pair<std::uint32_t, std::uint32_t> block = {0, 0}) {
    const ironcl_checkpoint_options options{sizeof options, 0, block.first, block.second};
    ironcl_checkpoint handle = nullptr;
    detail::check(ironcl_checkpoint_open, path.c_str(), &options, &handle);
    owner_ = {handle, ironcl_checkpoint_close};
  }

  std::size_t size() const noexcept { return ironcl_checkpoint_layer_count(owner_.get()); }
  /// Every quantised layer, unusable ones too.
  std::vector<Layer> layers() const {
    std::vector<Layer> all;
    for (std::uint32_t i = 0; i < size(); ++i) {
      ironcl_layer handle = nullptr;
      detail::check(ironcl_checkpoint_layer, owner_.get(), i, &handle);
      all.emplace_back(owner_, handle);
    }
    return all;
  }
  /// By its whole name. Throws with names that are near.
  Layer layer(const std::string& name) const {
    ironcl_layer handle = nullptr;
    detail::check(ironcl_checkpoint_find_layer, owner_.get(), name.c_str(), &handle);
    return {owner_, handle};
  }

  /// Every layer of experts, those that cannot be run as a whole too.
  std::vector<ExpertsInfo> experts() const {
    std::vector<ExpertsInfo> all;
    for (std::uint32_t i = 0, count = ironcl_checkpoint_experts_count(owner_.get()); i < count; ++i) {
      auto c = detail::sized<ironcl_experts_info>();
      detail::check(ironcl_checkpoint_experts_info, owner_.get(), i, &c);
      all.push_back({c.name, c.problem, c.experts, c.top_k, c.shared != 0, c.hidden, c.width, c.bytes});
    }
    return all;
  }
  ironcl_checkpoint handle() const noexcept { return owner_.get(); }

 private:
  std::shared_ptr<ironcl_checkpoint_t> owner_;
};

/// The caller's choices for a layer of experts; every field as in ironcl_experts_choices.
struct ExpertsChoices {
  std::int64_t tokens = 1;
  ironcl_dtype x = IRONCL_BF16;
  ironcl_dtype y = IRONCL_BF16;
  std::uint32_t weakest_accuracy = IRONCL_ACCURACY_F32;
  bool weight_only = false;
  std::uint32_t first_expert = 0, local_experts = 0;
};

/// One call of a layer of experts; every field as in ironcl_experts_args. Buffers and events convert.
struct ExpertsArgs {
  std::int64_t tokens = 0;
  std::uint32_t routed = IRONCL_ROUTED_BY_ROUTER;
  ironcl_span x{}, logits{}, ids{}, weights{}, y{};
  std::vector<ironcl_event> wait{};
};

/// A layer of experts on a device: its plans, prepared weights and workspace. One thread at a time, and its calls go
/// to one queue or wait for one another.
class Experts {
 public:
  /// `name` as in ExpertsInfo. Throws as that layer's problem says, and UNSUPPORTED with the device's reason.
  Experts(const Checkpoint& checkpoint, const std::string& name, const Device& device, const ExpertsChoices& choices)
      : device_(device) {
    auto c = detail::sized<ironcl_experts_choices>();
    c.flags = choices.weight_only ? std::uint32_t{IRONCL_EXPERTS_WEIGHT_ONLY} : 0u;
    c.x_dtype = choices.x;
    c.y_dtype = choices.y;
    c.weakest_accuracy = choices.weakest_accuracy;
    c.tokens = choices.tokens;
    c.first_expert = choices.first_expert;
    c.local_experts = choices.local_experts;
    ironcl_experts handle = nullptr;
    detail::check(ironcl_experts_create, checkpoint.handle(), name.c_str(), &device.api(), device.handle(), &c,
                  &handle);
    handle_ = {handle, Destroy{device.owner()}};
  }

  /// Enqueues one call; its event is that of the last step.
  Event enqueue(Queue& queue, const ExpertsArgs& args) {
    const ironcl_experts_args c = to_c(args);
    ironcl_event event = nullptr;
    detail::check(ironcl_experts_enqueue, handle_.get(), queue.handle(), &c, &event);
    return Event(device_.owner(), &device_.api(), event);
  }
  /// The call as a sequence, for calls with the same buffers again; `args` waits for nothing. The layer outlives its
  /// work.
  Sequence record(const ExpertsArgs& args) {
    const ironcl_experts_args c = to_c(args);
    ironcl_op op = nullptr;
    detail::check(ironcl_experts_record, handle_.get(), &c, &op);
    return {device_, op};
  }

 private:
  static ironcl_experts_args to_c(const ExpertsArgs& args) {
    return {sizeof(ironcl_experts_args),
            static_cast<std::uint32_t>(args.wait.size()),
            args.wait.data(),
            nullptr,
            args.tokens,
            args.routed,
            0,
            args.x,
            args.logits,
            args.ids,
            args.weights,
            args.y};
  }
  struct Destroy {
    std::shared_ptr<detail::RegistryOwner> owner;  // until the handle is gone, also where another takes its place
    void operator()(ironcl_experts handle) const noexcept { ironcl_experts_destroy(handle); }
  };
  Device device_;
  std::unique_ptr<ironcl_experts_t, Destroy> handle_;
};

}  // namespace ironcl
