// SPDX-License-Identifier: Apache-2.0
// Running a layer everywhere and comparing the results.
#include "host/layer/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/numerics/casts.h"
#include "backends/numerics/scale_grid.h"
#include "host/report/units.h"

namespace ironcl::layer {
namespace {

using numerics::AccuracyClass;
using numerics::BoundTerms;
using numerics::Comparison;
using numerics::DType;
using numerics::OracleResult;

/// "D[3,17] is 1.25, expected 1.5: 4.1 times the bound; 12 of 7168 elements are out of bounds".
std::string describe(const Comparison& comparison, std::size_t elements) {
  return fmt::format("D[{},{}] is {}, expected {}: {} times the bound; {} of {} elements are out of bounds",
                     comparison.worst_row, comparison.worst_col, report::exact_number(comparison.worst_got),
                     report::exact_number(comparison.worst_want),
                     report::human_number(comparison.max_error_over_bound), comparison.out_of_bounds, elements);
}

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

DeviceReport run_device(const ironcl::Device& device, const report::Problem& problem, const Operands& operands,
                        const QuantizedA& quantized, const OracleResult& oracle) {
  DeviceReport report;
  report.uri = device.uri();
  report.name = device.name();
  report.allowed = problem.weakest_accuracy;
  report.model = device.props().type == IRONCL_DEVICE_MODEL;
  try {
    report.result = Execution(device, problem, operands).compute(true);
  } catch (const ironcl::Error& error) {
    const bool refused = error.status() == IRONCL_UNSUPPORTED || error.status() == IRONCL_UNIMPLEMENTED;
    report.verdict = refused ? Verdict::unsupported : Verdict::error;
    report.reason = error.what();
    return report;
  }
  const Output& result = *report.result;
  report.terms = {problem.d, result.accuracy, problem.k, result.accumulation_length};
  report.values.resize(oracle.value.size());
  numerics::decode(problem.d, result.d.data(), std::span<double>(report.values));
  report.comparison = numerics::compare(report.values, oracle, report.terms);
  report.verdict = report.comparison->pass ? Verdict::pass : Verdict::fail;
  if (!report.comparison->pass) report.reason = describe(*report.comparison, report.values.size());
  if (result.unwritten != 0) {
    report.verdict = Verdict::fail;
    report.reason += fmt::format("; {} elements were never written", result.unwritten);
  }
  if (result.shows_quantized) {
    report.quantization = check_quantization(problem, quantized, result.quantized);
    if (!report.quantization->equal) {
      report.verdict = Verdict::fail;
      report.reason = report.quantization->difference + (report.reason.empty() ? "" : "; ") + report.reason;
    }
  }
  return report;
}

/// One result against an expectation. A tighter class is tried before a weaker one.
ExpectReport judge_expectation(const Expectation& expected, const ResultName& result, const std::vector<double>& got,
                               const BoundTerms& terms, const OracleResult& oracle, std::int64_t k_group) {
  ExpectReport report;
  report.tensor = expected.tensor;
  report.result = result;
  report.dtype = expected.dtype;
  if (expected.dtype == DType::f64) {
    OracleResult reference = oracle;
    reference.value = expected.values;
    report.comparison = numerics::compare(got, reference, terms);
  } else {
    BoundTerms expected_terms{expected.dtype, AccuracyClass::f32, terms.k, k_group};
    report.comparison = numerics::compare(got, terms, expected.values, expected_terms, oracle);
    if (!report.comparison.pass && expected.dtype != DType::f32) {
      expected_terms.accuracy = report.accuracy = AccuracyClass::tensor14;
      report.comparison = numerics::compare(got, terms, expected.values, expected_terms, oracle);
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

CaseReport judge(const checkpoint::LinearLayer& layer, const Activations& a,
                 const std::vector<ironcl::Device>& devices, const JudgeSettings& settings) {
  const LayerWeights weights = weights_of(layer);
  const Operands operands = operands_of(a, weights);
  CaseReport report;
  report.layer = layer.name;
  report.problem = problem_of(layer, a, settings.out, settings.weakest_accuracies.front());
  report.activations = a.origin;
  const QuantizedA quantized = quantize_a(report.problem, operands);
  // Expectations of others may be of the weaker class.
  const AccuracyClass weakest = settings.expectations.empty() ? *std::max_element(settings.weakest_accuracies.begin(),
                                                                                  settings.weakest_accuracies.end())
                                                              : AccuracyClass::tensor14;
  const OracleResult oracle =
      numerics::oracle(a_operand(report.problem, operands, quantized), b_operand(report.problem, operands),
                       report.problem.bias, operands.bias.data(), weakest);
  report.undefined =
      std::count_if(oracle.value.begin(), oracle.value.end(), [](double value) { return std::isnan(value); });

  for (const ironcl::Device& device : devices) {
    for (const AccuracyClass allowed : settings.weakest_accuracies) {
      report::Problem problem = report.problem;
      problem.weakest_accuracy = allowed;
      DeviceReport one = run_device(device, problem, operands, quantized, oracle);
      if (report.devices.empty() || !repeats(report.devices.back(), one)) report.devices.push_back(std::move(one));
    }
    if (settings.progress) settings.progress(report.devices.back());
  }
  for (std::size_t i = 0; i < report.devices.size(); ++i) {
    for (std::size_t j = i + 1; j < report.devices.size(); ++j) {
      const DeviceReport &first = report.devices[i], &second = report.devices[j];
      if (!first.result || !second.result) continue;
      PairReport& pair = report.pairs.emplace_back(PairReport{name_of(first), name_of(second), Verdict::fail, {}});
      pair.comparison = numerics::compare(first.values, first.terms, second.values, second.terms, oracle);
      pair.verdict = pair.comparison.pass ? Verdict::pass : Verdict::fail;
    }
  }
  const std::int64_t k_group =
      numerics::common_group(report.problem.a_scale.grid.group_cols, layer.weight_grid.group_cols, layer.k);
  for (const Expectation& expected : settings.expectations) {
    const BoundTerms exact{DType::f64, AccuracyClass::f32, layer.k, k_group};
    report.expect.push_back(judge_expectation(expected, {"oracle"}, oracle.value, exact, oracle, k_group));
    for (const DeviceReport& device : report.devices) {
      if (!device.result) continue;
      report.expect.push_back(
          judge_expectation(expected, name_of(device), device.values, device.terms, oracle, k_group));
    }
  }
  for (DeviceReport& device : report.devices) device.forget_values();
  return report;
}

}  // namespace ironcl::layer
