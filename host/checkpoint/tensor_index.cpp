// SPDX-License-Identifier: Apache-2.0
// The names of a layer's tensors: the list of those that may stand beside a weight of codes; and an index by module.
#include "host/checkpoint/tensor_index.h"

#include <algorithm>
#include <array>

#include "host/checkpoint/conventions.h"

namespace ironcl::checkpoint {
namespace {

struct Entry {
  std::string_view leaf;
  PartName meaning;
};

constexpr std::string_view kCache = "is a scale of the KV cache, which is no part of this layer's product";
constexpr std::string_view kUpperBound = "bounds the dynamic scales of the activations (fbgemm)";

constexpr std::array kEntries = {
    Entry{"weight", {Part::weight, {}}},
    Entry{"_weight_qdata", {Part::weight, {}}},
    Entry{"weight._data", {Part::weight, {}}},
    Entry{"weight_packed", {Part::packed_weight, {}}},
    Entry{"weight_scale_inv", {Part::weight_scale, {}}},
    Entry{"weight_scale", {Part::weight_scale, {}}},
    Entry{"scale", {Part::weight_scale, {}}},
    Entry{"scale_weight", {Part::weight_scale, {}}},
    Entry{"_weight_scale", {Part::weight_scale, {}}},
    Entry{"weight._scale", {Part::weight_scale, {}}},
    Entry{"qscale_weight", {Part::weight_scale, {}}},
    Entry{"weight_scale_2", {Part::global_scale, {}}},
    Entry{"weight_global_scale", {Part::global_scale, {}}},
    Entry{"SCB", {Part::row_amax, {}}},
    Entry{"input_scale", {Part::input_scale, {}}},
    Entry{"activation_scale", {Part::input_scale, {}}},
    Entry{"act_scale", {Part::input_scale, {}}},
    Entry{"scale_input", {Part::input_scale, {}}},
    Entry{"qscale_act", {Part::input_scale, {}}},
    Entry{"bias", {Part::bias, {}}},
    Entry{"weight_zero_point", {Part::zero_point, {}}},
    Entry{"_weight_zero_point", {Part::zero_point, {}}},
    Entry{"input_zero_point", {Part::zero_point, {}}},
    Entry{"output_zero_point", {Part::zero_point, {}}},
    Entry{"weight_offset", {Part::zero_point, {}}},
    Entry{"input_offset", {Part::zero_point, {}}},
    Entry{"zero_point", {Part::zero_point, {}}},
    Entry{"deq_scale", {Part::product_scale, {}}},
    Entry{"quant_bias", {Part::integer_bias, {}}},
    Entry{"weight_shape", {Part::shape, {}}},
    Entry{"weight_format", {Part::layout, {}}},
    Entry{"k_scale", {Part::aside, kCache}},
    Entry{"v_scale", {Part::aside, kCache}},
    Entry{"q_scale", {Part::aside, kCache}},
    Entry{"kv_scale", {Part::aside, kCache}},
    Entry{"kv_cache_scale", {Part::aside, kCache}},
    Entry{"kv_cache_offset", {Part::aside, "is an offset of the KV cache, which is no part of this layer's product"}},
    Entry{"output_scale", {Part::aside, "is a scale for this layer's output; the product is not quantised with it"}},
    Entry{"input_global_scale", {Part::aside, "scales activations of four bits, which stay as they come here"}},
    Entry{"comfy_quant", {Part::aside, "says how ComfyUI quantised the layer, and is read"}},
    Entry{"input_scale_ub", {Part::aside, kUpperBound}},
    Entry{"activation_scale_ub", {Part::aside, kUpperBound}},
    Entry{"e_score_correction_bias", {Part::aside, "is added to a router's scores, not to its product"}},
};

constexpr std::array<std::string_view, 7> kWords = {"scale", "scaling",    "quant", "amax",
                                                    "SCB",   "zero_point", "absmax"};

}  // namespace

PartName part_of(std::string_view leaf) noexcept {
  for (const Entry& entry : kEntries)
    if (entry.leaf == leaf) return entry.meaning;
  if (const std::string_view why = refused_leaf(leaf); !why.empty()) return {Part::refused, why};
  return {};
}

bool speaks_of_scales(std::string_view name) noexcept {
  return std::any_of(kWords.begin(), kWords.end(),
                     [name](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

std::size_t leaf_of(std::string_view name) noexcept {
  constexpr std::string_view kWeight = "weight.";
  const std::size_t inside = name.rfind(".weight.");
  if (inside != std::string_view::npos) return inside + 1;
  if (name.starts_with(kWeight)) return 0;
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? 0 : dot + 1;
}

std::string layer_name(std::string_view prefix) {
  return prefix.empty() ? "weight" : std::string(prefix.substr(0, prefix.size() - 1));
}

TensorIndex::TensorIndex(const Folder& folder) : folder_(&folder) {
  by_prefix_.reserve(folder.tensors.size());
  for (const auto& [name, located] : folder.tensors) {
    const std::string_view text = name;
    const std::size_t leaf = leaf_of(text);
    const Member member{text.substr(leaf), &located, part_of(text.substr(leaf))};
    if (leaf == 0 && !member.part.known()) continue;
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

const Located* TensorIndex::find(std::string_view name) const {
  const auto at = folder_->tensors.find(name);
  return at == folder_->tensors.end() ? nullptr : &at->second;
}

const SafetensorsFile& TensorIndex::file_of(const Located& located) const { return folder_->files[located.file]; }
const std::filesystem::path& TensorIndex::path_of(const Located& located) const { return file_of(located).path(); }

}  // namespace ironcl::checkpoint
