// SPDX-License-Identifier: Apache-2.0
// Linear layers out of the tensors of a checkpoint: which tensors belong together, and whether they fit.
#include "host/checkpoint/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "host/checkpoint/block.h"
#include "host/checkpoint/names.h"
#include "host/checkpoint/parts.h"

namespace ironcl::checkpoint {
namespace {

/// "model.layers.0.mlp.gate." of "model.layers.0.mlp.gate.weight" and "" of "weight", where the last part is `last`.
std::optional<std::string> prefix_of(std::string_view name, std::string_view last) {
  if (!name.ends_with(last)) return std::nullopt;
  const std::string_view prefix = name.substr(0, name.size() - last.size());
  if (!prefix.empty() && prefix.back() != '.') return std::nullopt;
  return std::string(prefix);
}

/// The layer's name: the prefix without its dot; "weight" for a lone layer.
std::string layer_name(const std::string& prefix) {
  return prefix.empty() ? "weight" : prefix.substr(0, prefix.size() - 1);
}

class LayerFinder {
 public:
  LayerFinder(const Folder& folder, const QuantizationConfig& config, const OpenOptions& options)
      : folder_(folder), config_(config), options_(options) {
    for (const auto& [name, located] : folder_.tensors) {
      const std::size_t dot = name.rfind('.');
      beside_[std::string_view(name).substr(0, dot == std::string::npos ? 0 : dot + 1)].push_back(&located);
    }
  }

  LayerList find() {
    LayerList list;
    for (const auto& [name, located] : folder_.tensors) {
      const auto prefix = prefix_of(name, "weight");
      if (prefix && is_quantized_layer(*prefix, *located.tensor)) list.layers.push_back(build(*prefix, located));
    }
    for (const auto& [name, located] : folder_.tensors)
      if (!used_.contains(located.tensor)) place_rest(name, located, list);
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::sort(list.layers.begin(), list.layers.end(), by_name);
    std::sort(list.unquantized.begin(), list.unquantized.end(), by_name);
    return list;
  }

 private:
  const Located* locate(const std::string& name) const {
    const auto at = folder_.tensors.find(name);
    return at == folder_.tensors.end() ? nullptr : &at->second;
  }
  const std::filesystem::path& file_of(const Located& located) const { return folder_.files[located.file].path(); }

  bool is_quantized_layer(const std::string& prefix, const Tensor& weight) const {
    if (numerics::is_quantized(weight.dtype) || weight.dtype_name.starts_with("F8_")) return true;
    return locate(prefix + "weight_scale_inv") != nullptr || locate(prefix + "weight_scale") != nullptr;
  }

  /// Everything that is known of the layer; the first thing that is wrong with it becomes its problem.
  LinearLayer build(const std::string& prefix, const Located& weight) {
    LinearLayer layer;
    layer.name = layer_name(prefix);
    layer.weight = *weight.tensor;
    layer.weight_file = file_of(weight);
    layer.bytes = layer.weight.data.size();
    used_.insert(weight.tensor);
    if (layer.weight.shape.size() == 2) {
      layer.n = layer.weight.shape[0];
      layer.k = layer.weight.shape[1];
    }
    try {
      fill(prefix, folder_.files[weight.file], layer);
    } catch (const Error& error) {
      layer.problem = error;
    }
    return layer;
  }

  void fill(const std::string& prefix, const SafetensorsFile& file, LinearLayer& layer) {
    const QuantizationGroup* group = config_.group_of(layer.name);
    const Located* scale = find_scale(prefix, file, group, layer);
    layer.scale = *scale->tensor;
    layer.scale_file = file_of(*scale);
    layer.bytes += layer.scale.data.size();
    if (group != nullptr && !group->unsupported.empty())
      throw Error(ErrorKind::unsupported, folder_.config, layer.weight.name, group->unsupported);
    check_weight(layer);
    check_scale_dtype(layer.scale, layer.scale_file);
    choose_weight_grid(file, group, layer);
    check_scale_shape(layer.scale, layer.scale_file, layer.weight.name, layer.n, layer.k, layer.weight_grid);
    if (options_.check_values) check_scale_values(layer.scale, layer.scale_file);
    choose_activations(prefix, file, group, layer);
    take_bias(prefix, layer);
    check_zero_points(prefix);
    check_not_ignored(layer);
    check_rest(prefix);
  }

  /// The tensors `<prefix><leaf>`. A lone layer ("weight") shares its file with inputs and outputs of any name: only
  /// tensors whose names are a layer's are its own.
  std::vector<const Located*> beside(const std::string& prefix) const {
    const auto at = beside_.find(prefix);
    if (at == beside_.end()) return {};
    if (!prefix.empty()) return at->second;
    std::vector<const Located*> known;
    for (const Located* located : at->second)
      if (part_of(located->tensor->name).known) known.push_back(located);
    return known;
  }
  static PartName part_of_layer(const std::string& prefix, const Located& located) {
    return part_of(std::string_view(located.tensor->name).substr(prefix.size()));
  }

  /// The only tensor of the layer that is this part; nullptr where there is none. Throws Error config for two.
  const Located* only(const std::string& prefix, Part part, const std::string& what, const LinearLayer& layer) {
    const Located* found = nullptr;
    for (const Located* candidate : beside(prefix)) {
      if (part_of_layer(prefix, *candidate).part != part) continue;
      used_.insert(candidate->tensor);
      if (found != nullptr)
        throw Error(ErrorKind::config, layer.weight_file, layer.weight.name,
                    fmt::format("has two {}, '{}' and '{}'; one of them is wrong", what, found->tensor->name,
                                candidate->tensor->name));
      found = candidate;
    }
    return found;
  }

  /// A module that the config leaves unquantised has no business with codes and scales.
  void check_not_ignored(const LinearLayer& layer) const {
    if (const std::string* entry = config_.ignored.find(layer.name))
      throw Error(
          ErrorKind::config, layer.weight_file, layer.weight.name,
          fmt::format("is {} with a scale, but {} of {} lists '{}'; correct the one that is wrong",
                      layer.weight.dtype_name, config_.ignored_member, folder_.config.filename().string(), *entry));
  }

  /// What else is beside the weight, and would make the product another one.
  void check_rest(const std::string& prefix) const {
    for (const Located* located : beside(prefix)) {
      const PartName name = part_of_layer(prefix, *located);
      if (name.part == Part::refused)
        throw Error(ErrorKind::unsupported, file_of(*located), located->tensor->name, std::string(name.why));
    }
  }

  /// The weight block that config or metadata says, with where it says so.
  static std::optional<ScaleGrid> said_grid(const QuantizationGroup* group, const SafetensorsFile& file,
                                            BlockSource& source) {
    if (group != nullptr && group->weight_grid) {
      source = BlockSource::config;
      return group->weight_grid;
    }
    const auto said = metadata_block(file, "weight_block");
    if (said) source = BlockSource::metadata;
    return said;
  }

  static std::optional<ScaleGrid> metadata_block(const SafetensorsFile& file, const std::string& key) {
    const auto at = file.metadata().find(key);
    if (at == file.metadata().end()) return std::nullopt;
    if (const auto grid = parse_block(at->second)) return grid;
    throw Error(ErrorKind::config, file.path(), "",
                fmt::format("metadata {} is '{}', expected a block such as 128 or 1x128", key, at->second));
  }

  const Located* find_scale(const std::string& prefix, const SafetensorsFile& file, const QuantizationGroup* group,
                            const LinearLayer& layer) {
    if (const Located* found = only(prefix, Part::weight_scale, "scales", layer)) return found;
    BlockSource source;
    auto grid = layer.weight.shape.size() == 2 ? said_grid(group, file, source) : std::nullopt;
    const bool known = grid.has_value() || options_.block.has_value();
    if (!grid) grid = options_.block.value_or(ScaleGrid{128, 128});
    const std::string_view usual = config_.method == "compressed-tensors" ? "weight_scale" : "weight_scale_inv";
    throw Error(
        ErrorKind::not_found, layer.weight_file, prefix + std::string(usual),
        fmt::format("is missing: the weight '{}' is {} {} and needs a scale of shape [{}, {}] ({}{}), called {}; "
                    "is a shard missing?",
                    layer.weight.name, layer.weight.dtype_name, layer.weight.shape_text(), grid->scale_rows(layer.n),
                    grid->scale_cols(layer.k), known ? "" : "for blocks of ", grid_text(*grid),
                    "weight_scale_inv or weight_scale"));
  }

  static void check_weight(const LinearLayer& layer) {
    const Tensor& weight = layer.weight;
    if (!numerics::is_quantized(weight.dtype))
      throw Error(
          weight.dtype_name.ends_with("FNUZ") || weight.dtype_name == "U8" ? ErrorKind::unsupported
                                                                           : ErrorKind::dtype,
          layer.weight_file, weight.name,
          fmt::format("is {} and has a scale, expected a weight of F8_E4M3, F8_E5M2 or I8", weight.dtype_name));
    if (weight.shape.size() != 2 || layer.n < 1 || layer.k < 1)
      throw Error(weight.shape.size() == 3 ? ErrorKind::unsupported : ErrorKind::shape, layer.weight_file,
                  weight.name,
                  fmt::format("is {}, expected a matrix [N, K] with N and K of at least 1", weight.shape_text()));
  }

  void choose_weight_grid(const SafetensorsFile& file, const QuantizationGroup* group, LinearLayer& layer) const {
    const std::optional<ScaleGrid> said = said_grid(group, file, layer.block_source);
    if (said && options_.block && *said != *options_.block)
      throw Error(ErrorKind::config, layer.weight_file, layer.weight.name,
                  fmt::format("has scales {} ({}), but --block says {}; leave --block out", grid_text(*said),
                              name_of(layer.block_source), grid_text(*options_.block)));
    if (said) {
      layer.weight_grid = *said;
    } else if (options_.block) {
      layer.block_source = BlockSource::caller;
      layer.weight_grid = *options_.block;
    } else {
      layer.block_source = BlockSource::shape;
      layer.weight_grid = grid_from_shape(layer.scale, layer.scale_file, layer.weight);
    }
  }

  void choose_activations(const std::string& prefix, const SafetensorsFile& file, const QuantizationGroup* group,
                          LinearLayer& layer) {
    // Where nobody says: token groups as wide as the weight's blocks, per token for undivided rows.
    layer.activation_grid = {1, layer.weight_grid.group_cols};
    if (const auto said = metadata_block(file, "x_group")) layer.activation_grid = *said;
    std::optional<ActivationScheme> said;
    if (group != nullptr) {
      said = group->activations;
      layer.activation_rounding = group->activation_rounding;
      if (group->activation_grid) layer.activation_grid = *group->activation_grid;
    }
    const Located* scale = only(prefix, Part::input_scale, "scales of its activations", layer);
    layer.activations = said.value_or(scale == nullptr ? ActivationScheme::dynamic : ActivationScheme::fixed);
    if (scale != nullptr) return take_input_scale(*scale, layer);
    if (layer.activations == ActivationScheme::fixed)
      throw Error(ErrorKind::not_found, layer.weight_file, prefix + "input_scale",
                  "is missing: config.json says that activations have static scales");
  }

  /// A scale that the file has is used: it is the one that the weights were calibrated with.
  void take_input_scale(const Located& scale, LinearLayer& layer) const {
    layer.input_scale = *scale.tensor;
    layer.bytes += scale.tensor->data.size();
    if (layer.activations != ActivationScheme::fixed)
      throw Error(
          ErrorKind::config, file_of(scale), scale.tensor->name,
          fmt::format("is a static scale of activations, but {} says that they are {}; correct the one that "
                      "is wrong",
                      folder_.config.filename().string(),
                      layer.activations == ActivationScheme::none ? "not quantised" : "quantised dynamically"));
    check_scale_dtype(*scale.tensor, file_of(scale));
    check_scale_shape(*scale.tensor, file_of(scale), "the activations", 1, layer.k, {0, 0});
    check_scale_values(*scale.tensor, file_of(scale));
    layer.activation_grid = {0, 0};
  }

  void take_bias(const std::string& prefix, LinearLayer& layer) {
    const Located* bias = locate(prefix + "bias");
    if (bias == nullptr) return;
    used_.insert(bias->tensor);
    if (!numerics::is_float(bias->tensor->dtype))
      throw Error(ErrorKind::dtype, file_of(*bias), bias->tensor->name,
                  fmt::format("is {}, expected a bias of F32, F16 or BF16", bias->tensor->dtype_name));
    if (bias->tensor->shape != std::vector{layer.n})
      throw Error(ErrorKind::shape, file_of(*bias), bias->tensor->name,
                  fmt::format("is {}, expected [{}], one for each row of '{}'", bias->tensor->shape_text(), layer.n,
                              layer.weight.name));
    layer.bias = *bias->tensor;
    layer.bytes += bias->tensor->data.size();
  }

  /// Zero points mean asymmetric weights, unless they are all 0 as older writers left them.
  void check_zero_points(const std::string& prefix) {
    for (const Located* zeros : beside(prefix)) {
      if (part_of_layer(prefix, *zeros).part != Part::zero_point) continue;
      used_.insert(zeros->tensor);
      if (std::any_of(zeros->tensor->data.begin(), zeros->tensor->data.end(),
                      [](std::byte b) { return b != std::byte{0}; }))
        throw Error(ErrorKind::unsupported, file_of(*zeros), zeros->tensor->name,
                    "has values other than 0: asymmetric quantisation is not read");
    }
  }

  /// A tensor that no layer took: a scale that lacks its weight makes a broken layer, the rest is unquantised.
  void place_rest(const std::string& name, const Located& located, LayerList& list) const {
    auto prefix = prefix_of(name, "weight_scale_inv");
    if (!prefix) prefix = prefix_of(name, "weight_scale");
    if (prefix) {
      LinearLayer& layer = list.layers.emplace_back();
      layer.name = layer_name(*prefix);
      layer.scale = *located.tensor;
      layer.scale_file = file_of(located);
      layer.bytes = located.tensor->data.size();
      const Located* packed = locate(*prefix + "weight_packed");
      layer.problem = packed == nullptr
                          ? Error(ErrorKind::not_found, layer.scale_file, name,
                                  fmt::format("is a scale {} without its weight '{}weight'; is a shard missing?",
                                              located.tensor->shape_text(), *prefix))
                          : Error(ErrorKind::unsupported, layer.scale_file, packed->tensor->name,
                                  "is a packed weight (compressed-tensors pack-quantized), which is not read");
      return;
    }
    Unquantized& rest = list.unquantized.emplace_back();
    rest.name = name;
    rest.dtype = located.tensor->dtype;
    rest.dtype_name = located.tensor->dtype_name;
    rest.shape = located.tensor->shape;
    rest.bytes = located.tensor->data.size();
    rest.file = file_of(located);
    rest.why = reason(name, *located.tensor);
  }

  std::string reason(const std::string& name, const Tensor& tensor) const {
    const auto prefix = prefix_of(name, "weight");
    if (!prefix) {
      const std::size_t dot = name.rfind('.');
      const PartName part = part_of(std::string_view(name).substr(dot == std::string::npos ? 0 : dot + 1));
      return part.part == Part::aside ? std::string(part.why) : "not a layer's weight";
    }
    if (const std::string* entry = config_.ignored.find(layer_name(*prefix)))
      return fmt::format("{} lists '{}'", config_.ignored_member, *entry);
    if (tensor.shape.size() < 2) return "not a matrix";
    return fmt::format("{} without a scale", tensor.dtype_name);
  }

  const Folder& folder_;
  const QuantizationConfig& config_;
  const OpenOptions& options_;
  std::unordered_map<std::string_view, std::vector<const Located*>> beside_;  ///< By prefix, dot included.
  std::set<const Tensor*> used_;                                              ///< Tensors that a layer took.
};

}  // namespace

LayerList find_layers(const Folder& folder, const QuantizationConfig& config, const OpenOptions& options) {
  return LayerFinder(folder, config, options).find();
}

}  // namespace ironcl::checkpoint
