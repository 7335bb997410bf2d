// SPDX-License-Identifier: Apache-2.0
// ironcl inspect: the linear layers of a checkpoint, and what in it is not quantised.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <string>
#include <vector>

#include "host/checkpoint/model.h"
#include "host/cli/command.h"
#include "host/cli/parse_option.h"
#include "host/report/json.h"
#include "host/report/print.h"
#include "host/report/problem.h"
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

constexpr const char* kExamples =
    R"(  ironcl inspect model-fp8/                  a folder with config.json and safetensors files
  ironcl inspect layer.safetensors --json    one file, as JSON
  ironcl inspect odd.safetensors --block 64  where neither the file nor its shapes say the block
)";
constexpr const char* kExitStatus =
    R"(  0  every quantised layer can be used
  2  usage
  3  a file cannot be read, or a layer cannot be used (the others are listed all the same)
)";

json::array grid_json(numerics::ScaleGrid grid) { return {grid.group_rows, grid.group_cols}; }

json::value type_json(numerics::DType type) {
  return type == numerics::DType::none ? json::value(nullptr) : json::value(numerics::name_of(type));
}

json::object to_json(const LinearLayer& layer) {
  json::object object{{"name", layer.name}, {"n", layer.n}, {"k", layer.k}, {"dtype", type_json(layer.weight.dtype)}};
  object["block"] = grid_json(layer.weight_grid.resolved(layer.n, layer.k));
  object["block_source"] = name_of(layer.block_source);
  object["scale"] = layer.scale.name;
  object["scale_dtype"] = type_json(layer.scale.dtype);
  object["activations"] = name_of(layer.activations);
  object["activation_group"] = layer.activations == ActivationScheme::none
                                   ? json::value(nullptr)
                                   : json::value(grid_json(layer.activation_grid));
  object["input_scale"] = layer.input_scale ? json::value(layer.input_scale->name) : json::value(nullptr);
  object["bias"] = layer.bias.has_value();
  object["bytes"] = layer.bytes;
  object["file"] = layer.weight_file.filename().string();
  object["scale_file"] = layer.scale_file.filename().string();
  object["problem"] =
      layer.problem
          ? json::value(json::object{{"kind", name_of(layer.problem->kind())}, {"message", layer.problem->what()}})
          : json::value(nullptr);
  return object;
}

json::object to_json(const Unquantized& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype_name},
          {"shape", json::value_from(tensor.shape)},
          {"bytes", tensor.bytes},
          {"file", tensor.file.filename().string()},
          {"why", tensor.why}};
}

json::object to_json(const Checkpoint& checkpoint) {
  json::array files, layers, unquantized;
  for (const checkpoint::SafetensorsFile& file : checkpoint.files()) {
    files.push_back({{"name", file.path().filename().string()}, {"bytes", file.file_size()}});
  }
  for (const LinearLayer& layer : checkpoint.layers()) layers.push_back(to_json(layer));
  for (const Unquantized& tensor : checkpoint.unquantized()) unquantized.push_back(to_json(tensor));
  const std::string& method = checkpoint.config().method;
  json::object object{{"path", checkpoint.path().string()}};
  object["quant_method"] = method.empty() ? json::value(nullptr) : json::value(method);
  object["files"] = std::move(files);
  object["layers"] = std::move(layers);
  object["unquantized"] = std::move(unquantized);
  return object;
}

std::string layers_text(const std::vector<LinearLayer>& layers) {
  using report::Kind;
  report::Table table({{"name", "layer", Kind::text},
                       {"n", "N", Kind::integer},
                       {"k", "K", Kind::integer},
                       {"dtype", "type", Kind::text},
                       {"block", "block", Kind::text},
                       {"scale_dtype", "scales", Kind::text},
                       {"activations", "activations", Kind::text},
                       {"bytes", "bytes", Kind::bytes},
                       {"usable", "usable", Kind::text}});
  for (const LinearLayer& layer : layers) {
    const bool quantized = layer.activations != ActivationScheme::none;
    const std::string group = quantized ? " " + report::to_text(layer.activation_grid) : std::string();
    table.add({layer.name, layer.n, layer.k, std::string(numerics::name_of(layer.weight.dtype)),
               report::to_text(layer.weight_grid), std::string(numerics::name_of(layer.scale.dtype)),
               fmt::format("{}{}", name_of(layer.activations), group), static_cast<double>(layer.bytes),
               std::string(layer.problem ? "no" : "yes")});
  }
  return report::to_text(table, report::terminal_width());
}

std::string unquantized_text(const std::vector<Unquantized>& tensors) {
  using report::Kind;
  report::Table table({{"name", "not quantised", Kind::text},
                       {"shape", "shape", Kind::text},
                       {"dtype", "type", Kind::text},
                       {"bytes", "bytes", Kind::bytes},
                       {"why", "why", Kind::text}});
  for (const Unquantized& tensor : tensors) {
    table.add({tensor.name, json::serialize(json::value_from(tensor.shape)), tensor.dtype_name,
               static_cast<double>(tensor.bytes), tensor.why});
  }
  return report::to_text(table, report::terminal_width());
}

std::string to_text(const Checkpoint& checkpoint) {
  std::uint64_t layer_bytes = 0, other_bytes = 0;
  for (const LinearLayer& layer : checkpoint.layers()) layer_bytes += layer.bytes;
  for (const Unquantized& tensor : checkpoint.unquantized()) other_bytes += tensor.bytes;
  const std::string& method = checkpoint.config().method;
  std::string text = fmt::format("{}: {} file{}, {}\n\n", checkpoint.path().string(), checkpoint.files().size(),
                                 checkpoint.files().size() == 1 ? "" : "s",
                                 method.empty() ? "no quantization_config" : fmt::format("quant_method {}", method));
  if (!checkpoint.layers().empty()) text += layers_text(checkpoint.layers()) + "\n";
  if (!checkpoint.unquantized().empty()) text += unquantized_text(checkpoint.unquantized()) + "\n";
  text += fmt::format("{} quantised layers ({}), {} other tensors ({})\n", checkpoint.layers().size(),
                      report::human_bytes(static_cast<double>(layer_bytes)), checkpoint.unquantized().size(),
                      report::human_bytes(static_cast<double>(other_bytes)));
  return text;
}

class InspectCommand final : public Command {
 public:
  std::string name() const override { return "inspect"; }
  std::string summary() const override { return "The fp8 layers of a checkpoint: shapes, blocks, scales, bytes"; }

  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "checkpoint folder, or one safetensors file")->option_text(" ")->required();
    app.add_flag("--json", json_, "as JSON");
    app.add_option("--block", block_, "weight block where neither file nor shapes say it: 128, 128x128")
        ->option_text("ROWSxCOLS");
    app.footer(footer(kExamples, kExitStatus));
  }

  ExitStatus run() override {
    checkpoint::OpenOptions options;
    options.block = parse_grid_option("--block", block_);
    const Checkpoint checkpoint = Checkpoint::open(path_, options);
    report::print("{}", json_ ? report::to_text(json::value(to_json(checkpoint))) : to_text(checkpoint));
    ExitStatus status = ExitStatus::ok;
    for (const LinearLayer& layer : checkpoint.layers()) {
      if (!layer.problem) continue;
      report::flush_output();
      report::print_error("ironcl inspect: {}\n", layer.problem->what());
      status = ExitStatus::bad_input;
    }
    return status;
  }

 private:
  std::string path_, block_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace ironcl::cli
