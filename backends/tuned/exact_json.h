// SPDX-License-Identifier: Apache-2.0
// JSON whose numbers are read to the nearest double, so that what is read and written again stays what it was.
#pragma once

#include <boost/json.hpp>
#include <string_view>

namespace ironcl::tuned {

/// Parses one JSON document, as boost::json::parse does. Boost before 1.82 reads doubles only to within a unit in the
/// last place: a foreign field would drift each time that a table is rewritten. On failure `error` is set and the
/// value null.
boost::json::value parse_exactly(std::string_view text, boost::system::error_code& error);

}  // namespace ironcl::tuned
