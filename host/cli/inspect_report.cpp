// SPDX-License-Identifier: Apache-2.0
// A checkpoint as ironcl inspect shows it.
#include "host/cli/inspect_report.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <map>
#include <tuple>

#include "host/checkpoint/block.h"
#include "host/cli/inspect_experts.h"
#include "host/layer/selection.h"
#include "host/report/render.h"
#include "host/report/table.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using checkpoint::ActivationScheme;
using checkpoint::Checkpoint;
using checkpoint::LinearLayer;
using checkpoint::Unquantized;
using report::Cell;
using report::Kind;

constexpr const char* kLegend =
    "block: elements of a weight that share a scale (per tensor: all of them, per channel: a row of N).\n"
    "activations: dynamic, scaled as they come, or static, by a scale of the file; per token: a row of M.\n"
    "-: not known, as the layer cannot be used.\n";

Cell known(std::string text) { return text.empty() ? Cell() : Cell(std::move(text)); }
Cell size_cell(std::int64_t size) { return size > 0 ? Cell(size) : Cell(); }

std::string block_text(const LinearLayer& layer) {
  return layer.weight_grid_known ? checkpoint::grid_text(layer.weight_grid) : std::string();
}

/// "per token" where a weight's rows are channels.
std::string activation_grid_text(numerics::ScaleGrid grid) {
  return grid == numerics::ScaleGrid{1, 0} ? "per token" : checkpoint::grid_text(grid);
}

std::string activation_text(const LinearLayer& layer) {
  if (!layer.activations_known) return {};
  if (layer.activations == ActivationScheme::none) return "none";
  return fmt::format("{} {}", name_of(layer.activations), activation_grid_text(layer.activation_grid));
}

std::string format_text(const LinearLayer& layer) {
  const std::string format = layer.format();
  return format.empty() ? std::string(layer.weight.dtype_name) : format;
}

std::string scale_type_text(const LinearLayer& layer) {
  return layer.scale.dtype == numerics::DType::none ? std::string(layer.scale.dtype_name)
                                                    : std::string(numerics::name_of(layer.scale.dtype));
}

/// The columns that every layer has, after its name.
std::vector<report::Column> layer_columns() {
  return {{"n", "N", Kind::integer},
          {"k", "K", Kind::integer},
          {"format", "format", Kind::text},
          {"block", "block", Kind::text},
          {"scale_dtype", "scales", Kind::text},
          {"activations", "activations", Kind::text},
          {"bias", "bias", Kind::text},
          {"bytes", "bytes", Kind::bytes},
          {"usable", "usable", Kind::text}};
}

std::vector<Cell> layer_cells(const LinearLayer& layer, double bytes) {
  return {size_cell(layer.n),
          size_cell(layer.k),
          known(format_text(layer)),
          known(block_text(layer)),
          known(scale_type_text(layer)),
          known(activation_text(layer)),
          std::string(layer.bias ? "yes" : "no"),
          bytes,
          std::string(layer.problem ? "no" : "yes")};
}

std::string layers_text(const Checkpoint& checkpoint, std::size_t width) {
  const std::unordered_set<std::size_t> of_experts = matrices_of_experts(checkpoint);
  const std::vector<LinearLayer>& layers = checkpoint.layers();
  if (of_experts.size() == layers.size()) return {};
  std::vector<report::Column> columns = layer_columns();
  columns.insert(columns.begin(), {"name", "layer", Kind::text});
  report::Table table(std::move(columns));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (of_experts.contains(i)) continue;
    std::vector<Cell> row = layer_cells(layers[i], static_cast<double>(layers[i].bytes));
    row.insert(row.begin(), layers[i].name);
    table.add(std::move(row));
  }
  return report::to_text(table, width) + "\n" + kLegend + "\n";
}

std::string shape_text(const Unquantized& tensor) { return json::serialize(json::value_from(tensor.shape)); }

std::string unquantized_text(const std::vector<Unquantized>& tensors, std::size_t width) {
  report::Table table({{"name", "other tensor", Kind::text},
                       {"shape", "shape", Kind::text},
                       {"dtype", "type", Kind::text},
                       {"bytes", "bytes", Kind::bytes},
                       {"why", "why", Kind::text}});
  for (const Unquantized& tensor : tensors)
    table.add({tensor.name, shape_text(tensor), tensor.dtype_name, static_cast<double>(tensor.bytes), tensor.why});
  return report::to_text(table, width);
}

std::string plural(std::size_t count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string head(const Checkpoint& checkpoint) {
  const auto& config = checkpoint.config();
  std::map<std::string, std::size_t> writers;
  for (const LinearLayer& layer : checkpoint.layers())
    if (!layer.writer.empty()) ++writers[layer.writer];
  std::vector<std::string_view> names;
  if (!config.writer.empty()) names.emplace_back(config.writer);
  for (const auto& [writer, count] : writers)
    if (writer != config.writer) names.emplace_back(writer);
  return fmt::format("{}: {}, {}{}\n\n", checkpoint.path().string(), plural(checkpoint.files().size(), "file"),
                     config.method.empty() ? "no quantization_config" : "quant_method " + config.method,
                     names.empty() ? "" : fmt::format(", written by {}", fmt::join(names, ", ")));
}

std::string sums(const Checkpoint& checkpoint) {
  std::uint64_t layer_bytes = 0, other_bytes = 0;
  std::size_t unusable = 0;
  for (const LinearLayer& layer : checkpoint.layers()) {
    layer_bytes += layer.bytes;
    unusable += layer.problem ? 1 : 0;
  }
  for (const Unquantized& tensor : checkpoint.unquantized()) other_bytes += tensor.bytes;
  const std::size_t usable = checkpoint.layers().size() - unusable;
  std::string text = fmt::format("{} quantised layer{}{} ({})", usable, usable == 1 ? "" : "s",
                                 unusable == 0 ? "" : fmt::format(" and {} that cannot be used", unusable),
                                 report::human_bytes(static_cast<double>(layer_bytes)));
  return text + fmt::format(", {} ({})\n", plural(checkpoint.unquantized().size(), "other tensor"),
                            report::human_bytes(static_cast<double>(other_bytes)));
}

/// Layers that differ in nothing but the numbers of their names.
std::string folded_layers(const Checkpoint& checkpoint, std::size_t width) {
  using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::string, std::string, std::string,
                         bool, bool>;
  struct Fold {
    const LinearLayer* first = nullptr;
    std::int64_t count = 0;
    double bytes = 0;
  };
  std::map<Key, std::size_t> places;
  std::vector<std::pair<std::string, Fold>> folds;  // in the order of the first of each
  for (const LinearLayer& layer : checkpoint.layers()) {
    const std::string pattern = layer::pattern_of(layer.name);
    const Key key{pattern,
                  layer.n,
                  layer.k,
                  format_text(layer),
                  block_text(layer),
                  scale_type_text(layer),
                  activation_text(layer),
                  layer.bias.has_value(),
                  layer.problem.has_value()};
    const auto [at, added] = places.try_emplace(key, folds.size());
    if (added) folds.push_back({pattern, {&layer, 0, 0}});
    Fold& fold = folds[at->second].second;
    ++fold.count;
    fold.bytes += static_cast<double>(layer.bytes);
  }
  std::vector<report::Column> columns = layer_columns();
  columns.insert(columns.begin(), {{"layers", "layers", Kind::text}, {"count", "count", Kind::integer}});
  report::Table table(std::move(columns));
  for (const auto& [pattern, fold] : folds) {
    std::vector<Cell> row = layer_cells(*fold.first, fold.bytes);
    row.insert(row.begin(), {fold.count == 1 ? fold.first->name : pattern, fold.count});
    table.add(std::move(row));
  }
  return report::to_text(table, width);
}

std::string folded_rest(const Checkpoint& checkpoint, std::size_t width) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::pair<std::int64_t, double>> folds;
  for (const Unquantized& tensor : checkpoint.unquantized()) {
    auto& [count, bytes] = folds[{layer::pattern_of(tensor.name), shape_text(tensor), tensor.dtype_name, tensor.why}];
    ++count;
    bytes += static_cast<double>(tensor.bytes);
  }
  report::Table table({{"name", "other tensors", Kind::text},
                       {"count", "count", Kind::integer},
                       {"shape", "shape", Kind::text},
                       {"dtype", "type", Kind::text},
                       {"bytes", "bytes", Kind::bytes},
                       {"why", "why", Kind::text}});
  for (const auto& [key, sum] : folds) {
    const auto& [name, shape, type, why] = key;
    table.add({name, sum.first, shape, type, sum.second, why});
  }
  return report::to_text(table, width);
}

std::string bytes_by_kind(const Checkpoint& checkpoint) {
  std::map<std::string, double> bytes;
  for (const LinearLayer& layer : checkpoint.layers()) {
    bytes["weights, " + (format_text(layer).empty() ? "not there" : format_text(layer))] +=
        static_cast<double>(layer.weight.data.size());
    bytes["scales of weights"] += static_cast<double>(layer.scale.data.size());
    if (layer.bias) bytes["biases"] += static_cast<double>(layer.bias->data.size());
    if (layer.input_scale) bytes["scales of activations"] += static_cast<double>(layer.input_scale->data.size());
  }
  for (const Unquantized& tensor : checkpoint.unquantized())
    bytes["other tensors, " + tensor.dtype_name] += static_cast<double>(tensor.bytes);
  report::Table table({{"kind", "kind", Kind::text}, {"bytes", "bytes", Kind::bytes}});
  for (const auto& [kind, sum] : bytes) table.add({kind, sum});
  return report::to_text(table);
}

json::value grid_json(numerics::ScaleGrid grid) {
  if (grid.group_rows == 0 || grid.group_cols == 0) return nullptr;
  return json::array{grid.group_rows, grid.group_cols};
}

json::value text_json(const std::string& text) { return text.empty() ? json::value(nullptr) : json::value(text); }

json::value type_json(numerics::DType type) {
  return type == numerics::DType::none ? json::value(nullptr) : json::value(numerics::name_of(type));
}

json::object layer_json(const LinearLayer& layer) {
  const bool block = layer.weight_grid_known, activations = layer.activations_known;
  const bool quantized = activations && layer.activations != ActivationScheme::none;
  json::object object{{"name", layer.name}};
  object["n"] = layer.n > 0 ? json::value(layer.n) : json::value(nullptr);
  object["k"] = layer.k > 0 ? json::value(layer.k) : json::value(nullptr);
  object["dtype"] = type_json(layer.weight.dtype);
  object["format"] = text_json(layer.format());
  object["writer"] = text_json(layer.writer);
  object["scales"] = text_json(block_text(layer));
  object["block"] = block ? grid_json(layer.weight_grid) : json::value(nullptr);
  object["block_source"] = block ? json::value(name_of(layer.block_source)) : json::value(nullptr);
  object["scale"] = text_json(layer.scale.name);
  object["scale_dtype"] = type_json(layer.scale.dtype);
  object["activations"] = activations ? json::value(name_of(layer.activations)) : json::value(nullptr);
  object["activation_scales"] =
      quantized ? json::value(activation_grid_text(layer.activation_grid)) : json::value(nullptr);
  object["activation_group"] = quantized ? grid_json(layer.activation_grid) : json::value(nullptr);
  object["input_scale"] = layer.input_scale ? json::value(layer.input_scale->name) : json::value(nullptr);
  object["bias"] = layer.bias.has_value();
  object["expert"] = layer.expert ? json::value(*layer.expert) : json::value(nullptr);
  object["bytes"] = layer.bytes;
  object["file"] = text_json(layer.weight_file.filename().string());
  object["scale_file"] = text_json(layer.scale_file.filename().string());
  object["problem"] =
      layer.problem
          ? json::value(json::object{{"kind", name_of(layer.problem->kind())}, {"message", layer.problem->what()}})
          : json::value(nullptr);
  return object;
}

json::object tensor_json(const Unquantized& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype_name},
          {"shape", json::value_from(tensor.shape)},
          {"bytes", tensor.bytes},
          {"file", tensor.file.filename().string()},
          {"why", tensor.why}};
}

}  // namespace

std::string inspect_text(const Checkpoint& checkpoint, std::size_t width) {
  std::string text = head(checkpoint);
  if (!checkpoint.layers().empty()) text += layers_text(checkpoint, width);
  text += experts_text(checkpoint, width, false);
  if (!checkpoint.unquantized().empty()) text += unquantized_text(checkpoint.unquantized(), width) + "\n";
  return text + sums(checkpoint);
}

std::string inspect_summary(const Checkpoint& checkpoint, std::size_t width) {
  std::string text = head(checkpoint);
  if (!checkpoint.layers().empty()) text += folded_layers(checkpoint, width) + "\n" + kLegend + "\n";
  text += experts_text(checkpoint, width, true);
  if (!checkpoint.unquantized().empty()) text += folded_rest(checkpoint, width) + "\n";
  return text + bytes_by_kind(checkpoint) + "\n" + sums(checkpoint);
}

json::object inspect_json(const Checkpoint& checkpoint) {
  json::array files, layers, unquantized;
  for (const checkpoint::SafetensorsFile& file : checkpoint.files())
    files.push_back({{"name", file.path().filename().string()}, {"bytes", file.file_size()}});
  for (const LinearLayer& layer : checkpoint.layers()) layers.push_back(layer_json(layer));
  for (const Unquantized& tensor : checkpoint.unquantized()) unquantized.push_back(tensor_json(tensor));
  json::object object{{"path", checkpoint.path().string()}};
  object["quant_method"] = text_json(checkpoint.config().method);
  object["writer"] = text_json(checkpoint.config().writer);
  object["files"] = std::move(files);
  object["layers"] = std::move(layers);
  object["experts"] = experts_json(checkpoint);
  object["unquantized"] = std::move(unquantized);
  return object;
}

std::string inspect_complaints(const Checkpoint& checkpoint) {
  std::map<std::string, const LinearLayer*> broken;
  std::vector<layer::LeftOut> left_out;
  for (const LinearLayer& layer : checkpoint.layers()) {
    if (!layer.problem) continue;
    broken[layer.name] = &layer;
    left_out.push_back(layer::left_out(layer, *layer.problem));
  }
  std::string text;
  if (checkpoint.problem()) text = fmt::format("ironcl inspect: {}\n", checkpoint.problem()->what());
  for (const layer::Complaint& complaint : layer::fold(left_out)) {
    text += complaint.count == 1 ? fmt::format("ironcl inspect: {}\n", broken[complaint.first]->problem->what())
                                 : fmt::format("ironcl inspect: {} layers like {}: {}\n", complaint.count,
                                               complaint.layers, complaint.reason);
  }
  // What is wrong with a matrix is said of it; of a layer of experts, what it lacks.
  for (const checkpoint::ExpertsLayer& layer : checkpoint.experts())
    if (is_damaged(layer) && text.find(layer.problem->what()) == std::string::npos)
      text += fmt::format("ironcl inspect: layer of experts {}: {}\n", layer.name, layer.problem->what());
  return text;
}

}  // namespace ironcl::cli
