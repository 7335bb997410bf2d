// SPDX-License-Identifier: Apache-2.0
// One linear layer out of its parts.
#include "host/checkpoint/layer_builder.h"

#include "host/checkpoint/block.h"
#include "host/checkpoint/stacked.h"

namespace ironcl::checkpoint {
namespace {

std::optional<ScaleGrid> metadata_block(const Tensor& tensor, const std::string& key) {
  const std::string* said = tensor.metadata(key);
  if (said == nullptr) return std::nullopt;
  if (const auto grid = parse_block(*said)) return grid;
  throw Error(ErrorKind::config, tensor.file(), "", "metadata {} is '{}', expected a block such as 128 or 1x128", key,
              *said);
}

class LayerBuilder {
 public:
  LayerBuilder(const LayerParts& parts, const QuantizationConfig& config, const OpenOptions& options)
      : parts_(parts), config_(config), options_(options), said_(parts.said()) {}

  LinearLayer build() {
    layer_.name = parts_.name;
    layer_.expert = parts_.expert;
    layer_.transposed = parts_.transposed;
    layer_.writer = said_.writer.empty() ? config_.writer : said_.writer;
    layer_.weight = parts_.weight;
    layer_.bytes = layer_.weight.data.size();
    layer_.cast = said_.cast;
    if (layer_.weight.shape.size() == 2) {
      layer_.n = layer_.weight.shape[0];
      layer_.k = layer_.weight.shape[1];
    }
    if (parts_.scale) {
      layer_.scale = *parts_.scale;
      layer_.bytes += layer_.scale.data.size();
    }
    for (const Slot& slot : kSlots)
      if (const auto& part = parts_.*slot.of; part && slot.part != Part::bias)
        layer_.companions.push_back(part->name);
    for (const Tensor& zeros : parts_.zero_points) layer_.companions.push_back(zeros.name);
    note_problem(layer_.problem, [this] { fill(); });
    return std::move(layer_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(ErrorKind kind, fmt::format_string<Args...> why, Args&&... args) const {
    throw Error(kind, layer_.weight, fmt::format(why, std::forward<Args>(args)...));
  }

  void fill() {
    if (!said_.unsupported.empty())
      throw Error(ErrorKind::unsupported, said_.writer.empty() ? config_.file : layer_.weight.file(),
                  layer_.weight.name, said_.unsupported);
    if (parts_.problem) throw *parts_.problem;
    if (parts_.stranger) throw *parts_.stranger;
    const Tensor* zero_points = find_zero_points(parts_);
    derive(parts_, layer_);
    if (layer_.scale.dtype_name.empty()) complain_of_missing_scale();
    check_weight();
    check_not_ignored();
    check_known_to_config();
    check_scale_is_of_codes();
    tidy_scale();
    choose_weight_grid();
    cut_fused_scale();
    check_scale_shape(layer_.scale, layer_.weight.name, layer_.n, layer_.k, layer_.weight_grid);
    layer_.weight_grid_known = true;
    if (options_.check_values) check_scale_values(layer_.scale, shared_with(layer_.scale));
    choose_activations();
    take_zero_points(parts_, zero_points, layer_);
    take_bias();
  }

  /// Where config.json says which layers are quantised, and how, the others have no codes.
  void check_known_to_config() const {
    if (parts_.group == nullptr && !config_.groups.empty())
      refuse(ErrorKind::config,
             "is {} with a scale, and {} does not say how '{}' is quantised; correct the one that is wrong",
             layer_.weight.dtype_name, config_.file.filename().string(), layer_.name);
    if (!said_.weight_dtype) return;
    const auto kind = [](DType type) { return type == DType::i8 ? "int8" : type == DType::e2m1 ? "fp4" : "fp8"; };
    if (kind(*said_.weight_dtype) != std::string_view(kind(layer_.weight.dtype)))
      refuse(ErrorKind::config, "is {}, but {} says that its codes are {}; correct the one that is wrong",
             layer_.weight.dtype_name, config_.file.filename().string(), kind(*said_.weight_dtype));
  }

  /// Two codes of four bits in a byte have the type of int8. What gives them away are their scales.
  void check_scale_is_of_codes() const {
    if (layer_.weight.dtype != DType::i8) return;
    const auto fail = [this](const char* why) { throw Error(ErrorKind::unsupported, layer_.weight, why); };
    if (layer_.scale.dtype == DType::e8m0)
      fail(
          "is I8 with scales of F8_E8M0: two codes of MXFP4 in a byte (DeepSeek-V4's experts), and nothing says how "
          "their activations are quantised; put the model's config.json beside the file");
    if (!config_.method.empty() || !layer_.writer.empty()) return;
    if (parts_.input_scale && layer_.scale.elements() > std::max<std::int64_t>(layer_.n, 1))
      fail(
          "is int8 in groups with a static scale of activations, which no tool writes; two codes of int4 in a byte "
          "(w4afp8) look like this; put the model's config.json beside the file, or fetch its FP8 folder");
    if (layer_.scale.name.ends_with(".scale"))
      fail(
          "is I8 with a 'scale', and nothing says who wrote it: LMDeploy's smooth_quant is read and SDNQ, which may "
          "rotate, is not; put the model's config.json beside the file");
  }

  [[noreturn]] void complain_of_missing_scale() const {
    const Tensor& weight = layer_.weight;
    auto grid = weight.shape.size() == 2 ? said_grid(parts_) : std::nullopt;
    const bool known = grid.has_value() || options_.block.has_value();
    if (!grid) grid = options_.block.value_or(ScaleGrid{128, 128});
    throw Error(ErrorKind::not_found, layer_.weight.file(), parts_.expected_scale,
                "is missing: the weight '{}' is {} {} and needs a scale of shape [{}, {}] ({}{}), called "
                "weight_scale_inv or weight_scale; {}",
                weight.name, weight.dtype_name, weight.shape_text(), grid->scale_rows(layer_.n),
                grid->scale_cols(layer_.k), known ? "" : "for blocks of ", grid_text(*grid), where_it_may_be());
  }

  std::string where_it_may_be() const {
    if (!parts_.scale_elsewhere.empty())
      return fmt::format("is a shard missing? By the index it is in {}: open the folder", parts_.scale_elsewhere);
    if (parts_.why_not_cast.empty()) return "is a shard missing?";
    return fmt::format("is a shard missing? It is not taken for a weight that was only cast to fp8: {}",
                       parts_.why_not_cast);
  }

  void check_weight() const {
    const Tensor& weight = layer_.weight;
    if (!numerics::is_quantized(weight.dtype))
      refuse(weight.dtype_name.ends_with("FNUZ") || weight.dtype_name == "U8" ? ErrorKind::unsupported
                                                                              : ErrorKind::dtype,
             "is {} and has a scale, expected a weight of F8_E4M3, F8_E5M2 or I8, or a config that says that it is "
             "MXFP4 or NVFP4",
             weight.dtype_name);
    if (weight.shape.size() != 2 || layer_.n < 1 || layer_.k < 1)
      refuse(weight.shape.size() == 3 ? ErrorKind::unsupported : ErrorKind::shape,
             "is {}, expected a matrix [N, K] with N and K of at least 1{}", weight.shape_text(),
             weight.shape.size() == 3 ? ", or a stack with experts in its name" : "");
  }

  /// A module that the config leaves unquantised has no business with codes and scales.
  void check_not_ignored() const {
    if (const std::string* entry = config_.ignored.find(layer_.name))
      refuse(ErrorKind::config, "is {} with a scale, but {} of {} lists '{}'; correct the one that is wrong",
             layer_.weight.dtype_name, config_.ignored_member, config_.file.filename().string(), *entry);
  }

  /// [r, 1, c, 1], as modelopt writes blocks, is [r, c]. U8 scales of groups of 32 are the exponents of MX (e8m0).
  void tidy_scale() {
    std::vector<std::int64_t>& shape = layer_.scale.shape;
    if (shape.size() == 4 && shape[1] == 1 && shape[3] == 1) shape = {shape[0], shape[2]};
    const ScaleGrid mx{1, 32};
    const bool groups_of_32 = shape == std::vector{layer_.n * parts_.parts, mx.scale_cols(layer_.k)};
    if (layer_.scale.dtype_name == "U8" && groups_of_32 && layer_.weight.dtype != DType::i8)
      layer_.scale.dtype = DType::e8m0;
    if (layer_.global) return;  // of e4m3
    check_scale_dtype(layer_.scale);
  }

  void choose_weight_grid() {
    std::optional<ScaleGrid> said = said_grid(parts_);
    if (said && !said_.weight_grid) layer_.block_source = BlockSource::metadata;
    // What DeepSeek-V4's config says is of its other layers.
    if (layer_.weight.dtype == DType::e2m1) said = ScaleGrid{1, layer_.global ? 16 : 32};
    if (said && options_.block && *said != *options_.block)
      refuse(ErrorKind::config, "has scales {} ({}), but --block says {}; leave --block out", grid_text(*said),
             name_of(layer_.block_source), grid_text(*options_.block));
    if (said) {
      layer_.weight_grid = *said;
    } else if (options_.block) {
      layer_.block_source = BlockSource::caller;
      layer_.weight_grid = *options_.block;
    } else {
      layer_.block_source = BlockSource::shape;
      Tensor whole = layer_.weight;  // of a fused projection
      whole.shape[0] *= parts_.parts;
      layer_.weight_grid = grid_from_shape(layer_.scale, whole);
    }
  }

  /// The rows of a fused projection's scales that are this weight's.
  void cut_fused_scale() {
    const ScaleGrid grid = layer_.weight_grid;
    if (parts_.parts == 1 || layer_.scale.elements() == 1) return;
    check_scale_shape(layer_.scale, layer_.name + " and its neighbour", layer_.n * parts_.parts, layer_.k, grid);
    if (grid.group_rows != 0 && layer_.n % grid.group_rows != 0)
      throw Error(ErrorKind::unsupported, layer_.scale,
                  "has blocks of {} rows over {} projections of {} rows each, so that one block spans two of them; "
                  "save the scales with their weights",
                  grid.group_rows, parts_.parts, layer_.n);
    layer_.scale.shape = {grid.scale_rows(layer_.n * parts_.parts), grid.scale_cols(layer_.k)};
    const std::int64_t rows = grid.scale_rows(layer_.n);
    layer_.scale = rows_of(layer_.scale, parts_.part * rows, (parts_.part + 1) * rows);
  }

  void choose_activations() {
    // Where nobody says: token groups as wide as the weight's blocks, per token for undivided rows.
    layer_.activation_grid = {1, layer_.weight_grid.group_cols};
    if (const auto said = metadata_block(parts_.weight, "x_group")) layer_.activation_grid = *said;
    const bool mx = layer_.scale.dtype == DType::e8m0 && layer_.weight_grid == ScaleGrid{1, 32};
    layer_.activation_rounding = mx ? ScaleRounding::power_of_two : said_.activation_rounding;
    if (said_.activation_grid) layer_.activation_grid = *said_.activation_grid;
    layer_.activation_limit = said_.activation_limit;
    layer_.leaves_activations = said_.leaves_activations;
    if (said_.activation_dtype) check_activation_dtype(*said_.activation_dtype);
    const bool given = parts_.input_scale && !said_.input_scale_unused;
    layer_.activations = said_.activations.value_or(given ? ActivationScheme::fixed : ActivationScheme::dynamic);
    layer_.activations_known = true;
    if (given) return take_input_scale(*parts_.input_scale);
    if (layer_.activations == ActivationScheme::fixed)
      throw Error(ErrorKind::not_found, layer_.weight.file(), parts_.expected_input_scale,
                  "is missing: config.json says that activations have static scales");
  }

  /// Activations get int8 codes beside int8 weights and e4m3 beside fp8 (host/layer/layer_problem.h).
  void check_activation_dtype(DType said) const {
    const DType computed = layer_.weight.dtype == DType::i8 ? DType::i8 : DType::e4m3fn;
    if (said == computed) return;
    throw Error(ErrorKind::unsupported, said_.writer.empty() ? config_.file : layer_.weight.file(),
                layer_.weight.name,
                "is {} with activations of {}, which is not computed here, only of {}; quantise both alike",
                layer_.weight.dtype_name, numerics::name_of(said), numerics::name_of(computed));
  }

  /// The layer's name for a tensor that it may share with others: of a stack, a slice.
  std::string_view shared_with(const Tensor& scale) const {
    const bool own = layer_.name == "weight" || scale.name.starts_with(layer_.name + ".");
    return own ? std::string_view() : layer_.name;
  }

  /// A scale that the file has is used: it is the one that the weights were calibrated with.
  void take_input_scale(const Tensor& scale) {
    layer_.input_scale = scale;
    layer_.bytes += scale.data.size();
    if (layer_.activations != ActivationScheme::fixed)
      throw Error(ErrorKind::config, scale,
                  "is a static scale of activations, but {} says that they are {}; correct the one that is wrong",
                  config_.file.empty() ? "the layer's writer" : config_.file.filename().string(),
                  layer_.activations == ActivationScheme::none ? "not quantised" : "quantised dynamically");
    check_scale_dtype(scale);
    check_scale_shape(scale, "the activations", 1, layer_.k, {0, 0});
    check_scale_values(scale, shared_with(scale));
    // Activations are divided by it: every one of them would become the largest code, and the product 0.
    if (scale.number(0) == 0)
      throw Error(ErrorKind::value, scale,
                  "is 0, expected a static scale above 0: activations are divided by it; the layer was never "
                  "calibrated, calibrate it with data that reach it");
    layer_.activation_grid = {0, 0};
  }

  void take_bias() {
    // Of a static layer of msModelSlim the bias is in quant_bias already.
    if (!parts_.bias || layer_.bias) return;
    Tensor bias = *parts_.bias;
    if (layer_.cast && bias.is_fp8()) bias = decoded(bias);
    if (!numerics::is_float(bias.dtype))
      throw Error(ErrorKind::dtype, bias, "is {}, expected a bias of F32, F16 or BF16", bias.dtype_name);
    if (bias.shape != std::vector{layer_.n})
      throw Error(ErrorKind::shape, bias, "is {}, expected [{}], one for each row of '{}'", bias.shape_text(),
                  layer_.n, layer_.weight.name);
    layer_.bias = bias;
    layer_.bytes += bias.data.size();
  }

  const LayerParts& parts_;
  const QuantizationConfig& config_;
  const OpenOptions& options_;
  const QuantizationGroup& said_;
  LinearLayer layer_;
};

}  // namespace

void note_stranger(const Tensor& tensor, LayerParts& parts) {
  if (parts.stranger) return;
  parts.stranger = Error(ErrorKind::unsupported, tensor,
                         "belongs to the quantised layer '{}', and what it does to the product is not known here; "
                         "export the checkpoint without it, or say who wrote it in an issue",
                         parts.name);
}

void take_part(const Tensor& tensor, Part part, LayerParts& parts) {
  if (part == Part::zero_point) return parts.zero_points.push_back(tensor);
  const auto slot = std::ranges::find(kSlots, part, &Slot::part);
  if (slot == kSlots.end()) return note_stranger(tensor, parts);
  std::optional<Tensor>& place = parts.*(slot->of);
  if (place && !parts.problem)
    parts.problem = Error(ErrorKind::config, parts.weight, "has two {}, '{}' and '{}'; one of them is wrong",
                          slot->what, place->name, tensor.name);
  place = tensor;
}

std::optional<ScaleGrid> said_grid(const LayerParts& parts) {
  return parts.said().weight_grid ? parts.said().weight_grid : metadata_block(parts.weight, "weight_block");
}

LinearLayer build_layer(const LayerParts& parts, const QuantizationConfig& config, const OpenOptions& options) {
  return LayerBuilder(parts, config, options).build();
}

}  // namespace ironcl::checkpoint
