// SPDX-License-Identifier: Apache-2.0
// Words of a text: lists with a separator, KEY=VALUE, numbers. For whatever takes an option or a line apart, backends
// and host; joining is fmt::join.
#pragma once

#include <boost/algorithm/string/split.hpp>
#include <charconv>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
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

/// The whole of `text` as a number in decimal; nothing where it is none, or none that T holds.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What `of`, a function or a member, makes of each of `all`: the words of a list.
template <class Range, class Of>
auto each(const Range& all, Of of) {
  std::vector<std::decay_t<decltype(std::invoke(of, *std::begin(all)))>> made;
  made.reserve(std::size(all));
  for (const auto& one : all) made.push_back(std::invoke(of, one));
  return made;
}

/// Takes what stands before `mark` off the front of `text`, with the mark; nothing where there is no such mark.
inline std::optional<std::string_view> take_before(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view head = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return head;
}

}  // namespace ironcl::words
