// SPDX-License-Identifier: Apache-2.0
// What compare found, as JSON and as text.
#include "host/cli/compare_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/report/json.h"
#include "host/report/render.h"
#include "host/report/table.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using layer::CaseReport;
using layer::DeviceReport;
using layer::ExpectReport;
using layer::has_averages;
using layer::PairReport;
using layer::Verdict;
using numerics::Comparison;
using report::number;

json::value worst_of(const Comparison& comparison) {
  if (comparison.worst_row < 0) return nullptr;
  return json::object{{"row", comparison.worst_row},
                      {"col", comparison.worst_col},
                      {"got", number(comparison.worst_got)},
                      {"want", number(comparison.worst_want)}};
}

/// The members that every comparison has; null where there was none.
void add_comparison(const Comparison* comparison, json::object* object) {
  const auto average = [comparison](double Comparison::*member) {
    return comparison != nullptr && has_averages(*comparison) ? number(comparison->*member) : json::value(nullptr);
  };
  (*object)["max_error_over_bound"] =
      comparison != nullptr ? number(comparison->max_error_over_bound) : json::value(nullptr);
  (*object)["nmse"] = average(&Comparison::nmse);
  (*object)["calc_diff"] = average(&Comparison::calc_diff);
  (*object)["mean_rel"] = average(&Comparison::mean_rel);
  (*object)["out_of_bounds"] = comparison != nullptr ? json::value(comparison->out_of_bounds) : json::value(nullptr);
  (*object)["worst"] = comparison != nullptr ? worst_of(*comparison) : json::value(nullptr);
}

json::object to_json(const DeviceReport& device) {
  json::object object{{"uri", device.uri}, {"name", device.name}};
  const layer::Output* result = device.result ? &*device.result : nullptr;
  const bool timed = result != nullptr && result->timing.time_kind != IRONCL_TIME_NONE;
  const auto text = [result](const std::string layer::Output::*member) {
    return result != nullptr ? json::value(result->*member) : json::value(nullptr);
  };
  object["accuracy_class"] =
      result != nullptr ? json::value(numerics::name_of(result->accuracy)) : json::value(nullptr);
  object["time_ns"] = timed ? number(result->timing.device_ns) : json::value(nullptr);
  object["time_kind"] = timed ? json::value(layer::time_kind_name(result->timing.time_kind)) : json::value(nullptr);
  object["verdict"] = name_of(device.verdict);
  object["reason"] = device.reason.empty() ? json::value(nullptr) : json::value(device.reason);
  add_comparison(device.comparison ? &*device.comparison : nullptr, &object);
  object["accumulation_length"] = result != nullptr ? json::value(result->accumulation_length) : json::value(nullptr);
  object["quantization"] =
      device.quantization ? json::value(device.quantization->equal ? "equal" : "differs") : json::value(nullptr);
  object["variant"] = text(&layer::Output::variant);
  object["config"] = text(&layer::Output::config);
  return object;
}

json::object to_json(const CaseReport& layer) {
  const report::Problem& problem = layer.problem;
  const numerics::ScaleGrid block = problem.b_scale.grid.resolved(problem.n, problem.k);
  json::object object{{"layer", layer.layer}, {"m", problem.m}, {"n", problem.n}, {"k", problem.k}};
  object["block"] = json::array{block.group_rows, block.group_cols};
  object["problem"] = report::to_line(problem);
  object["activations"] = layer.activations;
  object["seed"] = layer.seed ? json::value(*layer.seed) : json::value(nullptr);
  object["undefined"] = layer.undefined;
  json::array devices, pairs, expect;
  for (const DeviceReport& device : layer.devices) devices.push_back(to_json(device));
  for (const PairReport& pair : layer.pairs) {
    json::object item{{"uris", json::array{pair.first, pair.second}}, {"verdict", name_of(pair.verdict)}};
    add_comparison(&pair.comparison, &item);
    pairs.push_back(std::move(item));
  }
  for (const ExpectReport& expected : layer.expect) {
    json::object item{{"tensor", expected.tensor}, {"uri", expected.uri}};
    item["dtype"] = numerics::name_of(expected.dtype);
    item["accuracy_class"] = numerics::name_of(expected.accuracy);
    item["verdict"] = name_of(expected.verdict);
    add_comparison(&expected.comparison, &item);
    expect.push_back(std::move(item));
  }
  object["devices"] = std::move(devices);
  object["pairs"] = std::move(pairs);
  object["expect"] = std::move(expect);
  return object;
}

report::Cell nmse_of(const Comparison& comparison) {
  return has_averages(comparison) ? report::Cell(comparison.nmse) : report::Cell();
}

/// The heading of a layer in the table.
std::string heading(const CaseReport& layer) {
  const report::Problem& problem = layer.problem;
  const auto grid = [](const report::Scales& scales) {
    return scales.dtype == numerics::DType::none ? std::string("no") : report::to_text(scales.grid);
  };
  return fmt::format("{}: [{}, {}] x [{}, {}], scales {} and {}", layer.layer, problem.m, problem.k, problem.n,
                     problem.k, grid(problem.a_scale), grid(problem.b_scale));
}

report::Table table_of(const std::vector<CaseReport>& cases) {
  using report::Cell;
  using report::Kind;
  report::Table table({{"layer", "layer", Kind::text},
                       {"result", "result of", Kind::text},
                       {"against", "against", Kind::text},
                       {"time", "time", Kind::text},
                       {"max_error_over_bound", "error/bound", Kind::number},
                       {"nmse", "NMSE", Kind::number},
                       {"verdict", "verdict", Kind::text}});
  for (const CaseReport& layer : cases) {
    const std::string title = heading(layer);
    for (const DeviceReport& device : layer.devices) {
      Cell time, error, nmse;
      if (device.result && device.result->timing.time_kind != IRONCL_TIME_NONE) {
        time = fmt::format("{} {}", report::human_time(device.result->timing.device_ns),
                           layer::time_kind_name(device.result->timing.time_kind));
      }
      if (device.comparison) {
        error = device.comparison->max_error_over_bound;
        nmse = nmse_of(*device.comparison);
      }
      table.add({title, device.uri, std::string("oracle"), time, error, nmse, std::string(name_of(device.verdict))});
    }
    for (const PairReport& pair : layer.pairs) {
      table.add({title,
                 pair.first,
                 pair.second,
                 {},
                 pair.comparison.max_error_over_bound,
                 nmse_of(pair.comparison),
                 std::string(name_of(pair.verdict))});
    }
    for (const ExpectReport& expected : layer.expect) {
      const bool weaker = expected.accuracy != numerics::AccuracyClass::f32;
      table.add({title,
                 expected.uri,
                 expected.tensor,
                 {},
                 expected.comparison.max_error_over_bound,
                 nmse_of(expected.comparison),
                 fmt::format("{}{}{}", name_of(expected.verdict), weaker ? " as " : "",
                             weaker ? numerics::name_of(expected.accuracy) : "")});
    }
  }
  return table;
}

/// What is wrong or missing, in words, with the lines that reproduce it.
std::string remarks(const CompareReport& report, const CaseReport& layer) {
  std::string text;
  const auto reproduce = [&](const std::string& uri) {
    text += fmt::format("  problem:   {}\n  reproduce: {}\n", report::to_line(layer.problem),
                        reproduction(report, layer.layer, uri));
  };
  const auto elements = static_cast<std::size_t>(layer.problem.m * layer.problem.n);
  if (elements == 0) text += fmt::format("{}: 0 rows, so there was no element to compare\n", layer.layer);
  if (layer.undefined != 0) {
    text += fmt::format("{}: {} of {} elements are NaN in the oracle too (NaN codes or NaN activations)\n",
                        layer.layer, layer.undefined, elements);
  }
  for (const DeviceReport& device : layer.devices) {
    if (device.verdict == Verdict::pass) continue;
    const char* word = device.verdict == Verdict::unsupported ? "skipped" : "FAIL";
    text += fmt::format("{} {} on {}: {}\n", word, layer.layer, device.uri, device.reason);
    if (device.verdict != Verdict::unsupported) reproduce(device.uri);
  }
  for (const PairReport& pair : layer.pairs) {
    if (pair.verdict == Verdict::pass) continue;
    text += fmt::format("FAIL {}: {} and {} differ by {} times the sum of their bounds at D[{},{}]: {} and {}\n",
                        layer.layer, pair.first, pair.second,
                        report::human_number(pair.comparison.max_error_over_bound), pair.comparison.worst_row,
                        pair.comparison.worst_col, report::exact_number(pair.comparison.worst_got),
                        report::exact_number(pair.comparison.worst_want));
  }
  for (const ExpectReport& expected : layer.expect) {
    if (expected.verdict == Verdict::pass) continue;
    text += fmt::format("FAIL {}: D[{},{}] of {} is {}, {} has {}: {} times the bound of class {}\n", layer.layer,
                        expected.comparison.worst_row, expected.comparison.worst_col, expected.uri,
                        report::exact_number(expected.comparison.worst_got), expected.tensor,
                        report::exact_number(expected.comparison.worst_want),
                        report::human_number(expected.comparison.max_error_over_bound),
                        numerics::name_of(expected.accuracy));
  }
  if (layer.computed() == 0) text += fmt::format("{}: no device computed it, so nothing is proven\n", layer.layer);
  return text;
}

std::string verdict_line(const CompareReport& report) {
  const auto layers = [](std::size_t count) { return fmt::format("{} layer{}", count, count == 1 ? "" : "s"); };
  const auto wrong = static_cast<std::size_t>(
      std::count_if(report.cases.begin(), report.cases.end(), [](const CaseReport& c) { return c.wrong(); }));
  const auto missed = static_cast<std::size_t>(
      std::count_if(report.cases.begin(), report.cases.end(), [](const CaseReport& c) { return c.computed() == 0; }));
  if (wrong != 0)
    return fmt::format("FAIL: {} of {} out of bounds or not computed\n", wrong, layers(report.cases.size()));
  if (missed != 0 || report.cases.empty()) {
    return fmt::format("FAIL: {} of {} ran on no device\n", missed, layers(report.cases.size()));
  }
  std::int64_t elements = 0;
  std::size_t runs = 0;
  for (const CaseReport& layer : report.cases) {
    runs += layer.computed();
    elements += layer.problem.m * layer.problem.n * static_cast<std::int64_t>(layer.computed());
  }
  return fmt::format("PASS: {}, {} result{}, {} elements, every one within its bound\n", layers(report.cases.size()),
                     runs, runs == 1 ? "" : "s", elements);
}

}  // namespace

bool CompareReport::pass() const noexcept {
  return !cases.empty() &&
         std::all_of(cases.begin(), cases.end(), [](const CaseReport& c) { return c.computed() != 0 && !c.wrong(); });
}

ExitStatus CompareReport::status() const noexcept {
  if (pass()) return ExitStatus::ok;
  const bool wrong = std::any_of(cases.begin(), cases.end(), [](const CaseReport& c) { return c.wrong(); });
  return wrong ? ExitStatus::out_of_bounds : ExitStatus::no_device;
}

json::object to_json(const CompareReport& report) {
  json::object object{{"verdict", report.pass() ? "pass" : "fail"}, {"path", report.path}};
  json::array cases;
  for (const CaseReport& layer : report.cases) cases.push_back(to_json(layer));
  object["cases"] = std::move(cases);
  return object;
}

std::string to_text(const CompareReport& report, std::size_t width) {
  std::string text = report::to_grouped_text(table_of(report.cases), width);
  text +=
      "\nerror/bound: the largest error of an element, over the bound of that element; 1 is the limit.\n"
      "time: of one cold call, on the device's clock; modelled is of a machine that is not here.\n";
  const bool narrow = !report.cases.empty() && report.cases.front().problem.d != numerics::DType::f32;
  if (narrow) {
    text += "Rounding to a 16-bit result takes up nearly all of its bound, so a ratio close to 1 is usual there.\n";
  }
  text += "\n";
  for (const CaseReport& layer : report.cases) text += remarks(report, layer);
  return text + verdict_line(report);
}

std::string reproduction(const CompareReport& report, const std::string& layer, const std::string& uri) {
  return fmt::format("ironcl compare {} --layer {} --device {}{}{}", shell_word(report.path), shell_word(layer),
                     shell_word(uri), report.command_tail.empty() ? "" : " ", report.command_tail);
}

std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-+=:,./@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace ironcl::cli
