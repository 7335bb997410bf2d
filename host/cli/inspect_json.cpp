// SPDX-License-Identifier: Apache-2.0
// A checkpoint as JSON.
#include <string>

#include "host/cli/inspect_report.h"
#include "host/report/json.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using checkpoint::ExpertsLayer;
using checkpoint::LinearLayer;
using report::or_null;

json::value grid_json(bool known, numerics::ScaleGrid grid) {
  return or_null(known && grid.group_rows != 0 && grid.group_cols != 0,
                 json::array{grid.group_rows, grid.group_cols});
}

json::value type_json(numerics::DType type) {
  return type == numerics::DType::none ? json::value(nullptr) : json::value(numerics::name_of(type));
}

json::value size_json(std::int64_t size) { return or_null(size > 0, size); }

json::value problem_json(const std::optional<checkpoint::Error>& problem) {
  if (!problem) return nullptr;
  return json::object{{"kind", name_of(problem->kind())}, {"message", problem->what()}};
}

json::object to_json(const LinearLayer& layer) {
  const bool quantized = layer.activations_known && layer.activations != checkpoint::ActivationScheme::none;
  return {{"name", layer.name},
          {"n", size_json(layer.n)},
          {"k", size_json(layer.k)},
          {"dtype", type_json(layer.weight.dtype)},
          {"format", or_null(layer.format())},
          {"writer", or_null(layer.writer)},
          {"scales", or_null(weight_scales_text(layer))},
          {"block", grid_json(layer.weight_grid_known, layer.weight_grid)},
          {"block_source", or_null(layer.weight_grid_known, name_of(layer.block_source))},
          {"scale", or_null(layer.scale.name)},
          {"scale_dtype", type_json(layer.scale.dtype)},
          {"activations", or_null(layer.activations_known, name_of(layer.activations))},
          {"activation_scales", or_null(activation_scales_text(layer))},
          {"activation_group", grid_json(quantized, layer.activation_grid)},
          {"input_scale", or_null(layer.input_scale ? layer.input_scale->name : "")},
          {"bias", layer.bias.has_value()},
          {"expert", or_null(layer.expert.has_value(), layer.expert.value_or(0))},
          {"bytes", layer.bytes},
          {"file", or_null(layer.weight_file.filename().string())},
          {"scale_file", or_null(layer.scale_file.filename().string())},
          {"problem", problem_json(layer.problem)}};
}

json::object to_json(const checkpoint::Checkpoint& checkpoint, const ExpertsLayer& layer) {
  const checkpoint::Routing& routing = layer.routing;
  const bool known = routing.top_k > 0;
  json::array matrices;
  for (const auto* role : {&layer.experts.gate_up, &layer.experts.gate, &layer.experts.up, &layer.experts.down})
    for (const std::size_t index : *role) matrices.push_back(json::value(checkpoint.layers()[index].name));
  return {{"name", layer.name},
          {"model_type", or_null(routing.model_type)},
          {"experts", size_json(routing.experts)},
          {"top_k", size_json(routing.top_k)},
          {"hidden", size_json(layer.hidden)},
          {"width", size_json(layer.width)},
          {"score", or_null(known, name_of(routing.score))},
          {"correction_bias", layer.correction_bias.has_value()},
          {"expert_groups", or_null(known, routing.expert_groups)},
          {"top_groups", or_null(known, routing.top_groups)},
          {"normalize", or_null(known, routing.normalize)},
          {"scale", or_null(known, routing.scale)},
          {"shared_width", size_json(layer.shared_width)},
          {"shared_gate", layer.shared_gate.has_value()},
          {"matrices", std::move(matrices)},
          {"bytes", layer.bytes},
          {"problem", problem_json(layer.problem)}};
}

json::object to_json(const checkpoint::Unquantized& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype_name},
          {"shape", json::value_from(tensor.shape)},
          {"bytes", tensor.bytes},
          {"file", tensor.file.filename().string()},
          {"why", tensor.why}};
}

}  // namespace

json::object inspect_json(const checkpoint::Checkpoint& checkpoint) {
  json::array files, layers, experts, unquantized;
  for (const checkpoint::SafetensorsFile& file : checkpoint.files())
    files.push_back({{"name", file.path().filename().string()}, {"bytes", file.file_size()}});
  for (const LinearLayer& layer : checkpoint.layers()) layers.push_back(to_json(layer));
  for (const ExpertsLayer& layer : checkpoint.experts()) experts.push_back(to_json(checkpoint, layer));
  for (const checkpoint::Unquantized& tensor : checkpoint.unquantized()) unquantized.push_back(to_json(tensor));
  return {{"path", checkpoint.path().string()},
          {"quant_method", or_null(checkpoint.config().method)},
          {"writer", or_null(checkpoint.config().writer)},
          {"files", std::move(files)},
          {"layers", std::move(layers)},
          {"experts", std::move(experts)},
          {"unquantized", std::move(unquantized)}};
}

}  // namespace ironcl::cli
