// SPDX-License-Identifier: Apache-2.0
// Quantisers, and the steps of a layer of experts: route, activate, combine. Next door: abi_run.h.
#include "tests/fuzz/abi_run.h"

namespace ironcl::fuzz {

void Run::create_quantize() {
  if (quantizers_.size() >= kMost) return;
  Claimed<ironcl_quantize_desc> desc(in_);
  ironcl_quantize_desc& d = desc.value();
  const bool usual = in_.below(3) != 0;
  d.rows = usual ? kSizes[in_.below(5)] : size();
  d.cols = usual ? kSizes[in_.below(9)] : size();
  if (in_.below(8) == 0) d.x_ld = size();
  if (in_.below(8) == 0) d.code_ld = size();
  d.x_dtype = usual ? 1 + static_cast<std::uint32_t>(in_.below(3)) : type();
  d.code_dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F8_E4M3FN) : type();
  d.scale = scales(usual);
  if (in_.below(16) == 0) d.quantizer.scale_rounding = in_.byte();
  if (in_.below(16) == 0) d.next = chain(in_.below(4) == 0);
  if (d.rows > kSmall || d.cols > kSmall) return;
  make_op(quantizers_, desc);
}

void Run::enqueue_quantize() {
  Claimed<ironcl_quantize_args> args(in_);
  ironcl_quantize_args& a = args.value();
  a.rows = in_.below(8) == 0 ? size() : kSizes[in_.below(6)];
  for (ironcl_span* one : {&a.x, &a.codes, &a.scales}) *one = span();
  enqueue_one(quantizers_, args);
}

void Run::create_route() {
  if (routes_.size() >= kMost) return;
  Claimed<ironcl_route_desc> desc(in_);
  ironcl_route_desc& d = desc.value();
  const bool usual = in_.below(3) != 0;
  const std::uint32_t experts[] = {8, 5, 64, 1, 128, 0, 65537};
  d.tokens = usual ? kSizes[in_.below(5)] : size();
  d.experts = experts[in_.below(usual ? 5 : std::size(experts))];
  d.top_k = usual ? 1 + static_cast<std::uint32_t>(in_.below(std::min<std::size_t>(d.experts, 8))) : in_.byte();
  d.score = usual ? 1 + static_cast<std::uint32_t>(in_.below(3)) : in_.byte();
  d.logits_dtype = usual ? 1 + static_cast<std::uint32_t>(in_.below(3)) : type();
  if (in_.below(4) == 0) d.flags = in_.byte();
  if (in_.below(4) == 0) d.bias_dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F32) : type();
  if (in_.below(8) == 0) d.capacity = size();
  if (in_.below(8) == 0) d.logits_ld = size();
  if (in_.below(8) == 0) d.expert_groups = in_.byte(), d.top_groups = in_.byte();
  if (in_.below(8) == 0) d.first_expert = in_.byte(), d.local_experts = in_.byte();
  if (in_.below(8) == 0) d.scale = static_cast<float>(in_.byte()) - 100.0f;
  if (in_.below(16) == 0) d.next = chain(in_.below(4) == 0);
  if (d.tokens > kSmall || d.capacity > kSmall) return;
  make_op(routes_, desc);
}

void Run::enqueue_route() {
  Claimed<ironcl_route_args> args(in_);
  ironcl_route_args& a = args.value();
  a.tokens = in_.below(8) == 0 ? size() : kSizes[in_.below(6)];
  for (ironcl_span* one : {&a.logits, &a.ids, &a.weights, &a.matrix_rows, &a.a_index, &a.rows}) *one = span();
  for (ironcl_span* one : {&a.bias, &a.shared_weights})
    if (in_.below(4) == 0) *one = span();
  enqueue_one(routes_, args);
}

void Run::create_activate() {
  if (activates_.size() >= kMost) return;
  Claimed<ironcl_activate_desc> desc(in_);
  ironcl_activate_desc& d = desc.value();
  const bool usual = in_.below(3) != 0, quantised = in_.below(2) == 0;
  d.rows = usual ? kSizes[in_.below(5)] : size();
  d.cols = usual ? kSizes[in_.below(9)] : size();
  d.x_dtype = usual ? 1 + static_cast<std::uint32_t>(in_.below(3)) : type();
  d.y_dtype = usual ? 1 + static_cast<std::uint32_t>(in_.below(3)) : type();
  if (usual && quantised) d.y_dtype = IRONCL_F8_E4M3FN;
  d.activation = usual ? 1 + static_cast<std::uint32_t>(in_.below(2)) : in_.byte();
  if (quantised) d.scale = scales(usual);
  if (in_.below(4) == 0) d.limit = static_cast<float>(in_.byte()) - 8.0f;
  if (in_.below(4) == 0) d.grouping = static_cast<std::uint32_t>(in_.below(3)), d.matrices = in_.byte();
  for (std::int64_t* ld : {&d.gate_ld, &d.up_ld, &d.y_ld})
    if (in_.below(8) == 0) *ld = size();
  if (in_.below(16) == 0) d.flags = in_.byte();
  if (in_.below(16) == 0) d.next = chain(in_.below(4) == 0);
  if (d.rows > kSmall || d.cols > kSmall) return;
  make_op(activates_, desc);
}

void Run::enqueue_activate() {
  Claimed<ironcl_activate_args> args(in_);
  ironcl_activate_args& a = args.value();
  a.rows = in_.below(8) == 0 ? size() : kSizes[in_.below(6)];
  for (ironcl_span* one : {&a.gate, &a.up, &a.y}) *one = span();
  for (ironcl_span* one : {&a.scales, &a.matrix_rows})
    if (in_.below(2) == 0) *one = span();
  enqueue_one(activates_, args);
}

void Run::create_combine() {
  if (combines_.size() >= kMost) return;
  Claimed<ironcl_combine_desc> desc(in_);
  ironcl_combine_desc& d = desc.value();
  const bool usual = in_.below(3) != 0;
  d.tokens = usual ? kSizes[in_.below(5)] : size();
  d.cols = usual ? kSizes[in_.below(9)] : size();
  d.rows = usual ? kSizes[in_.below(6)] : size();
  d.top_k = usual ? 1 + static_cast<std::uint32_t>(in_.below(8)) : in_.byte();
  d.x_dtype = usual ? 1 + static_cast<std::uint32_t>(in_.below(3)) : type();
  d.y_dtype = usual ? 1 + static_cast<std::uint32_t>(in_.below(3)) : type();
  if (in_.below(4) == 0) d.add_dtype = type();
  for (std::int64_t* ld : {&d.x_ld, &d.add_ld, &d.y_ld})
    if (in_.below(8) == 0) *ld = size();
  if (in_.below(16) == 0) d.flags = in_.byte();
  if (in_.below(16) == 0) d.next = chain(in_.below(4) == 0);
  if (d.tokens > kSmall || d.cols > kSmall || d.rows > kSmall) return;
  make_op(combines_, desc);
}

void Run::enqueue_combine() {
  Claimed<ironcl_combine_args> args(in_);
  ironcl_combine_args& a = args.value();
  a.tokens = in_.below(8) == 0 ? size() : kSizes[in_.below(6)];
  for (ironcl_span* one : {&a.x, &a.rows, &a.weights, &a.y}) *one = span();
  for (ironcl_span* one : {&a.add, &a.add_weights})
    if (in_.below(2) == 0) *one = span();
  enqueue_one(combines_, args);
}

void Run::step_of_experts(std::size_t which) {
  static constexpr void (Run::*kSteps[])() = {&Run::create_quantize,  &Run::enqueue_quantize,
                                              &Run::enqueue_quantize, &Run::destroy_quantize,
                                              &Run::create_route,     &Run::enqueue_route,
                                              &Run::destroy_route,    &Run::create_activate,
                                              &Run::enqueue_activate, &Run::destroy_activate_or_combine,
                                              &Run::create_combine,   &Run::enqueue_combine};
  (this->*kSteps[which])();
}

}  // namespace ironcl::fuzz
