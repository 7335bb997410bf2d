// SPDX-License-Identifier: Apache-2.0
// JSON whose numbers are read to the nearest double, so that what is read and written again stays what it was, and
// with what is wrong with it.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace ironcl::tuned {

/// A document, parsed.
struct ParsedJson {
  boost::json::value value;            ///< null where it is not valid.
  boost::system::error_code error;     ///< Why it is not.
  std::size_t read = 0;                ///< Bytes that are valid.
  std::optional<std::string> twice{};  ///< A name that stands twice in one object, whose last value wins.
};

/// Parses one JSON document, as boost::json::parse does. Boost before 1.82 reads doubles only to within a unit in the
/// last place: a foreign field would drift each time that a table is rewritten.
ParsedJson parse_exactly(std::string_view text);

}  // namespace ironcl::tuned
