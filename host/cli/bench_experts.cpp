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
#include "host/layer/experts_judge.h"
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

/// The layer with one call: buffers of x, y and the routing that every call takes.
class WholeCall {
 public:
  WholeCall(const Device& device, layer::Experts& experts, const ExpertsInput& input)
      : experts_(&experts),
        queue_(device),
        x_(device, std::max<std::size_t>(input.x.size(), 1)),
        y_(device, layer::bytes_of_matrix(experts.choices().out, input.tokens, experts.form().hidden)),
        ids_(device, input.routed->ids.size() * 4),
        weights_(device, input.routed->weights.size() * 4) {
    queue_.write(x_.span(), std::span(input.x));
    queue_.write(ids_.span(), std::span(input.routed->ids));
    queue_.write(weights_.span(), std::span(input.routed->weights));
    queue_.finish();
    args_.tokens = input.tokens;
    args_.routed = layer::RoutedBy::given;
    args_.x = x_;
    args_.y = y_;
    args_.ids = ids_;
    args_.weights = weights_;
  }
  Timing run() {
    std::vector<Event> steps;
    const double before = now_ns();
    const Event last = experts_->enqueue(queue_, args_, &steps);
    last.wait();
    const double after = now_ns();
    Timing timing = layer::time_of(steps, last);
    timing.host_ns = after - before;
    return timing;
  }
  std::vector<double> y() {
    std::vector<std::byte> bytes(y_.size());
    queue_.read(y_.span(), std::span(bytes)).wait();
    std::vector<double> values(bytes.size() / numerics::size_of(experts_->choices().out));
    numerics::decode(experts_->choices().out, bytes.data(), std::span<double>(values));
    return values;
  }

 private:
  layer::Experts* experts_;
  Queue queue_;
  Buffer x_, y_, ids_, weights_;
  layer::ExpertsArgs args_;
};

/// The same products as a loop: for each expert that is hit, and the shared one, three plans' worth of work by plans
/// for single matrices. Rows of x lie sorted already, nothing is combined and nothing waits: the loop is shown at its
/// best.
class Loop {
 public:
  Loop(const Device& device, const layer::ExpertsSource& source, const ExpertsInput& input, DType x_dtype)
      : form_(source.form()), queue_(device) {
    std::map<std::int64_t, std::int64_t> rows;
    std::int64_t most = 0;
    for (const std::int32_t id : input.routed->ids) most = std::max(most, ++rows[id]);
    const std::int64_t hidden = form_.hidden;
    std::int64_t width = form_.experts.width;
    experts_ = plans(device, most, form_.experts, x_dtype);
    for (const auto& [expert, count] : rows) hit_.push_back(prepared(device, source, false, expert, count, experts_));
    if (form_.shared) {
      shared_ = plans(device, input.tokens, *form_.shared, x_dtype);
      hit_.push_back(prepared(device, source, true, 0, input.tokens, shared_));
      most = std::max(most, input.tokens);
      width = std::max(width, form_.shared->width);
    }
    x_ = Buffer(device, layer::bytes_of_matrix(x_dtype, most, hidden));
    h_ = Buffer(device, layer::bytes_of_matrix(DType::f32, most, 2 * width));
    a_ = Buffer(device, layer::bytes_of_matrix(DType::f32, most, width));
    d_ = Buffer(device, layer::bytes_of_matrix(DType::f32, most, hidden));
    const std::size_t room = std::min<std::size_t>(input.x.size(), x_.size());
    queue_.write(x_.span(0, room), std::span(input.x).first(room));
    queue_.finish();
  }

  Timing run() {
    std::vector<Event> steps;
    const double before = now_ns();
    for (const Hit& hit : hit_) {
      const std::uint64_t half = static_cast<std::uint64_t>(hit.plans->width) * 4;
      GemmArgs first;
      first.m = hit.rows;
      first.weights = hit.gate_up;
      first.a = x_;
      first.d = h_;
      steps.push_back(queue_.run(hit.plans->gate_up, first));
      ActivateArgs activate;
      activate.rows = hit.rows;
      activate.gate = h_;
      activate.up = h_.span(half, h_.size() - half);
      activate.y = a_;
      steps.push_back(queue_.run(hit.plans->activate, activate));
      GemmArgs second;
      second.m = hit.rows;
      second.weights = hit.down;
      second.a = a_;
      second.d = d_;
      steps.push_back(queue_.run(hit.plans->down, second));
    }
    const Event last = std::move(steps.back());
    steps.pop_back();
    last.wait();
    const double after = now_ns();
    Timing timing = layer::time_of(steps, last);
    timing.host_ns = after - before;
    return timing;
  }

 private:
  struct Plans {
    std::int64_t width = 0;
    Gemm gate_up, down;
    Activate activate;
  };
  struct Hit {
    std::int64_t rows = 0;
    const Plans* plans = nullptr;
    Weights gate_up, down;
  };

  /// For up to `most` rows.
  Plans plans(const Device& device, std::int64_t most, const layer::GatedForm& gated, DType x_dtype) const {
    ActivateDesc activate;
    activate.rows = most;
    activate.cols = gated.width;
    activate.gate_ld = activate.up_ld = 2 * gated.width;
    activate.x = IRONCL_F32;
    activate.y = IRONCL_F32;
    activate.scale = {};
    return {gated.width, plan(device, most, 2 * gated.width, form_.hidden, x_dtype, gated.gate),
            plan(device, most, form_.hidden, gated.width, DType::f32, gated.down), Activate(device, activate)};
  }

  Hit prepared(const Device& device, const layer::ExpertsSource& source, bool shared, std::int64_t expert,
               std::int64_t rows, const Plans& plans) const {
    const layer::GatedForm& gated = shared ? *form_.shared : form_.experts;
    const auto weights = [&](Projection projection, const Gemm& gemm) {
      const layer::StackedMatrices all = one_of(source, shared, projection, expert);
      const layer::MatrixForm& matrix = projection == Projection::down ? gated.down : gated.gate;
      return Weights(device,
                     {.n = all.n,
                      .k = all.k,
                      .dtype = static_cast<ironcl_dtype>(matrix.code),
                      .scale = report_scale(matrix),
                      .data = all.codes,
                      .scales = all.scales},
                     &gemm);
    };
    return {rows, &plans, weights(Projection::gate_up, plans.gate_up), weights(Projection::down, plans.down)};
  }

  static Scale report_scale(const layer::MatrixForm& matrix) {
    return {static_cast<ironcl_dtype>(matrix.scale.dtype), static_cast<std::uint32_t>(matrix.scale.grid.group_rows),
            static_cast<std::uint32_t>(matrix.scale.grid.group_cols), 0};
  }

  Gemm plan(const Device& device, std::int64_t m, std::int64_t n, std::int64_t k, DType source,
            const layer::MatrixForm& matrix) const {
    GemmDesc desc;
    desc.m = m;
    desc.n = n;
    desc.k = k;
    desc.a_source = static_cast<ironcl_dtype>(source);
    desc.a = static_cast<ironcl_dtype>(form_.x.code);
    desc.a_scale = {IRONCL_F32, 1, static_cast<std::uint32_t>(form_.x.grid.group_cols), 0};
    desc.b = static_cast<ironcl_dtype>(matrix.code);
    desc.b_scale = report_scale(matrix);
    return {device, desc};
  }

  static layer::StackedMatrices one_of(const layer::ExpertsSource& source, bool shared, Projection projection,
                                       std::int64_t expert) {
    if (projection == Projection::down) return source.matrix(shared, projection, expert);
    layer::StackedMatrices both = source.matrix(shared, Projection::gate, expert);
    const layer::StackedMatrices up = source.matrix(shared, Projection::up, expert);
    both.n += up.n;
    both.codes.insert(both.codes.end(), up.codes.begin(), up.codes.end());
    both.scales.insert(both.scales.end(), up.scales.begin(), up.scales.end());
    return both;
  }

  const ExpertsForm& form_;
  Queue queue_;
  Plans experts_, shared_;
  std::vector<Hit> hit_;
  Buffer x_, h_, a_, d_;
};

/// Some tokens of an input, spread over all.
ExpertsInput sample(const ExpertsInput& input, const std::vector<std::int64_t>& tokens, std::int64_t top_k) {
  ExpertsInput some;
  some.tokens = static_cast<std::int64_t>(tokens.size());
  some.x_dtype = input.x_dtype;
  some.routed.emplace();
  const auto width = static_cast<std::ptrdiff_t>(input.x.size()) / static_cast<std::ptrdiff_t>(input.tokens);
  for (const std::int64_t token : tokens) {
    const auto at = input.x.begin() + static_cast<std::ptrdiff_t>(token) * width;
    some.x.insert(some.x.end(), at, at + width);
    for (std::int64_t j = 0; j < top_k; ++j) {
      some.routed->ids.push_back(input.routed->ids[static_cast<std::size_t>(token * top_k + j)]);
      some.routed->weights.push_back(input.routed->weights[static_cast<std::size_t>(token * top_k + j)]);
    }
  }
  return some;
}

struct Measured {
  tuning::Summary device, host;
  std::uint32_t kind = IRONCL_TIME_NONE;
};

/// Calls until enough of them are timed, after some that are not.
template <class Call>
Measured measure(Call& call, const ExpertsBench& settings) {
  Timing timing = call.run();
  const std::uint32_t kind = timing.time_kind;
  const bool measured = kind == IRONCL_TIME_MEASURED;
  for (double spent = timing.host_ns; measured && spent < settings.warm_up_ms * 1e6; spent += timing.host_ns)
    timing = call.run();
  std::vector<double> device, host;
  for (double spent = 0; device.size() < static_cast<std::size_t>(settings.runs) ||
                         (spent < settings.min_ms * 1e6 && device.size() < 100000);) {
    timing = call.run();
    device.push_back(timing.ns());
    host.push_back(timing.host_ns);
    spent += timing.host_ns;
  }
  return {tuning::summarize(device), tuning::summarize(host), kind};
}

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
  WholeCall whole_;
  numerics::Comparison checked_;
  std::int64_t tokens_checked_ = 0;
  std::string why_;  ///< Which token is wrong; empty on a pass.
  Measured measured_;
  std::optional<tuning::Summary> looped_;
};

bool Case::check() {
  whole_.run();
  const std::vector<std::int64_t> some = layer::sample_rows(input_.tokens, settings_.check_tokens);
  const ExpertsInput sampled = sample(input_, some, form().routing.top_k);
  const layer::ExpertsOracle oracle =
      layer::experts_oracle(source_, sampled.x_dtype, sampled.x, sampled.tokens, *sampled.routed,
                            experts_.choices().out, layer::arithmetic_of(experts_));
  const std::vector<double> y = whole_.y();
  std::vector<double> got;
  for (const std::int64_t token : some)
    got.insert(got.end(), y.begin() + static_cast<std::ptrdiff_t>(token * form().hidden),
               y.begin() + static_cast<std::ptrdiff_t>((token + 1) * form().hidden));
  checked_ = layer::compare(got, oracle.y);
  tokens_checked_ = sampled.tokens;
  if (!checked_.pass) why_ = fmt::format("y of token {}", some[static_cast<std::size_t>(checked_.worst_row)]);
  return checked_.pass;
}

void Case::time() {
  measured_ = measure(whole_, settings_);
  if (!settings_.loop) return;
  Loop loop(device_, source_, input_, DType::bf16);
  looped_ = measure(loop, settings_).device;
}

std::string Case::accuracy() const {
  const layer::ExpertsArithmetic arithmetic = layer::arithmetic_of(experts_);
  return std::string(numerics::name_of(std::max(arithmetic.gate.accuracy, arithmetic.down.accuracy)));
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
  if (measured_.kind != IRONCL_TIME_MEASURED || settings_.copy_bytes_per_second <= 0) return {};
  return bytes_per_second() / settings_.copy_bytes_per_second;
}

std::vector<report::Cell> Case::cells() const {
  return {device_.uri(),
          form().name,
          input_.tokens,
          form().routing.experts,
          hit(),
          rows(),
          experts_.gate_plan(false).variant,
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
          checked_.max_error_over_bound,
          tokens_checked_,
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
      input_.tokens, hit(), rows(), experts_.gate_plan(false).variant, accuracy(), verdict(),
      report::human_text(measured_.device.median, Kind::time), measured_.device.spread() * 100,
      report::human_text(loop_time(), Kind::time), report::human_text(over_loop(), Kind::number), gflops(),
      bytes_per_second() / 1e9, report::human_text(of_copy(), Kind::number),
      report::human_text(checked_.max_error_over_bound, Kind::number), why_);
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
