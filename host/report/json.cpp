// SPDX-License-Identifier: Apache-2.0
// JSON as the command writes it. Boost.JSON prints no indentation and writes doubles as 1E0.
#include "host/report/json.h"

#include <fmt/format.h>

#include <cmath>

#include "host/report/units.h"
#include "host/report/visible.h"

namespace ironcl::report {
namespace {

namespace json = boost::json;

bool is_leaf(const json::value& value) { return !value.is_object() && !value.is_array(); }

std::string leaf(const json::value& value) {
  if (value.is_double()) {
    const double number = value.get_double();
    // A double that reached here unguarded must not make the document invalid.
    return std::isfinite(number) ? exact_number(number) : fmt::format("\"{}\"", exact_number(number));
  }
  return visible_json(json::serialize(value));
}

void write(const json::value& value, int depth, std::string* out) {
  const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
  if (const json::array* array = value.if_array()) {
    bool flat = true;
    for (const json::value& item : *array) flat = flat && is_leaf(item);
    *out += "[";
    bool first = true;
    for (const json::value& item : *array) {
      if (!first) *out += flat ? ", " : ",";
      if (!flat) *out += fmt::format("\n{}  ", indent);
      write(item, depth + 1, out);
      first = false;
    }
    *out += flat ? "]" : fmt::format("\n{}]", indent);
  } else if (const json::object* object = value.if_object()) {
    if (object->empty()) {
      *out += "{}";
      return;
    }
    *out += "{";
    bool first = true;
    for (const auto& [key, item] : *object) {
      *out += fmt::format("{}\n{}  {}: ", first ? "" : ",", indent, visible_json(json::serialize(key)));
      write(item, depth + 1, out);
      first = false;
    }
    *out += fmt::format("\n{}}}", indent);
  } else {
    *out += leaf(value);
  }
}

}  // namespace

json::value number(double value) {
  if (std::isfinite(value)) return value;
  return json::value(exact_number(value));
}

std::string to_text(const json::value& value) {
  std::string text;
  write(value, 0, &text);
  return text + "\n";
}

}  // namespace ironcl::report
