// SPDX-License-Identifier: Apache-2.0
// JSON that came from outside. Boost.JSON lets the last of two equal names win; here that is an error.
#include "host/checkpoint/json_input.h"

#include <boost/json/basic_parser_impl.hpp>
#include <fstream>
#include <iterator>

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;
using boost::system::error_code;

/// Parser events: notes a name that stands twice in one object.
struct NameHandler {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return true; }
  bool on_object_end(std::size_t count, error_code&) {
    const auto first = names.end() - static_cast<std::ptrdiff_t>(count);
    std::sort(first, names.end());
    const auto same = std::adjacent_find(first, names.end());
    if (same != names.end() && twice.empty()) twice = same->empty() ? "(empty)" : *same;
    names.erase(first, names.end());
    return true;
  }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t, error_code&) { return true; }
  bool on_key_part(json::string_view part, std::size_t, error_code&) {
    name.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, error_code&) {
    name.append(part.data(), part.size());
    names.push_back(std::exchange(name, {}));
    return true;
  }
  bool on_string_part(json::string_view, std::size_t, error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, error_code&) { return true; }
  bool on_number_part(json::string_view, error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, error_code&) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, error_code&) { return true; }
  bool on_double(double, json::string_view, error_code&) { return true; }
  bool on_bool(bool, error_code&) { return true; }
  bool on_null(error_code&) { return true; }
  bool on_comment_part(json::string_view, error_code&) { return true; }
  bool on_comment(json::string_view, error_code&) { return true; }

  std::vector<std::string> names;  ///< Of the open objects so far, the innermost's last.
  std::string name;
  std::string twice;
};

/// Python writes NaN, Infinity and -Infinity, which are no JSON. Each becomes a text of the same length ("N" of NaN),
/// so that places stay, and a reader of that member is told that it is not a number.
void quote_python_numbers(std::string& text) {
  bool inside = false;  // of a text
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') inside = !inside;
    if (inside && text[at] == '\\') ++at;  // and what it escapes
    if (inside) continue;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (text.compare(at, word.size(), word) != 0) continue;
      text.replace(at, word.size(), fmt::format("\"{}\"", word.substr(0, word.size() - 2)));
      at += word.size() - 1;
      break;
    }
  }
}

}  // namespace

json::value parse_json(std::string_view text, const std::filesystem::path& file, std::string_view what) {
  const auto fail = [&](std::size_t offset, const std::string& why) {
    throw Error(ErrorKind::format, file, "", "{} is not valid JSON at byte {}: {}", what, offset, why);
  };
  json::basic_parser<NameHandler> parser{json::parse_options{}};
  error_code ec;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), ec);
  if (ec) fail(read, ec.message());
  if (read < text.size()) fail(read, "something follows the end");
  if (!parser.handler().twice.empty())
    throw Error(ErrorKind::format, file, "", "{} has the name '{}' twice in one object", what,
                parser.handler().twice);
  json::value value = json::parse(text, ec);
  if (ec) fail(0, ec.message());
  return value;
}

json::value read_json(const std::filesystem::path& file) {
  constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 30;
  std::error_code ec;
  const std::uintmax_t size = std::filesystem::file_size(file, ec);
  if (ec) throw Error(ErrorKind::io, file, "", "cannot be read: {}", ec.message());
  if (size > kLargest)
    throw Error(ErrorKind::format, file, "", "{} bytes of JSON, at most {} are read", size, kLargest);
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) throw Error(ErrorKind::io, file, "", "cannot be read");
  quote_python_numbers(text);
  return parse_json(text, file, "the file");
}

json::object read_object(const std::filesystem::path& file) {
  json::value root = read_json(file);
  if (!root.is_object()) throw Error(ErrorKind::config, file, "", "is not a JSON object");
  return root.get_object();
}

}  // namespace ironcl::checkpoint
