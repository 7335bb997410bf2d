// SPDX-License-Identifier: Apache-2.0
// config_groups of compressed-tensors and modelopt.

#include "host/checkpoint/json_input.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

/// compressed-tensors' {num_bits, type} of weights or activations, as the type of their codes. `unsupported` where it
/// is not read.
std::optional<numerics::DType> codes_of(const Members& scheme, std::string_view of, std::string& unsupported) {
  const std::string type = scheme.text("type").value_or("");
  const std::int64_t bits = scheme.size("num_bits").value_or(8);
  const std::int64_t group = scheme.size("group_size").value_or(0);
  if (bits == 4 && type == "float" && (group == 16 || group == 32)) return numerics::DType::e2m1;
  if (bits != 8) {
    unsupported = fmt::format(
        "has {} of {} bits (num_bits), which are not read, only of 8, and of 4 as MXFP4 or NVFP4 have them; quantise "
        "to FP8",
        of, bits);
    return std::nullopt;
  }
  if (type.empty()) return std::nullopt;
  if (type != "int" && type != "float") scheme.fail("type", "is '{}', expected int or float", type);
  return type == "int" ? numerics::DType::i8 : numerics::DType::e4m3fn;
}

/// Whether scales of activations are powers of two.
ScaleRounding rounding_of(const Members& scheme) {
  const auto type = scheme.text("scale_dtype");
  if (type == "torch.uint8") return ScaleRounding::power_of_two;
  for (const char* plain : {"torch.float32", "torch.float16", "torch.bfloat16", "torch.float8_e4m3fn"})
    if (type == plain) return ScaleRounding::exact;
  if (type) scheme.fail("scale_dtype", "is '{}', which is not a known type of scales", *type);
  return ScaleRounding::exact;
}

/// Scales of activations that are computed as they come, or given ("local": NVFP4's, of both kinds).
bool is_dynamic(const Members& scheme) {
  const json::value* dynamic = scheme.find("dynamic");
  if (dynamic == nullptr) return false;
  if (dynamic->is_bool()) return dynamic->get_bool();
  if (dynamic->is_string() && dynamic->get_string() == "local") return true;
  scheme.fail("dynamic", "is {}, expected true, false or \"local\"", json::serialize(*dynamic));
}

/// The grid of compressed-tensors' {strategy, group_size, block_structure}. Empty, with `unsupported` filled, where
/// IronCL has no such grid. For activations a "token" is a row.
std::optional<ScaleGrid> grid_from(const Members& scheme, std::string_view of, bool modelopt,
                                   std::string& unsupported) {
  if (modelopt && scheme.find("strategy") == nullptr) return std::nullopt;
  const std::string strategy = scheme.text("strategy").value_or("tensor");
  if (strategy == "tensor") return ScaleGrid{0, 0};
  if (strategy == "channel" || strategy == "token") return ScaleGrid{1, 0};
  if (strategy == "group" || strategy == "tensor_group") {
    if (const auto size = scheme.size("group_size")) return ScaleGrid{1, *size};
    scheme.fail("group_size", "is missing, strategy '{}' needs it", strategy);
  }
  if (strategy == "block") {
    if (const auto grid = scheme.block("block_structure")) return grid;
    scheme.fail("block_structure", "is missing, strategy 'block' needs it");
  }
  unsupported = fmt::format("strategy '{}' of {} is not one of tensor, channel, token, group, block", strategy, of);
  return std::nullopt;
}

}  // namespace

void read_groups(const Members& config, QuantizationConfig& result) {
  const bool modelopt = result.method == "modelopt";
  const auto groups = config.object("config_groups");
  if (!groups || groups->all().empty()) {
    if (!modelopt) result.refuse("is of compressed-tensors without config_groups, which do not say how");
    return;
  }
  const auto transform = config.object("transform_config");
  const auto rotations = transform ? transform->object("config_groups") : std::nullopt;
  const bool rotated = rotations && !rotations->all().empty();
  for (const auto& [key, value] : groups->all()) {
    const auto members = groups->object(key);
    if (!members) continue;
    QuantizationGroup group;
    group.targets = members->modules("targets");
    if (const auto weights = members->object("weights")) {
      group.weight_grid = grid_from(*weights, "weights", modelopt, group.unsupported);
      group.weight_dtype = codes_of(*weights, "weights", group.unsupported);
      group.asymmetric = weights->flag("symmetric") == false;
      if (weights->find("actorder") != nullptr)
        group.unsupported = "weights with an actorder are not read: their columns are reordered";
    }
    if (const auto inputs = members->object("input_activations")) {
      group.activations = is_dynamic(*inputs) ? ActivationScheme::dynamic : ActivationScheme::fixed;
      std::string unsupported;
      group.activation_grid = grid_from(*inputs, "input_activations", modelopt, unsupported);
      group.activation_dtype = codes_of(*inputs, "activations", unsupported);
      if (inputs->flag("symmetric") == false)
        unsupported = "asymmetric activations are not read; quantise with symmetric: true";
      group.activation_rounding = rounding_of(*inputs);
      const bool fp4 = group.weight_dtype == numerics::DType::e2m1;
      if (fp4 && inputs->find("num_bits") == nullptr)
        unsupported = "has fp4 weights and activations of which num_bits does not say whether they are of 4 or of 8";
      if (fp4 && group.activation_dtype == numerics::DType::e2m1) group.leave_activations();
      if (group.unsupported.empty()) group.unsupported = unsupported;
    } else {
      group.activations = ActivationScheme::none;
    }
    if (members->find("output_activations") != nullptr)
      group.unsupported =
          "has output_activations: its product is quantised, which is not computed here; quantise without";
    if (rotated)
      group.unsupported =
          "has a transform_config (rotations of activations), which is not computed here; quantise without";
    result.groups.push_back(std::move(group));
  }
}

}  // namespace ironcl::checkpoint
