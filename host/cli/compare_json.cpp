// SPDX-License-Identifier: Apache-2.0
// What compare found, as JSON.
#include "host/cli/compare_report.h"
#include "host/cli/complaints.h"
#include "host/report/json.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using layer::CaseReport;
using layer::DeviceReport;
using layer::ExpectReport;
using layer::has_averages;
using layer::PairReport;
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
  object["config"] = text(&layer::Output::tuning);
  return object;
}

json::object to_json(const CaseReport& layer) {
  const report::Problem& problem = layer.problem;
  const numerics::ScaleGrid block = problem.b_scale.grid.resolved(problem.n, problem.k);
  json::object object{{"layer", layer.layer}, {"m", problem.m}, {"n", problem.n}, {"k", problem.k}};
  const bool whole = !layer.heading.empty();
  object["block"] = whole ? json::value(nullptr) : json::value(json::array{block.group_rows, block.group_cols});
  object["problem"] = whole ? layer.heading : report::to_line(problem);
  object["activations"] = layer.activations;
  object["seed"] = layer.seed ? json::value(*layer.seed) : json::value(nullptr);
  object["undefined"] = layer.undefined;
  json::array devices, pairs, expect;
  for (const DeviceReport& device : layer.devices) devices.push_back(to_json(device));
  for (const PairReport& pair : layer.pairs) {
    json::object item{{"uris", json::array{pair.first.uri, pair.second.uri}},
                      {"accuracy_classes",
                       json::array{numerics::name_of(pair.first.accuracy), numerics::name_of(pair.second.accuracy)}},
                      {"verdict", name_of(pair.verdict)}};
    add_comparison(&pair.comparison, &item);
    pairs.push_back(std::move(item));
  }
  for (const ExpectReport& expected : layer.expect) {
    json::object item{{"tensor", expected.tensor}, {"uri", expected.result.uri}};
    item["result_class"] = numerics::name_of(expected.result.accuracy);
    item["dtype"] = numerics::name_of(expected.dtype);
    item["accuracy_class"] = numerics::name_of(expected.accuracy);
    item["verdict"] = name_of(expected.verdict);
    item["remark"] = expected.remark.empty() ? json::value(nullptr) : json::value(expected.remark);
    add_comparison(&expected.comparison, &item);
    expect.push_back(std::move(item));
  }
  object["devices"] = std::move(devices);
  object["pairs"] = std::move(pairs);
  object["expect"] = std::move(expect);
  return object;
}

}  // namespace

json::object to_json(const CompareReport& report) {
  json::object object{{"verdict", name_of(report.verdict())}, {"path", report.path}};
  json::array cases;
  for (const CaseReport& layer : report.cases) cases.push_back(to_json(layer));
  object["cases"] = std::move(cases);
  object["left_out"] = to_json(layer::fold(report.left_out));
  return object;
}

}  // namespace ironcl::cli
