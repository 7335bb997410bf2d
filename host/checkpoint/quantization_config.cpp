// SPDX-License-Identifier: Apache-2.0
// What config.json says about quantisation: the two common forms, and which method is whose.
#include "host/checkpoint/quantization_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>

#include "host/checkpoint/json_input.h"
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

void read_modelopt(const Members& config, QuantizationConfig& result) {
  if (read_quantized_layers(config, result)) return;
  result.mixed = config.text("quant_algo") == "MIXED_PRECISION";
  read_groups(config, result);
  read_modelopt_algorithm(config, result);
}

/// What a tool says beside its layers: layer_writers.h.
void read_elsewhere(const Members&, QuantizationConfig&) {}

/// Which methods are read, and by whom. All others are refused by name (writer_configs.h).
struct Method {
  std::string_view name;
  void (*read)(const Members& config, QuantizationConfig& result);
};
constexpr std::array kMethods = {
    Method{"fp8", read_fp8},
    Method{"mxfp8", read_fp8},
    Method{"compressed-tensors", read_groups},
    Method{"modelopt", read_modelopt},
    Method{"fbgemm_fp8", read_fbgemm},
    Method{"quark", read_quark},
    Method{"mxfp4", read_mxfp4},
    Method{"torchao", read_elsewhere},
    Method{"quanto", read_elsewhere},
    Method{"w8a8_int8", read_per_channel},
    Method{"w8a8_fp8", read_per_channel},
    Method{"smooth_quant", read_per_channel},
    Method{"blockwise_int8", read_block_int8},
    Method{"bitsandbytes", read_bitsandbytes},
};

void read_method(const Members& config, QuantizationConfig& result) {
  result.writer = writer_of(config, result.method);
  const auto known = std::find_if(kMethods.begin(), kMethods.end(),
                                  [&result](const Method& one) { return one.name == result.method; });
  if (known == kMethods.end()) return refuse_method(result);
  known->read(config, result);
  read_ignored(config, result);
}

/// A config without a quant_method: whose it is shows in its members.
std::string unnamed_method(const Members& config) {
  if (config.find("bits") != nullptr && config.find("group_size") != nullptr) return "mlx";
  if (config.find("quant_algo") != nullptr) return "tensorrt-llm";
  if (config.find("mode") != nullptr || config.find("fp8_config") != nullptr) return "inc";
  return "unnamed";
}

QuantizationConfig read_members(const Members& config) {
  QuantizationConfig result;
  result.method = config.text("quant_method").value_or(unnamed_method(config));
  read_method(config, result);
  return result;
}

}  // namespace

std::string_view name_of(ActivationScheme scheme) noexcept {
  return scheme == ActivationScheme::none ? "none" : scheme == ActivationScheme::dynamic ? "dynamic" : "static";
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
  const json::object root = read_object(config_json);
  const Members model(root, config_json, "config");
  QuantizationConfig result;
  auto config = quantization_of(model);
  // Of a multi-modal model it may be in its text_config; MLX and TensorRT-LLM have a member of their own.
  const json::value* text = model.find("text_config");
  if (!config && text != nullptr && text->is_object())
    config = quantization_of(Members(text->get_object(), config_json, "config.text_config"));
  const json::value* own = model.find("quantization");
  if (!config && own != nullptr && own->is_object()) config = model.object("quantization");
  if (!config) return result;
  result = read_members(*config);
  result.file = config_json;
  return result;
}

QuantizationConfig read_own_config(const std::filesystem::path& file) {
  const json::object root = read_object(file);
  const Members config(root, file, "config");
  QuantizationConfig result;
  result.method =
      config.text("quant_method").value_or(file.filename() == "quantize_config.json" ? "gptq" : "unnamed");
  read_method(config, result);
  result.file = file;
  return result;
}

QuantizationConfig read_modelopt_config(const std::filesystem::path& hf_quant_config) {
  const json::object root = read_object(hf_quant_config);
  QuantizationConfig result;
  const auto config = Members(root, hf_quant_config, "config").object("quantization");
  if (!config) return result;
  if (!config->all().contains("quant_algo")) config->fail("quant_algo", "is missing; fetch the file again");
  if (config->find("quant_algo") == nullptr) return result;
  result.method = "modelopt";
  result.writer = "modelopt";
  result.file = hf_quant_config;
  if (!read_quantized_layers(*config, result)) read_modelopt_algorithm(*config, result);
  read_ignored(*config, result);
  return result;
}

QuantizationConfig read_params(const std::filesystem::path& params_json) {
  const json::object root = read_object(params_json);
  const Members model(root, params_json, "params");
  QuantizationConfig result;
  const auto said = model.object("quantization");
  if (!said) return result;
  const Members& config = *said;
  if (config.find("quant_method") != nullptr) {
    result = read_members(config);
  } else {
    result.method = result.writer = "mistral";
    read_mistral(config, result);
  }
  result.file = params_json;
  return result;
}

}  // namespace ironcl::checkpoint
