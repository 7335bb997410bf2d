// SPDX-License-Identifier: Apache-2.0
// Text of others made safe to show.
#include "host/report/visible.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ironcl::report {
namespace {

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
  return std::any_of(kHidden.begin(), kHidden.end(),
                     [code](Range range) { return code >= range.first && code <= range.last; });
}

/// Bytes of the character at the front of `text`, and its code point; 0 bytes where no valid UTF-8 stands there
/// (truncated, overlong, a surrogate, beyond U+10FFFF).
std::size_t decode(std::string_view text, std::uint32_t* code) {
  const auto byte = [text](std::size_t i) -> std::uint32_t { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) {
    *code = lead;
    return 1;
  }
  const std::size_t size = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  std::uint32_t value = lead & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
    value = value << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[size] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return 0;
  *code = value;
  return size;
}

std::string escaped(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      if (code < 0x80) return fmt::format("\\x{:02x}", code);
      return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
  }
}

/// `text` with each hidden character and each byte that is no UTF-8 replaced by what `hidden` and `invalid` give.
template <class Hidden, class Invalid>
std::string replaced(std::string_view text, Hidden hidden, Invalid invalid) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::uint32_t code = 0;
    const std::size_t size = decode(text, &code);
    if (size == 0) {
      out += invalid(static_cast<unsigned char>(text[0]));
    } else if (is_hidden(code)) {
      out += hidden(code, text);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string escaped_byte(unsigned char byte) { return fmt::format("\\x{:02x}", byte); }

}  // namespace

std::string visible(std::string_view text) {
  return replaced(
      text, [](std::uint32_t code, std::string_view) { return escaped(code); }, escaped_byte);
}

std::string visible_lines(std::string_view text) {
  const auto hidden = [](std::uint32_t code, std::string_view rest) -> std::string {
    if (code == '\n') return "\n";
    if (rest.starts_with("\r\n")) return {};  // the line break of CSV
    return escaped(code);
  };
  return replaced(text, hidden, escaped_byte);
}

std::string visible_json(std::string_view json) {
  const auto hidden = [](std::uint32_t code, std::string_view) -> std::string {
    if (code < 0x20) return std::string(1, static_cast<char>(code));  // layout; inside strings JSON has none
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
  };
  return replaced(json, hidden, [](unsigned char) { return std::string("\\ufffd"); });
}

}  // namespace ironcl::report
