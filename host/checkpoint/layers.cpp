// SPDX-License-Identifier: Apache-2.0
// Linear layers out of the tensors of a checkpoint: which tensors belong together, and that none is left unexplained.

#include <deque>
#include <unordered_set>

#include "host/checkpoint/conventions.h"
#include "host/checkpoint/layer_builder.h"
#include "host/checkpoint/layer_writers.h"
#include "host/checkpoint/stacked.h"

namespace ironcl::checkpoint {
namespace {

/// Modules that wrap a linear layer of another name, and what stands beside it there and changes its product.
constexpr std::array<std::string_view, 2> kWrapped = {"linear", "base_layer"};
constexpr std::array<std::string_view, 7> kWrappers = {
    "div.", "mul_scale", "smooth.", "weight_quantizer.", "input_quantizer.", "quant_input.", "lora_"};

class LayerFinder {
 public:
  LayerFinder(const Folder& folder, const QuantizationConfig& config, const OpenOptions& options, StackedForm stacked)
      : index_(folder), config_(config), options_(options), stacked_(stacked) {}

  LayerList find() {
    for (const LayerParts& parts : stacked_layers(index_, stacked_, config_, options_, used_)) add(parts);
    for (const std::string_view prefix : index_.prefixes()) add_module(prefix);
    for (const auto& [name, tensor] : index_.folder().tensors)
      if (!used_.contains(tensor)) place_rest(*tensor);
    std::ranges::sort(list_.layers, natural_less, &LinearLayer::name);
    std::ranges::sort(list_.unquantized, natural_less, &Unquantized::name);
    return std::move(list_);
  }

 private:
  void add(const LayerParts& parts) { list_.layers.push_back(build_layer(parts, config_, options_)); }

  /// The layer whose tensors stand under `prefix`, where there is one.
  void add_module(std::string_view prefix) {
    const std::vector<Member>& members = index_.beside(prefix);
    const Member *weight = nullptr, *packed = nullptr;
    bool quantized = false, odd = false;
    for (const Member& member : members) {
      if (used_.contains(member.tensor)) continue;
      const Part part = member.part.part;
      if (part == Part::weight) weight = &member;
      if (part == Part::packed_weight) packed = &member;
      // "scale" alone is also the name of other things: it makes no layer, but it belongs to one.
      quantized |= (part == Part::weight_scale && member.leaf != "scale") || part == Part::refused;
      odd |= part == Part::none || part == Part::refused || is_integer_matrix(*member.tensor);
    }
    if (weight == nullptr) {
      const auto recognised = odd ? recognise(members) : std::nullopt;
      const auto codes = odd && !recognised ? unclaimed_codes(members) : recognised;
      if (packed != nullptr) return add_packed(prefix, *packed);
      if (codes && !used_.contains(codes->member->tensor)) add_foreign(prefix, *codes->member, codes->why);
      return;
    }
    const Tensor& tensor = *weight->tensor;
    if (cast() && tensor.shape.size() != 2) return;  // norms, convolutions: listed
    if (quantized || numerics::is_quantized(tensor.dtype) || tensor.is_fp8() || is_integer_matrix(tensor))
      add_layer(prefix, *weight);
  }

  /// compressed-tensors packs all types of less than 32 bits under one name: only its config tells.
  void add_packed(std::string_view prefix, const Member& packed) {
    const QuantizationGroup* group = config_.group_of(layer_name(prefix));
    if (group != nullptr && group->unsupported.empty() &&
        (group->weight_dtype == DType::i8 || group->weight_dtype == DType::e2m1))
      return add_layer(prefix, packed);
    add_foreign(prefix, packed,
                "is a packed weight (compressed-tensors), which is read only where config.json says that it is of 8 "
                "bits, MXFP4 or NVFP4; quantise to one of these");
  }

  void add_layer(std::string_view prefix, const Member& weight) {
    LayerParts parts;
    parts.name = layer_name(prefix);
    parts.weight = *weight.tensor;
    parts.packed = weight.part.part == Part::packed_weight;
    parts.expected_scale =
        std::string(prefix) + (config_.method == "compressed-tensors" ? "weight_scale" : "weight_scale_inv");
    parts.expected_input_scale = std::string(prefix) + "input_scale";
    used_.insert(weight.tensor);
    note_problem(parts.problem, [&] {
      parts.group = config_.group_of(parts.name);
      if (const auto own = writers_.group_beside(prefix, weight)) parts.group = &groups_.emplace_back(*own);
      gather(prefix, parts);
      refuse_submodules(prefix, parts);
      if (const auto why = why_no_product(parts.name); !why.empty())
        parts.problem = Error(ErrorKind::unsupported, parts.weight, std::string(why));
    });
    if (!parts.scale) note_problem(parts.problem, [&] { share_scales(index_, parts, used_); });
    if (!parts.scale && parts.weight.is_fp8()) take_for_cast(parts, prefix);
    add(parts);
  }

  bool cast() const { return why_not_cast_.empty(); }

  /// fp8 without a scale: cast only, where nothing speaks against it; else where the scale may be.
  void take_for_cast(LayerParts& parts, std::string_view prefix) {
    if (cast() && parts.group == nullptr) parts.group = &cast_;
    parts.why_not_cast = why_not_cast_;
    const auto& elsewhere = index_.folder().elsewhere;
    for (auto at = elsewhere.lower_bound(std::string(prefix)); at != elsewhere.end() && at->first.starts_with(prefix);
         ++at)
      if (part_of(std::string_view(at->first).substr(prefix.size())).part == Part::weight_scale)
        parts.scale_elsewhere = at->second;
  }

  void gather(std::string_view prefix, LayerParts& parts) {
    const std::vector<Member>& members = index_.beside(prefix);
    bool odd = parts.weight.dtype == DType::none;
    const Member* refused = nullptr;
    for (const Member& member : members) {
      const Part part = member.part.part;
      if (member.tensor->name == parts.weight.name || part == Part::aside) continue;
      const bool places = std::ranges::find(kSlots, part, &Slot::part) != kSlots.end() || part == Part::zero_point;
      odd |= !places;
      if (places) used_.insert(member.tensor);
      if (part == Part::refused)
        refused = &member;
      else
        take_part(*member.tensor, part, parts);
    }
    if (!odd || parts.problem) return;
    const auto recognised = !has_four_bits(parts) ? recognise(members)
                            : refused != nullptr  ? std::optional(Recognised{refused, refused->part.why})
                                                  : std::nullopt;
    if (recognised)
      parts.problem = Error(ErrorKind::unsupported, *recognised->member->tensor, std::string(recognised->why));
  }

  /// Tensors of modules inside the layer, or beside it in a wrapper: smoothing, quantisers, adapters.
  void refuse_submodules(std::string_view prefix, LayerParts& parts) const {
    if (prefix.empty()) return;
    const auto& tensors = index_.folder().tensors;
    const auto look = [&](const std::string& start, auto counts) {
      for (auto at = tensors.lower_bound(start); at != tensors.end() && at->first.starts_with(start); ++at)
        if (counts(at->first)) return note_stranger(*at->second, parts);
    };
    look(std::string(prefix), [&](const std::string& name) { return leaf_of(name) != prefix.size(); });
    const std::size_t dot = parts.name.rfind('.');
    if (dot == std::string::npos ||
        std::ranges::find(kWrapped, std::string_view(parts.name).substr(dot + 1)) == kWrapped.end())
      return;
    for (const std::string_view wrapper : kWrappers)
      look(parts.name.substr(0, dot + 1) + std::string(wrapper), [](const std::string&) { return true; });
  }

  /// A module of codes that are not read, recognised or not.
  void add_foreign(std::string_view prefix, const Member& codes, std::string_view why) {
    LayerParts parts{.name = layer_name(prefix),
                     .weight = *codes.tensor,
                     .problem = Error(ErrorKind::unsupported, *codes.tensor, std::string(why))};
    parts.group = config_.group_of(parts.name);
    for (const Member& member : index_.beside(prefix)) {
      used_.insert(member.tensor);
      if (member.part.part == Part::weight_scale) parts.scale = *member.tensor;
    }
    add(parts);
    // A packed weight's rows and columns are not the layer's.
    list_.layers.back().n = list_.layers.back().k = 0;
  }

  /// A tensor that no layer took: a scale that lacks its weight and codes that lack a layer are broken layers, the
  /// rest is not quantised.
  void place_rest(const Tensor& tensor) {
    const std::string& name = tensor.name;
    const std::size_t leaf = leaf_of(name);
    const std::string_view prefix = std::string_view(name).substr(0, leaf);
    const PartName part = part_of(std::string_view(name).substr(leaf));
    if (part.part == Part::weight_scale && name.substr(leaf) != "scale")
      return add({.name = layer_name(prefix),
                  .scale = tensor,
                  .problem = Error(ErrorKind::not_found, tensor,
                                   "is a scale {} without its weight '{}weight'; is a shard missing?",
                                   tensor.shape_text(), prefix)});
    const bool marker = is_scaled_fp8_marker(name);
    const bool cast_too = cast() && tensor.shape.size() != 2;
    // "x_q" with "x_scale": codes of activations, which --input-q takes.
    const bool codes =
        name.ends_with("_q") && index_.folder().find(name.substr(0, name.size() - 1) + "scale") != nullptr;
    if (tensor.is_fp8() && tensor.elements() > 0 && !marker && !cast_too && !codes)
      return add({.name = name,
                  .weight = tensor,
                  .problem = Error(ErrorKind::unsupported, tensor,
                                   "is {} {} and not the weight of any known kind of layer; convert the checkpoint "
                                   "with llmcompressor (FP8), or say who wrote it in an issue",
                                   tensor.dtype_name, tensor.shape_text())});
    list_.unquantized.push_back({tensor, reason(tensor, prefix, part)});
  }

  std::string reason(const Tensor& tensor, std::string_view prefix, const PartName& part) const {
    if (part.part == Part::aside) return std::string(part.why);
    if (tensor.is_fp8() && cast()) return "cast to fp8, and no matrix";
    if (part.part == Part::refused && !prefix.empty())
      return fmt::format("beside layer {}: {}", layer_name(prefix), part.why);
    if (is_scaled_fp8_marker(tensor.name)) return "marks a file of scaled fp8 weights (ComfyUI)";
    if (part.part != Part::weight) return "not a layer's weight";
    if (const std::string* entry = config_.ignored.find(layer_name(prefix)))
      return fmt::format("{} lists '{}'", config_.ignored_member, *entry);
    if (tensor.shape.size() < 2) return "not a matrix";
    return fmt::format("{} without a scale", tensor.dtype_name);
  }

  TensorIndex index_;
  const QuantizationConfig& config_;
  const OpenOptions& options_;
  StackedForm stacked_;
  LayerWriters writers_{index_};
  std::deque<QuantizationGroup> groups_;  ///< Of layers whose writer says how; a deque keeps them in place.
  /// Of the whole checkpoint; empty: fp8 without a scale was only cast.
  std::string why_not_cast_ = why_not_cast(index_, config_);
  QuantizationGroup cast_{{.weight_grid = ScaleGrid{0, 0}, .activations = ActivationScheme::none, .cast = true}};
  std::unordered_set<const Tensor*> used_;
  LayerList list_;
};

}  // namespace

LayerList find_layers(const Folder& folder, const QuantizationConfig& config, const OpenOptions& options,
                      StackedForm stacked) {
  return LayerFinder(folder, config, options, stacked).find();
}

}  // namespace ironcl::checkpoint
