// SPDX-License-Identifier: Apache-2.0
// Layers of experts: a call beside a loop of single plans over the experts that are hit.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "backends/numerics/casts.h"
#include "host/cli/bench.h"
#include "host/layer/experts_input.h"
#include "host/layer/synthetic.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

using layer::ExpertsForm;
using layer::ExpertsInput;
using numerics::DType;

/// Calls take this many inputs in turn, so that no call finds all its weights in a cache.
constexpr std::size_t kInputs = 4;
constexpr double kTurnNs = 40e6;  ///< Of the loop, between calls of the layer.

/// The same products as a loop: for each expert hit, and the shared one, the work of three plans for single matrices.
/// Rows of x are already sorted, and nothing is combined or waits: this is the loop at its best.
class Loop {
 public:
  Loop(const Device& device, const layer::ExpertsSource& source, const std::vector<ExpertsInput>& inputs,
       DType x_dtype)
      : queue_(device) {
    const ExpertsForm& form = source.form();
    const std::int64_t tokens = inputs.front().tokens;
    std::vector<std::map<std::int64_t, std::int64_t>> rows(inputs.size());  // per input, by expert
    std::int64_t most = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      for (const std::int32_t id : inputs[i].routed->ids) most = std::max(most, ++rows[i][id]);
    // One list for all experts, each with its own copy of the weights.
    const auto list_of = [&](const layer::GatedForm& gated, std::int64_t count) {
      return layer::graph_of(form, gated, {.tokens = count, .x = x_dtype}, &device);
    };
    experts_.emplace(device, list_of(form.experts, most), most);
    if (form.shared) {
      shared_.emplace(device, list_of(*form.shared, tokens), tokens);
      prepare(*shared_, source, true, 0);
      most = std::max(most, tokens);
    }
    std::map<std::int64_t, std::size_t> copies;
    for (const auto& of_input : rows) {
      auto& calls = calls_.emplace_back();
      for (const auto& [expert, count] : of_input) {
        const auto [copy, added] = copies.try_emplace(expert, copies.size());
        if (added) prepare(*experts_, source, false, expert);
        add(calls, *experts_, count, copy->second);
      }
      if (form.shared) add(calls, *shared_, tokens, 0);
    }
    const std::vector<std::byte>& x = inputs.front().x;
    x_ = Buffer(device, layer::bytes_of_matrix(x_dtype, most, form.hidden));
    const std::size_t room = std::min<std::size_t>(x.size(), x_.size());
    queue_.write(x_.span(0, room), std::span(x).first(room)).wait();
  }

  layer::Timing run() {
    std::vector<Event> steps;
    const double start = report::now_ns();
    for (auto& [runner, call] : calls_[next_++ % calls_.size()]) {
      call.bound.front().span = x_;
      Event event = runner->enqueue(queue_, call, &steps);
      steps.push_back(std::move(event));
    }
    Event last = std::move(steps.back());
    steps.pop_back();
    last.wait();
    const double end = report::now_ns();
    layer::Timing timing = layer::time_of(steps, last);
    timing.host_ns = end - start;
    return timing;
  }

 private:
  using Calls = std::vector<std::pair<layer::Runner*, layer::Call>>;

  static void prepare(layer::Runner& runner, const layer::ExpertsSource& source, bool shared, std::int64_t expert) {
    for (std::size_t i = 0; i < runner.graph().operations.size(); ++i)
      if (const auto* product = std::get_if<layer::ProductOp>(&runner.graph().operations[i].what))
        runner.prepare(i, layer::matrix_of(source, shared, product->matrix, expert));
  }
  static void add(Calls& calls, layer::Runner& runner, std::int64_t rows, std::size_t copy) {
    layer::Call call{rows, {{runner.graph().find("x"), {}, {}, true}}, {}};
    call.copy = copy;
    calls.emplace_back(&runner, std::move(call));
  }

  Queue queue_;
  std::optional<layer::Runner> experts_, shared_;
  std::vector<Calls> calls_;  ///< By input.
  Buffer x_;
  std::size_t next_ = 0;
};

/// Experts hit by an input's tokens, averaged over inputs.
std::int64_t experts_hit(const ExpertsForm& form, const std::vector<ExpertsInput>& inputs) {
  std::int64_t hit = 0;
  for (const ExpertsInput& input : inputs) hit += form.routing.experts - layer::unchosen_experts(form, *input.routed);
  return (hit + std::ssize(inputs) / 2) / std::ssize(inputs);
}

std::string accuracy_of(const layer::Runner& runner) {
  numerics::AccuracyClass weakest = numerics::AccuracyClass::f32;
  for (const layer::PlanInfo& plan : runner.plans()) weakest = std::max(weakest, plan.accuracy);
  return std::string(numerics::name_of(weakest));
}

}  // namespace

double expert_bytes(const ExpertsForm& form, const layer::GatedForm& expert) {
  const double h = static_cast<double>(form.hidden), i = static_cast<double>(expert.width);
  const auto scales = [&](const layer::MatrixForm& matrix, std::int64_t n, std::int64_t k) {
    return static_cast<double>(matrix.scale.grid.scale_rows(n) * matrix.scale.grid.scale_cols(k)) *
           static_cast<double>(numerics::size_of(matrix.scale.dtype));
  };
  return 3 * h * i * static_cast<double>(numerics::size_of(expert.gate.code)) +
         2 * scales(expert.gate, expert.width, form.hidden) + scales(expert.down, form.hidden, expert.width);
}

double flops_of(const ExpertsForm& form, std::int64_t tokens) {
  const std::int64_t rows = tokens * form.routing.top_k;
  return 6 * static_cast<double>(rows * form.experts.width + (form.shared ? tokens * form.shared->width : 0)) *
         static_cast<double>(form.hidden);
}

BenchTable experts_table(BenchTable::Say say) {
  return {
      "device model tokens experts hit rows variant accuracy_class verdict time_ns spread time_kind host_ns loop_ns "
      "over_loop gflops gbytes_per_s of_copy_ceiling max_error_over_bound tokens_checked weights_bytes runs why",
      "tokens hit rows variant accuracy_class verdict time_ns spread loop_ns over_loop gflops gbytes_per_s "
      "of_copy_ceiling max_error_over_bound",
      std::move(say)};
}

bool bench_experts(const Device& device, const layer::ExpertsSource& source, const ExpertsBench& bench,
                   const BenchSettings& settings, double copy_bytes_per_second, BenchTable& table) {
  const ExpertsForm& form = source.form();
  const BenchRow begin = {
      {"device", device.uri()}, {"model", form.name}, {"tokens", bench.tokens}, {"experts", form.routing.experts}};
  return table.attempt(begin, [&](BenchRow& row) {
    layer::Experts experts(device, source, bench.choices);
    std::vector<ExpertsInput> inputs;
    for (std::size_t i = 0; i < kInputs; ++i)
      inputs.push_back(layer::make_experts_input(form, bench.tokens, bench.skew, settings.seed + i));
    std::vector<layer::Execution> whole;
    for (const ExpertsInput& input : inputs) whole.emplace_back(device, experts, input);
    layer::Check check =
        whole.front().check(layer::expect(layer::oracle_of(source, inputs.front(), &*inputs.front().routed),
                                          experts.runner().graph(), settings.check_rows));
    if (!check.pass) check.why = fmt::format("y of token {}", check.comparison.worst_row);
    add_check(row, check);

    std::optional<Loop> loop;
    if (bench.loop) loop.emplace(device, source, inputs, DType::bf16);
    std::vector<double> looped, ratios;
    // Alternating, so that disturbances of the machine affect both.
    const auto loop_turn = [&](const std::vector<double>& slice, std::uint32_t) {
      if (!loop) return;
      std::vector<double> turn;
      for (double spent = 0; turn.empty() || spent < kTurnNs; spent += turn.back()) turn.push_back(loop->run().ns());
      looped.insert(looped.end(), turn.begin(), turn.end());
      if (!slice.empty()) ratios.push_back(tuning::summarize(turn).median / tuning::summarize(slice).median);
    };
    std::size_t next = 0;
    const Timed timed = measure([&] { return whole[next++ % whole.size()].run(); }, settings, loop_turn);
    const std::int64_t hit = experts_hit(form, inputs), rows = bench.tokens * form.routing.top_k;
    add_times(row, timed, flops_of(form, bench.tokens),
              static_cast<double>(hit) * expert_bytes(form, form.experts) +
                  (form.shared ? expert_bytes(form, *form.shared) : 0),
              copy_bytes_per_second);
    row["hit"] = hit;
    row["rows"] = rows;
    row["variant"] = experts.first_product().variant;
    row["accuracy_class"] = accuracy_of(experts.runner());
    row["weights_bytes"] = static_cast<double>(experts.weights_bytes());
    if (!loop) return;
    row["loop_ns"] = tuning::summarize(looped).median;
    row["over_loop"] = tuning::summarize(ratios).median;
  });
}

}  // namespace ironcl::cli
