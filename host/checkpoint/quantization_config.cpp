// SPDX-License-Identifier: Apache-2.0
// What config.json says about quantisation: DeepSeek's and Qwen3's form, and compressed-tensors'.
#include "host/checkpoint/quantization_config.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <charconv>

#include "host/checkpoint/json_input.h"
#include "host/checkpoint/json_members.h"
#include "host/checkpoint/writer_configs.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

ActivationScheme scheme_from(const Members& members, std::string_view name, const std::string& text) {
  if (text == "dynamic") return ActivationScheme::dynamic;
  if (text == "static") return ActivationScheme::fixed;
  members.fail(name, fmt::format("is '{}', expected dynamic or static", text));
}

/// DeepSeek, Qwen3 and what transformers writes as FineGrainedFP8.
void read_fp8(const Members& config, QuantizationConfig& result) {
  QuantizationGroup group;
  group.targets = ModuleNames({"Linear"});
  group.weight_grid = config.block("weight_block_size");
  if (const auto scheme = config.text("activation_scheme"))
    group.activations = scheme_from(config, "activation_scheme", *scheme);
  if (group.weight_grid && group.activations != ActivationScheme::fixed)
    group.activation_grid = ScaleGrid{1, group.weight_grid->group_cols};
  if (result.method == "mxfp8" && !group.weight_grid) group.weight_grid = ScaleGrid{1, 32};
  if (const auto format = config.text("scale_fmt")) {
    if (*format == "ue8m0")
      group.activation_rounding = ScaleRounding::power_of_two;
    else if (*format != "float")
      config.fail("scale_fmt", fmt::format("is '{}', expected ue8m0 or float", *format));
  }
  result.groups.push_back(std::move(group));
}

/// The modules that stay as they are, under whichever of its names the list has.
void read_ignored(const Members& config, QuantizationConfig& result) {
  std::vector<std::string> entries;
  std::vector<std::string_view> members;
  for (const std::string_view name : {"ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules",
                                      "ignore_layers", "ignored_modules", "exclude", "llm_int8_skip_modules"}) {
    if (config.find(name) == nullptr) continue;
    const ModuleNames more = config.modules(name);
    if (more.entries().empty() && !members.empty()) continue;
    entries.insert(entries.end(), more.entries().begin(), more.entries().end());
    members.push_back(name);
  }
  result.ignored_member = fmt::format("{}", fmt::join(members, ", "));
  result.ignored = ModuleNames(std::move(entries));
}

/// The grid of compressed-tensors' {strategy, group_size, block_structure}. Empty, with `unsupported` filled, where
/// IronCL has no such grid. For activations a "token" is a row.
std::optional<ScaleGrid> grid_from(const Members& scheme, std::string_view of, bool modelopt,
                                   std::string& unsupported) {
  if (modelopt && scheme.find("strategy") == nullptr) return std::nullopt;
  const std::string strategy = scheme.text("strategy").value_or("tensor");
  if (strategy == "tensor") return ScaleGrid{0, 0};
  if (strategy == "channel" || strategy == "token") return ScaleGrid{1, 0};
  if (strategy == "group") {
    if (const auto size = scheme.size("group_size")) return ScaleGrid{1, *size};
    scheme.fail("group_size", "is missing, strategy 'group' needs it");
  }
  if (strategy == "block") {
    if (const auto grid = scheme.block("block_structure")) return grid;
    scheme.fail("block_structure", "is missing, strategy 'block' needs it");
  }
  unsupported = fmt::format("strategy '{}' of {} is not one of tensor, channel, token, group, block", strategy, of);
  return std::nullopt;
}

/// compressed-tensors, and modelopt, whose groups lack a strategy: there the shapes of the scales decide.
void read_groups(const Members& config, QuantizationConfig& result) {
  const bool modelopt = result.method == "modelopt";
  const auto groups = config.object("config_groups");
  if (!groups) return;
  const auto transform = config.object("transform_config");
  const auto rotations = transform ? transform->object("config_groups") : std::nullopt;
  const bool rotated = rotations && !rotations->all().empty();
  for (const auto& [key, value] : groups->all()) {
    const std::string name(key.data(), key.size());
    const auto members = groups->object(name);
    if (!members) continue;
    QuantizationGroup group;
    group.targets = members->modules("targets");
    if (const auto weights = members->object("weights")) {
      group.weight_grid = grid_from(*weights, "weights", modelopt, group.unsupported);
      if (const auto bits = weights->size("num_bits"); bits && *bits != 8)
        group.unsupported = fmt::format("weights of {} bits (num_bits) are not read, only of 8", *bits);
      if (weights->find("actorder") != nullptr)
        group.unsupported = "weights with an actorder are not read: their columns are reordered";
    }
    if (const auto inputs = members->object("input_activations")) {
      const json::value* dynamic = inputs->find("dynamic");
      group.activations = dynamic != nullptr && (dynamic->is_string() || (dynamic->is_bool() && dynamic->get_bool()))
                              ? ActivationScheme::dynamic
                              : ActivationScheme::fixed;
      group.activation_grid = grid_from(*inputs, "input_activations", modelopt, group.unsupported);
      if (const auto type = inputs->text("type"); type == "int" || type == "float")
        group.activation_dtype = type == "int" ? numerics::DType::i8 : numerics::DType::e4m3fn;
      if (const auto bits = inputs->size("num_bits"); bits && *bits != 8 && group.unsupported.empty())
        group.unsupported = fmt::format("activations of {} bits (num_bits) are not read, only of 8 or none", *bits);
      if (inputs->flag("symmetric") == false)
        group.unsupported = "asymmetric activations are not read; quantise with symmetric: true";
      if (inputs->text("scale_dtype") == "torch.uint8") group.activation_rounding = ScaleRounding::power_of_two;
    } else {
      group.activations = ActivationScheme::none;
    }
    if (rotated)
      group.unsupported =
          "has a transform_config (rotations of activations), which is not computed here; quantise without";
    result.groups.push_back(std::move(group));
  }
}

/// The tool that wrote a config, with its version.
std::string writer_of(const Members& config, const std::string& method) {
  if (const auto producer = config.object("producer")) {
    const std::string version = producer->text("version").value_or("");
    return producer->text("name").value_or(method) + (version.empty() ? "" : " " + version);
  }
  if (method == "fp8") return config.find("scale_fmt") != nullptr ? "transformers or DeepSeek" : "";
  return method + (config.find("version") != nullptr && config.find("version")->is_string()
                       ? " " + config.text("version").value_or("")
                       : "");
}

std::optional<Members> quantization_of(const Members& model) {
  auto config = model.object("quantization_config");
  return config ? config : model.object("compression_config");
}

void read_method(const Members& config, QuantizationConfig& result) {
  const std::string& method = result.method;
  result.writer = writer_of(config, method);
  if (method == "fp8" || method == "mxfp8") {
    read_fp8(config, result);
  } else if (method == "compressed-tensors") {
    read_groups(config, result);
  } else if (method == "modelopt") {
    read_groups(config, result);
    read_modelopt_algorithm(config, result);
  } else if (method == "fbgemm_fp8") {
    read_fbgemm(config, result);
  } else if (method == "quark") {
    read_quark(config, result);
  } else if (method != "torchao" && method != "quanto") {  // theirs is beside the layers
    refuse_method(result);
  }
  read_ignored(config, result);
}

}  // namespace

std::string_view name_of(ActivationScheme scheme) noexcept {
  switch (scheme) {
    case ActivationScheme::none:
      return "none";
    case ActivationScheme::dynamic:
      return "dynamic";
    case ActivationScheme::fixed:
      return "static";
  }
  return "unknown";
}

const QuantizationGroup* QuantizationConfig::group_of(std::string_view layer) const {
  for (const QuantizationGroup& group : groups)
    if (group.targets.has(layer)) return &group;
  for (const QuantizationGroup& group : groups)
    if (group.targets.find(layer) != nullptr) return &group;
  for (const QuantizationGroup& group : groups)
    if (group.targets.has("Linear")) return &group;
  return nullptr;
}

std::optional<ScaleGrid> parse_block(std::string_view text) noexcept {
  const auto take = [&text](std::int64_t& size) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 1 || size > (1 << 30)) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  };
  ScaleGrid grid;
  if (!take(grid.group_rows)) return std::nullopt;
  if (text.empty()) return ScaleGrid{grid.group_rows, grid.group_rows};
  if (text.front() != 'x' && text.front() != ',') return std::nullopt;
  text.remove_prefix(1);
  if (!take(grid.group_cols) || !text.empty()) return std::nullopt;
  return grid;
}

QuantizationConfig read_quantization_config(const std::filesystem::path& config_json) {
  const json::value root = read_json(config_json);
  if (!root.is_object()) throw Error(ErrorKind::config, config_json, "", "is not a JSON object");
  const Members model(root.get_object(), config_json, "config");
  QuantizationConfig result;
  auto config = quantization_of(model);
  // Of a multi-modal model it may be in its text_config.
  const json::value* text = model.find("text_config");
  if (!config && text != nullptr && text->is_object())
    config = quantization_of(Members(text->get_object(), config_json, "config.text_config"));
  if (!config) return result;
  result.method = config->text("quant_method").value_or("unnamed");
  read_method(*config, result);
  return result;
}

QuantizationConfig read_modelopt_config(const std::filesystem::path& hf_quant_config) {
  const json::value root = read_json(hf_quant_config);
  if (!root.is_object()) throw Error(ErrorKind::config, hf_quant_config, "", "is not a JSON object");
  QuantizationConfig result;
  const auto config = Members(root.get_object(), hf_quant_config, "config").object("quantization");
  if (!config || config->find("quant_algo") == nullptr) return result;
  result.method = "modelopt";
  result.writer = "modelopt";
  read_modelopt_algorithm(*config, result);
  read_ignored(*config, result);
  return result;
}

}  // namespace ironcl::checkpoint
