// SPDX-License-Identifier: Apache-2.0
// Problems for the Ironwood model.
#include "host/cli/model.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "host/checkpoint/model.h"
#include "host/cli/command.h"
#include "host/cli/parse_option.h"
#include "host/layer/layer_problem.h"
#include "host/report/json.h"
#include "host/report/problem.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using numerics::DType;
using numerics::ScaleGrid;

DType parse_type(const char* option, const std::string& text) {
  const auto type = numerics::parse_dtype(text);
  if (!type) throw CommandError(ExitStatus::usage, fmt::format("{} {}: no such type", option, text));
  return *type;
}

bool parse_switch(const char* option, const std::string& text) {
  if (text == "on" || text == "off" || text == "auto") return text != "off";
  throw CommandError(ExitStatus::usage, fmt::format("{} {}: write on, off or auto", option, text));
}

}  // namespace

ironcl::GemmDesc model_problem(const ModelOptions& options) {
  report::Problem problem;
  problem.m = options.m, problem.n = options.n, problem.k = options.k;
  problem.b = parse_type("--w-dtype", options.w_dtype);
  const ScaleGrid w_grid = *parse_grid_option("--block", options.block);
  if (!numerics::is_float(problem.b)) problem.b_scale = {DType::f32, w_grid};
  const bool square = w_grid.group_rows == w_grid.group_cols && w_grid.group_rows > 0;
  const ScaleGrid x_grid =
      parse_grid_option("--x-block", options.x_block).value_or(square ? w_grid : ScaleGrid{1, w_grid.group_cols});
  const DType x = parse_type("--x-dtype", options.x_dtype);
  const bool quantize = parse_switch("--quantize-activations", options.quantize) && numerics::is_float(x);
  problem.a_source = quantize ? x : DType::none;
  problem.a = quantize ? DType::e4m3fn : x;
  if (quantize || !numerics::is_float(x)) problem.a_scale = {DType::f32, x_grid};
  problem.d = parse_out_dtype(options.out_dtype);
  problem.options = options.plan;
  return report::to_gemm_desc(problem);
}

ModelLayers model_layers(const std::filesystem::path& path, const std::string& glob, const ModelOptions& options) {
  checkpoint::OpenOptions open;
  open.check_values = false;  // only shapes matter here
  const auto checkpoint = checkpoint::Checkpoint::open(path, open);
  const layer::Selection selection = layer::select_layers(checkpoint, glob);
  ModelLayers found{{}, selection.left_out, checkpoint.sources()};
  const DType x = parse_type("--x-dtype", options.x_dtype);
  const bool quantize = parse_switch("--quantize-activations", options.quantize);
  layer::ProblemChoices choices;
  choices.m = options.m;
  choices.x = numerics::is_float(x) ? x : DType::bf16;
  choices.x_block = parse_grid_option("--x-block", options.x_block);
  choices.out = parse_out_dtype(options.out_dtype);
  for (const checkpoint::LinearLayer* layer : selection.layers) {
    report::Problem problem = layer::describe(*layer, choices);
    if (!quantize) {
      problem.a_source = DType::none;
      problem.a = choices.x;
      problem.a_scale = {};
    } else if (!numerics::is_float(x) && problem.a_source != DType::none) {  // it comes quantised
      problem.a_source = DType::none;
      problem.a = x;
    }
    problem.options = options.plan;
    found.layers.push_back({.name = layer->name, .desc = report::to_gemm_desc(problem)});
  }
  return found;
}

std::string tune_blocks(const ironcl::Device& device, const std::filesystem::path& shapes,
                        const std::vector<std::int64_t>& batches, const std::string& tpu) {
  std::ifstream file(shapes);
  if (!file) throw CommandError(ExitStatus::bad_input, fmt::format("{}: cannot be read", shapes.string()));
  std::string line;
  json::array entries;
  for (int number = 1; std::getline(file, line); ++number) {
    line.erase(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::int64_t n = 0, k = 0, q = 0;
    if (!(words >> n)) continue;
    if (!(words >> k >> q)) {
      throw CommandError(ExitStatus::bad_input, fmt::format("{}:{}: write n, k and q", shapes.string(), number));
    }
    struct Kind {
      const char* x;
      bool quantize;
    };
    for (const Kind& kind : {Kind{"bf16", true}, Kind{"bf16", false}, Kind{"e4m3fn", false}}) {
      json::object rows;
      for (const std::int64_t m : batches) {
        ModelOptions options;
        options.m = m, options.n = n, options.k = k;
        options.block = std::to_string(q);
        options.x_block = fmt::format("1x{}", q);
        options.x_dtype = kind.x;
        options.quantize = kind.quantize ? "on" : "off";
        options.plan = {{"tpu", tpu}};
        const json::value report = json::parse(device.query("search", model_problem(options)));
        rows[std::to_string(m)] = report.at("best").at("kernel_blocks");
      }
      entries.push_back({{"tpu", tpu},
                         {"n", n},
                         {"k", k},
                         {"q", q},
                         {"x", kind.x},
                         {"quantize", kind.quantize},
                         {"batches", std::move(rows)}});
    }
  }
  return report::to_text(json::object{
      {"made_by", fmt::format("ironcl model --search --shapes {} --save FILE", shapes.filename().string())},
      {"time_kind", "modelled"},
      {"meaning", "batch (largest m) to kernel blocks [B, O, I]; x scaled 1xq, w q x q, out bf16"},
      {"entries", std::move(entries)}});
}

}  // namespace ironcl::cli
