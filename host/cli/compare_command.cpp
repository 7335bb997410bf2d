// SPDX-License-Identifier: Apache-2.0
// ironcl compare: runs the layers of a checkpoint on every device and proves that the results agree.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "host/cli/activation_options.h"
#include "host/cli/command.h"
#include "host/cli/compare_report.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/layer/judge.h"
#include "host/layer/selection.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/print.h"
#include "host/report/render.h"

namespace ironcl::cli {
namespace {

constexpr const char* kExamples =
    R"(  ironcl compare model-fp8/                                  every layer, 16 made-up rows, every device
  ironcl compare model-fp8/ --layer '*.q_proj' --m 128       the layers whose names match
  ironcl compare layer.safetensors --input layer.safetensors:x --expect layer.safetensors:y_f64
  ironcl compare layer.safetensors --input-q layer.safetensors:x_q,x_scale --out-dtype bf16
  ironcl compare model-fp8/ --device opencl:gpu --device ironwood:0 --json report.json
)";
constexpr const char* kExitStatus =
    R"(  0  every element of every layer is within its bound
  1  an element is out of bounds, or a device failed while it computed
  2  usage
  3  bad input: a file, tensor, shape or scale
  4  no such device, or a layer that no device runs
)";

class CompareCommand final : public Command {
 public:
  std::string name() const override { return "compare"; }
  std::string summary() const override { return "Run layers on every device and prove that the results agree"; }

  void declare(CLI::App& app) override {
    operands_.declare(app, true);
    app.add_option("--layer", layer_, "layers to run, by name with * and ? (default: all)")->option_text("GLOB");
    app.add_option("--expect", expect_, "output [M, N] that somebody else computed; may be repeated")
        ->option_text("FILE:TENSOR")
        ->expected(1)
        ->take_all();
    app.add_option("--device", devices_, "device to use; may be repeated (default: every one, models too)")
        ->option_text("URI")
        ->expected(1)
        ->take_all();
    app.add_option("--json", json_, "write the report as JSON; - is the standard output, without the tables")
        ->option_text("FILE");
    app.footer(footer(kExamples, kExitStatus));
  }

  ExitStatus run() override {
    layer::JudgeSettings settings;
    settings.out = parse_out_dtype(operands_.out);
    settings.weakest_accuracy = parse_accuracy_option(operands_.accuracy);
    const layer::ActivationSource source = operands_.source();
    const checkpoint::Checkpoint checkpoint = operands_.open_checkpoint();
    const auto layers = layer::usable_layers(checkpoint, layer_);
    if (!expect_.empty() && layers.size() != 1) {
      throw CommandError(ExitStatus::usage,
                         fmt::format("--expect is about one layer, but {} match; choose one with --layer, such as "
                                     "--layer {}",
                                     layers.size(), shell_word(layers.front()->name)));
    }
    // Operands before devices: a bad file is reported where there is no device, too.
    layer::Activations a = layer::load_activations(source, *layers.front());
    for (const std::string& ref : expect_)
      settings.expectations.push_back(layer::load_expectation(ref, a.m, layers.front()->n));
    const ironcl::Registry registry = ironcl::Registry::discover();
    const std::vector<ironcl::Device> devices = find_devices(registry, devices_);

    CompareReport report;
    report.path = operands_.path;
    report.command_tail = command_tail();
    const bool quiet = json_ == "-";
    if (!quiet) {
      report::print("{}: {} layer{}, activations {}, result {}\n\n", operands_.path, layers.size(),
                    layers.size() == 1 ? "" : "s", a.origin, operands_.out);
      report::flush_output();
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i > 0) a = layer::load_activations(source, *layers[i]);
      report.cases.push_back(layer::judge(*layers[i], a, devices, settings));
      if (source.made_up()) report.cases.back().seed = source.seed;
    }
    if (!quiet) report::print("{}", to_text(report, report::terminal_width()));
    if (!json_.empty()) write_json(report);
    return report.status();
  }

 private:
  std::string command_tail() const {
    std::string tail = operands_.command_tail();
    for (const std::string& ref : expect_) tail += " --expect " + shell_word(ref);
    return tail;
  }

  void write_json(const CompareReport& report) const {
    try {
      report::write_file(json_, report::to_text(boost::json::value(to_json(report))));
    } catch (const std::runtime_error& error) {
      throw CommandError(ExitStatus::bad_input, fmt::format("--json {}", error.what()));
    }
  }

  ActivationOptions operands_;
  std::string layer_ = "*", json_;
  std::vector<std::string> expect_, devices_;
};

}  // namespace

std::unique_ptr<Command> make_compare_command() { return std::make_unique<CompareCommand>(); }

}  // namespace ironcl::cli
