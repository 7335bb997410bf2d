// SPDX-License-Identifier: Apache-2.0
// ironcl inspect: the linear layers of a checkpoint, and what in it is not quantised; for people, every layer or a
// line for each kind of them, and for programs.

#include <unordered_set>

#include "host/checkpoint/block.h"
#include "host/checkpoint/model.h"
#include "host/cli/command.h"
#include "host/cli/parse_option.h"
#include "host/layer/layer_problem.h"
#include "host/layer/selection.h"
#include "host/ranks/spread.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/print.h"
#include "host/report/table.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

using checkpoint::ActivationScheme;
using checkpoint::Checkpoint;
using checkpoint::ErrorKind;
using checkpoint::ExpertsLayer;
using checkpoint::LinearLayer;
using checkpoint::Unquantized;
using report::Cell;
using Row = report::Table::Row;

constexpr const char* kLegend =
    "block: elements of a weight that share a scale (per tensor: all of them, per channel: a row of N).\n"
    "activations: dynamic, scaled as they come, or static, by a scale of the file; per token: a row of M.\n"
    "-: not known, as the layer cannot be used.\n";

constexpr const char* kExpertsLegend =
    "E: experts, of which a token gets k; H: width of the model; I: of an expert. weights: normalised to 1, scaled.\n"
    "The matrices of a whole layer of experts are not listed one by one; --json has them.\n";

Cell size_cell(std::int64_t size) { return or_null(size > 0, size); }

Cell grid_cell(bool known, numerics::ScaleGrid grid) {
  return or_null(known && grid.group_rows != 0 && grid.group_cols != 0,
                 json::array{grid.group_rows, grid.group_cols});
}

Cell type_cell(numerics::DType type) {
  return or_null(type == numerics::DType::none ? std::string_view() : numerics::name_of(type));
}

Cell problem_cell(const std::optional<checkpoint::Error>& problem) {
  if (!problem) return nullptr;
  return json::object{{"kind", name_of(problem->kind())}, {"message", problem->what()}};
}

/// Rows that people see alike, but for the numbers of their names, which come first, and for their bytes, as one,
/// with their count and the sum of their bytes.
report::Table folded(const report::Table& table) {
  std::vector<report::Column> columns = table.columns();
  const auto bytes =
      static_cast<std::size_t>(std::ranges::find(columns, Kind::bytes, &report::Column::kind) - columns.begin());
  std::map<std::string, std::size_t> places;
  std::vector<Row> folds;
  for (const Row& row : table.rows()) {
    const std::string pattern = layer::pattern_of(row[0].get_string());
    std::string key = pattern;
    for (std::size_t i = 1; i < row.size(); ++i)
      if (columns[i].kind != Kind::machines && i != bytes) key += "\n" + report::human_text(row[i], columns[i].kind);
    const auto [at, added] = places.try_emplace(std::move(key), folds.size());
    if (added) {
      folds.push_back(row);
      folds.back().insert(folds.back().begin() + 1, json::value(1));
      continue;
    }
    Row& fold = folds[at->second];
    fold[0] = pattern;
    fold[1].get_int64() += 1;
    fold[bytes + 1] = fold[bytes + 1].to_number<std::uint64_t>() + row[bytes].to_number<std::uint64_t>();
  }
  columns.insert(columns.begin() + 1, {"count", "count", Kind::integer});
  report::Table made(std::move(columns));
  for (Row& fold : folds) made.add(std::move(fold));
  return made;
}

std::string rows_text(const report::Table& table, bool fold) {
  return report::to_text(fold ? folded(table) : table, report::terminal_width()) + "\n";
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
    for (const auto* role : layer.experts.roles()) all.insert(role->begin(), role->end());
  }
  return all;
}

/// All layers but those of some indices.
report::Table layers_table(const Checkpoint& checkpoint, const char* heading = "",
                           const std::unordered_set<std::size_t>& but = {}) {
  report::Table table;
  for (std::size_t i = 0; i < checkpoint.layers().size(); ++i) {
    if (but.contains(i)) continue;
    const LinearLayer& layer = checkpoint.layers()[i];
    const bool quantized = layer.activations_known && layer.activations != ActivationScheme::none;
    table.add_fields({{{"name", heading}, layer.name},
                      {{"n", "N", Kind::integer}, size_cell(layer.n)},
                      {{"k", "K", Kind::integer}, size_cell(layer.k)},
                      machine_field("dtype", type_cell(layer.weight.dtype)),
                      machine_field("format", or_null(layer.format())),
                      {{"", "format"}, format_text(layer)},
                      machine_field("writer", or_null(layer.writer)),
                      {{"scales", "block"}, or_null(weight_scales_text(layer))},
                      machine_field("block", grid_cell(layer.weight_grid_known, layer.weight_grid)),
                      machine_field("block_source", or_null(layer.weight_grid_known, name_of(layer.block_source))),
                      machine_field("scale", or_null(layer.scale.name)),
                      machine_field("scale_dtype", type_cell(layer.scale.dtype)),
                      {{"", "scales"}, scale_type_text(layer)},
                      {{"", "activations"}, activation_text(layer)},
                      machine_field("activations", or_null(layer.activations_known, name_of(layer.activations))),
                      machine_field("activation_scales", or_null(activation_scales_text(layer))),
                      machine_field("activation_group", grid_cell(quantized, layer.activation_grid)),
                      machine_field("input_scale", or_null(layer.input_scale ? layer.input_scale->name : "")),
                      {{"bias", "bias"}, layer.bias.has_value()},
                      machine_field("expert", or_null(layer.expert.has_value(), layer.expert.value_or(0))),
                      {{"bytes", "bytes", Kind::bytes}, layer.bytes},
                      {{"", "usable"}, !layer.problem.has_value()},
                      machine_field("file", or_null(layer.weight.file().filename().string())),
                      machine_field("scale_file", or_null(layer.scale.file().filename().string())),
                      machine_field("problem", problem_cell(layer.problem))});
  }
  return table;
}

std::string layers_text(const Checkpoint& checkpoint, bool fold) {
  const auto table =
      fold ? layers_table(checkpoint, "layers") : layers_table(checkpoint, "layer", matrices_of_experts(checkpoint));
  return table.empty() ? "" : rows_text(table, fold) + kLegend + "\n";
}

/// "sigmoid + bias, 4 of 8 groups, normalised, x2.5"
std::string routing_text(const ExpertsLayer& layer) {
  const checkpoint::Routing& routing = layer.routing;
  if (routing.top_k == 0) return {};
  std::string text(checkpoint::name_of(routing.score));
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

report::Table experts_table(const Checkpoint& checkpoint) {
  report::Table table;
  for (const ExpertsLayer& layer : checkpoint.experts()) {
    const checkpoint::Routing& routing = layer.routing;
    const bool known = routing.top_k > 0;
    const LinearLayer* matrix =
        layer.experts.down.empty() ? nullptr : &checkpoint.layers()[layer.experts.down.front()];
    json::array matrices;
    for (const auto* role : layer.experts.roles())
      for (const std::size_t index : *role) matrices.push_back(json::value(checkpoint.layers()[index].name));
    table.add_fields({{{"name", "layer of experts"}, layer.name},
                      machine_field("model_type", or_null(routing.model_type)),
                      {{"experts", "E", Kind::integer}, size_cell(routing.experts)},
                      {{"top_k", "k", Kind::integer}, size_cell(routing.top_k)},
                      {{"hidden", "H", Kind::integer}, size_cell(layer.hidden)},
                      {{"width", "I", Kind::integer}, size_cell(layer.width)},
                      machine_field("score", or_null(known, checkpoint::name_of(routing.score))),
                      machine_field("correction_bias", layer.correction_bias.has_value()),
                      machine_field("expert_groups", or_null(known, routing.expert_groups)),
                      machine_field("top_groups", or_null(known, routing.top_groups)),
                      machine_field("normalize", or_null(known, routing.normalize)),
                      machine_field("scale", or_null(known, json::parse(fmt::format("{}", routing.scale)))),
                      {{"", "weights"}, routing_text(layer)},
                      machine_field("shared_width", size_cell(layer.shared_width)),
                      machine_field("shared_gate", layer.shared_gate.has_value()),
                      {{"", "shared"}, shared_text(layer)},
                      {{"", "format"}, matrix == nullptr ? "" : matrix->format()},
                      {{"", "block"}, matrix == nullptr ? "" : weight_scales_text(*matrix)},
                      {{"", "usable"}, !layer.problem.has_value()},
                      machine_field("matrices", std::move(matrices)),
                      {{"bytes", "bytes", Kind::bytes}, layer.bytes},
                      machine_field("problem", problem_cell(layer.problem))});
  }
  return table;
}

std::string expert_layers_text(const Checkpoint& checkpoint, bool fold) {
  if (checkpoint.experts().empty()) return {};
  std::string text = rows_text(experts_table(checkpoint), fold) + kExpertsLegend;
  for (const ExpertsLayer& layer : checkpoint.experts()) {
    if (!layer.problem || is_damaged(layer)) continue;
    text += fmt::format("{}: {}\n", layer.name, layer.problem->message());
    break;  // one model type says the same of all of them
  }
  return text + "\n";
}

report::Table unquantized_table(const Checkpoint& checkpoint, const char* heading = "") {
  report::Table table;
  for (const Unquantized& tensor : checkpoint.unquantized())
    table.add_fields({{{"name", heading}, tensor.name},
                      {{"shape", "shape"}, json::value_from(tensor.shape)},
                      {{"dtype", "type"}, tensor.dtype_name},
                      {{"bytes", "bytes", Kind::bytes}, tensor.data.size()},
                      machine_field("file", tensor.file().filename().string()),
                      {{"why", "why"}, tensor.why}});
  return table;
}

std::string head(const Checkpoint& checkpoint) {
  const auto& config = checkpoint.config();
  std::set<std::string_view> writers;
  for (const LinearLayer& layer : checkpoint.layers()) writers.insert(layer.writer);
  std::vector<std::string_view> names = {config.writer};
  std::ranges::remove_copy(writers, std::back_inserter(names), config.writer);
  std::erase(names, "");
  return fmt::format("{}: {}, {}{}\n\n", checkpoint.path().string(),
                     report::counted(checkpoint.files().size(), "file"),
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
  return fmt::format("{}{} ({}), {} ({})\n", report::counted(usable, "quantised layer"),
                     unusable == 0 ? "" : fmt::format(" and {} that cannot be used", unusable),
                     report::human_bytes(static_cast<double>(layer_bytes)),
                     report::counted(checkpoint.unquantized().size(), "other tensor"),
                     report::human_bytes(static_cast<double>(other_bytes)));
}

std::string bytes_by_kind(const Checkpoint& checkpoint) {
  std::map<std::string, std::uint64_t> bytes;
  for (const LinearLayer& layer : checkpoint.layers()) {
    bytes["weights, " + (format_text(layer).empty() ? "not there" : format_text(layer))] += layer.weight.data.size();
    bytes["scales of weights"] += layer.scale.data.size();
    if (layer.bias) bytes["biases"] += layer.bias->data.size();
    if (layer.input_scale) bytes["scales of activations"] += layer.input_scale->data.size();
  }
  for (const Unquantized& tensor : checkpoint.unquantized())
    bytes[fmt::format("other tensors, {}", tensor.dtype_name)] += tensor.data.size();
  report::Table table({{"kind", "kind", Kind::text}, {"bytes", "bytes", Kind::bytes}});
  for (const auto& [kind, sum] : bytes) table.add({kind, sum});
  return report::to_text(table);
}

/// Every layer, every other tensor, and the sums; `fold`: those that differ only in the numbers of their names as
/// one line, and bytes by kind.
std::string inspect_text(const Checkpoint& checkpoint, bool fold) {
  std::string text = head(checkpoint) + layers_text(checkpoint, fold) + expert_layers_text(checkpoint, fold);
  if (const auto others = unquantized_table(checkpoint, fold ? "other tensors" : "other tensor"); !others.empty())
    text += rows_text(others, fold);
  return text + (fold ? bytes_by_kind(checkpoint) + "\n" : "") + sums(checkpoint);
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
  for (const layer::Complaint& complaint : layer::fold(left_out))
    text += complaint.count == 1 ? fmt::format("ironcl inspect: {}\n", broken[complaint.first]->problem->what())
                                 : fmt::format("ironcl inspect: {} layers like {}: {}\n", complaint.count,
                                               complaint.layers, complaint.reason);
  // What is wrong with a matrix is said of it; of a layer of experts, what it lacks.
  for (const checkpoint::ExpertsLayer& layer : checkpoint.experts())
    if (is_damaged(layer) && text.find(layer.problem->what()) == std::string::npos)
      text += fmt::format("ironcl inspect: layer of experts {}: {}\n", layer.name, layer.problem->what());
  return text;
}

json::object inspect_json(const Checkpoint& checkpoint) {
  json::array files;
  for (const checkpoint::SafetensorsFile& file : checkpoint.files())
    files.push_back({{"name", file.path().filename().string()}, {"bytes", file.file_size()}});
  return {{"path", checkpoint.path().string()},
          {"quant_method", or_null(checkpoint.config().method)},
          {"writer", or_null(checkpoint.config().writer)},
          {"files", std::move(files)},
          {"layers", report::to_json(layers_table(checkpoint))},
          {"experts", report::to_json(experts_table(checkpoint))},
          {"unquantized", report::to_json(unquantized_table(checkpoint))}};
}

/// Who would hold what over `count` ranks: layers of one pattern in a line, bytes by rank.
std::string ranks_text(const Checkpoint& checkpoint, int count, bool ragged) {
  report::Table layers({{"layers", "layers"},
                        {"split", "split"},
                        {"ragged", "ragged ranks"},
                        {"ranges", "ranges by rank"},
                        {"bytes", "bytes", Kind::bytes}});
  report::Table ranks({{"rank", "rank", Kind::integer}, {"bytes", "weights and scales", Kind::bytes}});
  std::vector<std::uint64_t> held(static_cast<std::size_t>(count));
  // Matrices of experts are whole; a shared expert is on the first rank, and routers are on every one.
  std::unordered_set<std::size_t> done;
  const auto hold = [&](std::size_t matrix, std::size_t rank) {
    done.insert(matrix);
    held[rank] += checkpoint.layers()[matrix].bytes;
  };
  for (const ExpertsLayer& one : checkpoint.experts()) {
    if (one.problem) continue;
    const auto experts = ranks::Partition::even("experts", one.routing.experts, count);
    for (const auto* matrices : one.experts.roles())
      for (std::size_t rank = 0; rank < held.size() && !matrices->empty(); ++rank)
        for (std::int64_t expert = experts.ranges[rank].begin; expert < experts.ranges[rank].end; ++expert)
          hold((*matrices)[static_cast<std::size_t>(expert)], rank);
    if (one.shared)
      for (const auto* matrices : one.shared->roles())
        for (const std::size_t matrix : *matrices) hold(matrix, 0);
    for (std::uint64_t& sum : held) sum += one.router.data.size();
    layers.add({one.name, "experts", "", experts.text(), one.bytes});
  }
  for (std::size_t i = 0; i < checkpoint.layers().size(); ++i) {
    const LinearLayer& one = checkpoint.layers()[i];
    if (done.contains(i) || one.problem) continue;
    const ironcl::GemmDesc problem = report::to_gemm_desc(layer::describe(one, layer::ProblemChoices{.m = 1}));
    const ranks::Choices choices = ranks::choices_for(one.name, problem, {.ragged = ragged});
    const ranks::Shards shards = ranks::shard(problem, count, choices);
    const bool row = choices.split == ranks::Split::row;
    for (int rank = 0; rank < count; ++rank)
      held[static_cast<std::size_t>(rank)] += ranks::bytes_of_part(problem, shards, rank);
    const auto inside = fmt::format("{}", fmt::join(row ? shards.cols.ragged() : shards.rows[0].ragged(), ", "));
    layers.add({one.name, row ? "row" : "column", inside, shards.text(), one.bytes});
  }
  for (std::size_t rank = 0; rank < held.size(); ++rank) ranks.add({rank, held[rank]});
  return rows_text(layers, true) + report::to_text(ranks, report::terminal_width());
}

class InspectCommand final : public Command {
 public:
  InspectCommand()
      : Command("inspect", "The fp8 layers of a checkpoint: shapes, blocks, scales, bytes",
                R"(  ironcl inspect model-fp8/                  a folder with config.json and safetensors files
  ironcl inspect model-fp8/ --summary        a line for each kind of layer, and bytes by kind
  ironcl inspect layer.safetensors --json    one file, as JSON
  ironcl inspect odd.safetensors --block 64  where neither the file nor its shapes say the block
)") {
    add_option("PATH", path_, "checkpoint folder, or one safetensors file")->option_text(" ")->required();
    add_json_option(*this, json_);
    add_flag("--summary", summary_, "layers by pattern, and bytes by kind")->excludes(get_option("--json"));
    add_block(*this, "--block", block_, "weight block where neither file nor shapes say it: 128, 128x128");
    add_value(*this, "--ranks N", ranks_, "what each of so many ranks would hold")
        ->check(CLI::Range(1, 65536))
        ->excludes(get_option("--json"));
    add_flag("--ragged", ragged_, "with --ranks: even ranges, wherever blocks of scales begin")->needs("--ranks");
  }

  ExitStatus run() override {
    const Checkpoint checkpoint = Checkpoint::open(path_, {.block = block_});
    report::check_outputs({json_}, checkpoint.sources());
    deliver(json_, ranks_ != 0 ? ranks_text(checkpoint, ranks_, ragged_) : inspect_text(checkpoint, summary_),
            json_.empty() ? json::value() : inspect_json(checkpoint));
    const std::string complaints = inspect_complaints(checkpoint);
    if (complaints.empty()) return ExitStatus::ok;
    report::flush_output();
    report::print_error_text(complaints);
    return ExitStatus::bad_input;
  }

 private:
  std::string path_;
  std::optional<numerics::ScaleGrid> block_;
  std::string json_;  ///< A file, or -; empty: not wanted.
  bool summary_ = false, ragged_ = false;
  int ranks_ = 0;
};

}  // namespace

std::shared_ptr<Command> make_inspect_command() { return std::make_shared<InspectCommand>(); }

}  // namespace ironcl::cli
