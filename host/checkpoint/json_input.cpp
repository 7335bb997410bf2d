// SPDX-License-Identifier: Apache-2.0
// JSON that came from outside. The parser lets the last of two equal names win; here that is an error.
#include "host/checkpoint/json_input.h"

#include <fstream>
#include <iterator>

#include "backends/tuned/exact_json.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

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
  tuned::ParsedJson parsed = tuned::parse_exactly(text);
  if (parsed.error)
    throw Error(ErrorKind::format, file, "", "{} is not valid JSON at byte {}: {}", what, parsed.read,
                parsed.error.message());
  if (parsed.twice)
    throw Error(ErrorKind::format, file, "", "{} has the name '{}' twice in one object", what, *parsed.twice);
  return std::move(parsed.value);
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
