// SPDX-License-Identifier: Apache-2.0
// JSON as the command writes it: always valid, indented, one member a line. Next door: file.h (writing it aside).
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace ironcl::report {

/// `value`, or null where it is not known; a text that is empty is not known.
template <class T>
boost::json::value or_null(bool known, T&& value) {
  return known ? boost::json::value(std::forward<T>(value)) : boost::json::value(nullptr);
}
inline boost::json::value or_null(std::string_view text) { return or_null(!text.empty(), text); }

/// The text of `value`, indented by two, members in their order, with a line break at the end. Arrays of numbers and
/// short strings stay on one line. Characters that act on a terminal are escaped, so that the text may be shown.
/// Numbers that are not finite become the strings "nan", "inf" and "-inf", since JSON has no such numbers. (Python's
/// float() and strtod read both forms.)
std::string to_text(const boost::json::value& value);

}  // namespace ironcl::report
