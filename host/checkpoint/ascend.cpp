// SPDX-License-Identifier: Apache-2.0
// msModelSlim's types of layers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "host/checkpoint/json_input.h"
#include "host/checkpoint/quantization_config.h"

namespace ironcl::checkpoint {
namespace {

struct Type {
  std::string_view name;
  numerics::DType weight;  ///< i8, or e4m3fn for fp8
  ActivationScheme activations;
  ScaleGrid activation_grid;
  bool mx = false, static_int8 = false, input_scale_unused = false;
};
using numerics::DType;
constexpr ScaleGrid kToken{1, 0};
constexpr std::array kTypes = {
    Type{"W8A8_DYNAMIC", DType::i8, ActivationScheme::dynamic, kToken},
    Type{"W8A16", DType::i8, ActivationScheme::none, {}},
    Type{"WFP8AFP8_DYNAMIC", DType::e4m3fn, ActivationScheme::dynamic, kToken},
    Type{"W8A8_MXFP8", DType::e4m3fn, ActivationScheme::dynamic, {1, 32}, true},
    Type{"W8A8", DType::i8, ActivationScheme::fixed, {0, 0}, false, true},
    // Both sets of scales; the dynamic one is at least as exact.
    Type{"W8A8_MIX", DType::i8, ActivationScheme::dynamic, kToken, false, false, true},
};

void fill(const std::string& name, QuantizationGroup& group) {
  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&name](const Type& one) { return one.name == name; });
  if (type == kTypes.end()) {
    group.unsupported = fmt::format(
        "is of the type {} of msModelSlim, which is not read; export with W8A8_DYNAMIC, W8A16, WFP8AFP8_DYNAMIC, "
        "W8A8_MXFP8 or W8A8",
        name);
    return;
  }
  group.weight_dtype = type->weight;
  group.activations = type->activations;
  if (type->activations != ActivationScheme::none) group.activation_grid = type->activation_grid;
  group.offsets = true;
  group.static_int8 = type->static_int8;
  group.input_scale_unused = type->input_scale_unused;
  if (!type->mx) return;
  group.weight_grid = type->activation_grid;
  group.activation_rounding = ScaleRounding::power_of_two;
}

}  // namespace

QuantizationConfig read_ascend(const std::filesystem::path& description) {
  const boost::json::object root = read_object(description);
  const Members members(root, description, "description");
  QuantizationConfig result;
  result.method = "msmodelslim";
  result.file = description;
  result.writer = "msModelSlim " + members.text("version").value_or("");
  constexpr std::string_view kWeight = ".weight";
  std::map<std::string, std::vector<std::string>> by_type;
  for (const auto& [key, value] : members.all()) {
    const std::string name(key.data(), key.size());
    if (!name.ends_with(kWeight)) continue;
    const std::string type = members.text(name).value_or("");
    if (type != "FLOAT") by_type[type].push_back(name.substr(0, name.size() - kWeight.size()));
  }
  for (auto& [type, layers] : by_type) {
    QuantizationGroup& group = result.groups.emplace_back();
    group.targets = ModuleNames(std::move(layers));
    fill(type, group);
  }
  if (result.groups.empty()) result.method.clear();  // a model of floats
  return result;
}

}  // namespace ironcl::checkpoint
