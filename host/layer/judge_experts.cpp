// SPDX-License-Identifier: Apache-2.0
// A layer of experts before the judge: its routing, its values one after another, experts that no token chose, and
// what explains that somebody else has something else.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "backends/numerics/experts_oracle.h"
#include "host/layer/judge.h"
#include "host/layer/judge_subject.h"

namespace ironcl::layer {
namespace {

using numerics::AccuracyClass;
using numerics::Comparison;
using numerics::DType;

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

std::string heading(const ExpertsForm& form, const ExpertsInput& input, std::int64_t unchosen) {
  return fmt::format("{}: x [{}, {}], {} experts of width {}, {} a token{}{}{}", form.name, input.tokens, form.hidden,
                     form.routing.experts, form.experts.width, form.routing.top_k,
                     form.shared ? fmt::format(", a shared one of {}", form.shared->width) : "",
                     form.x.code == DType::none ? ", activations unquantised" : "",
                     unchosen != 0 ? fmt::format("; {} that no token chose run apart", unchosen) : "");
}

/// A layer with an input whose routing is settled.
struct Judged {
  /// `of`: the source's form, or with activations that nobody quantises.
  Judged(ExpertsForm of, const ExpertsSource& source, const ExpertsInput& input, const RoutedTokens& routed)
      : form(std::move(of)), oracle(oracle_of(source, input, &routed)) {
    choices.tokens = std::max<std::int64_t>(input.tokens, 1);
    choices.x = input.x_dtype;
  }
  /// The result of right arithmetic in class f32, in some type.
  Bounded others(DType out) {
    Graph graph = graph_of(form, choices);
    graph.values[graph.result].dtype = out;
    return oracle.evaluate(graph)[graph.result];
  }
  ExpertsForm form;
  ExpertsChoices choices;
  Oracle oracle;
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

Beside beside(Judged& judged, const Expectation& expected) {
  Beside result;
  const Bounded y = judged.others(DType::f64);
  const bool exact = expected.dtype == DType::f64;
  const Bounded other = exact ? Bounded{} : judged.others(expected.dtype);
  const auto cols = static_cast<std::size_t>(y.cols);
  for (std::size_t first = 0; first < y.value.size(); first += cols) {
    double error = 0;
    bool outside = false;
    for (std::size_t i = first; i < first + cols; ++i) {
      const double apart = std::fabs(expected.values[i] - y.value[i]);
      outside = outside || !(apart <= y.bound[i] + (exact ? 0 : other.bound[i]));
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
                    Judged& judged, const Expectation& expected) {
  const ExpertsForm& form = source.form();
  const Beside quantised = beside(judged, expected);
  const std::string shared = shared_by(quantised, routed, form.routing.top_k);
  if (form.x.code == DType::none && form.between.code == DType::none) return shared;
  ExpertsForm plain = form;
  plain.x = plain.between = {};
  Judged plain_judged(std::move(plain), source, input, routed);
  const Beside unquantised = beside(plain_judged, expected);
  if (!(unquantised.count() < quantised.count() ||
        (unquantised.count() == quantised.count() && unquantised.typical_error() < quantised.typical_error() / 4)))
    return shared;
  const std::string agree =
      fmt::format("with activations left unquantised (--weight-only) {} of {} tokens are within the bound",
                  input.tokens - unquantised.count(), input.tokens);
  const std::string text = shared_by(unquantised, routed, form.routing.top_k);
  return text.empty() ? agree : agree + "; " + text;
}

/// One call with a settled routing: its result against the oracle, and the first wrong value.
std::string judge_call(const Device& device, Experts& experts, const ExpertsInput& input, Oracle& oracle, Ran& ran) {
  Execution call(device, experts, input);
  Output output = call.compute();
  Values values = oracle.evaluate(call.runner().graph(), call.runner().plans());
  std::string wrong = first_wrong_value(call, values);
  judge_output(ran, std::move(output), std::move(values[call.runner().graph().result]), "y");
  return wrong;
}

}  // namespace

std::string first_wrong_value(Execution& call, const Values& values) {
  const Graph& graph = call.runner().graph();
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
        const auto expert = std::upper_bound(ends.begin(), ends.end(), static_cast<double>(row)) - ends.begin();
        where = fmt::format("expert {}, {}: token {}, column {}", expert, value.name,
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
  ExpertsChoices choices;
  choices.tokens = std::max<std::int64_t>(input.tokens, 1);
  choices.x = input.x_dtype;
  choices.out = settings.out;
  // Every device gets the same ids and weights: those of the oracle's logits, where nobody gave others.
  const Graph graph = graph_of(form, choices);
  Oracle router = oracle_of(source, input, nullptr);
  ExpertsInput given = input;
  if (!given.routed) given.routed = routed_of(graph, router.evaluate(graph, {}, graph.find("ids")));
  const RoutedTokens& routed = *given.routed;
  const std::vector<ExpertsInput> unchosen = inputs_of_the_unchosen(form, input, routed);
  Judged judged(form, source, input, routed);
  Subject subject;
  CaseReport& report = subject.report;
  report.layer = form.name;
  report.heading = heading(form, input, unchosen.empty() ? 0 : unchosen_experts(form, routed));
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
      const Graph all = graph_of(form, allowed, device.props().buffer_alignment);
      judge_output(ran, std::move(made.output), judged.oracle.evaluate(all, made.plans)[all.result], "y");
      return;
    }
    Experts experts(device, source, allowed);
    const Graph& list = experts.runner().graph();
    std::string wrong;
    if (!input.routed)
      wrong =
          judge_routing(source, Execution(device, experts, input).compute(),
                        router.evaluate(list, experts.runner().plans(), list.find("logits"))[list.find("logits")]);
    // A wrong value may hide in the sum, under the bounds of those before it.
    const std::string step = judge_call(device, experts, given, judged.oracle, ran);
    std::string apart;
    for (std::size_t i = 0; i < unchosen.size() && apart.empty(); ++i) {
      Ran one;
      Oracle oracle = oracle_of(source, unchosen[i], &*unchosen[i].routed);
      apart = judge_call(device, experts, unchosen[i], oracle, one);
      if (apart.empty()) apart = one.report.reason;
    }
    if (!apart.empty()) apart += ", where experts run that no token of x chose";
    for (const std::string* more : std::initializer_list<const std::string*>{&step, &wrong, &apart}) {
      if (more->empty()) continue;
      ran.report.verdict = Verdict::fail;
      ran.report.reason = *more + (ran.report.reason.empty() ? "" : "; ") + ran.report.reason;
    }
  };
  subject.others = [&](DType out, AccuracyClass) { return judged.others(out); };
  subject.explain = [&](const Expectation& expected) { return explain(source, input, routed, judged, expected); };
  return judge(std::move(subject), devices, settings);
}

}  // namespace ironcl::layer
