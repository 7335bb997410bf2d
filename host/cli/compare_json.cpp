// SPDX-License-Identifier: Apache-2.0
// What compare found, as JSON.
#include "host/cli/compare_report.h"
#include "host/cli/complaints.h"
#include "host/report/json.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using numerics::Comparison;
using report::number;
using report::or_null;

/// Adds the members that every comparison has; null where there was none.
void add_comparison(const std::optional<Comparison>& comparison, json::object& object) {
  const Comparison& one = comparison ? *comparison : Comparison();
  const bool there = comparison.has_value(), averages = there && layer::has_averages(one);
  object["max_error_over_bound"] = or_null(there, number(one.max_error_over_bound));
  object["nmse"] = or_null(averages, number(one.nmse));
  object["calc_diff"] = or_null(averages, number(one.calc_diff));
  object["mean_rel"] = or_null(averages, number(one.mean_rel));
  object["out_of_bounds"] = or_null(there, one.out_of_bounds);
  object["worst"] = or_null(there && one.worst_row >= 0, json::object{{"row", one.worst_row},
                                                                      {"col", one.worst_col},
                                                                      {"got", number(one.worst_got)},
                                                                      {"want", number(one.worst_want)}});
}

json::object to_json(const layer::DeviceReport& device);
json::object to_json(const layer::PairReport& pair);
json::object to_json(const layer::ExpectReport& expected);
json::object to_json(const layer::CaseReport& layer);

template <class Report>
json::array all_of(const std::vector<Report>& reports) {
  json::array all;
  for (const Report& one : reports) all.push_back(to_json(one));
  return all;
}

json::object to_json(const layer::DeviceReport& device) {
  const bool ran = device.result.has_value();
  const layer::Output& result = ran ? *device.result : layer::Output();
  const bool timed = result.timing.time_kind != IRONCL_TIME_NONE;
  json::object object{{"uri", device.uri},
                      {"name", device.name},
                      {"accuracy_class", or_null(ran, numerics::name_of(result.accuracy))},
                      {"time_ns", or_null(timed, number(result.timing.device_ns))},
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

json::object to_json(const CompareReport& report) {
  return {{"verdict", name_of(report.verdict())},
          {"path", report.path},
          {"cases", all_of(report.cases)},
          {"left_out", complaints_json(layer::fold(report.left_out))}};
}

}  // namespace ironcl::cli
