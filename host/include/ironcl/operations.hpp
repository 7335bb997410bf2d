// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: operations, described, created, and one call of each; and B, prepared. Next door: problem.hpp (a
// GEMM, described), queue.hpp (runs them), docs/experts.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device.hpp"

namespace ironcl {

namespace detail {

/// A description in C: a head common to all kinds, then its own members.
template <class Struct, class... Members>
Struct description(const Members&... members) {
  return {sizeof(Struct), kKind<Struct>, nullptr, members...};
}

/// Arguments in C: a head common to all kinds, then their own members. Borrows `wait`.
template <class Struct, class... Members>
Struct arguments(const std::vector<ironcl_event>& wait, const Members&... members) {
  return {sizeof(Struct), kKind<Struct>, wait.data(), nullptr, static_cast<std::uint32_t>(wait.size()), 0,
          members...};
}

}  // namespace detail

/// An operation, created: everything of it that is compiled or looked up. One thread at a time.
template <class Description>
class Operation : public detail::Ref<ironcl_op, &ironcl_plugin::op_destroy> {
 public:
  Operation() = default;
  Operation(const Device& device, const Description& desc) : Ref(device.owner(), &device.api(), nullptr) {
    detail::check(api_->op_create, device.handle(), detail::pointer_to(desc.to_c()), &handle_);
  }
  /// Takes over one of a device that was created elsewhere.
  Operation(const Device& device, ironcl_op handle) : Ref(device.owner(), &device.api(), handle) {}
  ironcl_op_info info() const {
    auto info = detail::sized<ironcl_op_info>();
    detail::check(api_->op_info, handle_, &info);
    return info;
  }
};

/// One call of a plan; every field as in ironcl_gemm_args. Weights, buffers and events convert, here and below.
struct GemmArgs {
  std::int64_t m = 0;
  ironcl_weights weights = nullptr;
  ironcl_span a{}, a_scale{}, d{}, d_scale{}, bias{}, matrix_rows{}, workspace{}, a_quantized{}, a_quantized_scale{};
  ironcl_span a_global{}, d_global{};
  std::int64_t a_rows = 0;  ///< of a plan that gathers; with a_index
  ironcl_span a_index{};
  std::vector<ironcl_event> wait{};

  ironcl_gemm_args to_c() const {
    return detail::arguments<ironcl_gemm_args>(wait, m, a_rows, weights, a, a_scale, a_global, d, d_scale, d_global,
                                               bias, matrix_rows, a_index, workspace, a_quantized, a_quantized_scale);
  }
};

/// A plan: the operation of a problem.
using Gemm = Operation<GemmDesc>;

/// B in host memory; every field as in ironcl_weights_desc.
struct WeightsDesc {
  std::int64_t n = 0, k = 0;
  std::int64_t ld = 0;
  std::uint32_t matrices = 0;
  ironcl_dtype dtype = IRONCL_F8_E4M3FN;
  Scale scale{IRONCL_F32, 128, 128};
  std::span<const std::byte> data{};
  std::span<const std::byte> scales{};
  std::span<const float> global_scales{};  ///< one per matrix, where scale.global_dtype is F32
};

/// B, prepared for a device; immutable. Host memory may go once the constructor has returned.
class Weights : public detail::Ref<ironcl_weights, &ironcl_plugin::weights_destroy> {
 public:
  Weights() = default;
  /// `plan`: whose form to prepare; null: one that every plan of the device takes.
  Weights(const Device& device, const WeightsDesc& desc, const Gemm* plan = nullptr)
      : Ref(device.owner(), &device.api(), nullptr) {
    auto c = detail::sized<ironcl_weights_desc>();
    c.dtype = desc.dtype;
    c.n = desc.n;
    c.k = desc.k;
    c.ld = desc.ld;
    c.matrices = desc.matrices;
    c.scale = desc.scale;
    c.data = desc.data.data();
    c.scales = desc.scales.data();
    c.data_bytes = desc.data.size();
    c.scale_bytes = desc.scales.size();
    c.global_scales = desc.global_scales.empty() ? nullptr : desc.global_scales.data();
    c.plan = plan ? plan->handle() : nullptr;
    detail::check(api_->weights_prepare, device.handle(), &c, &handle_);
  }
  /// The bytes it was made from, tight, bit for bit.
  void export_to(std::span<std::byte> data, std::span<std::byte> scales) const {
    detail::check(api_->weights_export, handle_, data.data(), std::uint64_t{data.size()}, scales.data(),
                  std::uint64_t{scales.size()});
  }
  ironcl_weights_info info() const {
    auto info = detail::sized<ironcl_weights_info>();
    detail::check(api_->weights_info, handle_, &info);
    return info;
  }
  operator ironcl_weights() const noexcept { return handle_; }
};

/// One call of a quantiser; every field as in ironcl_quantize_args.
struct QuantizeArgs {
  std::int64_t rows = 0;
  ironcl_span x{}, codes{}, scales{}, global{};
  std::vector<ironcl_event> wait{};

  ironcl_quantize_args to_c() const {
    return detail::arguments<ironcl_quantize_args>(wait, rows, x, codes, scales, global);
  }
};

/// A matrix to quantise; every field as in ironcl_quantize_desc. The default is bf16 to e4m3fn in token groups of
/// 128.
struct QuantizeDesc {
  using Args = QuantizeArgs;
  std::int64_t rows = 0, cols = 0;
  std::int64_t x_ld = 0, code_ld = 0;
  ironcl_dtype x = IRONCL_BF16;
  ironcl_dtype code = IRONCL_F8_E4M3FN;
  Scale scale{IRONCL_F32, 1, 128};
  ironcl_quantizer_desc quantizer{};

  ironcl_quantize_desc to_c() const {
    return detail::description<ironcl_quantize_desc>(0u, 0u, rows, cols, x_ld, code_ld, x, code, scale, quantizer);
  }
};
using Quantize = Operation<QuantizeDesc>;

/// One call of a router; every field as in ironcl_route_args.
struct RouteArgs {
  std::int64_t tokens = 0;
  ironcl_span logits{}, bias{}, ids{}, weights{}, matrix_rows{}, a_index{}, rows{}, shared_weights{};
  std::vector<ironcl_event> wait{};

  ironcl_route_args to_c() const {
    return detail::arguments<ironcl_route_args>(wait, tokens, logits, bias, ids, weights, matrix_rows, a_index, rows,
                                                shared_weights);
  }
};

/// From a router's logits to rows sorted by expert; every field as in ironcl_route_desc. The default is Qwen3-MoE's
/// rule but for its sizes: softmax over all experts, normalised.
struct RouteDesc {
  using Args = RouteArgs;
  std::int64_t tokens = 0;
  std::int64_t logits_ld = 0;
  std::int64_t capacity = 0;
  std::uint32_t experts = 0, top_k = 0;
  std::uint32_t first_expert = 0, local_experts = 0;
  std::uint32_t score = IRONCL_SCORE_SOFTMAX;
  std::uint32_t expert_groups = 0, top_groups = 0;
  std::uint32_t flags = IRONCL_ROUTE_NORMALIZE;
  float scale = 0;
  ironcl_dtype logits = IRONCL_F32;
  ironcl_dtype bias = IRONCL_DTYPE_NONE;

  ironcl_route_desc to_c() const {
    return detail::description<ironcl_route_desc>(flags, score, tokens, logits_ld, capacity, experts, top_k,
                                                  first_expert, local_experts, expert_groups, top_groups, scale,
                                                  logits, bias, 0u);
  }
};
using Route = Operation<RouteDesc>;

/// One call of an activation; every field as in ironcl_activate_args.
struct ActivateArgs {
  std::int64_t rows = 0;
  ironcl_span gate{}, up{}, y{}, scales{}, matrix_rows{}, global{};
  std::vector<ironcl_event> wait{};

  ironcl_activate_args to_c() const {
    return detail::arguments<ironcl_activate_args>(wait, rows, gate, up, y, scales, global, matrix_rows);
  }
};

/// activation(gate, up); every field as in ironcl_activate_desc. The default makes bf16 into e4m3fn in token groups
/// of 128.
struct ActivateDesc {
  using Args = ActivateArgs;
  std::int64_t rows = 0, cols = 0;
  std::int64_t gate_ld = 0, up_ld = 0, y_ld = 0;
  ironcl_dtype x = IRONCL_BF16;
  ironcl_dtype y = IRONCL_F8_E4M3FN;
  std::uint32_t activation = IRONCL_ACTIVATION_SILU;
  float limit = 0;
  std::uint32_t grouping = IRONCL_GROUPING_NONE;
  std::uint32_t matrices = 0;
  Scale scale{IRONCL_F32, 1, 128};
  ironcl_quantizer_desc quantizer{};

  ironcl_activate_desc to_c() const {
    return detail::description<ironcl_activate_desc>(0u, activation, rows, cols, gate_ld, up_ld, y_ld, x, y, limit,
                                                     grouping, matrices, 0u, scale, quantizer);
  }
};
using Activate = Operation<ActivateDesc>;

/// One call of a combination; every field as in ironcl_combine_args.
struct CombineArgs {
  std::int64_t tokens = 0;
  ironcl_span x{}, rows{}, weights{}, add{}, add_weights{}, y{};
  std::vector<ironcl_event> wait{};

  ironcl_combine_args to_c() const {
    return detail::arguments<ironcl_combine_args>(wait, tokens, x, rows, weights, add, add_weights, y);
  }
};

/// The weighted sum of each token's rows; every field as in ironcl_combine_desc.
struct CombineDesc {
  using Args = CombineArgs;
  std::int64_t tokens = 0, cols = 0, rows = 0;
  std::int64_t x_ld = 0, add_ld = 0, y_ld = 0;
  std::uint32_t top_k = 0;
  ironcl_dtype x = IRONCL_BF16;
  ironcl_dtype add = IRONCL_DTYPE_NONE;
  ironcl_dtype y = IRONCL_BF16;

  ironcl_combine_desc to_c() const {
    return detail::description<ironcl_combine_desc>(0u, top_k, tokens, cols, rows, x_ld, add_ld, y_ld, x, add, y, 0u);
  }
};
using Combine = Operation<CombineDesc>;

/// One call of a sequence, which waits for `wait`.
struct SequenceArgs {
  std::vector<ironcl_event> wait{};

  ironcl_sequence_args to_c() const { return detail::arguments<ironcl_sequence_args>(wait); }
};

/// Calls with fixed arguments, in their order; ironcl_sequence_desc says what a sequence promises. What their
/// arguments name may go once the sequence is created.
class SequenceDesc {
 public:
  using Args = SequenceArgs;
  /// `args` waits for nothing.
  template <class Description>
  void add(const Operation<Description>& operation, const typename Description::Args& args) {
    ops_.push_back(operation.handle());
    held_.push_back(std::make_shared<decltype(args.to_c())>(args.to_c()));
    args_.push_back(held_.back().get());
  }
  ironcl_sequence_desc to_c() const {
    return detail::description<ironcl_sequence_desc>(0u, static_cast<std::uint32_t>(ops_.size()), ops_.data(),
                                                     args_.data());
  }

 private:
  std::vector<ironcl_op> ops_;
  std::vector<std::shared_ptr<void>> held_;
  std::vector<const void*> args_;
};
using Sequence = Operation<SequenceDesc>;

}  // namespace ironcl
