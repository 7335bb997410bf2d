// SPDX-License-Identifier: Apache-2.0
// Running a layer everywhere and comparing the results; of a layer of experts also its routing, its values one after
// another, and experts that no token chose.
#include "host/layer/judge.h"

#include <bit>
#include <cmath>

#include "backends/numerics/experts_oracle.h"
#include "host/report/units.h"

namespace ironcl::layer {
namespace {

using numerics::AccuracyClass;
using numerics::Comparison;
using numerics::DType;

/// A device's report, with the bounds of its own arithmetic.
struct Ran {
  DeviceReport report;
  Bounded want;
};

struct Subject {
  CaseReport report;  ///< With what names the layer; the rest is found out.
  /// Runs the layer on a device that may be as weak as `report.allowed`. Throws ironcl::Error as the device answers.
  std::function<void(const Device&, Ran&)> run;
  /// What the result may be of somebody who has it in a type, with right sums of a class.
  std::function<Bounded(numerics::DType, numerics::AccuracyClass)> others;
  bool others_may_be_weak = false;  ///< A 16-bit result that is not within class f32 is tried in class tensor14.
  std::function<std::string(const Expectation&)>
      explain;  ///< Why another program's output differs from the oracle; optional.
};

/// "D[3,17] is 1.25, expected 1.5: 4.1 times the bound; 12 of 7168 elements are out of bounds", after `where`.
std::string describe(const Comparison& comparison, const std::string& where, std::size_t elements) {
  return fmt::format("{} is {}, expected {}: {} times the bound; {} of {} elements are out of bounds", where,
                     report::exact_number(comparison.worst_got), report::exact_number(comparison.worst_want),
                     report::human_number(comparison.max_error_over_bound), comparison.out_of_bounds, elements);
}

/// Takes over what a call left and compares it with what it must be; `name` is the result's.
void judge_output(Ran& ran, Output output, Bounded want, const char* name) {
  DeviceReport& report = ran.report;
  ran.want = std::move(want);
  report.values = values_of<double>(ran.want.dtype, output.d);
  report.result = std::move(output);
  report.comparison = compare(report.values, ran.want);
  report.verdict = report.comparison->pass ? Verdict::pass : Verdict::fail;
  if (!report.comparison->pass)
    report.reason =
        describe(*report.comparison,
                 fmt::format("{}[{},{}]", name, report.comparison->worst_row, report.comparison->worst_col),
                 report.values.size());
  if (report.result->unwritten == 0) return;
  report.verdict = Verdict::fail;
  report.reason += fmt::format("; {} elements were never written", report.result->unwritten);
}

Quantization check_quantization(const report::Problem& problem, const QuantizedA& must, const QuantizedA& is) {
  const auto place = [](std::size_t at, std::int64_t cols) {
    const auto width = static_cast<std::size_t>(std::max<std::int64_t>(cols, 1));
    return fmt::format("[{},{}] of the quantised activations", at / width, at % width);
  };
  for (std::size_t i = 0; i < must.scales.size(); ++i)
    if (std::bit_cast<std::uint32_t>(must.scales[i]) != std::bit_cast<std::uint32_t>(is.scales[i]))
      return {false, fmt::format("scale {} is {}, must be {}", place(i, problem.a_scale.grid.scale_cols(problem.k)),
                                 report::exact_number(is.scales[i]), report::exact_number(must.scales[i]))};
  for (std::size_t i = 0; i < must.codes.size(); ++i)
    if (must.codes[i] != is.codes[i])
      return {false,
              fmt::format("code {} is {:#04x}, must be {:#04x}", place(i, problem.k), is.codes[i], must.codes[i])};
  return {};
}

Ran run_device(const Subject& subject, const ironcl::Device& device, AccuracyClass allowed) {
  Ran ran;
  DeviceReport& report = ran.report;
  report.uri = device.uri();
  report.name = device.name();
  report.allowed = allowed;
  report.model = device.props().type == IRONCL_DEVICE_MODEL;
  try {
    subject.run(device, ran);
  } catch (const ironcl::Error& error) {
    report.verdict = error.is_refusal() ? Verdict::unsupported : Verdict::error;
    report.reason = error.what();
    report.result.reset();
  }
  return ran;
}

/// One result against an expectation. A tighter class is tried before a weaker one.
ExpectReport judge_expectation(const Subject& subject, const Expectation& expected, const ResultName& result,
                               const std::vector<double>& got, const Bounded& want) {
  ExpectReport report;
  report.tensor = expected.tensor;
  report.result = result;
  report.dtype = expected.dtype;
  if (expected.dtype == DType::f64) {
    Bounded exact = want;
    exact.value = expected.values;
    for (std::size_t i = 0; i < exact.value.size(); ++i)
      exact.bound[i] += numerics::unit_roundoff(want.dtype) * (std::fabs(exact.value[i]) - std::fabs(want.value[i]));
    report.comparison = compare(got, exact);
  } else {
    report.comparison = compare(got, want, expected.values, subject.others(expected.dtype, AccuracyClass::f32));
    if (!report.comparison.pass && expected.dtype != DType::f32 && subject.others_may_be_weak) {
      report.accuracy = AccuracyClass::tensor14;
      report.comparison = compare(got, want, expected.values, subject.others(expected.dtype, report.accuracy));
    }
  }
  report.verdict = report.comparison.pass ? Verdict::pass : Verdict::fail;
  return report;
}

/// Whether `later`, for which a weaker class was allowed, repeats `earlier`: the same device in the same class.
bool repeats(const DeviceReport& earlier, const DeviceReport& later) noexcept {
  return earlier.uri == later.uri && earlier.result.has_value() == later.result.has_value() &&
         earlier.accuracy() == later.accuracy();
}

CaseReport judge(Subject subject, const std::vector<ironcl::Device>& devices, const JudgeSettings& settings) {
  CaseReport report = std::move(subject.report);
  std::vector<Ran> all;
  for (const ironcl::Device& device : devices) {
    for (const AccuracyClass allowed : settings.weakest_accuracies) {
      Ran one = run_device(subject, device, allowed);
      if (all.empty() || !repeats(all.back().report, one.report)) all.push_back(std::move(one));
    }
    if (settings.progress) settings.progress(all.back().report);
  }
  std::vector<const Ran*> ran;
  for (const Ran& one : all)
    if (one.report.result) ran.push_back(&one);
  for (std::size_t i = 0; i < ran.size(); ++i) {
    for (std::size_t j = i + 1; j < ran.size(); ++j) {
      PairReport& pair =
          report.pairs.emplace_back(PairReport{name_of(ran[i]->report), name_of(ran[j]->report), Verdict::fail, {}});
      pair.comparison = compare(ran[i]->report.values, ran[i]->want, ran[j]->report.values, ran[j]->want);
      pair.verdict = pair.comparison.pass ? Verdict::pass : Verdict::fail;
    }
  }
  for (const Expectation& expected : settings.expectations) {
    const Bounded oracle = subject.others(DType::f64, AccuracyClass::f32);
    report.expect.push_back(judge_expectation(subject, expected, {"oracle"}, oracle.value, oracle));
    if (report.expect.back().verdict != Verdict::pass && subject.explain)
      report.expect.back().remark = subject.explain(expected);
    for (const Ran* one : ran)
      report.expect.push_back(
          judge_expectation(subject, expected, name_of(one->report), one->report.values, one->want));
  }
  // Of a matrix the oracle is cheap even where no device ran it.
  std::vector<double> values;
  if (!ran.empty())
    values = ran.front()->want.value;
  else if (report.heading.empty())
    values = subject.others(DType::f64, AccuracyClass::f32).value;
  report.undefined = std::ranges::count_if(values, [](double value) { return std::isnan(value); });
  for (Ran& one : all) {
    DeviceReport& done = report.devices.emplace_back(std::move(one.report));
    // What only comparing needs is freed: a checkpoint has hundreds of layers.
    done.values = {};
    if (done.result) done.result->d = {};
    if (done.result) done.result->quantized = {};
  }
  return report;
}

/// The device's own routing: its logits, and what it made of them.
std::string judge_routing(const ExpertsSource& source, const Output& output, const Bounded& logits) {
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

std::string heading(const ExpertsForm& form, const ExpertsInput& input, std::size_t unchosen) {
  return fmt::format("{}: x [{}, {}], {} experts of width {}, {} per token{}{}{}", form.name, input.tokens,
                     form.hidden, form.routing.experts, form.experts.width, form.routing.top_k,
                     form.shared ? fmt::format(", a shared one of {}", form.shared->width) : "",
                     form.x.code == DType::none ? ", activations unquantised" : "",
                     unchosen != 0 ? fmt::format("; {} that no token chose run apart", unchosen) : "");
}

/// Why somebody else has something else than the oracle: experts that all tokens outside of the bounds share with
/// each other and with no token that is right; else activations that they may not have quantised.
std::string explain(const ExpertsForm& form, const RoutedTokens& routed, const Expectation& expected,
                    const Bounded& y, const Bounded& theirs) {
  std::set<std::int32_t> wrong, right;
  std::int64_t differ = 0;
  for (std::int64_t t = 0; t < y.rows; ++t) {
    const auto first = routed.ids.begin() + t * form.routing.top_k;
    const std::set<std::int32_t> own(first, first + form.routing.top_k);
    bool outside = false;
    for (auto i = static_cast<std::size_t>(t * y.cols); i < static_cast<std::size_t>((t + 1) * y.cols); ++i)
      outside |= !(std::fabs(expected.values[i] - y.value[i]) <= y.bound[i] + theirs.bound[i]);
    if (!outside)
      right.insert(own.begin(), own.end());
    else if (differ++ == 0)
      wrong = own;
    else
      std::erase_if(wrong, [&own](std::int32_t id) { return !own.contains(id); });
  }
  std::erase_if(wrong, [&right](std::int32_t id) { return id < 0 || right.contains(id); });
  if (!wrong.empty())
    return fmt::format("expert{} {}: all {} tokens that differ went there", wrong.size() == 1 ? "" : "s",
                       fmt::join(wrong, ", "), differ);
  if (form.x.code == DType::none && form.between.code == DType::none) return {};
  return "activations are quantised, as the checkpoint says; --weight-only compares with a program that left them so";
}

/// One call with a settled routing: its result against the oracle, and the first wrong value.
std::string judge_call(const Device& device, Runner& experts, const ExpertsInput& input, Oracle& oracle, Ran& ran) {
  Execution call(device, experts, input);
  Output output = call.compute();
  Values values = oracle.evaluate(call.runner().graph(), call.runner().plans());
  std::string wrong = first_wrong_value(call, values);
  judge_output(ran, std::move(output), std::move(values[call.runner().graph().result]), "y");
  return wrong;
}

}  // namespace

const char* name_of(Verdict verdict) noexcept {
  constexpr const char* kNames[] = {"pass", "fail", "error", "unsupported"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::string ResultName::text() const {
  return accuracy == AccuracyClass::f32 ? uri : fmt::format("{} {}", uri, numerics::name_of(accuracy));
}

ResultName name_of(const DeviceReport& device) { return {device.uri, device.accuracy()}; }

std::size_t CaseReport::computed() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(devices, [](const DeviceReport& d) { return d.result.has_value(); }));
}

std::size_t CaseReport::compared() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(devices, [](const DeviceReport& d) { return d.result.has_value() && !d.model; }));
}

bool CaseReport::wrong() const noexcept {
  const auto bad = [](const auto& report) {
    return report.verdict == Verdict::fail || report.verdict == Verdict::error;
  };
  return std::ranges::any_of(devices, bad) || std::ranges::any_of(pairs, bad) || std::ranges::any_of(expect, bad);
}

CaseReport judge(const checkpoint::LinearLayer& layer, const Activations& a,
                 const std::vector<ironcl::Device>& devices, const JudgeSettings& settings) {
  const LayerWeights weights = weights_of(layer);
  const Operands operands = operands_of(a, weights);
  Subject subject;
  subject.report.layer = layer.name;
  report::Problem problem = a.problem;
  problem.d = settings.out;
  problem.weakest_accuracy = settings.weakest_accuracies.front();
  subject.report.problem = problem;
  subject.report.activations = a.origin;
  subject.others_may_be_weak = true;
  const QuantizedA quantized = quantize_a(problem, operands);
  Oracle oracle = oracle_of(problem, operands);
  const Graph graph = graph_of(problem);
  subject.run = [&](const Device& device, Ran& ran) {
    report::Problem allowed = problem;
    allowed.weakest_accuracy = ran.report.allowed;
    if (settings.substitute != nullptr) {
      Substituted made = settings.substitute->run(layer.name, allowed, operands);
      ran.report.uri = made.name;
      report::Problem other = problem;
      Operands other_operands = operands;
      if (!made.a.empty()) {
        other.a_source = DType::none;
        other.a = DType::f64;
        other.a_scale = {};
        other.a_quantizer = {};
        other_operands.a = std::as_bytes(std::span(made.a));
        oracle = oracle_of(other, other_operands);
      }
      const Graph list = graph_of(other);
      judge_output(ran, std::move(made.output), oracle.evaluate(list, made.plans)[list.result], "D");
      return;
    }
    Execution execution(device, allowed, operands);
    judge_output(ran, execution.compute(true), oracle.evaluate(graph, execution.runner().plans())[graph.result], "D");
    DeviceReport& report = ran.report;
    if (!report.result->shows_quantized) return;
    report.quantization = check_quantization(problem, quantized, report.result->quantized);
    if (!report.quantization->equal) {
      report.verdict = Verdict::fail;
      report.reason = report.quantization->difference + (report.reason.empty() ? "" : "; ") + report.reason;
    }
  };
  const std::int64_t k_group =
      numerics::common_group(problem.a_scale.grid.group_cols, layer.weight_grid.group_cols, layer.k);
  subject.others = [&](DType out, AccuracyClass accuracy) {
    report::Problem other = problem;
    other.d = out;
    const Graph list = graph_of(other);
    return oracle.evaluate(list, {{accuracy, k_group, {}, {}}})[list.result];
  };
  return judge(std::move(subject), devices, settings);
}

std::string first_wrong_value(Execution& call, const Values& values) {
  const Graph& graph = call.runner().graph();
  const bool shared_first = std::ranges::any_of(graph.operations, [](const Operation& operation) {
    const auto* route = std::get_if<RouteOp>(&operation.what);
    return route != nullptr && route->shared_first;
  });
  for (const Operation& operation : graph.operations) {
    for (const ValueId id : operation.out) {
      if (id == kNoValue || graph.values[id].brought || values[id].rows == 0) continue;
      const Value& value = graph.values[id];
      const Bounded& want = values[id];
      const Comparison comparison = compare(call.left(id, want.rows), want);
      if (comparison.pass) continue;
      const std::int64_t row = std::max<std::int64_t>(comparison.worst_row, 0), col = comparison.worst_col;
      std::string where = fmt::format("{}: token {}, column {}", value.name, row, col);
      if (value.by_expert) {
        // Rows lie sorted by expert: the first expert whose rows end behind this one has it.
        std::vector<double> ends = values[graph.find("counts")].value;
        std::partial_sum(ends.begin(), ends.end(), ends.begin());
        const auto expert = std::ranges::upper_bound(ends, static_cast<double>(row)) - ends.begin();
        const std::int64_t first = shared_first ? 1 : 0;
        where = fmt::format("{}, {}: token {}, column {}",
                            expert < first ? "shared expert" : fmt::format("expert {}", expert - first), value.name,
                            values[graph.find("index")].value[static_cast<std::size_t>(row)], col);
      }
      return describe(comparison, where, want.value.size());
    }
  }
  return {};
}

CaseReport judge(const ExpertsSource& source, const ExpertsInput& input, const std::vector<ironcl::Device>& devices,
                 const JudgeSettings& settings) {
  const ExpertsForm& form = source.form();
  ExpertsChoices choices{.tokens = std::max<std::int64_t>(input.tokens, 1), .x = input.x_dtype, .out = settings.out};
  // Every device gets the same ids and weights: those of the oracle's logits, where nobody gave others.
  const Graph graph = graph_of(form, choices);
  Oracle router = oracle_of(source, input);
  ExpertsInput given = input;
  if (!given.routed) given.routed = routed_of(graph, router.evaluate(graph, {}, graph.find("ids")));
  const RoutedTokens& routed = *given.routed;
  const std::vector<ExpertsInput> unchosen = inputs_of_the_unchosen(form, input, routed);
  Oracle oracle = oracle_of(source, given);
  Subject subject;
  CaseReport& report = subject.report;
  report.layer = form.name;
  report.heading = heading(
      form, input, unchosen.empty() || settings.substitute != nullptr ? 0 : unchosen_experts(form, routed).size());
  report.problem.m = input.tokens;
  report.problem.n = report.problem.k = form.hidden;
  report.problem.a = input.x_dtype;
  report.problem.b = form.experts.gate.code;
  report.problem.d = settings.out;
  report.activations = input.origin;
  subject.run = [&](const Device& device, Ran& ran) {
    ExpertsChoices allowed = choices;
    allowed.weakest_accuracy = ran.report.allowed;
    if (settings.substitute != nullptr) {
      Substituted made = settings.substitute->run(source, given, allowed);
      ran.report.uri = made.name;
      const Graph all = graph_of(form, allowed, &device);
      judge_output(ran, std::move(made.output), oracle.evaluate(all, made.plans)[all.result], "y");
      return;
    }
    Runner experts = experts_on(device, source, allowed);
    const Graph& list = experts.graph();
    std::string wrong;
    if (!input.routed)
      wrong = judge_routing(source, Execution(device, experts, input).compute(),
                            router.evaluate(list, experts.plans(), list.find("logits"))[list.find("logits")]);
    // A wrong value may hide in the sum, under the bounds of those before it.
    const std::string step = judge_call(device, experts, given, oracle, ran);
    std::string apart;
    for (std::size_t i = 0; i < unchosen.size() && apart.empty(); ++i) {
      Ran one;
      Oracle of_unchosen = oracle_of(source, unchosen[i]);
      apart = judge_call(device, experts, unchosen[i], of_unchosen, one);
      if (apart.empty()) apart = one.report.reason;
    }
    if (!apart.empty()) apart += ", where experts run that no token of x chose";
    for (const std::string* more : std::initializer_list<const std::string*>{&step, &wrong, &apart}) {
      if (more->empty()) continue;
      ran.report.verdict = Verdict::fail;
      ran.report.reason = *more + (ran.report.reason.empty() ? "" : "; ") + ran.report.reason;
    }
  };
  const auto others = [&](DType out, AccuracyClass) {
    Graph list = graph;
    list.values[list.result].dtype = out;
    return oracle.evaluate(list)[list.result];
  };
  subject.others = others;
  subject.explain = [&](const Expectation& expected) {
    const Bounded y = others(DType::f64, AccuracyClass::f32);
    Bounded theirs = others(expected.dtype, AccuracyClass::f32);
    if (expected.dtype == DType::f64) std::ranges::fill(theirs.bound, 0);
    return explain(form, routed, expected, y, theirs);
  };
  return judge(std::move(subject), devices, settings);
}

}  // namespace ironcl::layer
