// SPDX-License-Identifier: Apache-2.0
// Text of others made safe to show.
#include "host/report/visible.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/string/replace.hpp>
#include <boost/locale/utf.hpp>
#include <cstddef>
#include <cstdint>

namespace ironcl::report {
namespace {

namespace utf = boost::locale::utf;

struct Range {
  std::uint32_t first, last;
};

/// Code points that act on a terminal, or that a reader cannot see though they change what is read.
constexpr std::array<Range, 10> kHidden{{
    {0x00, 0x1f},        // C0
    {0x7f, 0x9f},        // DEL, C1
    {0xad, 0xad},        // soft hyphen
    {0x061c, 0x061c},    // Arabic letter mark
    {0x200b, 0x200f},    // zero width, left-to-right and right-to-left marks
    {0x2028, 0x202e},    // line and paragraph separators, embeddings and overrides
    {0x2060, 0x206f},    // invisible operators, isolates
    {0xfeff, 0xfeff},    // zero width no-break space
    {0xfff9, 0xfffb},    // interlinear annotation
    {0xe0000, 0xe007f},  // tags
}};

bool is_hidden(std::uint32_t code) {
  return std::ranges::any_of(kHidden, [code](Range range) { return code >= range.first && code <= range.last; });
}

std::string escaped(std::uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (code < 0x80) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

/// `text` with each hidden character and each byte that is no UTF-8 replaced by what `hidden` and `invalid` give.
template <class Hidden, class Invalid>
std::string replaced(std::string_view text, Hidden hidden, Invalid invalid) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char* end = text.data();
    const utf::code_point code = utf::utf_traits<char>::decode(end, text.data() + text.size());
    const bool valid = utf::is_valid_codepoint(code);  // Else its bytes are looked at one by one.
    const std::size_t size = valid ? static_cast<std::size_t>(end - text.data()) : 1;
    if (!valid) {
      out += invalid(static_cast<unsigned char>(text[0]));
    } else if (is_hidden(code)) {
      out += hidden(code);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return out;
}

std::string escaped_byte(unsigned char byte) { return fmt::format("\\x{:02x}", byte); }

}  // namespace

std::string visible(std::string_view text) { return replaced(text, escaped, escaped_byte); }

std::string visible_lines(std::string_view text) {
  const auto hidden = [](std::uint32_t code) { return code == '\n' ? "\n" : escaped(code); };
  const std::string lines = boost::algorithm::replace_all_copy(std::string(text), "\r\n", "\n");  // CSV's line break
  return replaced(lines, hidden, escaped_byte);
}

std::string visible_json(std::string_view json) {
  const auto hidden = [](std::uint32_t code) -> std::string {
    if (code < 0x20) return std::string(1, static_cast<char>(code));  // layout; inside strings JSON has none
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
  };
  return replaced(json, hidden, [](unsigned char) { return std::string("\\ufffd"); });
}

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return "\"" + boost::algorithm::replace_all_copy(text, "\"", "\"\"") + "\"";
}

}  // namespace ironcl::report
