// SPDX-License-Identifier: Apache-2.0
// Words of a text: lists with a separator, KEY=VALUE. For whatever takes an option or a line apart, backends and
// host; joining is fmt::join.
#pragma once

#include <boost/algorithm/string/split.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ironcl::words {

/// The parts of `text` between separators, empty ones too, at least one. Views into `text`.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  boost::algorithm::split(parts, text, [separator](char c) { return c == separator; });
  return parts;
}

/// "KEY=VALUE" at the first '='; nothing where there is none or the key is empty. Views into `text`.
inline std::optional<std::pair<std::string_view, std::string_view>> key_value(std::string_view text) {
  const std::size_t at = text.find('=');
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

}  // namespace ironcl::words
