// SPDX-License-Identifier: Apache-2.0
#include "host/quantize/plan.h"

#include "backends/numerics/casts.h"
#include "host/checkpoint/stacked.h"
#include "host/checkpoint/tensor_index.h"

namespace ironcl::quantize {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Error;
using checkpoint::ErrorKind;
using checkpoint::LinearLayer;
using checkpoint::ModuleNames;
using checkpoint::Tensor;

/// What published models leave as it is, by the names of their modules: one pattern to a kind.
struct Kind {
  ModuleNames names;
  const char* why;
};
const std::vector<Kind>& kept_kinds() {
  static const std::vector<Kind> all = {
      {ModuleNames({"*embed*", "wte", "wpe", "shared", "re:.*relative_attention_bias"}), "an embedding"},
      {ModuleNames({"*norm*", "*ln_*"}), "a norm"},
      {ModuleNames({"gate", "*router*", "shared_expert_gate"}), "a router"},
      {ModuleNames({"*head", "re:(.*\\.)?output$", "score", "*classifier*"}), "a head"},
      {ModuleNames({"*visual*", "*vision*", "*multi_modal_projector*", "*audio_tower*"}),
       "of a part for images or sound"},
  };
  return all;
}

constexpr std::string_view kWeight = ".weight", kGateUp = "gate_up_proj";

/// What every engine makes of modules that are rows of one matrix, and the last parts of their names.
struct Fused {
  std::string_view whole;
  std::initializer_list<std::string_view> parts;
};
const Fused kFused[] = {
    {"qkv", {"q_proj", "k_proj", "v_proj"}},
    {"gate_up", {"gate_proj", "up_proj"}},
    {"w13", {"w1", "w3"}},
    {"qkv_a", {"q_a_proj", "kv_a_proj_with_mqa"}},
};

std::string fused_name(const std::string& module) {
  const std::size_t last = module.rfind('.') + 1;
  for (const auto& [whole, parts] : kFused)
    if (std::ranges::find(parts, std::string_view(module).substr(last)) != parts.end())
      return module.substr(0, last) + std::string(whole);
  return module;
}

/// Tensors beside codes that enter no product, and mean nothing once the codes are read.
constexpr std::array<std::string_view, 5> kBesideCodes = {"comfy_quant", "input_scale_ub", "activation_scale_ub",
                                                          "output_scale", "input_global_scale"};

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const Format& format, const std::vector<std::string>& keep,
          const InputClips& clips)
      : checkpoint_(checkpoint), keep_(keep), clips_(clips) {
    plan_.format = std::make_shared<const Format>(format);
    plan_.plain = std::make_shared<const Format>(make_format({.scheme = "none"}));
  }

  Plan make() {
    gather_layers();
    for (const auto& file : checkpoint_.files()) add_shard(file);
    plan_.ignored.emplace_back("lm_head");  // of models that tie it to the embedding there is no tensor
    std::ranges::sort(plan_.ignored, checkpoint::natural_less);
    plan_.ignored.erase(std::unique(plan_.ignored.begin(), plan_.ignored.end()), plan_.ignored.end());
    check_clips();
    for (const std::string& entry : keep_.entries())
      if (std::ranges::none_of(plan_.kept, [names = ModuleNames({entry})](const Kept& one) {
            return names.find(one.name) != nullptr;
          }))
        plan_.unmatched.push_back(entry);
    if (plan_.items() == 0)
      throw Error(ErrorKind::config, checkpoint_.path(), "",
                  plan_.format->scheme.quantized() ? "has no matrix to quantise; `ironcl inspect` lists what there is"
                                                   : "has no quantised layer; it is as --scheme none would make it");
    return std::move(plan_);
  }

 private:
  void gather_layers() {
    if (checkpoint_.problem()) throw Error(*checkpoint_.problem());
    for (const LinearLayer& layer : checkpoint_.layers()) {
      layer.check();
      const bool oss = layer.weight.name.ends_with("_blocks");
      const char* form = layer.packed                    ? "packed codes"
                         : oss                           ? "experts of gpt-oss, whose gate and up are interleaved"
                         : layer.transposed              ? "experts stored as [K, N]"
                         : layer.zero_points             ? "zero points"
                         : layer.bias && layer.bias->own ? "a bias of integers"
                         : layer.bias && layer.expert    ? "stacked biases"
                                                         : nullptr;
      if (form != nullptr)
        throw Error(ErrorKind::unsupported, layer.weight,
                    "has {}, from which nothing is converted; take the model's bf16 files", form);
      layers_[layer.weight.name].push_back(&layer);
      dropped_.insert(layer.companions.begin(), layer.companions.end());
      plan_.converts = true;
    }
  }

  void add_shard(const checkpoint::SafetensorsFile& file) {
    Shard& shard = plan_.shards.emplace_back();
    shard.file = &file;
    for (const Tensor& tensor : file.tensors()) {
      const auto layers = layers_.find(tensor.name);
      if (layers != layers_.end()) {
        for (const LinearLayer* layer : layers->second) add_layer(shard, *layer);
      } else if (belongs_to_codes(tensor.name)) {
        continue;
      } else if (const std::string why = why_kept(tensor); !why.empty()) {
        shard.copies.push_back(&tensor);
        if (why != "-") keep(module_of(tensor), why);
      } else if (is_stack(tensor)) {
        const std::size_t last = tensor.name.rfind('.') + 1;
        for (std::int64_t expert = 0; expert < tensor.shape[0]; ++expert)
          add_parts(shard, fmt::format("{}{}.{}", tensor.name.substr(0, last), expert, tensor.name.substr(last)),
                    checkpoint::slice_of(tensor, expert), nullptr);
      } else {
        add_item(shard, module_of(tensor), {.tensor = tensor, .n = tensor.shape[0], .k = tensor.shape[1]});
      }
    }
  }

  bool belongs_to_codes(std::string_view name) const {
    if (dropped_.contains(name)) return true;
    const std::string_view leaf = name.substr(checkpoint::leaf_of(name));
    return plan_.converts && std::ranges::find(kBesideCodes, leaf) != kBesideCodes.end();
  }

  static std::string module_of(const Tensor& tensor) {
    return tensor.name.ends_with(kWeight) ? tensor.name.substr(0, tensor.name.size() - kWeight.size()) : tensor.name;
  }

  void keep(const std::string& module, const std::string& why) {
    plan_.kept.push_back({module, why});
    plan_.ignored.push_back(module);
  }

  /// Why a tensor stays; "-" where nobody would quantise it, empty where it does not stay.
  std::string why_kept(const Tensor& tensor) const {
    const Scheme& scheme = plan_.format->scheme;
    const bool stack = is_stack(tensor);
    if (!scheme.quantized() || tensor.elements() == 0 || tensor.shape.size() < 2) return "-";
    if (!stack && (tensor.shape.size() != 2 || !tensor.name.ends_with(kWeight)))
      return "not a linear module's matrix";
    const std::string module = module_of(tensor);
    if (const std::string* entry = keep_.find(module)) return fmt::format("--keep {}", *entry);
    for (const Kind& kind : kept_kinds())
      if (kind.names.find(module) != nullptr) return kind.why;
    if (!numerics::is_float(tensor.dtype)) return fmt::format("of type {}", tensor.dtype_name);
    if (stack && !rows_first(tensor)) return "stacked experts stored as [K, N], or in an unknown order";
    const std::int64_t k = tensor.shape.back(), group = scheme.grid.group_rows == 1 ? scheme.grid.group_cols : 0;
    if (group != 0 && k % group != 0) return fmt::format("K = {} is not a multiple of {}", k, group);
    return {};
  }

  static bool is_stack(const Tensor& tensor) {
    return tensor.shape.size() == 3 && tensor.name.find(".experts.") != std::string::npos &&
           (tensor.name.ends_with(".gate_up_proj") || tensor.name.ends_with(".down_proj"));
  }

  /// Whether gate_up [E, 2 I, H] and down [E, H, I] lie so, by their sizes.
  bool rows_first(const Tensor& tensor) const {
    const checkpoint::Folder& folder = checkpoint_.folder();
    const std::string_view prefix = std::string_view(tensor.name).substr(0, tensor.name.rfind('.') + 1);
    return folder.find(tensor.name + "_bias") == nullptr &&
           checkpoint::form_of_shapes(folder, prefix) == checkpoint::StackedForm::rows_first;
  }

  void add_layer(Shard& shard, const LinearLayer& layer) {
    if (layer.expert) return add_parts(shard, layer.name, layer.weight, &layer);
    add_item(shard, layer.name, {.tensor = {}, .layer = &layer, .n = layer.n, .k = layer.k});
  }

  /// An expert of a stack by itself, and gate and up each: the names that all engines read.
  void add_parts(Shard& shard, const std::string& name, const Tensor& matrix, const LinearLayer* layer) {
    const std::int64_t n = matrix.shape[0], k = matrix.shape[1];
    const bool both = name.ends_with(kGateUp) && n % 2 == 0;
    const std::string base = both ? name.substr(0, name.size() - kGateUp.size()) : name;
    for (std::int64_t begin = 0; begin < n; begin += both ? n / 2 : n) {
      const std::int64_t rows = both ? n / 2 : n;
      add_item(shard, !both ? base : base + (begin == 0 ? "gate_proj" : "up_proj"),
               {.tensor = layer != nullptr ? Tensor() : checkpoint::rows_of(matrix, begin, begin + rows),
                .layer = layer,
                .n = rows,
                .k = k,
                .begin = begin});
    }
  }

  void add_item(Shard& shard, const std::string& name, Weight weight) {
    Item item;
    item.name = name;
    item.fused = fused_name(name);
    item.format = plan_.format;
    item.weight = std::move(weight);
    if (item.weight.layer != nullptr && plan_.format->scheme.quantized()) keep_converted(item);
    const auto clip = clips_.find(item.name);
    if (clip != clips_.end() && item.format == plan_.format) {
      if (clip->second.k != item.weight.k)
        throw Error(ErrorKind::shape, checkpoint_.path(), item.name,
                    "takes inputs of {}, and those in --calibration have {}; they were recorded elsewhere",
                    item.weight.k, clip->second.k);
      item.input_clip = clip->second.largest;
    }
    shard.items.push_back(std::move(item));
  }

  /// A quantised layer that is to stay, or that the scheme does not fit, becomes plain.
  void keep_converted(Item& item) {
    const ScaleGrid& grid = plan_.format->scheme.grid;
    std::string why;
    if (const std::string* entry = keep_.find(item.name))
      why = fmt::format("--keep {}; as bf16", *entry);
    else if (grid.group_rows == 1 && grid.group_cols != 0 && item.weight.k % grid.group_cols != 0)
      why = fmt::format("K = {} is not a multiple of {}; as bf16", item.weight.k, grid.group_cols);
    if (why.empty()) return;
    item.format = plan_.plain;
    keep(item.name, why);
  }

  void check_clips() const {
    std::set<std::string, std::less<>> known;
    for (const Shard& shard : plan_.shards)
      for (const Item& item : shard.items) {
        known.insert(item.name);
        if (!clips_.empty() && item.format == plan_.format && item.input_clip == 0)
          throw Error(ErrorKind::not_found, checkpoint_.path(), item.name,
                      "has no activations among those of --calibration; record them, or add --keep {}", item.name);
      }
    for (const auto& [name, clip] : clips_)
      if (!known.contains(name) && !keep_.find(name) &&
          std::ranges::none_of(plan_.kept, [&name = name](const Kept& one) { return one.name == name; }))
        throw Error(ErrorKind::not_found, checkpoint_.path(), name,
                    "has activations in --calibration, and no layer of that name is quantised");
  }

  const Checkpoint& checkpoint_;
  ModuleNames keep_;
  const InputClips& clips_;
  std::unordered_map<std::string, std::vector<const LinearLayer*>> layers_;  ///< By the name of their weight.
  std::set<std::string, std::less<>> dropped_;
  Plan plan_;
};

}  // namespace

void Weight::read(std::int64_t first, std::int64_t rows, std::span<float> x) const {
  if (layer == nullptr)
    return numerics::decode(tensor.dtype, tensor.data.data() + numerics::bytes_of(tensor.dtype, first * k), x);
  const ScaleGrid& grid = layer->weight_grid;
  const Tensor &codes = layer->weight, &scales = layer->scale;
  const std::int64_t scale_cols = grid.scale_cols(k), width = grid.resolved(n, k).group_cols;
  const double global = layer->global.value_or(1);
  first += begin;
  numerics::decode(codes.dtype, codes.data.data() + numerics::bytes_of(codes.dtype, first * k), x);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t col = 0; col < k;) {
      const double scale = global * scales.number(grid.row_of(first + row) * scale_cols + grid.col_of(col));
      const std::int64_t end = grid.group_cols == 0 ? k : std::min(k, col + width - (grid.col_origin + col) % width);
      for (; col < end; ++col) {
        float& value = x[static_cast<std::size_t>(row * k + col)];
        value = static_cast<float>(static_cast<double>(value) * scale);
      }
    }
}

std::uint64_t Weight::row_bytes() const {
  const DType type = layer != nullptr ? layer->weight.dtype : tensor.dtype;
  return static_cast<std::uint64_t>(numerics::bytes_of(type, k));
}

std::vector<Tensor> Item::specs() const {
  std::vector<Tensor> all;
  const auto add = [&](std::string tensor, std::string_view type, const std::vector<std::int64_t>& shape) {
    all.push_back({.name = std::move(tensor), .dtype_name = type, .shape = shape});
  };
  const Scheme& scheme = format->scheme;
  const std::int64_t codes = scheme.code == DType::e2m1 ? weight.k / 2 : weight.k;
  const TensorNames tensors = names();
  add(tensors.codes, tensors.codes_type, {weight.n, codes});
  if (scheme.quantized()) add(tensors.scale, tensors.scale_type, format->scale_shape(weight.n, weight.k));
  // [1] of compressed-tensors, a scalar of others.
  const std::vector<std::int64_t> one(format->dialect == Dialect::compressed_tensors ? 1 : 0, 1);
  if (scheme.global) add(tensors.global, "F32", one);
  if (input_clip != 0) add(tensors.input, "F32", one);
  return all;
}

std::size_t Plan::items() const {
  std::size_t count = 0;
  for (const Shard& shard : shards) count += shard.items.size();
  return count;
}

Plan make_plan(const Checkpoint& checkpoint, const Format& format, const std::vector<std::string>& keep,
               const InputClips& clips) {
  return Planner(checkpoint, format, keep, clips).make();
}

}  // namespace ironcl::quantize
