// SPDX-License-Identifier: Apache-2.0
// Layers of experts: a call beside a loop of single plans over the experts that are hit.
#include "host/cli/bench_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "backends/numerics/casts.h"
#include "host/layer/execution.h"
#include "host/layer/experts_input.h"
#include "host/layer/experts_synthetic.h"
#include "host/report/units.h"
#include "host/tuning/statistics.h"

namespace ironcl::cli {
namespace {

using layer::ExpertsForm;
using layer::ExpertsInput;
using layer::Projection;
using layer::Timing;
using numerics::DType;
using report::Kind;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Bytes of codes and scales of an expert's three matrices.
double expert_bytes(const ExpertsForm& form, const layer::GatedForm& expert) {
  const double h = static_cast<double>(form.hidden), i = static_cast<double>(expert.width);
  const auto scales = [&](const layer::MatrixForm& matrix, std::int64_t n, std::int64_t k) {
    return static_cast<double>(matrix.scale.grid.scale_rows(n) * matrix.scale.grid.scale_cols(k)) *
           static_cast<double>(numerics::size_of(matrix.scale.dtype));
  };
  return 3 * h * i * static_cast<double>(numerics::size_of(expert.gate.code)) +
         2 * scales(expert.gate, expert.width, form.hidden) + scales(expert.down, form.hidden, expert.width);
}

/// The list of one gated MLP for up to `most` rows that lie one after another, quantised in the plans.
layer::Graph list_of(const ExpertsForm& form, const layer::GatedForm& gated, std::int64_t most, DType x_dtype) {
  layer::Graph list;
  const layer::ValueId x = list.add({"x", x_dtype, form.hidden});
  list.values[x].brought = true;
  const layer::ValueId gate = list.add({"gate", DType::f32, gated.width}),
                       up = list.add({"up", DType::f32, gated.width});
  for (const layer::ValueId half : {gate, up}) list.values[half].ld = 2 * gated.width;
  list.values[up].within = gate;
  list.values[up].first_col = gated.width;
  const layer::ValueId h = list.add({"activation", DType::f32, gated.width});
  list.result = list.add({"down", DType::f32, form.hidden});
  const auto multiply = [&](Projection matrices, DType source, std::int64_t n, std::int64_t k, layer::ValueId a,
                            std::vector<layer::ValueId> d) {
    const layer::MatrixForm& b = matrices == Projection::down ? gated.down : gated.gate;
    layer::ProductOp op;
    op.problem.m = most;
    op.problem.n = n;
    op.problem.k = k;
    op.problem.a_source = source;
    op.problem.a = form.x.code;
    op.problem.a_scale = {DType::f32, {1, form.x.grid.group_cols}};
    op.problem.b = b.code;
    op.problem.b_scale = b.scale;
    op.problem.d = DType::f32;
    op.matrices = {matrices};
    list.operations.push_back({layer::name_of(matrices),
                               std::move(op),
                               {a, layer::kNoValue, layer::kNoValue, layer::kNoValue},
                               std::move(d)});
  };
  multiply(Projection::gate_up, x_dtype, 2 * gated.width, form.hidden, x, {gate, up});
  list.operations.push_back({"activation", layer::ActivateOp{}, {gate, up, layer::kNoValue}, {h}});
  multiply(Projection::down, DType::f32, form.hidden, gated.width, h, {list.result});
  return list;
}

/// The same products as a loop: for each expert that is hit, and the shared one, three plans' worth of work by plans
/// for single matrices. Rows of x lie sorted already, nothing is combined and nothing waits: the loop is shown at its
/// best.
class Loop {
 public:
  Loop(const Device& device, const layer::ExpertsSource& source, const ExpertsInput& input, DType x_dtype)
      : queue_(device) {
    const ExpertsForm& form = source.form();
    std::map<std::int64_t, std::int64_t> rows;
    std::int64_t most = 0;
    for (const std::int32_t id : input.routed->ids) most = std::max(most, ++rows[id]);
    // One list for all experts: each has its own copy of the weights.
    experts_.emplace(device, list_of(form, form.experts, most, x_dtype), most);
    for (const auto& [expert, count] : rows) add(*experts_, source, false, expert, count);
    if (form.shared) {
      shared_.emplace(device, list_of(form, *form.shared, input.tokens, x_dtype), input.tokens);
      add(*shared_, source, true, 0, input.tokens);
      most = std::max(most, input.tokens);
    }
    x_ = Buffer(device, layer::bytes_of_matrix(x_dtype, most, form.hidden));
    const std::size_t room = std::min<std::size_t>(input.x.size(), x_.size());
    queue_.write(x_.span(0, room), std::span(input.x).first(room)).wait();
  }

  Timing run() {
    std::vector<Event> steps;
    const double before = now_ns();
    for (auto& [runner, call] : calls_) {
      call.bound.front().span = x_;
      Event event = runner->enqueue(queue_, call, &steps);
      steps.push_back(std::move(event));
    }
    Event last = std::move(steps.back());
    steps.pop_back();
    last.wait();
    const double after = now_ns();
    Timing timing = layer::time_of(steps, last);
    timing.host_ns = after - before;
    return timing;
  }

 private:
  void add(layer::Runner& runner, const layer::ExpertsSource& source, bool shared, std::int64_t expert,
           std::int64_t rows) {
    layer::Call call{rows, {{runner.graph().find("x"), {}, {}, true}}, {}};
    call.copy = runner.weights(0)->size();
    runner.prepare(0, layer::matrix_of(source, shared, Projection::gate_up, expert));
    runner.prepare(2, layer::matrix_of(source, shared, Projection::down, expert));
    calls_.emplace_back(&runner, std::move(call));
  }

  Queue queue_;
  std::optional<layer::Runner> experts_, shared_;
  std::vector<std::pair<layer::Runner*, layer::Call>> calls_;
  Buffer x_;
};

layer::ExpertsChoices choices_of(const ExpertsBench& settings, std::int64_t tokens) {
  layer::ExpertsChoices choices;
  choices.tokens = tokens;
  choices.weakest_accuracy = settings.weakest_accuracy;
  choices.options = settings.options;
  return choices;
}

/// A layer with one number of tokens, which has plans of its own, as each M has in a bench of single products.
class Case {
 public:
  Case(const Device& device, const layer::ExpertsSource& source, const ExpertsBench& settings, std::int64_t tokens)
      : device_(device),
        source_(source),
        settings_(settings),
        experts_(device, source, choices_of(settings, tokens)),
        input_(layer::make_experts_input(source.form(), tokens, settings.skew, settings.seed)),
        whole_(device, experts_, input_) {}

  /// Some tokens of the first call; whether they are right.
  bool check();
  void time();
  std::vector<report::Cell> cells() const;  ///< As experts_table() has columns.
  std::string line() const;                 ///< As heading() has columns.

 private:
  const ExpertsForm& form() const { return experts_.form(); }
  std::int64_t rows() const { return input_.tokens * form().routing.top_k; }
  std::int64_t hit() const { return layer::experts_hit(form(), *input_.routed); }
  std::string accuracy() const;
  std::string verdict() const { return checked_.pass ? "pass" : "fail"; }
  double bytes_per_second() const;
  double gflops() const;
  report::Cell loop_time() const;
  report::Cell over_loop() const;
  report::Cell of_copy() const;

  const Device& device_;
  const layer::ExpertsSource& source_;
  const ExpertsBench& settings_;
  layer::Experts experts_;
  ExpertsInput input_;
  layer::Execution whole_;
  layer::Check checked_;
  std::string why_;  ///< Which token is wrong; empty on a pass.
  Timed measured_;
  std::optional<tuning::Summary> looped_;
};

bool Case::check() {
  checked_ = whole_.check(layer::expect(source_, input_, experts_.runner().graph(), settings_.check_tokens));
  if (!checked_.pass) why_ = fmt::format("y of token {}", checked_.comparison.worst_row);
  return checked_.pass;
}

void Case::time() {
  measured_ = measure(whole_, settings_.measure);
  if (!settings_.loop) return;
  Loop loop(device_, source_, input_, DType::bf16);
  looped_ = measure(loop, settings_.measure).device;
}

std::string Case::accuracy() const {
  numerics::AccuracyClass weakest = numerics::AccuracyClass::f32;
  for (const layer::PlanInfo& plan : experts_.runner().plans()) weakest = std::max(weakest, plan.accuracy);
  return std::string(numerics::name_of(weakest));
}

double Case::bytes_per_second() const {
  const double bytes = static_cast<double>(hit()) * expert_bytes(form(), form().experts) +
                       (form().shared ? expert_bytes(form(), *form().shared) : 0);
  return bytes / measured_.device.median * 1e9;
}

double Case::gflops() const {
  const double width_rows = static_cast<double>(rows()) * static_cast<double>(form().experts.width) +
                            (form().shared ? static_cast<double>(input_.tokens * form().shared->width) : 0);
  return 6 * width_rows * static_cast<double>(form().hidden) / measured_.device.median;
}

report::Cell Case::loop_time() const {
  if (!looped_) return {};
  return looped_->median;
}

report::Cell Case::over_loop() const {
  if (!looped_) return {};
  return looped_->median / measured_.device.median;
}

report::Cell Case::of_copy() const {
  if (!is_measured(measured_.kind) || settings_.copy_bytes_per_second <= 0) return {};
  return bytes_per_second() / settings_.copy_bytes_per_second;
}

std::vector<report::Cell> Case::cells() const {
  return {device_.uri(),
          form().name,
          input_.tokens,
          form().routing.experts,
          hit(),
          rows(),
          experts_.first_product().variant,
          accuracy(),
          verdict(),
          measured_.device.median,
          measured_.device.spread(),
          layer::call_kind_name(measured_.kind),
          measured_.host.median,
          loop_time(),
          over_loop(),
          gflops(),
          bytes_per_second() / 1e9,
          of_copy(),
          checked_.comparison.max_error_over_bound,
          checked_.rows_checked,
          static_cast<double>(experts_.weights_bytes()),
          static_cast<std::int64_t>(measured_.device.count),
          why_};
}

std::string heading(const ExpertsForm& form) {
  return fmt::format(
      "{}: {} experts of [{}, {}], {} a token{}\n{:>6} {:>5} {:>6}  {:<18} {:<8} {:<11} {:>11} {:>7} {:>11} {:>8} "
      "{:>9} {:>8} {:>7} {:>9}\n",
      form.name, form.routing.experts, form.experts.width, form.hidden, form.routing.top_k,
      form.shared ? ", a shared one" : "", "T", "hit", "rows", "variant", "class", "verdict", "time", "spread",
      "loop", "of loop", "GFLOP/s", "GB/s", "of copy", "err/bound");
}

std::string Case::line() const {
  return fmt::format(
      "{:>6} {:>5} {:>6}  {:<18} {:<8} {:<11} {:>11} {:>6.1f}% {:>11} {:>8} {:>9.4g} {:>8.4g} {:>7} {:>9} {}\n",
      input_.tokens, hit(), rows(), experts_.first_product().variant, accuracy(), verdict(),
      report::human_text(measured_.device.median, Kind::time), measured_.device.spread() * 100,
      report::human_text(loop_time(), Kind::time), report::human_text(over_loop(), Kind::number), gflops(),
      bytes_per_second() / 1e9, report::human_text(of_copy(), Kind::number),
      report::human_text(checked_.comparison.max_error_over_bound, Kind::number), why_);
}

/// The row of a device that does not run the layer, or failed.
std::vector<report::Cell> row_without_figures(const Device& device, const ExpertsForm& form,
                                              const std::string& verdict, const std::string& why) {
  std::vector<report::Cell> row(experts_table().columns().size());
  row[0] = device.uri();
  row[1] = form.name;
  row[8] = verdict;
  row.back() = why;
  return row;
}

}  // namespace

report::Table experts_table() {
  return report::Table({{"device", "device", Kind::text},
                        {"model", "model", Kind::text},
                        {"tokens", "T", Kind::integer},
                        {"experts", "E", Kind::integer},
                        {"hit", "hit", Kind::integer},
                        {"rows", "rows", Kind::integer},
                        {"variant", "variant", Kind::text},
                        {"accuracy_class", "class", Kind::text},
                        {"verdict", "verdict", Kind::text},
                        {"time_ns", "time", Kind::time},
                        {"spread", "spread", Kind::number},
                        {"time_kind", "kind", Kind::text},
                        {"host_ns", "host", Kind::time},
                        {"loop_ns", "loop", Kind::time},
                        {"over_loop", "of loop", Kind::number},
                        {"gflops", "GFLOP/s", Kind::number},
                        {"gbytes_per_s", "GB/s", Kind::number},
                        {"of_copy_ceiling", "of copy", Kind::number},
                        {"max_error_over_bound", "err/bound", Kind::number},
                        {"tokens_checked", "checked", Kind::integer},
                        {"weights_bytes", "weights", Kind::bytes},
                        {"runs", "runs", Kind::integer},
                        {"why", "why", Kind::text}});
}

bool bench_experts(const Device& device, const ExpertsForm& form, const ExpertsBench& settings, report::Table& table,
                   const std::function<void(const std::string&)>& say) {
  const auto source = layer::make_experts(form, settings.seed);
  bool pass = true;
  say(heading(form));
  try {
    for (const std::int64_t tokens : settings.tokens) {
      Case one(device, *source, settings, tokens);
      pass = one.check() && pass;
      one.time();
      table.add(one.cells());
      say(one.line());
    }
  } catch (const Error& error) {
    const bool unsupported = error.status() == IRONCL_UNSUPPORTED || error.status() == IRONCL_UNIMPLEMENTED;
    const std::string verdict = unsupported ? "unsupported" : "error";
    table.add(row_without_figures(device, form, verdict, error.what()));
    say(fmt::format("{}: {}\n", verdict, error.what()));
    return pass && unsupported;
  }
  return pass;
}

}  // namespace ironcl::cli
