// SPDX-License-Identifier: Apache-2.0
// The names of a layer's tensors: the list of those that may stand beside a weight of codes; and an index by module.
#include "host/checkpoint/tensor_index.h"

#include <initializer_list>

#include "host/checkpoint/conventions.h"

namespace ironcl::checkpoint {
namespace {

/// The leaves that mean one thing.
struct Entry {
  Part part;
  std::initializer_list<std::string_view> leaves;
  std::string_view why{};
};

const Entry kEntries[] = {
    {Part::weight, {"weight", "_weight_qdata", "weight._data"}},
    {Part::packed_weight, {"weight_packed"}},
    {Part::weight_scale,
     {"weight_scale_inv", "weight_scale", "scale", "scale_weight", "_weight_scale", "weight._scale",
      "qscale_weight"}},
    {Part::global_scale, {"weight_scale_2", "weight_global_scale"}},
    {Part::row_amax, {"SCB"}},
    {Part::input_scale, {"input_scale", "activation_scale", "act_scale", "scale_input", "qscale_act"}},
    {Part::bias, {"bias"}},
    {Part::zero_point,
     {"weight_zero_point", "_weight_zero_point", "input_zero_point", "output_zero_point", "weight_offset",
      "input_offset", "zero_point"}},
    {Part::product_scale, {"deq_scale"}},
    {Part::integer_bias, {"quant_bias"}},
    {Part::shape, {"weight_shape"}},
    {Part::layout, {"weight_format"}},
    {Part::aside,
     {"k_scale", "v_scale", "q_scale", "kv_scale", "kv_cache_scale"},
     "is a scale of the KV cache, which is no part of this layer's product"},
    {Part::aside, {"kv_cache_offset"}, "is an offset of the KV cache, which is no part of this layer's product"},
    {Part::aside, {"output_scale"}, "is a scale for this layer's output; the product is not quantised with it"},
    {Part::aside, {"input_global_scale"}, "scales activations of four bits, which stay as they come here"},
    {Part::aside, {"comfy_quant"}, "says how ComfyUI quantised the layer, and is read"},
    {Part::aside, {"input_scale_ub", "activation_scale_ub"}, "bounds the dynamic scales of the activations (fbgemm)"},
    {Part::aside, {"e_score_correction_bias"}, "is added to a router's scores, not to its product"},
};

constexpr std::array<std::string_view, 7> kWords = {"scale", "scaling",    "quant", "amax",
                                                    "SCB",   "zero_point", "absmax"};

}  // namespace

PartName part_of(std::string_view leaf) noexcept {
  for (const Entry& entry : kEntries)
    if (std::ranges::find(entry.leaves, leaf) != entry.leaves.end()) return {entry.part, entry.why};
  if (const std::string_view why = refused_leaf(leaf); !why.empty()) return {Part::refused, why};
  return {};
}

bool speaks_of_scales(std::string_view name) noexcept {
  return std::ranges::any_of(kWords,
                             [name](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

std::size_t leaf_of(std::string_view name) noexcept {
  const std::size_t inside = name.rfind(".weight.");
  if (inside != std::string_view::npos) return inside + 1;
  if (name.starts_with("weight.")) return 0;
  return name.rfind('.') + 1;  // 0 where there is no dot
}

std::string layer_name(std::string_view prefix) {
  return prefix.empty() ? "weight" : std::string(prefix.substr(0, prefix.size() - 1));
}

TensorIndex::TensorIndex(const Folder& folder) : folder_(&folder) {
  by_prefix_.reserve(folder.tensors.size());
  for (const auto& [name, tensor] : folder.tensors) {
    const std::string_view text = name;
    const std::size_t leaf = leaf_of(text);
    const Member member{text.substr(leaf), tensor, part_of(text.substr(leaf))};
    if (leaf == 0 && member.part.part == Part::none) continue;
    const auto [at, added] = by_prefix_.try_emplace(text.substr(0, leaf));
    if (added) prefixes_.push_back(at->first);
    at->second.push_back(member);
  }
}

const std::vector<Member>& TensorIndex::beside(std::string_view prefix) const {
  static const std::vector<Member> none;
  const auto at = by_prefix_.find(prefix);
  return at == by_prefix_.end() ? none : at->second;
}

}  // namespace ironcl::checkpoint
