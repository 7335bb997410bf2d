// SPDX-License-Identifier: Apache-2.0
// JSON as the command writes it: always valid, indented, one member a line. Next door: file.h (writing it aside).
#pragma once

#include <boost/json.hpp>
#include <string>

namespace ironcl::report {

/// A number; "nan", "inf" or "-inf" as a string where it is not finite, since JSON has no such numbers. (Python's
/// float() and strtod read both forms.)
boost::json::value number(double value);

/// The text of `value`, indented by two, members in their order, with a line break at the end. Arrays of numbers and
/// short strings stay on one line. Characters that act on a terminal are escaped, so that the text may be shown.
std::string to_text(const boost::json::value& value);

}  // namespace ironcl::report
