// SPDX-License-Identifier: Apache-2.0
// Running a layer everywhere and comparing the results. Next door: judge_experts.cpp (what is more of a layer of
// experts).
#include "host/layer/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/numerics/casts.h"
#include "backends/numerics/scale_grid.h"
#include "host/layer/judge_subject.h"
#include "host/report/units.h"

namespace ironcl::layer {
namespace {

using numerics::AccuracyClass;
using numerics::Comparison;
using numerics::DType;

Quantization check_quantization(const report::Problem& problem, const QuantizedA& must, const QuantizedA& is) {
  for (std::size_t i = 0; i < must.scales.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(must.scales[i]) == std::bit_cast<std::uint32_t>(is.scales[i])) continue;
    const std::size_t cols =
        std::max<std::size_t>(1, static_cast<std::size_t>(problem.a_scale.grid.scale_cols(problem.k)));
    return {false, fmt::format("scale [{},{}] of the quantised activations is {}, must be {}", i / cols, i % cols,
                               report::exact_number(is.scales[i]), report::exact_number(must.scales[i]))};
  }
  for (std::size_t i = 0; i < must.codes.size(); ++i) {
    if (must.codes[i] == is.codes[i]) continue;
    const std::size_t cols = std::max<std::size_t>(1, static_cast<std::size_t>(problem.k));
    return {false, fmt::format("code [{},{}] of the quantised activations is {:#04x}, must be {:#04x}", i / cols,
                               i % cols, is.codes[i], must.codes[i])};
  }
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
    const bool refused = error.status() == IRONCL_UNSUPPORTED || error.status() == IRONCL_UNIMPLEMENTED;
    report.verdict = refused ? Verdict::unsupported : Verdict::error;
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

}  // namespace

bool has_averages(const Comparison& comparison) noexcept { return std::isfinite(comparison.max_error_over_bound); }

const char* name_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::error:
      return "error";
    case Verdict::unsupported:
      break;
  }
  return "unsupported";
}

std::string ResultName::text() const {
  return accuracy == AccuracyClass::f32 ? uri : fmt::format("{} {}", uri, numerics::name_of(accuracy));
}

ResultName name_of(const DeviceReport& device) { return {device.uri, device.accuracy()}; }

bool repeats(const DeviceReport& earlier, const DeviceReport& later) noexcept {
  return earlier.uri == later.uri && earlier.result.has_value() == later.result.has_value() &&
         earlier.accuracy() == later.accuracy();
}

void DeviceReport::forget_values() {
  values = {};
  if (!result) return;
  result->d = {};
  result->quantized = {};
}

std::size_t CaseReport::computed() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(devices.begin(), devices.end(), [](const DeviceReport& d) { return d.result.has_value(); }));
}

std::size_t CaseReport::compared() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      devices.begin(), devices.end(), [](const DeviceReport& d) { return d.result.has_value() && !d.model; }));
}

bool CaseReport::wrong() const noexcept {
  const auto bad = [](const auto& report) {
    return report.verdict == Verdict::fail || report.verdict == Verdict::error;
  };
  return std::any_of(devices.begin(), devices.end(), bad) || std::any_of(pairs.begin(), pairs.end(), bad) ||
         std::any_of(expect.begin(), expect.end(), bad);
}

std::vector<double> decoded(DType type, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / numerics::size_of(type));
  numerics::decode(type, bytes.data(), std::span<double>(values));
  return values;
}

std::string describe(const Comparison& comparison, const std::string& where, std::size_t elements) {
  return fmt::format("{} is {}, expected {}: {} times the bound; {} of {} elements are out of bounds", where,
                     report::exact_number(comparison.worst_got), report::exact_number(comparison.worst_want),
                     report::human_number(comparison.max_error_over_bound), comparison.out_of_bounds, elements);
}

void judge_output(Ran& ran, Output output, Bounded want, const char* name) {
  DeviceReport& report = ran.report;
  ran.want = std::move(want);
  report.values = decoded(ran.want.dtype, output.d);
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
  report.undefined = std::count_if(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  for (Ran& one : all) {
    one.report.forget_values();
    report.devices.push_back(std::move(one.report));
  }
  return report;
}

CaseReport judge(const checkpoint::LinearLayer& layer, const Activations& a,
                 const std::vector<ironcl::Device>& devices, const JudgeSettings& settings) {
  const LayerWeights weights = weights_of(layer);
  const Operands operands = operands_of(a, weights);
  Subject subject;
  subject.report.layer = layer.name;
  subject.report.problem = problem_of(layer, a, settings.out, settings.weakest_accuracies.front());
  subject.report.activations = a.origin;
  subject.others_may_be_weak = true;
  const report::Problem problem = subject.report.problem;
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

}  // namespace ironcl::layer
