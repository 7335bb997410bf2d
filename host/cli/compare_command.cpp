// SPDX-License-Identifier: Apache-2.0
// ironcl compare: runs the layers of a checkpoint on every device and proves that the results agree.
#include <fnmatch.h>

#include "host/cli/activation_options.h"
#include "host/cli/command.h"
#include "host/cli/compare_report.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/cli/progress_line.h"
#include "host/cli/ranks_options.h"
#include "host/layer/judge.h"
#include "host/layer/selection.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/print.h"
#include "host/report/table.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

constexpr const char* kAll = "*";

class CompareCommand final : public Command {
 public:
  CompareCommand()
      : Command(
            "compare", "Run layers on every device and prove that the results agree",
            R"(  ironcl compare model-fp8/                                  every layer, 16 random rows, every device
  ironcl compare model-fp8/ --layer '*.q_proj' --m 128       the layers whose names match
  ironcl compare model-fp8/ --layer '*.mlp'                  whole layers of experts
  ironcl compare layer.safetensors --input layer.safetensors:x --expect layer.safetensors:y_f64
  ironcl compare layer.safetensors --input-q layer.safetensors:x_q,x_scale --out-dtype bf16
  ironcl compare model-fp8/ --accuracy both                  tensor cores that add in 14 bits, too
  ironcl compare model-fp8/ --device opencl:gpu --device ironwood:0 --json report.json
)") {
    add_value(*this, "--layer GLOB", layer_,
              "layers to run, by name with * and ? (default: all); '*.mlp' names layers of\n"
              "experts, which are run whole where they are named");
    add_tensor_ref(*this, "--expect FILE:TENSOR", expect_, 1, "output [M, N] of another program; may be repeated")
        ->expected(1)
        ->take_all();
    add_value(*this, "--device URI", devices_, "device to use; may be repeated (default: every one, models too)")
        ->expected(1)
        ->take_all();
    add_value(*this, "--json FILE", json_, "write the report as JSON; - is the standard output, without the tables");
    ranks_.declare(*this);
  }

  ExitStatus run() override {
    layer::JudgeSettings settings;
    settings.out = operands_.out;
    settings.weakest_accuracies = operands_.accuracies;
    const layer::ActivationSource& source = operands_.source();
    ranks_.start();
    const checkpoint::Checkpoint checkpoint = ranks_.open([this] { return operands_.open_checkpoint(); });
    report::check_outputs({json_}, operands_.inputs(checkpoint, expect_));
    CompareReport report;
    report.path = operands_.path;
    report.command_tail = operands_.command_tail(ranks_.on());
    std::vector<WholeLayer> whole = select_experts(checkpoint, source, report.left_out);
    const layer::Selection selection =
        whole.empty() || names_matrices(checkpoint) ? layer::select_layers(checkpoint, layer_) : layer::Selection();
    report.left_out.insert(report.left_out.end(), selection.left_out.begin(), selection.left_out.end());
    const auto& layers = selection.layers;
    check_options(layers, whole);
    // Operands before devices: a bad file is reported where there is no device, too.
    std::size_t at = 0, done = 0;  // the layer in hand, and how many devices have done it
    std::optional<layer::Activations> a = next_activations(source, layers, at, report.left_out);
    if (!a && whole.empty()) throw layer::none_usable(operands_.path, report.left_out);
    for (const std::string& ref : expect_)
      settings.expectations.push_back(
          a ? layer::load_expectation(ref, a->problem.m, layers.front()->n)
            : layer::load_expectation(ref, whole.front().input.tokens, whole.front().source->form().hidden));
    const ironcl::Registry registry = ironcl::Registry::discover();
    const std::vector<ironcl::Device> devices =
        ranks_.on() ? ranks_.devices(registry, devices_) : find_devices(registry, devices_);
    settings.substitute = ranks_.substitute();
    const bool only_models = std::ranges::all_of(devices, is_model);
    report.asked_for_models = only_models && !devices_.empty();
    if (only_models && devices_.empty()) {
      report.missing = why_only_models(registry);
      report::print_error_text(fmt::format("ironcl compare: {}\n", report.missing));
    }

    const bool quiet = json_ == "-";
    const report::GroupedText table(sample_of(devices, settings), report::terminal_width());
    ProgressLine line;
    const auto say = [&line, quiet](const std::string& text) { quiet ? line.clear() : line.print(text); };
    const std::size_t count = layers.size() + whole.size();
    say(fmt::format("{}: {}, activations {}, result {}\n\n{}", operands_.path, report::counted(count, "layer"),
                    a ? a->origin : whole.front().input.origin, numerics::name_of(operands_.out), table.heading()));
    settings.progress = [&](const layer::DeviceReport& device) {
      const std::string& name = at < layers.size() ? layers[at]->name : whole[at - layers.size()].source->form().name;
      line.show((static_cast<double>(at) + static_cast<double>(++done) / static_cast<double>(devices.size())) /
                    static_cast<double>(count),
                fmt::format("{}/{} {}: {} done", at + 1, count, name, device.uri));
    };
    const auto judged = [&](layer::CaseReport one) {
      report.cases.push_back(std::move(one));
      if (source.made_up()) report.cases.back().seed = source.seed;
      say(table.rows(table_of(report.cases.back())));
      ++at;
      done = 0;
    };
    for (; a; a = next_activations(source, layers, at, report.left_out))
      judged(layer::judge(*layers[at], *a, devices, settings));
    for (const WholeLayer& one : whole) judged(layer::judge(*one.source, one.input, devices, settings));
    say(closing_text(report));
    if (!json_.empty() && ranks_.writes()) report::write_file(json_, report::to_text(json::value(to_json(report))));
    return report.conclusion().status;
  }

 private:
  /// A layer of experts with what enters it.
  struct WholeLayer {
    std::unique_ptr<layer::ExpertsSource> source;
    layer::ExpertsInput input;
  };

  /// The layers of experts that --layer names. Throws checkpoint::Error where that is one, and it is broken.
  std::vector<WholeLayer> select_experts(const checkpoint::Checkpoint& checkpoint,
                                         const layer::ActivationSource& source,
                                         std::vector<layer::LeftOut>& left_out) const {
    std::vector<WholeLayer> whole;
    if (layer_ == kAll) return whole;
    const auto matches = layer::match_experts(checkpoint, layer_);
    for (const checkpoint::ExpertsLayer* one : matches) {
      if (one->problem && (matches.size() > 1 || names_matrices(checkpoint))) {
        left_out.push_back({one->name, one->problem->message()});
        continue;
      }
      operands_.check_for_experts(one->name);
      WholeLayer& made = whole.emplace_back();
      made.source = layer::source_of(checkpoint, *one, !source.weight_only);
      made.input = layer::load_experts_input(source, operands_.routing, made.source->form());
    }
    return whole;
  }

  /// Whether --layer names single matrices, too.
  bool names_matrices(const checkpoint::Checkpoint& checkpoint) const {
    return std::ranges::any_of(checkpoint.layers(), [this](const checkpoint::LinearLayer& one) {
      return fnmatch(layer_.c_str(), one.name.c_str(), 0) == 0;
    });
  }

  void check_options(const std::vector<const checkpoint::LinearLayer*>& layers,
                     const std::vector<WholeLayer>& whole) const {
    const std::size_t count = layers.size() + whole.size();
    if (!expect_.empty() && count > 1)
      usage("--expect is about one layer, but {} match; choose one with --layer, such as --layer {}", count,
            shell_word(layers.empty() ? whole.front().source->form().name : layers.front()->name));
    if (!operands_.routing.empty() && (!layers.empty() || whole.size() != 1))
      usage("--routing is about one layer of experts; name it with --layer, such as --layer model.layers.0.mlp");
  }

  /// The activations of the first layer from `next` on that has some; the others are left out. `next` becomes its
  /// index. Throws checkpoint::Error where there is one layer only.
  static std::optional<layer::Activations> next_activations(const layer::ActivationSource& source,
                                                            const std::vector<const checkpoint::LinearLayer*>& layers,
                                                            std::size_t& next,
                                                            std::vector<layer::LeftOut>& left_out) {
    for (; next < layers.size(); ++next) {
      try {
        return layer::load_activations(source, *layers[next]);
      } catch (const checkpoint::Error& error) {
        // Only a layer's own K and settings are the layer's; a file that is not there is nobody's.
        const bool own = error.kind() == checkpoint::ErrorKind::shape || error.tensor() == layers[next]->name;
        if (!own || layers.size() == 1) throw;
        left_out.push_back(layer::left_out(*layers[next], error));
      }
    }
    return std::nullopt;
  }

  ActivationOptions operands_{*this, true};
  RanksOptions ranks_;
  std::string layer_ = kAll, json_;
  std::vector<std::string> expect_, devices_;
};

}  // namespace

std::shared_ptr<Command> make_compare_command() { return std::make_shared<CompareCommand>(); }

}  // namespace ironcl::cli
