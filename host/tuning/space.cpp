// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/space.h"

#include <algorithm>
#include <boost/json.hpp>
#include <stdexcept>

namespace ironcl::tuning {
namespace {

namespace json = boost::json;

[[noreturn]] void wrong(const std::string& what) {
  throw std::runtime_error("the device's answer to the query \"candidates\" " + what);
}

const json::value& member(const json::object& object, const char* name) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr) wrong(std::string("has no \"") + name + "\"");
  return *found;
}

std::string text(const json::value& value, const char* name) {
  if (!value.is_string()) wrong(std::string("has a \"") + name + "\" that is not a text");
  return value.as_string().c_str();
}

const json::object& object(const json::value& value, const char* name) {
  if (!value.is_object()) wrong(std::string("has a \"") + name + "\" that is not an object");
  return value.as_object();
}

const json::array& array(const json::object& from, const char* name) {
  const json::value& value = member(from, name);
  if (!value.is_array()) wrong(std::string("has a \"") + name + "\" that is not an array");
  return value.as_array();
}

Configuration configuration(const json::value& value) {
  const json::object& from = object(value, "candidate");
  Configuration made;
  made.variant = text(member(from, "variant"), "variant");
  for (const auto& option : object(member(from, "options"), "options"))
    made.options.emplace_back(std::string(option.key()), text(option.value(), "option"));
  if (const auto* layout = from.if_contains("layout")) made.layout = text(*layout, "layout");
  const std::string accuracy = text(member(from, "accuracy_class"), "accuracy_class");
  if (!numerics::parse_accuracy(accuracy)) wrong("has the unknown accuracy class " + accuracy);
  made.accuracy = *numerics::parse_accuracy(accuracy);
  return made;
}

}  // namespace

std::string to_text(const Configuration& configuration) {
  std::string text = configuration.variant;
  for (std::size_t i = 0; i < configuration.options.size(); ++i)
    text += (i == 0 ? " " : ",") + configuration.options[i].first + "=" + configuration.options[i].second;
  return text;
}

json::object options_of(const Configuration& configuration) {
  json::object options;
  for (const auto& [name, value] : configuration.options) options[name] = value;
  return options;
}

std::int64_t Space::dropped_count() const {
  std::int64_t count = 0;
  for (const auto& reason : dropped) count += reason.second;
  return count;
}

Space parse_space(std::string_view json_text, numerics::AccuracyClass weakest) {
  boost::system::error_code error;
  const json::value value = json::parse(json::string_view(json_text.data(), json_text.size()), error);
  if (error) wrong("is not JSON: " + error.message());
  const json::object& answer = object(value, "answer");

  Space space;
  std::int64_t too_weak = 0;
  for (const json::value& candidate : array(answer, "candidates")) {
    space.candidates.push_back(configuration(candidate));
    if (space.candidates.back().accuracy > weakest) {
      space.candidates.pop_back();
      ++too_weak;
    }
  }
  for (const json::value& reason : array(answer, "dropped")) {
    const json::object& from = object(reason, "reason");
    space.dropped.emplace_back(text(member(from, "why"), "why"), member(from, "count").to_number<std::int64_t>());
  }
  if (too_weak != 0) space.dropped.emplace_back("weaker accuracy class than the problem allows", too_weak);
  const Configuration thumb = configuration(member(answer, "rule_of_thumb"));
  const auto at = std::find(space.candidates.begin(), space.candidates.end(), thumb);
  if (at == space.candidates.end()) wrong("has a rule of thumb that is not a candidate: " + to_text(thumb));
  space.rule_of_thumb = static_cast<std::size_t>(at - space.candidates.begin());
  if (answer.contains("devices"))
    for (const json::value& name : array(answer, "devices")) space.devices.push_back(text(name, "devices"));
  if (const auto* dtype = answer.if_contains("dtype")) space.dtype = text(*dtype, "dtype");
  if (const auto* units = answer.if_contains("compute_units"); units != nullptr && units->is_number())
    space.compute_units = units->to_number<std::int64_t>();
  return space;
}

Space space_of(const Device& device, const report::Problem& problem) {
  return parse_space(device.query("candidates", report::to_gemm_desc(problem)), problem.weakest_accuracy);
}

}  // namespace ironcl::tuning
