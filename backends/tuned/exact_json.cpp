// SPDX-License-Identifier: Apache-2.0
#include "backends/tuned/exact_json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <utility>
#include <vector>

namespace ironcl::tuned {
namespace {

namespace json = boost::json;
using Text = json::string_view;
using ErrorCode = boost::system::error_code;

/// What the parser calls: it builds the value as Boost's own parser does, but for doubles, and notes a name that
/// stands twice in one object.
struct Handler {
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();

  json::value_stack values;
  std::string digits;              ///< Of a number that came in parts.
  std::string name;                ///< Likewise.
  std::vector<std::string> names;  ///< Of the open objects so far, the innermost's last.
  std::optional<std::string> twice{};

  bool on_document_begin(ErrorCode&) { return true; }
  bool on_document_end(ErrorCode&) { return true; }
  bool on_object_begin(ErrorCode&) { return true; }
  bool on_object_end(std::size_t count, ErrorCode&) {
    const auto first = names.end() - static_cast<std::ptrdiff_t>(count);
    std::sort(first, names.end());
    const auto same = std::adjacent_find(first, names.end());
    if (same != names.end() && !twice) twice = *same;
    names.erase(first, names.end());
    return values.push_object(count), true;
  }
  bool on_array_begin(ErrorCode&) { return true; }
  bool on_array_end(std::size_t count, ErrorCode&) { return values.push_array(count), true; }
  bool on_key_part(Text part, std::size_t, ErrorCode&) { return name.append(part), values.push_chars(part), true; }
  bool on_key(Text rest, std::size_t, ErrorCode&) {
    names.push_back(std::exchange(name, {}).append(rest));
    return values.push_key(rest), true;
  }
  bool on_string_part(Text part, std::size_t, ErrorCode&) { return values.push_chars(part), true; }
  bool on_string(Text rest, std::size_t, ErrorCode&) { return values.push_string(rest), true; }
  bool on_number_part(Text part, ErrorCode&) { return digits.append(part.data(), part.size()), true; }
  bool on_int64(std::int64_t value, Text, ErrorCode&) { return digits.clear(), values.push_int64(value), true; }
  bool on_uint64(std::uint64_t value, Text, ErrorCode&) { return digits.clear(), values.push_uint64(value), true; }
  bool on_double(double near, Text rest, ErrorCode&) {
    digits.append(rest.data(), rest.size());
    double exact = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exact);
    // Past the range of a double Boost's zero or infinity stays.
    values.push_double(error == std::errc() && end == digits.data() + digits.size() ? exact : near);
    digits.clear();
    return true;
  }
  bool on_bool(bool value, ErrorCode&) { return values.push_bool(value), true; }
  bool on_null(ErrorCode&) { return values.push_null(), true; }
  bool on_comment_part(Text, ErrorCode&) { return true; }
  bool on_comment(Text, ErrorCode&) { return true; }
};

}  // namespace

ParsedJson parse_exactly(std::string_view text) {
  json::basic_parser<Handler> parser{json::parse_options{}};
  parser.handler().values.reset();
  ParsedJson parsed;
  parsed.read = parser.write_some(false, text.data(), text.size(), parsed.error);
  if (!parsed.error && parsed.read < text.size()) parsed.error = json::error::extra_data;
  if (parsed.error) return parsed;
  parsed.value = parser.handler().values.release();
  parsed.twice = std::move(parser.handler().twice);
  return parsed;
}

}  // namespace ironcl::tuned
