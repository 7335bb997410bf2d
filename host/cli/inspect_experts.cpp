// SPDX-License-Identifier: Apache-2.0
// Layers of experts, a line each.
#include "host/cli/inspect_experts.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "host/checkpoint/block.h"
#include "host/layer/selection.h"
#include "host/report/render.h"
#include "host/report/table.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using checkpoint::Checkpoint;
using checkpoint::ErrorKind;
using checkpoint::ExpertsLayer;
using checkpoint::LinearLayer;
using report::Cell;
using report::Kind;

constexpr const char* kLegend =
    "E: experts, of which a token gets k; H: width of the model; I: of an expert. weights: normalised to 1, scaled.\n"
    "The matrices of a whole layer of experts are not listed one by one; --json has them.\n";

/// "sigmoid + bias, 4 of 8 groups, normalised, x2.5"
std::string routing_text(const ExpertsLayer& layer) {
  const checkpoint::Routing& routing = layer.routing;
  if (routing.top_k == 0) return {};
  std::string text(name_of(routing.score));
  if (layer.correction_bias) text += " + bias";
  if (routing.expert_groups > 1) text += fmt::format(", {} of {} groups", routing.top_groups, routing.expert_groups);
  if (routing.normalize) text += ", normalised";
  if (routing.scale != 1) text += fmt::format(", x{}", routing.scale);
  return text;
}

std::string shared_text(const ExpertsLayer& layer) {
  if (layer.shared_width == 0) return "no";
  return fmt::format("{}{}", layer.shared_width, layer.shared_gate ? ", gated" : "");
}

/// The first of its matrices; nullptr where none is known.
const LinearLayer* first_matrix(const Checkpoint& checkpoint, const ExpertsLayer& layer) {
  return layer.experts.down.empty() ? nullptr : &checkpoint.layers()[layer.experts.down.front()];
}

Cell size_cell(std::int64_t size) { return size > 0 ? Cell(size) : Cell(); }
Cell text_cell(std::string text) { return text.empty() ? Cell() : Cell(std::move(text)); }

std::vector<Cell> cells(const Checkpoint& checkpoint, const ExpertsLayer& layer) {
  const LinearLayer* matrix = first_matrix(checkpoint, layer);
  return {
      size_cell(layer.routing.experts),
      size_cell(layer.routing.top_k),
      size_cell(layer.hidden),
      size_cell(layer.width),
      text_cell(routing_text(layer)),
      shared_text(layer),
      text_cell(matrix == nullptr ? "" : matrix->format()),
      text_cell(matrix == nullptr || !matrix->weight_grid_known ? "" : checkpoint::grid_text(matrix->weight_grid)),
      std::string(layer.problem ? "no" : "yes")};
}

json::value size_json(std::int64_t size) { return size > 0 ? json::value(size) : json::value(nullptr); }

json::object layer_json(const Checkpoint& checkpoint, const ExpertsLayer& layer) {
  const checkpoint::Routing& routing = layer.routing;
  const bool known = routing.top_k > 0;
  json::array matrices;
  for (const auto* role : {&layer.experts.gate_up, &layer.experts.gate, &layer.experts.up, &layer.experts.down})
    for (const std::size_t index : *role) matrices.push_back(json::value(checkpoint.layers()[index].name));
  json::object object{{"name", layer.name}};
  object["model_type"] = routing.model_type.empty() ? json::value(nullptr) : json::value(routing.model_type);
  object["experts"] = size_json(routing.experts);
  object["top_k"] = size_json(routing.top_k);
  object["hidden"] = size_json(layer.hidden);
  object["width"] = size_json(layer.width);
  object["score"] = known ? json::value(name_of(routing.score)) : json::value(nullptr);
  object["correction_bias"] = layer.correction_bias.has_value();
  object["expert_groups"] = known ? json::value(routing.expert_groups) : json::value(nullptr);
  object["top_groups"] = known ? json::value(routing.top_groups) : json::value(nullptr);
  object["normalize"] = known ? json::value(routing.normalize) : json::value(nullptr);
  object["scale"] = known ? json::value(routing.scale) : json::value(nullptr);
  object["shared_width"] = size_json(layer.shared_width);
  object["shared_gate"] = layer.shared_gate.has_value();
  object["matrices"] = std::move(matrices);
  object["bytes"] = layer.bytes;
  object["problem"] =
      layer.problem
          ? json::value(json::object{{"kind", name_of(layer.problem->kind())}, {"message", layer.problem->what()}})
          : json::value(nullptr);
  return object;
}

}  // namespace

std::string experts_text(const Checkpoint& checkpoint, std::size_t width, bool folded) {
  if (checkpoint.experts().empty()) return {};
  struct Line {
    std::string name;
    std::int64_t count = 0;
    double bytes = 0;
    std::vector<Cell> cells;
  };
  std::vector<Line> lines;
  std::map<std::string, std::size_t> places;
  for (const ExpertsLayer& layer : checkpoint.experts()) {
    const std::string key =
        folded ? fmt::format("{} {} {} {} {} {}", layer::pattern_of(layer.name), layer.routing.experts, layer.hidden,
                             layer.width, layer.shared_width, layer.problem.has_value())
               : layer.name;
    const auto [at, added] = places.try_emplace(key, lines.size());
    if (added) lines.push_back({layer.name, 0, 0, cells(checkpoint, layer)});
    Line& line = lines[at->second];
    if (++line.count == 2) line.name = layer::pattern_of(layer.name);
    line.bytes += static_cast<double>(layer.bytes);
  }
  std::vector<report::Column> columns = {{"name", "layer of experts", Kind::text}};
  if (folded) columns.push_back({"count", "count", Kind::integer});
  const std::vector<report::Column> rest = {{"experts", "E", Kind::integer},    {"top_k", "k", Kind::integer},
                                            {"hidden", "H", Kind::integer},     {"width", "I", Kind::integer},
                                            {"routing", "weights", Kind::text}, {"shared", "shared", Kind::text},
                                            {"format", "format", Kind::text},   {"block", "block", Kind::text},
                                            {"usable", "usable", Kind::text},   {"bytes", "bytes", Kind::bytes}};
  columns.insert(columns.end(), rest.begin(), rest.end());
  report::Table table(std::move(columns));
  for (Line& line : lines) {
    std::vector<Cell> row = {line.name};
    if (folded) row.emplace_back(line.count);
    row.insert(row.end(), line.cells.begin(), line.cells.end());
    row.emplace_back(line.bytes);
    table.add(std::move(row));
  }
  std::string text = report::to_text(table, width) + "\n" + kLegend;
  for (const ExpertsLayer& layer : checkpoint.experts()) {
    if (!layer.problem || is_damaged(layer)) continue;
    text += fmt::format("{}: {}\n", layer.name, layer.problem->message());
    break;  // one model type says the same of all of them
  }
  return text + "\n";
}

json::array experts_json(const Checkpoint& checkpoint) {
  json::array all;
  for (const ExpertsLayer& layer : checkpoint.experts()) all.push_back(layer_json(checkpoint, layer));
  return all;
}

std::unordered_set<std::size_t> matrices_of_experts(const Checkpoint& checkpoint) {
  std::unordered_set<std::size_t> all;
  for (const ExpertsLayer& layer : checkpoint.experts()) {
    if (layer.problem) continue;
    for (const auto* role : {&layer.experts.gate_up, &layer.experts.gate, &layer.experts.up, &layer.experts.down})
      all.insert(role->begin(), role->end());
  }
  return all;
}

bool is_damaged(const ExpertsLayer& layer) noexcept {
  return layer.problem && layer.problem->kind() != ErrorKind::unsupported &&
         layer.problem->kind() != ErrorKind::config;
}

}  // namespace ironcl::cli
