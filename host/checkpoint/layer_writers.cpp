// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/layer_writers.h"

#include "host/checkpoint/json_input.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

constexpr std::string_view kScaledFp8 = "scaled_fp8";

/// Of a layer that is not read: why not.
QuantizationGroup unread(std::string writer, std::string why) { return {{}, {}, std::move(writer), std::move(why)}; }

/// The first tensor of `prefix` that is this part; nullptr where there is none.
const Tensor* find_part(const TensorIndex& index, std::string_view prefix, Part part) {
  for (const Member& member : index.beside(prefix))
    if (member.part.part == part) return member.tensor;
  return nullptr;
}

/// The member at a JSON pointer; nullptr where a part of it is missing, null or no object.
const json::value* find(const json::value& value, const char* path) {
  boost::system::error_code missing;
  const json::value* found = value.find_pointer(path, missing);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string text_at(const json::value& value, const char* path) {
  const json::value* found = find(value, path);
  return found != nullptr && found->is_string() ? json::value_to<std::string>(*found) : std::string();
}

/// torchao: {"_type": "Float8Tensor", "_data": {"block_size", "act_quant_kwargs", ...}} under the weight's name.
QuantizationGroup read_torchao(const json::value& said) {
  const std::string type = text_at(said, "/_type");
  if (type != "Float8Tensor" && type != "Int8Tensor" && type != "MXTensor")
    return unread("torchao", fmt::format("is a {} of torchao, which is not read, only Float8Tensor, Int8Tensor and "
                                         "MXTensor; convert it with llmcompressor",
                                         type.empty() ? "tensor" : type));
  if (const json::value* found = find(said, "/_data/is_swizzled_scales");
      found != nullptr && *found == json::value(true))
    return unread("torchao",
                  "is an MXTensor of torchao with swizzled scales (is_swizzled_scales), which are not read; quantise "
                  "with MXFP8 of llmcompressor");
  const json::value* data = find(said, "/_data");
  const json::value* activations = find(said, "/_data/act_quant_kwargs");
  if (data == nullptr || !data->is_object() || !data->get_object().contains("act_quant_kwargs") ||
      (activations != nullptr && !activations->is_object()))
    return unread("torchao", "is of torchao, whose metadata of the layer is malformed; fetch the original file");
  if (activations == nullptr) return {{.activations = ActivationScheme::none}, {}, "torchao"};
  QuantizationGroup group{{.activations = ActivationScheme::dynamic}, {}, "torchao"};
  if (text_at(*activations, "/_data/mapping_type/_data") == "ASYMMETRIC")
    group.unsupported = "has asymmetric activations (torchao), which are not read; use act_mapping_type SYMMETRIC";
  if (text_at(*activations, "/_data/float8_dtype/_data") == "float8_e5m2") group.activation_dtype = DType::e5m2;
  if (find(*activations, "/_data/hp_value_lb") != nullptr)
    group.unsupported =
        "has a lower bound of its activations' scales (activation_value_lb of torchao), which is not computed here; "
        "quantise without";
  if (const json::value* most = find(*activations, "/_data/hp_value_ub")) {
    group.activation_limit = most->is_number() ? most->to_number<double>() : 0;
    if (!(*group.activation_limit > 0))
      group.unsupported = fmt::format("has an upper bound of its activations of {} (activation_value_ub of torchao)",
                                      json::serialize(*most));
  }
  const std::string granularity = text_at(*activations, "/_data/granularity/_type");
  if (type == "MXTensor") {
    group.activation_grid = ScaleGrid{1, 32};
    group.activation_rounding = ScaleRounding::power_of_two;
  } else if (granularity == "PerTensor") {
    group.activation_grid = ScaleGrid{0, 0};
  } else if (granularity == "PerBlock") {
    group.activation_grid = std::nullopt;  // as wide as the weight's blocks
  } else {
    group.activation_grid = ScaleGrid{1, 0};
    if (granularity != "PerRow" && granularity != "PerToken")
      group.unsupported =
          fmt::format("has activations of granularity '{}' (torchao), which is not read", granularity);
  }
  return group;
}

/// A member that says yes or no; anything else makes the group unsupported.
bool flag_at(const json::value& said, const char* name, QuantizationGroup& group) {
  const json::value* found = find(said, name);
  if (found != nullptr && !found->is_bool())
    group.unsupported =
        fmt::format("has a comfy_quant whose {} is {}, expected true or false", name + 1, json::serialize(*found));
  return found != nullptr && found->is_bool() && found->get_bool();
}

/// ComfyUI: {"format": "float8_e4m3fn", "group_size"?, "full_precision_matrix_mult"?, "convrot"?}. `scales`: of the
/// layer's weight.
QuantizationGroup read_comfy(const json::value& said, std::int64_t scales) {
  QuantizationGroup group{{}, {}, "comfy_quant"};
  const std::string format = text_at(said, "/format");
  const bool blocks = format == "float8_e4m3fn_blockwise" || format == "int8_blockwise";
  // Of int8 the shape tells, as in ComfyUI.
  const bool rows = format == "float8_e4m3fn_rowwise" || flag_at(said, "/per_row", group) ||
                    (format == "int8_tensorwise" && scales > 1);
  if (!blocks && !rows && format != "float8_e4m3fn" && format != "float8_e5m2" && format != "int8_tensorwise")
    group.unsupported =
        fmt::format("has the format '{}' of ComfyUI, which is not read; convert it to float8_e4m3fn", format);
  if (flag_at(said, "/convrot", group))
    group.unsupported =
        "is rotated (convrot of comfy_quant), which is not computed here; convert it without --convrot";
  if (flag_at(said, "/full_precision_matrix_mult", group)) group.activations = ActivationScheme::none;
  if (rows)
    group.weight_grid = ScaleGrid{1, 0};
  else if (blocks) {
    const json::value* size = find(said, "/group_size");
    if (size != nullptr && size->is_int64() && size->get_int64() > 0)
      group.weight_grid = ScaleGrid{size->get_int64(), size->get_int64()};
    else if (size != nullptr)
      group.unsupported =
          fmt::format("has a comfy_quant whose group_size is {}, expected a size", json::serialize(*size));
  } else {
    group.weight_grid = ScaleGrid{0, 0};
  }
  return group;
}

/// ComfyUI's older form: scale_weight beside the weight, and one tensor "scaled_fp8" for all layers of the model
/// under whose name it stands. Empty where that is not there, or leaves activations to the layer.
std::optional<QuantizationGroup> read_scaled_fp8(const TensorIndex& index, std::string_view prefix) {
  for (std::string_view model = prefix;;) {
    const Tensor* marker = index.folder().find(std::string(model) + std::string(kScaledFp8));
    if (marker != nullptr) {
      if (marker->elements() != 2) return std::nullopt;
      return QuantizationGroup{{.activations = ActivationScheme::none, .input_scale_unused = true}, {}, "ComfyUI"};
    }
    if (model.empty()) return std::nullopt;
    const std::size_t dot = model.size() < 2 ? std::string_view::npos : model.rfind('.', model.size() - 2);
    model = model.substr(0, dot == std::string_view::npos ? 0 : dot + 1);
  }
}

/// quanto stores an input_scale of 1 where activations are not quantised.
QuantizationGroup read_quanto(const std::string& activations, DType weight) {
  if (activations == "none" || activations.empty())
    return {{.activations = ActivationScheme::none, .input_scale_unused = true}, {}, "quanto"};
  QuantizationGroup group{{.activations = ActivationScheme::fixed}, {}, "quanto"};
  if (activations != (weight == DType::i8 ? "qint8" : "qfloat8_e4m3fn"))
    group.unsupported =
        fmt::format("has activations of {} (quanto), which are not read for these weights", activations);
  return group;
}

/// Whether quanto's input_scale is another than the 1 that stands where it means nothing.
bool has_calibrated_input(const TensorIndex& index, std::string_view prefix) {
  const Tensor* found = find_part(index, prefix, Part::input_scale);
  return found != nullptr && found->elements() == 1 && numerics::is_float(found->dtype) && found->number(0) != 1;
}

}  // namespace

LayerWriters::LayerWriters(const TensorIndex& index) : index_(index) {
  const std::filesystem::path& file = index.folder().quanto_map;
  if (file.empty()) return;
  for (const auto& [key, value] : read_object(file)) {
    const json::value* said = find(value, "/activations");
    if (!value.is_object() || (said != nullptr && !said->is_string()))
      throw Error(ErrorKind::config, file, std::string(key), "does not say in a text what its activations are");
    quanto_.emplace(key, text_at(value, "/activations"));
  }
}

/// `layer` may have a prefix more than the file's names ("model.diffusion_model."). Where the file has such metadata
/// and does not name the layer, its `scales` could be of any layout.
std::optional<QuantizationGroup> LayerWriters::comfy_of(const Tensor& weight, std::string_view layer,
                                                        std::int64_t scales) {
  const std::string* text = weight.metadata("_quantization_metadata");
  if (text == nullptr) return std::nullopt;
  auto at = comfy_.find(weight.from);
  if (at == comfy_.end()) {
    const std::string what = "the metadata '_quantization_metadata'";
    const json::value root = parse_json(*text, weight.file(), what);
    const json::value* layers = find(root, "/layers");
    if (layers == nullptr || !layers->is_object())
      throw Error(ErrorKind::config, weight.file(), "", what + " has no object 'layers'");
    at = comfy_.emplace(weight.from, layers->get_object()).first;
  }
  for (std::string_view name = layer;;) {
    if (const json::value* said = at->second.if_contains(name)) return read_comfy(*said, scales);
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos) break;
    name.remove_prefix(dot + 1);
  }
  return unread("comfy_quant",
                "is not named by the file's '_quantization_metadata' (ComfyUI), so the layout of its scales is not "
                "known; add it there, with its format");
}

bool is_scaled_fp8_marker(std::string_view name) noexcept { return name.substr(leaf_of(name)) == kScaledFp8; }

std::optional<QuantizationGroup> LayerWriters::group_beside(std::string_view prefix, const Member& weight) {
  const Tensor& tensor = *weight.tensor;
  if (weight.leaf == "_weight_qdata") {
    if (const std::string* said = tensor.metadata(std::string(prefix) + "weight"))
      return read_torchao(parse_json(*said, tensor.file(), "torchao's metadata"));
    return unread("torchao",
                  "is written by torchao, but the file's metadata does not say how; fetch the original file");
  }
  if (weight.leaf == "weight._data") {
    const auto said = quanto_.find(layer_name(prefix));
    const std::string activations = said == quanto_.end() ? std::string() : said->second;
    if (activations.empty() && has_calibrated_input(index_, prefix))
      return unread("quanto",
                    "has a static scale of its activations, and no quanto_qmap.json says whether they are quantised "
                    "with it; open the folder that quanto wrote");
    return read_quanto(activations, tensor.dtype);
  }
  const Tensor* scale = find_part(index_, prefix, Part::weight_scale);
  const std::int64_t scales = scale == nullptr ? 0 : scale->elements();
  if (const Tensor* comfy = index_.folder().find(std::string(prefix) + "comfy_quant")) {
    const std::string_view text(reinterpret_cast<const char*>(comfy->data.data()), comfy->data.size());
    return read_comfy(parse_json(text, comfy->file(), comfy->name), scales);
  }
  if (auto said = comfy_of(tensor, layer_name(prefix), scales)) return said;
  if (find_part(index_, prefix, Part::row_amax) != nullptr)
    return QuantizationGroup{
        {.weight_grid = ScaleGrid{1, 0}, .activations = ActivationScheme::none}, {}, "bitsandbytes"};
  if (prefix.empty() || index_.folder().find(std::string(prefix) + "scale_weight") == nullptr) return std::nullopt;
  const auto marks = [](const auto& entry) { return is_scaled_fp8_marker(entry.first); };
  if (std::ranges::any_of(index_.folder().tensors, marks)) return read_scaled_fp8(index_, prefix);
  return unread(
      "ComfyUI or Neural Compressor",
      "has a scale_weight, and the file has no 'scaled_fp8': it may be of Intel's Neural Compressor (Gaudi), which "
      "stores weights as [K, N]; take ComfyUI's file with the marker, or export with format=\"vllm\"");
}

}  // namespace ironcl::checkpoint
