// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: the steps of a layer of experts beside its products, and one call of each. Next door: queue.hpp,
// docs/experts.md.
#pragma once

#include <cstdint>
#include <vector>

#include "device.hpp"

namespace ironcl {

/// From a router's logits to rows sorted by expert; every field as in ironcl_route_desc. The default is Qwen3-MoE's
/// rule but for its sizes: softmax over all experts, normalised.
struct RouteDesc {
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
};

/// A router: everything that is compiled or looked up for one. One thread at a time.
class Route : public detail::Ref<ironcl_op, &ironcl_plugin::op_destroy> {
 public:
  Route() = default;
  Route(const Device& device, const RouteDesc& desc) : Ref(device.owner(), &device.api(), nullptr) {
    auto c = detail::sized<ironcl_route_desc>();
    c.flags = desc.flags;
    c.tokens = desc.tokens;
    c.logits_ld = desc.logits_ld;
    c.capacity = desc.capacity;
    c.experts = desc.experts;
    c.top_k = desc.top_k;
    c.first_expert = desc.first_expert;
    c.local_experts = desc.local_experts;
    c.score = desc.score;
    c.expert_groups = desc.expert_groups;
    c.top_groups = desc.top_groups;
    c.scale = desc.scale;
    c.logits_dtype = desc.logits;
    c.bias_dtype = desc.bias;
    detail::check(api_->op_create, device.handle(), &c, &handle_);
  }
};

/// One call of a router; every field as in ironcl_route_args. Buffers and events convert.
struct RouteArgs {
  std::int64_t tokens = 0;
  ironcl_span logits{}, bias{}, ids{}, weights{}, matrix_rows{}, a_index{}, rows{}, shared_weights{};
  std::vector<ironcl_event> wait{};
};

/// activation(gate, up); every field as in ironcl_activate_desc. The default makes bf16 into e4m3fn in token groups
/// of 128.
struct ActivateDesc {
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
};

/// An activation: everything that is compiled or looked up for one. One thread at a time.
class Activate : public detail::Ref<ironcl_op, &ironcl_plugin::op_destroy> {
 public:
  Activate() = default;
  Activate(const Device& device, const ActivateDesc& desc) : Ref(device.owner(), &device.api(), nullptr) {
    auto c = detail::sized<ironcl_activate_desc>();
    c.rows = desc.rows;
    c.cols = desc.cols;
    c.gate_ld = desc.gate_ld;
    c.up_ld = desc.up_ld;
    c.y_ld = desc.y_ld;
    c.x_dtype = desc.x;
    c.y_dtype = desc.y;
    c.activation = desc.activation;
    c.limit = desc.limit;
    c.grouping = desc.grouping;
    c.matrices = desc.matrices;
    c.scale = desc.scale;
    c.quantizer = desc.quantizer;
    detail::check(api_->op_create, device.handle(), &c, &handle_);
  }
};

/// One call of an activation; every field as in ironcl_activate_args. Buffers and events convert.
struct ActivateArgs {
  std::int64_t rows = 0;
  ironcl_span gate{}, up{}, y{}, scales{}, matrix_rows{}, global{};
  std::vector<ironcl_event> wait{};
};

/// The weighted sum of each token's rows; every field as in ironcl_combine_desc.
struct CombineDesc {
  std::int64_t tokens = 0, cols = 0, rows = 0;
  std::int64_t x_ld = 0, add_ld = 0, y_ld = 0;
  std::uint32_t top_k = 0;
  ironcl_dtype x = IRONCL_BF16;
  ironcl_dtype add = IRONCL_DTYPE_NONE;
  ironcl_dtype y = IRONCL_BF16;
};

/// A combination: everything that is compiled or looked up for one. One thread at a time.
class Combine : public detail::Ref<ironcl_op, &ironcl_plugin::op_destroy> {
 public:
  Combine() = default;
  Combine(const Device& device, const CombineDesc& desc) : Ref(device.owner(), &device.api(), nullptr) {
    auto c = detail::sized<ironcl_combine_desc>();
    c.tokens = desc.tokens;
    c.cols = desc.cols;
    c.rows = desc.rows;
    c.x_ld = desc.x_ld;
    c.add_ld = desc.add_ld;
    c.y_ld = desc.y_ld;
    c.top_k = desc.top_k;
    c.x_dtype = desc.x;
    c.add_dtype = desc.add;
    c.y_dtype = desc.y;
    detail::check(api_->op_create, device.handle(), &c, &handle_);
  }
};

/// One call of a combination; every field as in ironcl_combine_args. Buffers and events convert.
struct CombineArgs {
  std::int64_t tokens = 0;
  ironcl_span x{}, rows{}, weights{}, add{}, add_weights{}, y{};
  std::vector<ironcl_event> wait{};
};

}  // namespace ironcl
