// SPDX-License-Identifier: Apache-2.0
// What config.json says about quantisation: DeepSeek's and Qwen3's form, and compressed-tensors'.
#include "host/checkpoint/quantization_config.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <charconv>

#include "host/checkpoint/json_input.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

/// Typed access to the members of one object, with errors that name the whole path of a member.
class Members {
 public:
  Members(const json::object& object, const std::filesystem::path& file, std::string where)
      : object_(&object), file_(&file), where_(std::move(where)) {}

  [[noreturn]] void fail(std::string_view name, const std::string& message) const {
    throw Error(ErrorKind::config, *file_, "", fmt::format("{}.{} {}", where_, name, message));
  }

  /// nullptr where the member is missing or null.
  const json::value* find(std::string_view name) const {
    const json::value* value = object_->if_contains(json::string_view(name.data(), name.size()));
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  std::optional<std::string> text(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) fail(name, fmt::format("is {}, expected a string", json::serialize(*value)));
    return json::value_to<std::string>(*value);
  }

  std::vector<std::string> texts(std::string_view name) const {
    std::vector<std::string> result;
    const json::value* value = find(name);
    if (value == nullptr) return result;
    if (!value->is_array()) fail(name, fmt::format("is {}, expected an array of strings", json::serialize(*value)));
    for (const json::value& entry : value->get_array()) {
      if (!entry.is_string()) fail(name, fmt::format("holds {}, expected strings", json::serialize(entry)));
      result.push_back(json::value_to<std::string>(entry));
    }
    return result;
  }

  ModuleNames modules(std::string_view name) const {
    std::vector<std::string> entries = texts(name);
    try {
      return ModuleNames(std::move(entries));
    } catch (const std::runtime_error& error) {
      fail(name, fmt::format("holds a malformed regular expression: {}", error.what()));
    }
  }

  std::optional<std::int64_t> size(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    return size_from(name, *value);
  }

  /// [rows, cols], or "rowsxcols" as older compressed-tensors configs write it.
  std::optional<ScaleGrid> block(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (const json::array* pair = value->if_array(); pair != nullptr && pair->size() == 2)
      return ScaleGrid{size_from(name, (*pair)[0]), size_from(name, (*pair)[1])};
    if (value->is_string())
      if (const auto grid = parse_block(json::value_to<std::string>(*value))) return grid;
    fail(name, fmt::format("is {}, expected two sizes such as [128, 128]", json::serialize(*value)));
  }

  std::optional<Members> object(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) fail(name, fmt::format("is {}, expected an object", json::serialize(*value)));
    return Members(value->get_object(), *file_, fmt::format("{}.{}", where_, name));
  }

  const json::object& all() const noexcept { return *object_; }

 private:
  std::int64_t size_from(std::string_view name, const json::value& value) const {
    constexpr std::int64_t kLargest = 1 << 30;
    const std::int64_t* number = value.if_int64();
    if (number == nullptr || *number < 1 || *number > kLargest)
      fail(name,
           fmt::format("has the size {}, expected a whole number of 1 to {}", json::serialize(value), kLargest));
    return *number;
  }

  const json::object* object_;
  const std::filesystem::path* file_;
  std::string where_;
};

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
  for (const std::string_view name : {"ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules",
                                      "ignore_layers", "ignored_modules", "llm_int8_skip_modules"}) {
    if (config.find(name) == nullptr) continue;
    const ModuleNames more = config.modules(name);
    if (more.entries().empty() && !result.ignored_member.empty()) continue;
    entries.insert(entries.end(), more.entries().begin(), more.entries().end());
    result.ignored_member += (result.ignored_member.empty() ? "" : ", ") + std::string(name);
  }
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
    }
    if (const auto inputs = members->object("input_activations")) {
      const json::value* dynamic = inputs->find("dynamic");
      group.activations = dynamic != nullptr && (dynamic->is_string() || (dynamic->is_bool() && dynamic->get_bool()))
                              ? ActivationScheme::dynamic
                              : ActivationScheme::fixed;
      group.activation_grid = grid_from(*inputs, "input_activations", modelopt, group.unsupported);
    } else {
      group.activations = ActivationScheme::none;
    }
    result.groups.push_back(std::move(group));
  }
}

/// modelopt's algorithm, where nothing says more: what its name means.
void read_algorithm(const Members& config, QuantizationConfig& result) {
  const std::optional<std::string> algorithm = config.text("quant_algo");
  if (!algorithm || !result.groups.empty()) return;
  QuantizationGroup& group = result.groups.emplace_back();
  group.targets = ModuleNames({"Linear"});
  if (*algorithm == "FP8") {
    group.weight_grid = ScaleGrid{0, 0};
    group.activations = ActivationScheme::fixed;
  } else if (*algorithm == "FP8_PER_CHANNEL_PER_TOKEN") {
    group.weight_grid = group.activation_grid = ScaleGrid{1, 0};
    group.activations = ActivationScheme::dynamic;
  } else if (*algorithm == "FP8_PB_WO") {
    group.activations = ActivationScheme::none;
  } else {
    group.unsupported = fmt::format(
        "quant_algo {} of modelopt is not read, only FP8, FP8_PER_CHANNEL_PER_TOKEN and "
        "FP8_PB_WO; quantise with one of them",
        *algorithm);
  }
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
  auto config = model.object("quantization_config");
  if (!config) config = model.object("compression_config");
  if (!config) return result;
  result.method = config->text("quant_method").value_or("unnamed");
  if (result.method == "fp8")
    read_fp8(*config, result);
  else if (result.method == "compressed-tensors" || result.method == "modelopt")
    read_groups(*config, result);
  if (result.method == "modelopt") read_algorithm(*config, result);
  read_ignored(*config, result);
  return result;
}

QuantizationConfig read_modelopt_config(const std::filesystem::path& hf_quant_config) {
  const json::value root = read_json(hf_quant_config);
  if (!root.is_object()) throw Error(ErrorKind::config, hf_quant_config, "", "is not a JSON object");
  QuantizationConfig result;
  const auto config = Members(root.get_object(), hf_quant_config, "config").object("quantization");
  if (!config || config->find("quant_algo") == nullptr) return result;
  result.method = "modelopt";
  read_algorithm(*config, result);
  read_ignored(*config, result);
  return result;
}

}  // namespace ironcl::checkpoint
