// SPDX-License-Identifier: Apache-2.0
// What compare found, as JSON and as text.
#include "host/cli/compare_report.h"

#include <boost/algorithm/string/replace.hpp>
#include <cmath>

#include "host/report/json.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

using layer::CaseReport;
using layer::DeviceReport;
using layer::ExpectReport;
using layer::PairReport;
using layer::Verdict;
using numerics::Comparison;
using report::or_null;
namespace json = boost::json;

/// Whether the averages of a comparison mean anything: they leave out elements that are not finite.
bool has_averages(const Comparison& comparison) { return std::isfinite(comparison.max_error_over_bound); }

/// The heading of a layer in the table.
std::string heading(const CaseReport& layer) {
  if (!layer.heading.empty()) return layer.heading;
  const report::Problem& problem = layer.problem;
  const auto grid = [](const report::Scales& scales) {
    return scales.dtype == numerics::DType::none ? std::string("no") : report::to_text(scales.grid);
  };
  return fmt::format("{}: [{}, {}] x [{}, {}], scales {} and {}", layer.layer, problem.m, problem.k, problem.n,
                     problem.k, grid(problem.a_scale), grid(problem.b_scale));
}

report::Table empty_table() {
  using report::Kind;
  return report::Table({{"layer", "layer", Kind::text},
                        {"result", "result of", Kind::text},
                        {"against", "against", Kind::text},
                        {"time", "time", Kind::text},
                        {"max_error_over_bound", "error/bound", Kind::number},
                        {"nmse", "NMSE", Kind::number},
                        {"verdict", "verdict", Kind::text}});
}

/// What is wrong or undefined, in words, with the lines that reproduce it; empty where nothing is.
std::string remarks(const CompareReport& report, const CaseReport& layer) {
  std::string text;
  const auto reproduce = [&](const DeviceReport& device) {
    report::Problem problem = layer.problem;
    problem.weakest_accuracy = device.allowed;
    if (layer.heading.empty()) text += fmt::format("  problem:   {}\n", report::to_line(problem));
    // Of ranks the options say the devices.
    const bool ranks = device.uri.find(" ranks ") != std::string::npos;
    text +=
        fmt::format("  reproduce: ironcl compare {} --layer {}{}{}\n", shell_word(report.path),
                    shell_word(layer.layer), ranks ? "" : " --device " + shell_word(device.uri), report.command_tail);
  };
  const auto elements = static_cast<std::size_t>(layer.problem.m * layer.problem.n);
  if (elements == 0) text += fmt::format("{}: 0 rows, so there was no element to compare\n", layer.layer);
  if (layer.undefined != 0)
    text += fmt::format("{}: {} of {} elements are NaN in the oracle too (NaN codes or NaN activations)\n",
                        layer.layer, layer.undefined, elements);
  for (const DeviceReport& device : layer.devices) {
    if (device.verdict == Verdict::pass || device.verdict == Verdict::unsupported) continue;
    text += fmt::format("FAIL {} on {}: {}\n", layer.layer, name_of(device).text(), device.reason);
    reproduce(device);
  }
  for (const PairReport& pair : layer.pairs) {
    if (pair.verdict == Verdict::pass) continue;
    text += fmt::format("FAIL {}: {} and {} differ by {} times the sum of their bounds at D[{},{}]: {} and {}\n",
                        layer.layer, pair.first.text(), pair.second.text(),
                        report::human_number(pair.comparison.max_error_over_bound), pair.comparison.worst_row,
                        pair.comparison.worst_col, report::exact_number(pair.comparison.worst_got),
                        report::exact_number(pair.comparison.worst_want));
  }
  for (const ExpectReport& expected : layer.expect) {
    if (expected.verdict == Verdict::pass) continue;
    text += fmt::format("FAIL {}: D[{},{}] of {} is {}, {} has {}: {} times the bound of class {}\n", layer.layer,
                        expected.comparison.worst_row, expected.comparison.worst_col, expected.result.text(),
                        report::exact_number(expected.comparison.worst_got), expected.tensor,
                        report::exact_number(expected.comparison.worst_want),
                        report::human_number(expected.comparison.max_error_over_bound),
                        numerics::name_of(expected.accuracy));
    if (!expected.remark.empty()) text += fmt::format("  {}\n", expected.remark);
  }
  return text;
}

/// Devices that do not run layers, those of one pattern and reason in a line.
std::string skipped(const CompareReport& report) {
  std::vector<layer::LeftOut> by_device;
  for (const CaseReport& layer : report.cases) {
    for (const DeviceReport& device : layer.devices)
      if (device.verdict == Verdict::unsupported)
        by_device.push_back({layer.layer, fmt::format("not run by {}: {}", device.uri, device.reason)});
  }
  return layer::to_text(layer::fold(by_device));
}

/// Adds the members that every comparison has; null where there was none.
void add_comparison(const std::optional<Comparison>& comparison, json::object& object) {
  const Comparison& one = comparison ? *comparison : Comparison();
  const bool there = comparison.has_value(), averages = there && has_averages(one);
  object["max_error_over_bound"] = or_null(there, one.max_error_over_bound);
  object["nmse"] = or_null(averages, one.nmse);
  object["calc_diff"] = or_null(averages, one.calc_diff);
  object["mean_rel"] = or_null(averages, one.mean_rel);
  object["out_of_bounds"] = or_null(there, one.out_of_bounds);
  object["worst"] = or_null(
      there && one.worst_row >= 0,
      json::object{{"row", one.worst_row}, {"col", one.worst_col}, {"got", one.worst_got}, {"want", one.worst_want}});
}

json::object to_json(const layer::DeviceReport& device) {
  const bool ran = device.result.has_value();
  const layer::Output& result = ran ? *device.result : layer::Output();
  const bool timed = result.timing.time_kind != IRONCL_TIME_NONE;
  json::object object{{"uri", device.uri},
                      {"name", device.name},
                      {"accuracy_class", or_null(ran, numerics::name_of(result.accuracy))},
                      {"time_ns", or_null(timed, result.timing.device_ns)},
                      {"time_kind", or_null(layer::time_kind_name(result.timing.time_kind))},
                      {"verdict", name_of(device.verdict)},
                      {"reason", or_null(device.reason)}};
  add_comparison(device.comparison, object);
  object["accumulation_length"] = or_null(ran, result.accumulation_length);
  object["quantization"] =
      device.quantization ? json::value(device.quantization->equal ? "equal" : "differs") : json::value(nullptr);
  object["variant"] = or_null(ran, result.variant);
  object["config"] = or_null(ran, result.tuning);
  return object;
}

json::object to_json(const layer::PairReport& pair) {
  json::object object{{"uris", json::array{pair.first.uri, pair.second.uri}},
                      {"accuracy_classes",
                       json::array{numerics::name_of(pair.first.accuracy), numerics::name_of(pair.second.accuracy)}},
                      {"verdict", name_of(pair.verdict)}};
  add_comparison(pair.comparison, object);
  return object;
}

json::object to_json(const layer::ExpectReport& expected) {
  json::object object{{"tensor", expected.tensor},
                      {"uri", expected.result.uri},
                      {"result_class", numerics::name_of(expected.result.accuracy)},
                      {"dtype", numerics::name_of(expected.dtype)},
                      {"accuracy_class", numerics::name_of(expected.accuracy)},
                      {"verdict", name_of(expected.verdict)},
                      {"remark", or_null(expected.remark)}};
  add_comparison(expected.comparison, object);
  return object;
}

json::object to_json(const CaseReport& layer);

template <class Report>
json::array all_of(const std::vector<Report>& reports) {
  json::array all;
  for (const Report& one : reports) all.push_back(to_json(one));
  return all;
}

json::object to_json(const layer::CaseReport& layer) {
  const report::Problem& problem = layer.problem;
  const numerics::ScaleGrid block = problem.b_scale.grid.resolved(problem.n, problem.k);
  const bool whole = !layer.heading.empty();
  return {{"layer", layer.layer},
          {"m", problem.m},
          {"n", problem.n},
          {"k", problem.k},
          {"block", or_null(!whole, json::array{block.group_rows, block.group_cols})},
          {"problem", whole ? layer.heading : report::to_line(problem)},
          {"activations", layer.activations},
          {"seed", or_null(layer.seed.has_value(), layer.seed.value_or(0))},
          {"undefined", layer.undefined},
          {"devices", all_of(layer.devices)},
          {"pairs", all_of(layer.pairs)},
          {"expect", all_of(layer.expect)}};
}

}  // namespace

Conclusion CompareReport::conclusion() const {
  const auto count_if = [this](const auto& is) { return std::ranges::count_if(cases, is); };
  const std::string all = report::counted(cases.size(), "layer");
  if (const auto wrong = count_if(&CaseReport::wrong); wrong != 0)
    return {"fail", ExitStatus::out_of_bounds,
            fmt::format("FAIL: {} of {} out of bounds or not computed\n", wrong, all)};
  const auto missed = count_if([](const CaseReport& layer) { return layer.computed() == 0; });
  if (missed != 0 || cases.empty())
    return {"fail", ExitStatus::no_device,
            fmt::format("FAIL: {} of {} ran on no device, so nothing is proven\n", missed, all)};
  if (const auto alone = count_if([](const CaseReport& layer) { return layer.compared() == 0; }); alone != 0)
    return {
        "model_only", asked_for_models ? ExitStatus::ok : ExitStatus::no_device,
        fmt::format("MODEL ONLY: {} of {} ran on no device but the model, which agrees with the oracle: that says "
                    "nothing of a real device\n",
                    alone, all)};
  std::int64_t elements = 0;
  std::size_t runs = 0;
  for (const CaseReport& layer : cases) {
    runs += layer.computed();
    elements += layer.problem.m * layer.problem.n * static_cast<std::int64_t>(layer.computed());
  }
  return {"pass", ExitStatus::ok,
          fmt::format("PASS: {}, {}, {} elements, every one within its bound\n", all, report::counted(runs, "result"),
                      elements)};
}

json::object to_json(const CompareReport& report) {
  return {{"verdict", report.conclusion().verdict},
          {"path", report.path},
          {"cases", all_of(report.cases)},
          {"left_out", layer::to_json(layer::fold(report.left_out))}};
}

report::Table table_of(const CaseReport& layer) {
  report::Table table = empty_table();
  const std::string title = heading(layer);
  const auto add = [&](const std::string& result, const std::string& against, const std::string& time,
                       const std::optional<Comparison>& found, const std::string& verdict) {
    const Comparison one = found.value_or(Comparison());
    table.add({title, result, against, time, or_null(found.has_value(), one.max_error_over_bound),
               or_null(found && has_averages(one), one.nmse), verdict});
  };
  for (const DeviceReport& device : layer.devices) {
    std::string time;
    if (device.result && device.result->timing.time_kind != IRONCL_TIME_NONE)
      time = fmt::format("{} {}", report::human_time(device.result->timing.device_ns),
                         layer::time_kind_name(device.result->timing.time_kind));
    add(name_of(device).text(), "oracle", time, device.comparison, std::string(name_of(device.verdict)));
  }
  for (const PairReport& pair : layer.pairs)
    add(pair.first.text(), pair.second.text(), "", pair.comparison, std::string(name_of(pair.verdict)));
  for (const ExpectReport& expected : layer.expect) {
    std::string verdict(name_of(expected.verdict));
    if (expected.accuracy != numerics::AccuracyClass::f32)
      verdict += fmt::format(" as {}", numerics::name_of(expected.accuracy));
    add(expected.result.text(), expected.tensor, "", expected.comparison, verdict);
  }
  return table;
}

report::Table sample_of(const std::vector<ironcl::Device>& devices, const layer::JudgeSettings& settings) {
  report::Table table = empty_table();
  const numerics::AccuracyClass weakest = std::ranges::max(settings.weakest_accuracies);
  const auto add = [&table](const std::string& result, const std::string& against) {
    table.add({"", result, against, "88.8 us modelled", 1.11e-11, 1.11e-11, "fail"});
  };
  for (const ironcl::Device& device : devices) {
    // A model computes in one class.
    const bool model = device.props().type == IRONCL_DEVICE_MODEL;
    const std::string name = layer::ResultName{device.uri(), model ? numerics::AccuracyClass::f32 : weakest}.text();
    add(name, name);
    for (const layer::Expectation& one : settings.expectations) add(name, one.tensor);
  }
  add("oracle", "oracle");
  return table;
}

std::string closing_text(const CompareReport& report) {
  constexpr std::size_t kMostRemarks = 20;
  std::string text =
      "\nerror/bound: the largest error of an element, over the bound of that element; 1 is the limit.\n"
      "time: of one cold call, on the device's clock; modelled times are of a machine that is not present.\n";
  const bool narrow = !report.cases.empty() && report.cases.front().problem.d != numerics::DType::f32;
  if (narrow)
    text += "Rounding to a 16-bit result takes up nearly all of its bound, so a ratio close to 1 is usual there.\n";
  text += "\n";
  std::size_t remarked = 0;
  for (const CaseReport& layer : report.cases) {
    const std::string found = remarks(report, layer);
    if (!found.empty() && ++remarked <= kMostRemarks) text += found;
  }
  if (remarked > kMostRemarks)
    text += fmt::format("and {} more layers with remarks; --json FILE has every one\n", remarked - kMostRemarks);
  text += skipped(report);
  if (!report.left_out.empty())
    text += fmt::format("left out: {} that could not be run\n{}", report::counted(report.left_out.size(), "layer"),
                        layer::to_text(layer::fold(report.left_out)));
  if (!report.missing.empty()) text += report.missing + "\n";
  return text + report.conclusion().text;
}

std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-+=:,./@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  return "'" + boost::algorithm::replace_all_copy(text, "'", "'\\''") + "'";
}

}  // namespace ironcl::cli
