// SPDX-License-Identifier: Apache-2.0
// ironcl run: one layer on one device, the result as safetensors.

#include "host/checkpoint/safetensors_writer.h"
#include "host/cli/activation_options.h"
#include "host/cli/command.h"
#include "host/cli/compare_report.h"
#include "host/cli/parse_option.h"
#include "host/cli/ranks_options.h"
#include "host/layer/execution.h"
#include "host/layer/experts_input.h"
#include "host/report/file.h"
#include "host/report/print.h"
#include "host/report/problem.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

class RunCommand final : public Command {
 public:
  RunCommand()
      : Command(
            "run", "Run one layer on one device and write the result",
            R"(  ironcl run layer.safetensors --layer weight --input layer.safetensors:x --device opencl:0 --output y.safetensors
  ironcl run model-fp8/ --layer model.layers.0.mlp --input x.safetensors:x --output y.safetensors   a layer of experts
  ironcl run model-fp8/ --layer model.layers.0.self_attn.q_proj --input x.safetensors:x --device auto --out-dtype bf16 \
      --output y.safetensors
)") {
    add_value(*this, "--layer NAME", layer_, "the layer, by its full name; `ironcl inspect` lists them")->required();
    add_value(*this, "--device URI", device_, "where to run: opencl:0, opencl:gpu, ironwood:0, auto (default: auto)");
    add_value(*this, "--output FILE", output_, "safetensors file to write; - is the standard output")->required();
    ranks_.declare(*this);
  }

  ExitStatus run() override {
    const layer::ActivationSource& source = operands_.source();
    if (source.made_up()) usage("there are no activations; give --input FILE:TENSOR or --input-q FILE:VALUES,SCALES");
    ranks_.start();
    const checkpoint::Checkpoint checkpoint = ranks_.open([this] { return operands_.open_checkpoint(); });
    report::check_outputs({output_}, operands_.inputs(checkpoint));
    for (const checkpoint::ExpertsLayer& one : checkpoint.experts())
      if (one.name == layer_) return run_experts(checkpoint, one, source);
    if (!operands_.routing.empty()) usage("--routing is about layers of experts, and {} is not one", layer_);
    const checkpoint::LinearLayer& layer = checkpoint.layer(layer_);
    const layer::Activations a = layer::load_activations(source, layer);
    const layer::LayerWeights weights = layer::weights_of(layer);
    report::Problem problem = a.problem;
    problem.d = operands_.out;
    problem.weakest_accuracy = operands_.accuracies.front();

    const ironcl::Registry registry = ironcl::Registry::discover();
    const ironcl::Device device = choose(registry, report::to_gemm_desc(problem));
    const layer::Operands operands = layer::operands_of(a, weights);
    const layer::Output result = ranks_.on() ? ranks_.substitute()->run(layer.name, problem, operands).output
                                             : layer::Execution(device, problem, operands).compute();
    finish(device, result, {{.name = "y", .dtype = problem.d, .shape = {problem.m, problem.n}, .data = result.d}},
           {{"problem", report::to_line(problem)}, {"variant", result.variant}});
    return ExitStatus::ok;
  }

 private:
  ExitStatus run_experts(const checkpoint::Checkpoint& checkpoint, const checkpoint::ExpertsLayer& experts_layer,
                         const layer::ActivationSource& source) {
    operands_.check_for_experts(layer_);
    const auto weights = layer::source_of(checkpoint, experts_layer, !source.weight_only);
    const layer::ExpertsForm& form = weights->form();
    const layer::ExpertsInput input = layer::load_experts_input(source, operands_.routing, form);
    const layer::ExpertsChoices choices{.tokens = std::max<std::int64_t>(input.tokens, 1),
                                        .x = input.x_dtype,
                                        .out = operands_.out,
                                        .weakest_accuracy = operands_.accuracies.front()};
    const ironcl::Registry registry = ironcl::Registry::discover();
    const ironcl::Device device = choose(registry, layer::first_problem(form, choices));
    layer::Output result;
    try {
      if (ranks_.on()) {
        result = ranks_.substitute()->run(*weights, input, choices).output;
      } else {
        layer::Runner experts = layer::experts_on(device, *weights, choices);
        result = layer::Execution(device, experts, input).compute();
      }
    } catch (const ironcl::Error& error) {
      if (!error.is_refusal()) throw;
      fail(ExitStatus::no_device, "--device {}: {}", device_, error.what());
    }
    const std::vector<std::int64_t> slots = {input.tokens, form.routing.top_k};
    finish(device, result,
           {{.name = "y", .dtype = choices.out, .shape = {input.tokens, form.hidden}, .data = result.d},
            {.name = "ids", .dtype = DType::s32, .shape = slots, .data = std::as_bytes(std::span(result.routed.ids))},
            {.name = "weights",
             .dtype = DType::f32,
             .shape = slots,
             .data = std::as_bytes(std::span(result.routed.weights))}},
           {{"layer", form.name}});
    return ExitStatus::ok;
  }

  /// Writes the tensors, of which the first is y, and says what was written.
  void finish(const ironcl::Device& device, const layer::Output& result,
              const std::vector<checkpoint::Tensor>& tensors, checkpoint::Metadata metadata) const {
    metadata["device"] = fmt::format("{} ({})", device.uri(), device.name());
    metadata["source"] = std::string("ironcl ") + ironcl_build_id();
    if (ranks_.writes()) checkpoint::write_safetensors(output_, tensors, metadata);
    const auto shape = [&tensors](std::size_t i) {
      return fmt::format("[{}, {}]", tensors[i].shape[0], tensors[i].shape[1]);
    };
    const layer::Timing& timing = result.timing;
    const std::string done = fmt::format(
        "{}: y {} {}{} by {} ({}){}\n", output_, shape(0), numerics::name_of(operands_.out),
        tensors.size() > 1 ? ", ids and weights " + shape(1) : "", device.uri(), device.name(),
        timing.time_kind != IRONCL_TIME_NONE
            ? fmt::format(", {} {}", report::human_time(timing.device_ns), layer::time_kind_name(timing.time_kind))
            : "");
    output_ == "-" ? report::print_error_text(done) : report::print_text(done);
  }

  ironcl::Device choose(const ironcl::Registry& registry, const ironcl::GemmDesc& desc) {
    if (ranks_.on())
      return ranks_.devices(registry, device_ == "auto" ? std::vector<std::string>() : std::vector{device_}).front();
    try {
      return registry.select(desc, device_);
    } catch (const ironcl::Error& error) {
      const bool malformed = error.status() == IRONCL_INVALID_ARGUMENT;
      fail(malformed ? ExitStatus::usage : ExitStatus::no_device, "--device {}: {}", device_, error.what());
    }
  }

  ActivationOptions operands_{*this, false};
  RanksOptions ranks_;
  std::string layer_, device_ = "auto", output_;
};

}  // namespace

std::shared_ptr<Command> make_run_command() { return std::make_shared<RunCommand>(); }

}  // namespace ironcl::cli
