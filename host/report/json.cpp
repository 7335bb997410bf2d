// SPDX-License-Identifier: Apache-2.0
// JSON as the command writes it. Boost.JSON prints no indentation and writes doubles as 1E0.
#include "host/report/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/report/units.h"
#include "host/report/visible.h"

namespace ironcl::report {
namespace {

namespace json = boost::json;

std::string leaf(const json::value& value) {
  if (value.is_double()) {
    const double number = value.get_double();
    return std::isfinite(number) ? exact_number(number) : fmt::format("\"{}\"", exact_number(number));
  }
  return visible_json(json::serialize(value));
}

void write(const json::value& value, int depth, std::string* out) {
  const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
  if (const json::array* array = value.if_array()) {
    const bool flat = std::ranges::none_of(*array, [](const json::value& item) { return item.is_structured(); });
    const char* separator = "";
    *out += "[";
    for (const json::value& item : *array) {
      *out += flat ? separator : fmt::format("{}\n{}  ", separator, indent);
      write(item, depth + 1, out);
      separator = flat ? ", " : ",";
    }
    *out += flat ? "]" : fmt::format("\n{}]", indent);
  } else if (const json::object* object = value.if_object(); object != nullptr && !object->empty()) {
    const char* separator = "{";
    for (const auto& [key, item] : *object) {
      *out += fmt::format("{}\n{}  {}: ", separator, indent, visible_json(json::serialize(key)));
      write(item, depth + 1, out);
      separator = ",";
    }
    *out += fmt::format("\n{}}}", indent);
  } else {
    *out += leaf(value);
  }
}

}  // namespace

std::string to_text(const json::value& value) {
  std::string text;
  write(value, 0, &text);
  return text + "\n";
}

}  // namespace ironcl::report
