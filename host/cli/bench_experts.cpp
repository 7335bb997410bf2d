// SPDX-License-Identifier: Apache-2.0
// Whole layers of experts.

#include "backends/words.h"
#include "host/cli/bench.h"
#include "host/layer/experts_input.h"
#include "host/layer/synthetic.h"

namespace ironcl::cli {
namespace {

using layer::ExpertsForm;
using layer::ExpertsInput;

/// Calls take this many inputs in turn, so that no call finds all its weights in a cache.
constexpr std::size_t kInputs = 4;

/// Experts hit by an input's tokens, averaged over inputs.
std::int64_t experts_hit(const ExpertsForm& form, const std::vector<ExpertsInput>& inputs) {
  std::int64_t hit = 0;
  for (const ExpertsInput& input : inputs)
    hit += form.routing.experts - std::ssize(layer::unchosen_experts(form, *input.routed));
  return (hit + std::ssize(inputs) / 2) / std::ssize(inputs);
}

}  // namespace

std::uint64_t expert_bytes(const ExpertsForm& form, const layer::GatedForm& expert) {
  const auto bytes = [](const layer::MatrixForm& matrix, std::int64_t n, std::int64_t k) {
    const numerics::ScaleGrid& grid = matrix.scale.grid;
    return layer::bytes_of_matrix(matrix.code, n, k) +
           layer::bytes_of_matrix(matrix.scale.dtype, grid.scale_rows(n), grid.scale_cols(k));
  };
  return 2 * bytes(expert.gate, expert.width, form.hidden) + bytes(expert.down, form.hidden, expert.width);
}

double flops_of(const ExpertsForm& form, std::int64_t tokens) {
  const std::int64_t rows = tokens * form.routing.top_k;
  return 6 * static_cast<double>(rows * form.experts.width + (form.shared ? tokens * form.shared->width : 0)) *
         static_cast<double>(form.hidden);
}

const BenchColumns kExpertsColumns = {
    "device model tokens experts hit rows launches variant accuracy_class verdict time_ns spread time_kind host_ns "
    "gflops gbytes_per_s of_copy_ceiling max_error_over_bound tokens_checked weights_bytes runs why",
    "tokens hit rows launches variant accuracy_class verdict time_ns spread gflops gbytes_per_s of_copy_ceiling "
    "max_error_over_bound"};

void bench_experts(const Device& device, const layer::ExpertsSource& source, const layer::ExpertsChoices& choices,
                   const BenchSettings& settings, BenchTable& table) {
  const ExpertsForm& form = source.form();
  const BenchRow begin = {
      {"device", device.uri()}, {"model", form.name}, {"tokens", choices.tokens}, {"experts", form.routing.experts}};
  table.attempt(begin, [&](BenchRow& row) {
    layer::Runner experts = layer::experts_on(device, source, choices);
    std::vector<ExpertsInput> inputs;
    for (std::size_t i = 0; i < kInputs; ++i)
      inputs.push_back(layer::make_experts_input(form, choices.tokens, settings.skew, settings.seed + i));
    if (settings.router)
      for (ExpertsInput& input : inputs) input.routed.reset();
    auto whole =
        words::each(inputs, [&](const ExpertsInput& input) { return layer::Execution(device, experts, input); });
    // A model's steps have modelled times each; elsewhere what a caller waits for is the whole.
    if (device.props().type != IRONCL_DEVICE_MODEL)
      for (layer::Execution& one : whole) one.record();
    // The rest of the layer is judged by what the device has chosen: near ties decide between experts.
    for (std::size_t i = 0; settings.router && i < inputs.size(); ++i) inputs[i].routed = whole[i].compute().routed;
    layer::Check check = whole.front().check(
        layer::expect(layer::oracle_of(source, inputs.front()), experts.graph(), settings.check_rows));
    if (!check.pass) check.why = fmt::format("y of token {}", check.comparison.worst_row);
    add_check(row, check);
    std::size_t next = 0;
    const auto run = [&] { return whole[next++ % whole.size()].run(); };
    add_launches(row, device, run);
    const Timed timed = measure(run, settings);
    const std::int64_t hit = experts_hit(form, inputs), rows = choices.tokens * form.routing.top_k;
    add_times(row, timed, flops_of(form, choices.tokens),
              static_cast<double>(static_cast<std::uint64_t>(hit) * expert_bytes(form, form.experts) +
                                  (form.shared ? expert_bytes(form, *form.shared) : 0)),
              settings.copy_bytes_per_second);
    row["hit"] = hit;
    row["rows"] = rows;
    const std::string fused = whole.front().variant();
    row["variant"] = fused.empty() ? layer::first_plan(experts).variant : fused;
    row["accuracy_class"] =
        numerics::name_of(std::ranges::max(experts.plans(), {}, &layer::PlanInfo::accuracy).accuracy);
    row["weights_bytes"] = static_cast<double>(experts.weights_bytes());
  });
}

}  // namespace ironcl::cli
