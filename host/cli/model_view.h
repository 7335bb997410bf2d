// SPDX-License-Identifier: Apache-2.0
// What `ironcl model` prints: a report in words, the frontier of a search, and the first steps as a chart of the
// overlap.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <string>

namespace ironcl::cli {

/// The report of the query "model".
std::string model_text(const boost::json::object& report);

/// The report of the query "search".
std::string search_text(const boost::json::object& report);

/// The first `steps` steps of a Chrome trace as one line a track; a digit is the last digit of the step that is busy.
std::string gantt_text(const boost::json::object& trace, int steps, std::size_t width);

}  // namespace ironcl::cli
