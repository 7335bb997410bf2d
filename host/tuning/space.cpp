// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/space.h"

#include <boost/json.hpp>

namespace ironcl::tuning {
namespace {

namespace json = boost::json;

[[noreturn]] void wrong(const std::string& what) {
  throw std::runtime_error("the device's answer to the query \"candidates\" " + what);
}

/// The member of the kind that `kind` asks for.
template <class T>
const T& member(const json::value& from, const char* name, const T* (json::value::*kind)() const noexcept) {
  const json::object* object = from.if_object();
  const json::value* found = object == nullptr ? nullptr : object->if_contains(name);
  const T* value = found == nullptr ? nullptr : (found->*kind)();
  if (value == nullptr) wrong(std::string("has no \"") + name + "\", or one of another type");
  return *value;
}

std::string text(const json::value& from, const char* name) {
  return std::string(member<json::string>(from, name, &json::value::if_string));
}
const json::array& array(const json::value& from, const char* name) {
  return member<json::array>(from, name, &json::value::if_array);
}

Configuration configuration(const json::value& from) {
  Configuration made;
  made.variant = text(from, "variant");
  for (const auto& option : member<json::object>(from, "options", &json::value::if_object))
    made.options.emplace_back(std::string(option.key()), json::value_to<std::string>(option.value()));
  if (from.as_object().contains("layout")) made.layout = text(from, "layout");
  const std::string accuracy = text(from, "accuracy_class");
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

Space parse_space(std::string_view json_text, numerics::AccuracyClass weakest) {
  boost::system::error_code error;
  const json::value answer = json::parse(json::string_view(json_text.data(), json_text.size()), error);
  if (error) wrong("is not JSON: " + error.message());

  Space space;
  std::int64_t too_weak = 0;
  for (const json::value& candidate : array(answer, "candidates")) {
    space.candidates.push_back(configuration(candidate));
    if (space.candidates.back().accuracy > weakest) {
      space.candidates.pop_back();
      ++too_weak;
    }
  }
  for (const json::value& reason : array(answer, "dropped"))
    space.dropped.emplace_back(text(reason, "why"), reason.at("count").to_number<std::int64_t>());
  if (too_weak != 0) space.dropped.emplace_back("weaker accuracy class than the problem allows", too_weak);
  const Configuration thumb =
      configuration(json::value(member<json::object>(answer, "rule_of_thumb", &json::value::if_object)));
  const auto at = std::find(space.candidates.begin(), space.candidates.end(), thumb);
  if (at == space.candidates.end()) wrong("has a rule of thumb that is not a candidate: " + to_text(thumb));
  space.rule_of_thumb = static_cast<std::size_t>(at - space.candidates.begin());
  const json::object& said = answer.as_object();
  if (said.contains("devices"))
    for (const json::value& name : array(answer, "devices"))
      space.devices.push_back(json::value_to<std::string>(name));
  if (said.contains("dtype")) space.dtype = text(answer, "dtype");
  if (said.contains("compute_units")) space.compute_units = said.at("compute_units").to_number<std::int64_t>();
  return space;
}

Space space_of(const Device& device, const report::Problem& problem) {
  return parse_space(device.query("candidates", report::to_gemm_desc(problem)), problem.weakest_accuracy);
}

}  // namespace ironcl::tuning
