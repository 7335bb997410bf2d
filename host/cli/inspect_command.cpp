// SPDX-License-Identifier: Apache-2.0
// ironcl inspect: the linear layers of a checkpoint, and what in it is not quantised; for people, every layer or a
// line for each kind of them, and for programs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "host/checkpoint/block.h"
#include "host/checkpoint/model.h"
#include "host/cli/command.h"
#include "host/cli/parse_option.h"
#include "host/cli/ranks_options.h"
#include "host/layer/selection.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/print.h"
#include "host/report/table.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using checkpoint::ActivationScheme;
using checkpoint::Checkpoint;
using checkpoint::ErrorKind;
using checkpoint::ExpertsLayer;
using checkpoint::LinearLayer;
using checkpoint::Unquantized;
using report::Cell;
using report::Kind;
using report::or_null;
using Row = std::vector<Cell>;

constexpr const char* kLegend =
    "block: elements of a weight that share a scale (per tensor: all of them, per channel: a row of N).\n"
    "activations: dynamic, scaled as they come, or static, by a scale of the file; per token: a row of M.\n"
    "-: not known, as the layer cannot be used.\n";

constexpr const char* kExpertsLegend =
    "E: experts, of which a token gets k; H: width of the model; I: of an expert. weights: normalised to 1, scaled.\n"
    "The matrices of a whole layer of experts are not listed one by one; --json has them.\n";

Cell text_cell(std::string text) { return text.empty() ? Cell() : Cell(std::move(text)); }
Cell size_cell(std::int64_t size) { return size > 0 ? Cell(size) : Cell(); }

/// The rows below one another. `folded`: those that differ in nothing but the numbers of their names, which come
/// first, and their bytes are one, with their count and the sum of their bytes.
std::string rows_text(std::vector<report::Column> columns, const std::vector<Row>& rows, bool folded,
                      std::size_t width) {
  if (!folded) {
    report::Table table(std::move(columns));
    for (const Row& row : rows) table.add(row);
    return report::to_text(table, width);
  }
  std::size_t bytes = 0;
  while (columns[bytes].kind != Kind::bytes) ++bytes;
  std::map<Row, std::size_t> places;
  std::vector<std::pair<std::int64_t, Row>> folds;
  for (const Row& row : rows) {
    Row key = row;
    const std::string pattern = layer::pattern_of(std::get<std::string>(row[0]));
    key[0] = pattern;
    key[bytes] = {};
    const auto [at, added] = places.try_emplace(std::move(key), folds.size());
    if (added) folds.emplace_back(1, row);
    if (added) continue;
    auto& [count, fold] = folds[at->second];
    ++count;
    fold[0] = pattern;
    fold[bytes] = std::get<double>(fold[bytes]) + std::get<double>(row[bytes]);
  }
  columns.insert(columns.begin() + 1, {"count", "count", Kind::integer});
  report::Table table(std::move(columns));
  for (auto& [count, fold] : folds) {
    fold.insert(fold.begin() + 1, count);
    table.add(std::move(fold));
  }
  return report::to_text(table, width);
}

/// Scales in words, empty where they are not known: "128x128", "per tensor"; of activations "per token" where a
/// weight's rows are channels.
std::string weight_scales_text(const LinearLayer& layer) {
  return layer.weight_grid_known ? checkpoint::grid_text(layer.weight_grid) : std::string();
}

std::string activation_scales_text(const LinearLayer& layer) {
  if (!layer.activations_known || layer.activations == ActivationScheme::none) return {};
  const numerics::ScaleGrid grid = layer.activation_grid;
  return grid == numerics::ScaleGrid{1, 0} ? "per token" : checkpoint::grid_text(grid);
}

std::string activation_text(const LinearLayer& layer) {
  if (!layer.activations_known) return {};
  if (layer.activations == ActivationScheme::none) return layer.leaves_activations ? "none (fp4 left out)" : "none";
  return fmt::format("{} {}", name_of(layer.activations), activation_scales_text(layer));
}

std::string format_text(const LinearLayer& layer) {
  const std::string format = layer.format();
  return format.empty() ? std::string(layer.weight.dtype_name) : format;
}

std::string scale_type_text(const LinearLayer& layer) {
  return layer.scale.dtype == numerics::DType::none ? std::string(layer.scale.dtype_name)
                                                    : std::string(numerics::name_of(layer.scale.dtype));
}

/// The matrices that layers of experts stand for, as indices into Checkpoint::layers().
std::unordered_set<std::size_t> matrices_of_experts(const Checkpoint& checkpoint) {
  std::unordered_set<std::size_t> all;
  for (const ExpertsLayer& layer : checkpoint.experts()) {
    if (layer.problem) continue;
    for (const auto* role : {&layer.experts.gate_up, &layer.experts.gate, &layer.experts.up, &layer.experts.down})
      all.insert(role->begin(), role->end());
  }
  return all;
}

std::string layers_text(const Checkpoint& checkpoint, bool folded, std::size_t width) {
  const auto of_experts = folded ? std::unordered_set<std::size_t>() : matrices_of_experts(checkpoint);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < checkpoint.layers().size(); ++i) {
    if (of_experts.contains(i)) continue;
    const LinearLayer& layer = checkpoint.layers()[i];
    rows.push_back({layer.name, size_cell(layer.n), size_cell(layer.k), text_cell(format_text(layer)),
                    text_cell(weight_scales_text(layer)), text_cell(scale_type_text(layer)),
                    text_cell(activation_text(layer)), layer.bias.has_value(), static_cast<double>(layer.bytes),
                    !layer.problem.has_value()});
  }
  if (rows.empty()) return {};
  return rows_text({{"name", folded ? "layers" : "layer", Kind::text},
                    {"n", "N", Kind::integer},
                    {"k", "K", Kind::integer},
                    {"format", "format", Kind::text},
                    {"block", "block", Kind::text},
                    {"scale_dtype", "scales", Kind::text},
                    {"activations", "activations", Kind::text},
                    {"bias", "bias", Kind::text},
                    {"bytes", "bytes", Kind::bytes},
                    {"usable", "usable", Kind::text}},
                   rows, folded, width) +
         "\n" + kLegend + "\n";
}

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

/// Whether the problem of a layer of experts is damage, and not a way of routing that is not known: then its matrices
/// can still be used one by one.
bool is_damaged(const ExpertsLayer& layer) noexcept {
  return layer.problem && layer.problem->kind() != ErrorKind::unsupported &&
         layer.problem->kind() != ErrorKind::config;
}

std::string experts_table(const Checkpoint& checkpoint, bool folded, std::size_t width) {
  if (checkpoint.experts().empty()) return {};
  std::vector<Row> rows;
  for (const ExpertsLayer& layer : checkpoint.experts()) {
    const LinearLayer* matrix =
        layer.experts.down.empty() ? nullptr : &checkpoint.layers()[layer.experts.down.front()];
    rows.push_back({layer.name, size_cell(layer.routing.experts), size_cell(layer.routing.top_k),
                    size_cell(layer.hidden), size_cell(layer.width), text_cell(routing_text(layer)),
                    shared_text(layer), text_cell(matrix == nullptr ? "" : matrix->format()),
                    text_cell(matrix == nullptr ? "" : weight_scales_text(*matrix)), !layer.problem.has_value(),
                    static_cast<double>(layer.bytes)});
  }
  std::string text = rows_text({{"name", "layer of experts", Kind::text},
                                {"experts", "E", Kind::integer},
                                {"top_k", "k", Kind::integer},
                                {"hidden", "H", Kind::integer},
                                {"width", "I", Kind::integer},
                                {"routing", "weights", Kind::text},
                                {"shared", "shared", Kind::text},
                                {"format", "format", Kind::text},
                                {"block", "block", Kind::text},
                                {"usable", "usable", Kind::text},
                                {"bytes", "bytes", Kind::bytes}},
                               rows, folded, width) +
                     "\n" + kExpertsLegend;
  for (const ExpertsLayer& layer : checkpoint.experts()) {
    if (!layer.problem || is_damaged(layer)) continue;
    text += fmt::format("{}: {}\n", layer.name, layer.problem->message());
    break;  // one model type says the same of all of them
  }
  return text + "\n";
}

std::string unquantized_text(const Checkpoint& checkpoint, bool folded, std::size_t width) {
  std::vector<Row> rows;
  for (const Unquantized& tensor : checkpoint.unquantized())
    rows.push_back({tensor.name, json::serialize(json::value_from(tensor.shape)), std::string(tensor.dtype_name),
                    static_cast<double>(tensor.data.size()), tensor.why});
  if (rows.empty()) return {};
  return rows_text({{"name", folded ? "other tensors" : "other tensor", Kind::text},
                    {"shape", "shape", Kind::text},
                    {"dtype", "type", Kind::text},
                    {"bytes", "bytes", Kind::bytes},
                    {"why", "why", Kind::text}},
                   rows, folded, width) +
         "\n";
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
  for (const Unquantized& tensor : checkpoint.unquantized()) other_bytes += tensor.data.size();
  const std::size_t usable = checkpoint.layers().size() - unusable;
  std::string text = fmt::format("{} quantised layer{}{} ({})", usable, usable == 1 ? "" : "s",
                                 unusable == 0 ? "" : fmt::format(" and {} that cannot be used", unusable),
                                 report::human_bytes(static_cast<double>(layer_bytes)));
  return text + fmt::format(", {} ({})\n", plural(checkpoint.unquantized().size(), "other tensor"),
                            report::human_bytes(static_cast<double>(other_bytes)));
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
    bytes[fmt::format("other tensors, {}", tensor.dtype_name)] += static_cast<double>(tensor.data.size());
  report::Table table({{"kind", "kind", Kind::text}, {"bytes", "bytes", Kind::bytes}});
  for (const auto& [kind, sum] : bytes) table.add({kind, sum});
  return report::to_text(table);
}

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
          {"bytes", tensor.data.size()},
          {"file", tensor.file.filename().string()},
          {"why", tensor.why}};
}

/// Every layer, every other tensor, and the sums; `folded`: those that differ only in the numbers of their names as
/// one line, and bytes by kind. `width` is that of the terminal; 0: no limit.
std::string inspect_text(const Checkpoint& checkpoint, bool folded, std::size_t width) {
  return head(checkpoint) + layers_text(checkpoint, folded, width) + experts_table(checkpoint, folded, width) +
         unquantized_text(checkpoint, folded, width) + (folded ? bytes_by_kind(checkpoint) + "\n" : "") +
         sums(checkpoint);
}

/// What is wrong with layers, a line for each pattern of names and reason; empty where nothing is.
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

class InspectCommand final : public Command {
 private:
  static constexpr const char* kExamples =
      R"(  ironcl inspect model-fp8/                  a folder with config.json and safetensors files
  ironcl inspect model-fp8/ --summary        a line for each kind of layer, and bytes by kind
  ironcl inspect layer.safetensors --json    one file, as JSON
  ironcl inspect odd.safetensors --block 64  where neither the file nor its shapes say the block
)";

 public:
  InspectCommand() : Command("inspect", "The fp8 layers of a checkpoint: shapes, blocks, scales, bytes", kExamples) {}

  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "checkpoint folder, or one safetensors file")->option_text(" ")->required();
    add_json_option(app, json_);
    app.add_flag("--summary", summary_, "layers by pattern, and bytes by kind")->excludes(app.get_option("--json"));
    app.add_option("--block", block_, "weight block where neither file nor shapes say it: 128, 128x128")
        ->option_text("ROWSxCOLS");
    app.add_option("--ranks", ranks_, "what each of so many ranks would hold")
        ->option_text("N")
        ->check(CLI::Range(1, 65536))
        ->excludes(app.get_option("--json"));
    app.add_flag("--ragged", ragged_, "with --ranks: even ranges, wherever blocks of scales begin")->needs("--ranks");
  }

  ExitStatus run() override {
    checkpoint::OpenOptions options{.block = parse_grid_option("--block", block_)};
    const Checkpoint checkpoint = Checkpoint::open(path_, options);
    report::check_outputs({json_}, checkpoint.sources());
    const std::size_t width = report::terminal_width();
    if (json_ != "-")
      report::print_text(ranks_ != 0 ? ranks_text(checkpoint, ranks_, ragged_, width)
                                     : inspect_text(checkpoint, summary_, width));
    if (!json_.empty()) report::write_file(json_, report::to_text(json::value(inspect_json(checkpoint))));
    const std::string complaints = inspect_complaints(checkpoint);
    if (complaints.empty()) return ExitStatus::ok;
    report::flush_output();
    report::print_error("{}", complaints);
    return ExitStatus::bad_input;
  }

 private:
  std::string path_, block_;
  std::string json_;  ///< A file, or -; empty: not wanted.
  bool summary_ = false, ragged_ = false;
  int ranks_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace ironcl::cli
