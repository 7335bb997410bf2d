// SPDX-License-Identifier: Apache-2.0
#include "backends/tuned/exact_json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <string>

namespace ironcl::tuned {
namespace {

namespace json = boost::json;
using Text = json::string_view;
using ErrorCode = boost::system::error_code;

/// What the parser calls: it builds the value as Boost's own parser does, but for doubles.
struct Handler {
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();

  json::value_stack values;
  std::string digits;  ///< Of a number that came in parts.

  bool on_document_begin(ErrorCode&) { return true; }
  bool on_document_end(ErrorCode&) { return true; }
  bool on_object_begin(ErrorCode&) { return true; }
  bool on_object_end(std::size_t count, ErrorCode&) { return values.push_object(count), true; }
  bool on_array_begin(ErrorCode&) { return true; }
  bool on_array_end(std::size_t count, ErrorCode&) { return values.push_array(count), true; }
  bool on_key_part(Text part, std::size_t, ErrorCode&) { return values.push_chars(part), true; }
  bool on_key(Text rest, std::size_t, ErrorCode&) { return values.push_key(rest), true; }
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

json::value parse_exactly(std::string_view text, ErrorCode& error) {
  json::basic_parser<Handler> parser{json::parse_options{}};
  parser.handler().values.reset();
  const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (!error && read < text.size()) error = json::error::extra_data;
  if (error) return nullptr;
  return parser.handler().values.release();
}

}  // namespace ironcl::tuned
