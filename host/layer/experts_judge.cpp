// SPDX-License-Identifier: Apache-2.0
// Running a layer of experts everywhere, and finding the step that is wrong.
#include "host/layer/experts_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "backends/numerics/casts.h"
#include "backends/numerics/elements.h"
#include "backends/numerics/experts_oracle.h"
#include "host/report/units.h"

namespace ironcl::layer {
namespace {

using numerics::Comparison;
using numerics::DType;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class T>
std::vector<T> fetch(Queue& queue, const Buffer& buffer, std::size_t count) {
  std::vector<T> values(count);
  if (count != 0) queue.read(buffer.span(0, count * sizeof(T)), std::span(values)).wait();
  return values;
}

std::vector<double> decoded(DType type, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / numerics::size_of(type));
  numerics::decode(type, bytes.data(), std::span<double>(values));
  return values;
}

/// "token 5, column 17 is 1.25, expected 1.5: 41 times the bound; 12 of 96 elements are out of bounds"
std::string describe(const Comparison& comparison, const std::string& where, std::size_t elements) {
  return fmt::format("{} is {}, expected {}: {} times the bound; {} of {} elements are out of bounds", where,
                     report::exact_number(comparison.worst_got), report::exact_number(comparison.worst_want),
                     report::human_number(comparison.max_error_over_bound), comparison.out_of_bounds, elements);
}

/// Rows of a buffer's matrix, as the row of each of an expert's slots says.
std::vector<double> rows_of(const std::vector<double>& all, std::int64_t ld, std::int64_t first, std::int64_t cols,
                            const std::vector<std::int64_t>& rows) {
  std::vector<double> some;
  for (const std::int64_t row : rows) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(row * ld + first);
    some.insert(some.end(), at, at + static_cast<std::ptrdiff_t>(cols));
  }
  return some;
}

/// What a gated MLP left in its buffers, in f64.
struct Left {
  std::int64_t gate_ld = 0, up_first = 0;
  std::vector<double> gate, up, h, down;
};

Left read(Queue& queue, const Experts& experts, bool shared, std::int64_t rows) {
  const ExpertsForm& form = experts.form();
  const GatedForm& gated = shared ? *form.shared : form.experts;
  const ExpertsBuffers::Mlp& buffers = shared ? experts.buffers().shared : experts.buffers().experts;
  const auto count = [rows](std::int64_t cols) { return static_cast<std::size_t>(rows * cols); };
  const auto floats = [&](const Buffer& buffer, std::int64_t cols) {
    const std::vector<float> values = fetch<float>(queue, buffer, count(cols));
    return std::vector<double>(values.begin(), values.end());
  };
  Left left;
  const bool fused = experts.fused(shared);
  left.gate_ld = fused ? 2 * gated.width : gated.width;
  left.up_first = fused ? gated.width : 0;
  left.gate = floats(buffers.gate, left.gate_ld);
  left.up = fused ? left.gate : floats(buffers.up, gated.width);
  left.down = floats(buffers.down, form.hidden);
  if (form.between.code == DType::none) {
    left.h = floats(buffers.h, gated.width);
    return left;
  }
  const auto codes = fetch<std::byte>(queue, buffers.h, count(gated.width));
  const std::int64_t scale_cols = form.between.grid.scale_cols(gated.width);
  const auto scales = fetch<float>(queue, buffers.h_scales, count(scale_cols));
  left.h = decoded(form.between.code, codes);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t col = 0; col < gated.width; ++col)
      left.h[static_cast<std::size_t>(row * gated.width + col)] *=
          static_cast<double>(scales[static_cast<std::size_t>(row * scale_cols + form.between.grid.col_of(col))]);
  return left;
}

/// The first wrong step of one MLP; `tokens` are those of its rows.
std::string wrong_step(const Left& left, const GatedForm& gated, const MlpOracle& oracle,
                       const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& tokens) {
  struct Step {
    const char* name;
    const std::vector<double>& all;
    std::int64_t ld, first;
    const Bounded& want;
  };
  const std::int64_t width = gated.width, hidden = oracle.down.cols;
  for (const Step& step :
       {Step{"gate", left.gate, left.gate_ld, 0, oracle.gate},
        Step{"up", left.up, left.gate_ld, left.up_first, oracle.up}, Step{"activation", left.h, width, 0, oracle.h},
        Step{"down", left.down, hidden, 0, oracle.down}}) {
    const Comparison comparison = compare(rows_of(step.all, step.ld, step.first, step.want.cols, rows), step.want);
    if (comparison.pass) continue;
    const std::int64_t token = tokens[static_cast<std::size_t>(std::max<std::int64_t>(comparison.worst_row, 0))];
    return fmt::format("{}: {}", step.name,
                       describe(comparison, fmt::format("token {}, column {}", token, comparison.worst_col),
                                step.want.value.size()));
  }
  return {};
}

/// The device's own routing: its logits, and what it made of them.
std::string judge_routing(const ExpertsSource& source, const ExpertsOutput& output, const Bounded& logits) {
  const ExpertsForm& form = source.form();
  const std::vector<double> got(output.logits.begin(), output.logits.end());
  if (const Comparison comparison = compare(got, logits); !comparison.pass)
    return "router: " + describe(comparison,
                                 fmt::format("logit [{}, {}]", comparison.worst_row, comparison.worst_col),
                                 got.size());
  const std::vector<float> bias = source.correction_bias();
  const auto experts = static_cast<std::size_t>(form.routing.experts), cols = static_cast<std::size_t>(logits.cols),
             top_k = static_cast<std::size_t>(form.routing.top_k);
  for (std::size_t t = 0; t < static_cast<std::size_t>(logits.rows); ++t) {
    const std::string wrong =
        numerics::judge_choice(form.routing, std::span(output.logits).subspan(t * cols, experts), bias,
                               std::span(output.routed.ids).subspan(t * top_k, top_k),
                               std::span(output.routed.weights).subspan(t * top_k, top_k));
    if (!wrong.empty()) return fmt::format("routing of token {}: {}", t, wrong);
  }
  return {};
}

/// A device's report, with its values in f64 and the bounds of its own arithmetic.
struct Ran {
  DeviceReport report;
  Bounded want;
  ExpertsOracle oracle;
};

/// What is wrong with experts that none of the tokens chose, in a call of their own; empty where nothing is.
std::string judge_unchosen(const ironcl::Device& device, Experts& experts, const ExpertsSource& source,
                           const ExpertsInput& input, DType out) {
  const ExpertsOutput output = compute(device, experts, input);
  const ExpertsOracle oracle =
      experts_oracle(source, input.x_dtype, input.x, input.tokens, *input.routed, out, arithmetic_of(experts));
  std::string step = first_wrong_step(device, experts, oracle, input.tokens);
  if (!step.empty()) return step;
  const Comparison comparison = compare(decoded(out, output.y), oracle.y);
  if (comparison.pass) return {};
  return describe(comparison, fmt::format("y[{},{}]", comparison.worst_row, comparison.worst_col), output.y.size());
}

Ran run_device(const ironcl::Device& device, const ExpertsSource& source, const ExpertsInput& input,
               const RoutedTokens& routed, const std::vector<ExpertsInput>& unchosen, const JudgeSettings& settings,
               numerics::AccuracyClass allowed) {
  Ran ran;
  DeviceReport& report = ran.report;
  report.uri = device.uri();
  report.name = device.name();
  report.allowed = allowed;
  report.model = device.props().type == IRONCL_DEVICE_MODEL;
  try {
    ExpertsChoices choices;
    choices.tokens = std::max<std::int64_t>(input.tokens, 1);
    choices.x = input.x_dtype;
    choices.out = settings.out;
    choices.weakest_accuracy = allowed;
    Experts experts(device, source, choices);
    const ExpertsArithmetic arithmetic = arithmetic_of(experts);
    std::string wrong;
    if (!input.routed)
      wrong = judge_routing(source, compute(device, experts, input),
                            router_oracle(source, input.x_dtype, input.x, input.tokens, arithmetic.router));
    ExpertsInput given = input;
    given.routed = routed;
    const ExpertsOutput output = compute(device, experts, given);
    ran.oracle = experts_oracle(source, input.x_dtype, input.x, input.tokens, routed, settings.out, arithmetic);
    ran.want = ran.oracle.y;
    report.result.emplace();
    report.result->timing = output.timing;
    report.result->accuracy = std::max(arithmetic.gate.accuracy, arithmetic.down.accuracy);
    report.result->accumulation_length = arithmetic.gate.accumulation_length;
    report.result->variant = arithmetic.gate.variant;
    report.terms = {settings.out, report.result->accuracy, source.form().hidden, arithmetic.gate.accumulation_length};
    report.values = decoded(settings.out, output.y);
    report.comparison = compare(report.values, ran.want);
    report.verdict = report.comparison->pass ? Verdict::pass : Verdict::fail;
    // A wrong step may hide in the sum, under the bounds of those before it.
    std::string step = first_wrong_step(device, experts, ran.oracle, input.tokens);
    if (!report.comparison->pass)
      report.reason = describe(*report.comparison,
                               fmt::format("y[{},{}]", report.comparison->worst_row, report.comparison->worst_col),
                               report.values.size());
    std::string apart;
    for (std::size_t i = 0; i < unchosen.size() && apart.empty(); ++i)
      apart = judge_unchosen(device, experts, source, unchosen[i], settings.out);
    if (!apart.empty()) apart += ", where experts run that no token of x chose";
    for (const std::string* more : {&step, &wrong, &apart}) {
      if (more->empty()) continue;
      report.verdict = Verdict::fail;
      report.reason = *more + (report.reason.empty() ? "" : "; ") + report.reason;
    }
  } catch (const ironcl::Error& error) {
    const bool refused = error.status() == IRONCL_UNSUPPORTED || error.status() == IRONCL_UNIMPLEMENTED;
    report.verdict = refused ? Verdict::unsupported : Verdict::error;
    report.reason = error.what();
    report.result.reset();
  }
  return ran;
}

/// The bound of an output that somebody else computed: none where it is f64; else that of a device, rounded to its
/// type.
Bounded bound_of(const Expectation& expected, const Bounded& want) {
  Bounded other = want;
  const bool exact = expected.dtype == DType::f64;
  other.overflow = numerics::element_of(expected.dtype).overflow_threshold;
  for (std::size_t i = 0; i < other.bound.size(); ++i)
    other.bound[i] = exact ? 0 : other.bound[i] + numerics::unit_roundoff(expected.dtype) * std::fabs(want.value[i]);
  return other;
}

ExpectReport judge_expectation(const Expectation& expected, const ResultName& result, const std::vector<double>& got,
                               const Bounded& want) {
  ExpectReport report;
  report.tensor = expected.tensor;
  report.result = result;
  report.dtype = expected.dtype;
  report.comparison = compare(got, want, expected.values, bound_of(expected, want));
  report.verdict = report.comparison.pass ? Verdict::pass : Verdict::fail;
  return report;
}

std::string heading(const ExpertsForm& form, const ExpertsInput& input, std::int64_t unchosen) {
  return fmt::format("{}: x [{}, {}], {} experts of width {}, {} a token{}{}{}", form.name, input.tokens, form.hidden,
                     form.routing.experts, form.experts.width, form.routing.top_k,
                     form.shared ? fmt::format(", a shared one of {}", form.shared->width) : "",
                     form.x.code == DType::none ? ", activations unquantised" : "",
                     unchosen != 0 ? fmt::format("; {} that no token chose run apart", unchosen) : "");
}

/// The same layer with activations that nobody quantises.
class Unquantised final : public ExpertsSource {
 public:
  explicit Unquantised(const ExpertsSource& of) : of_(of), form_(of.form()) {
    form_.x = {};
    form_.between = {};
  }
  const ExpertsForm& form() const override { return form_; }
  StackedMatrices matrix(bool shared, Projection projection, std::int64_t expert) const override {
    return of_.matrix(shared, projection, expert);
  }
  std::vector<std::byte> router() const override { return of_.router(); }
  std::vector<float> correction_bias() const override { return of_.correction_bias(); }

 private:
  const ExpertsSource& of_;
  ExpertsForm form_;
};

/// An oracle beside an output that somebody else computed.
struct Beside {
  std::vector<bool> differs;  ///< Tokens with an element outside of the bounds of both.
  std::vector<double> error;  ///< The largest error of each token.

  std::int64_t count() const { return std::count(differs.begin(), differs.end(), true); }
  double typical_error() const {
    std::vector<double> sorted = error;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return middle == sorted.end() ? 0 : *middle;
  }
};

Beside beside(const Bounded& y, const Expectation& expected) {
  Beside result;
  const Bounded other = bound_of(expected, y);
  const auto cols = static_cast<std::size_t>(y.cols);
  for (std::size_t first = 0; first < y.value.size(); first += cols) {
    double error = 0;
    bool outside = false;
    for (std::size_t i = first; i < first + cols; ++i) {
      const double apart = std::fabs(expected.values[i] - y.value[i]);
      outside = outside || !(apart <= y.bound[i] + other.bound[i]);
      if (apart > error) error = apart;
    }
    result.error.push_back(error);
    result.differs.push_back(outside);
  }
  return result;
}

/// The experts that all tokens that differ share with each other and with no token that is right, in words; empty
/// where there are none. Where all differ, as where somebody rounds more coarsely, those that differ far more than
/// the median token are meant.
std::string shared_by(Beside tokens, const RoutedTokens& routed, std::int64_t top_k) {
  const bool all = tokens.count() == std::ssize(tokens.differs);
  if (all)
    std::transform(tokens.error.begin(), tokens.error.end(), tokens.differs.begin(),
                   [usual = tokens.typical_error()](double error) { return error > 4 * usual; });
  if (tokens.count() == 0) return {};
  std::set<std::int32_t> wrong, right;
  bool any = false;
  for (std::size_t t = 0; t < tokens.differs.size(); ++t) {
    const auto first = routed.ids.begin() + static_cast<std::ptrdiff_t>(t) * top_k;
    const std::set<std::int32_t> own(first, first + top_k);
    if (!tokens.differs[t])
      right.insert(own.begin(), own.end());
    else if (!std::exchange(any, true))
      wrong = own;
    else
      std::erase_if(wrong, [&own](std::int32_t id) { return !own.contains(id); });
  }
  std::erase_if(wrong, [&right](std::int32_t id) { return id < 0 || right.contains(id); });
  if (wrong.empty()) return {};
  return fmt::format("expert{} {}: all {} tokens that differ{} went there", wrong.size() == 1 ? "" : "s",
                     fmt::join(wrong, ", "), tokens.count(), all ? " most" : "");
}

/// What explains that the oracle is not what somebody else computed; empty where nothing does. Others may have left
/// the activations as they were, whatever the checkpoint says.
std::string explain(const ExpertsSource& source, const ExpertsInput& input, const RoutedTokens& routed,
                    const ExpertsOracle& oracle, const Expectation& expected, DType out) {
  const ExpertsForm& form = source.form();
  const Beside quantised = beside(oracle.y, expected);
  const std::string shared = shared_by(quantised, routed, form.routing.top_k);
  if (form.x.code == DType::none && form.between.code == DType::none) return shared;
  const Unquantised plain(source);
  const Beside unquantised =
      beside(experts_oracle(plain, input.x_dtype, input.x, input.tokens, routed, out).y, expected);
  if (!(unquantised.count() < quantised.count() ||
        (unquantised.count() == quantised.count() && unquantised.typical_error() < quantised.typical_error() / 4)))
    return shared;
  const std::string agree =
      fmt::format("with activations left unquantised (--weight-only) {} of {} tokens are within the bound",
                  input.tokens - unquantised.count(), input.tokens);
  const std::string text = shared_by(unquantised, routed, form.routing.top_k);
  return text.empty() ? agree : agree + "; " + text;
}

}  // namespace

Timing time_of(const std::vector<Event>& steps, const Event& last) {
  Timing timing;
  std::uint64_t begin = UINT64_MAX, end = 0;
  double sum = 0;
  for (std::size_t i = 0; i <= steps.size(); ++i) {
    try {
      const ironcl_event_profile profile = (i < steps.size() ? steps[i] : last).profile();
      timing.time_kind = profile.time_kind;
      begin = std::min(begin, profile.start_ns);
      end = std::max(end, profile.end_ns);
      sum += static_cast<double>(profile.end_ns - profile.start_ns);
    } catch (const Error& error) {
      // A device that cannot say how long a step took still computed.
      if (error.status() != IRONCL_UNIMPLEMENTED && error.status() != IRONCL_UNSUPPORTED) throw;
      return {};
    }
  }
  if (begin > end) return timing;
  timing.device_ns = timing.time_kind == IRONCL_TIME_MODELLED ? sum : static_cast<double>(end - begin);
  return timing;
}

ExpertsOutput compute(const Device& device, Experts& experts, const ExpertsInput& input) {
  const ExpertsForm& form = experts.form();
  const auto slots = static_cast<std::size_t>(input.tokens * form.routing.top_k);
  const DType out = experts.choices().out;
  ExpertsOutput output;
  output.y.resize(bytes_of_matrix(out, input.tokens, form.hidden));
  // Bytes of all ones are a NaN in every float type.
  std::fill(output.y.begin(), output.y.end(), std::byte{0xff});
  const auto sized = [&device](std::size_t bytes) { return Buffer(device, std::max<std::size_t>(bytes, 1)); };
  const Buffer x = sized(input.x.size()), y = sized(output.y.size()), ids = sized(slots * 4),
               weights = sized(slots * 4);
  Queue queue(device);
  const auto put = [&queue](const Buffer& buffer, auto values) {
    if (!values.empty()) queue.write(buffer.span(0, values.size_bytes()), values);
  };
  put(x, std::span(input.x));
  put(y, std::span<const std::byte>(output.y));
  if (input.routed) {
    put(ids, std::span(input.routed->ids));
    put(weights, std::span(input.routed->weights));
  }
  queue.finish();
  ExpertsArgs args;
  args.tokens = input.tokens;
  args.routed = input.routed ? RoutedBy::given : RoutedBy::router;
  args.x = x.span(0, input.x.size());
  args.y = y.span(0, output.y.size());
  args.ids = ids.span(0, slots * 4);
  args.weights = weights.span(0, slots * 4);
  std::vector<Event> steps;
  const double before = now_ns();
  const Event last = experts.enqueue(queue, args, &steps);
  last.wait();
  const double after = now_ns();
  output.timing = time_of(steps, last);
  output.timing.host_ns = after - before;
  if (!output.y.empty()) queue.read(args.y, std::span(output.y)).wait();
  if (input.routed) {
    output.routed = *input.routed;
  } else {
    output.routed = {fetch<std::int32_t>(queue, ids, slots), fetch<float>(queue, weights, slots)};
    output.logits =
        fetch<float>(queue, experts.buffers().logits, static_cast<std::size_t>(input.tokens * form.logits()));
  }
  return output;
}

std::string first_wrong_step(const Device& device, const Experts& experts, const ExpertsOracle& oracle,
                             std::int64_t tokens) {
  const ExpertsForm& form = experts.form();
  const std::int64_t top_k = form.routing.top_k;
  Queue queue(device);
  const auto row_of_slot =
      fetch<std::int32_t>(queue, experts.buffers().rows, static_cast<std::size_t>(tokens * top_k));
  const Left left = read(queue, experts, false, tokens * top_k);
  for (const ExpertOracle& one : oracle.experts) {
    std::vector<std::int64_t> rows, of_tokens;
    for (const std::int64_t slot : one.slots) {
      const std::int32_t row = row_of_slot[static_cast<std::size_t>(slot)];
      if (row < 0 || row >= tokens * top_k)
        return fmt::format("expert {}: slot {} of token {} has row {}, which is none", one.expert, slot % top_k,
                           slot / top_k, row);
      rows.push_back(row);
      of_tokens.push_back(slot / top_k);
    }
    const std::string wrong = wrong_step(left, form.experts, one.mlp, rows, of_tokens);
    if (!wrong.empty()) return fmt::format("expert {}, {}", one.expert, wrong);
  }
  if (!form.shared) return {};
  std::vector<std::int64_t> each;
  for (std::int64_t t = 0; t < tokens; ++t) each.push_back(t);
  const std::string wrong = wrong_step(read(queue, experts, true, tokens), *form.shared, oracle.shared, each, each);
  return wrong.empty() ? wrong : "shared expert, " + wrong;
}

CaseReport judge(const ExpertsSource& source, const ExpertsInput& input, const std::vector<ironcl::Device>& devices,
                 const JudgeSettings& settings) {
  const ExpertsForm& form = source.form();
  CaseReport report;
  report.layer = form.name;
  report.problem.m = input.tokens;
  report.problem.n = report.problem.k = form.hidden;
  report.problem.a = input.x_dtype;
  report.problem.b = form.experts.gate.code;
  report.problem.d = settings.out;
  report.activations = input.origin;
  // Every device gets the same ids and weights: those of the oracle's logits, where nobody gave others.
  const RoutedTokens routed =
      input.routed ? *input.routed
                   : route_on_host(source, router_oracle(source, input.x_dtype, input.x, input.tokens));
  const std::vector<ExpertsInput> unchosen = inputs_of_the_unchosen(form, input, routed);
  report.heading = heading(form, input, unchosen.empty() ? 0 : unchosen_experts(form, routed));
  std::vector<Ran> ran;
  for (const ironcl::Device& device : devices) {
    for (const numerics::AccuracyClass allowed : settings.weakest_accuracies) {
      Ran one = run_device(device, source, input, routed, unchosen, settings, allowed);
      if (ran.empty() || !repeats(ran.back().report, one.report)) ran.push_back(std::move(one));
    }
    if (settings.progress) settings.progress(ran.back().report);
  }
  for (std::size_t i = 0; i < ran.size(); ++i) {
    for (std::size_t j = i + 1; j < ran.size(); ++j) {
      if (!ran[i].report.result || !ran[j].report.result) continue;
      PairReport& pair =
          report.pairs.emplace_back(PairReport{name_of(ran[i].report), name_of(ran[j].report), Verdict::fail, {}});
      pair.comparison = compare(ran[i].report.values, ran[i].want, ran[j].report.values, ran[j].want);
      pair.verdict = pair.comparison.pass ? Verdict::pass : Verdict::fail;
    }
  }
  if (!settings.expectations.empty()) {
    const ExpertsOracle oracle = experts_oracle(source, input.x_dtype, input.x, input.tokens, routed, settings.out);
    for (const Expectation& expected : settings.expectations) {
      report.expect.push_back(judge_expectation(expected, {"oracle"}, oracle.y.value, oracle.y));
      if (report.expect.back().verdict != Verdict::pass)
        report.expect.back().remark = explain(source, input, routed, oracle, expected, settings.out);
      for (const Ran& one : ran)
        if (one.report.result)
          report.expect.push_back(judge_expectation(expected, name_of(one.report), one.report.values, one.want));
    }
  }
  for (Ran& one : ran) {
    one.report.forget_values();
    report.devices.push_back(std::move(one.report));
  }
  if (!report.devices.empty() && !ran.empty())
    report.undefined = std::count_if(ran.front().want.value.begin(), ran.front().want.value.end(),
                                     [](double value) { return std::isnan(value); });
  return report;
}

}  // namespace ironcl::layer
