// SPDX-License-Identifier: Apache-2.0
// JSON that came from outside: syntax errors with their place, and no name twice in one object.
#pragma once

#include <boost/json/value.hpp>
#include <filesystem>
#include <string_view>

namespace ironcl::checkpoint {

/// Parses all of `text`, which is `what` of `file`. Throws Error format with the byte offset.
boost::json::value parse_json(std::string_view text, const std::filesystem::path& file, std::string_view what);

/// Reads and parses a whole file of at most 1 GiB, in which NaN, Infinity and -Infinity may stand where a value may,
/// as Python writes them; they become texts. Throws Error: io, format.
boost::json::value read_json(const std::filesystem::path& file);

}  // namespace ironcl::checkpoint
