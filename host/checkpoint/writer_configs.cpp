// SPDX-License-Identifier: Apache-2.0
// quantization_config of tools that have a form of their own.
#include "host/checkpoint/writer_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace ironcl::checkpoint {
namespace {

QuantizationGroup& linear_group(QuantizationConfig& result) {
  QuantizationGroup& group = result.groups.emplace_back();
  group.targets = ModuleNames({"Linear"});
  return group;
}

/// The grid of quark's {qscheme, group_size}; empty, with `unsupported` filled, where there is no such grid.
std::optional<ScaleGrid> quark_grid(const Members& scheme, std::string& unsupported) {
  const std::string name = scheme.text("qscheme").value_or("per_tensor");
  if (name == "per_tensor") return ScaleGrid{0, 0};
  if (name == "per_channel" || name == "per_token") return ScaleGrid{1, 0};
  if (name == "per_group")
    if (const auto size = scheme.size("group_size")) return ScaleGrid{1, *size};
  unsupported = fmt::format("qscheme '{}' of quark is not read, only per_tensor, per_channel and per_group", name);
  return std::nullopt;
}

/// What quark calls the types of codes.
constexpr std::array<std::pair<std::string_view, numerics::DType>, 3> kQuarkTypes = {
    {{"fp8_e4m3", numerics::DType::e4m3fn}, {"fp8_e5m2", numerics::DType::e5m2}, {"int8", numerics::DType::i8}}};

std::optional<numerics::DType> quark_type(const Members& scheme) {
  const std::string name = scheme.text("dtype").value_or("");
  for (const auto& [known, type] : kQuarkTypes)
    if (known == name) return type;
  return std::nullopt;
}

/// quark writes one tensor's scheme, or a list of them where it quantises twice.
std::optional<Members> quark_scheme(const Members& config, std::string_view name, std::string& unsupported) {
  const boost::json::value* value = config.find(name);
  if (value != nullptr && value->is_array()) {
    unsupported = fmt::format("{} of quark has several stages, which is not read", name);
    return std::nullopt;
  }
  auto scheme = config.object(name);
  if (!scheme) return std::nullopt;
  if (!quark_type(*scheme))
    unsupported = fmt::format("dtype '{}' of quark's {} is not read, only fp8_e4m3, fp8_e5m2 and int8",
                              scheme->text("dtype").value_or(""), name);
  return scheme;
}

}  // namespace

void read_modelopt_algorithm(const Members& config, QuantizationConfig& result) {
  const std::optional<std::string> written = config.text("quant_algo");
  if (!written || !result.groups.empty()) return;
  std::string algorithm = *written;  // fp8_pb_wo is written in small letters
  std::transform(algorithm.begin(), algorithm.end(), algorithm.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  QuantizationGroup& group = linear_group(result);
  if (algorithm == "FP8" || algorithm == "W8A8_SQ_PER_CHANNEL") {
    group.activations = ActivationScheme::fixed;  // the weight's grid follows from its scale
  } else if (algorithm == "FP8_PER_CHANNEL_PER_TOKEN") {
    group.weight_grid = group.activation_grid = ScaleGrid{1, 0};
    group.activations = ActivationScheme::dynamic;
  } else if (algorithm == "FP8_PB_WO") {
    group.activations = ActivationScheme::none;
  } else if (algorithm == "MXFP8") {
    group.weight_grid = group.activation_grid = ScaleGrid{1, 32};
    group.activations = ActivationScheme::dynamic;
    group.activation_rounding = ScaleRounding::power_of_two;
  } else {
    group.unsupported = fmt::format(
        "is quantised with {} of modelopt, which is not read; quantise with FP8, MXFP8, FP8_PER_CHANNEL_PER_TOKEN or "
        "FP8_PB_WO",
        *written);
  }
}

void read_fbgemm(const Members& config, QuantizationConfig& result) {
  QuantizationGroup& group = linear_group(result);
  group.weight_grid = group.activation_grid = ScaleGrid{1, 0};
  group.activations = ActivationScheme::dynamic;
  group.activation_limit = config.number("activation_scale_ub");
}

void read_quark(const Members& config, QuantizationConfig& result) {
  QuantizationGroup& group = linear_group(result);
  for (const char* member : {"layer_quant_config", "layer_type_quant_config"})
    if (const auto layers = config.object(member); layers && !layers->all().empty())
      group.unsupported =
          fmt::format("is written by quark with a {}, which is not read; quantise all layers alike", member);
  const auto global = config.object("global_quant_config");
  if (!global) {
    group.unsupported = "is written by quark without a global_quant_config, which is not read";
    return;
  }
  if (const auto weight = quark_scheme(*global, "weight", group.unsupported))
    group.weight_grid = quark_grid(*weight, group.unsupported);
  const auto inputs = quark_scheme(*global, "input_tensors", group.unsupported);
  group.activations = ActivationScheme::none;
  if (!inputs) return;
  group.activation_grid = quark_grid(*inputs, group.unsupported);
  group.activation_dtype = quark_type(*inputs);
  if (inputs->flag("symmetric") == false)
    group.unsupported = "asymmetric activations (input_tensors of quark) are not read; quantise with symmetric: true";
  group.activations =
      inputs->flag("is_dynamic").value_or(false) ? ActivationScheme::dynamic : ActivationScheme::fixed;
}

void refuse_method(QuantizationConfig& result) {
  linear_group(result).unsupported = fmt::format(
      "is written with quant_method '{}', which is not read; convert it with llmcompressor (FP8)", result.method);
}

}  // namespace ironcl::checkpoint
