// SPDX-License-Identifier: Apache-2.0
// The renderings of a table: aligned text for a terminal, Markdown for a document, CSV and JSON for programs.
#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <string>

#include "host/report/table.h"

namespace ironcl::report {

/// Aligned columns with a rule below the headings; text to the left, numbers to the right. Where that is wider than
/// `width` characters (0: no limit), each row becomes a block of "heading  value" lines instead: nothing is cut off.
std::string to_text(const Table& table, std::size_t width = 0);

/// The same with the first column as headings: rows that share it stand indented below it, under one set of columns.
std::string to_grouped_text(const Table& table, std::size_t width = 0);

/// A Markdown table; bars inside cells are escaped.
std::string to_markdown(const Table& table);

/// RFC 4180 with the keys as first line: plain values, full precision, empty cells for empty ones.
std::string to_csv(const Table& table);

/// An array with an object for each row, keys of the columns; empty cells are null, numbers as json.h says.
boost::json::array to_json(const Table& table);

/// Characters in a line of the terminal on the standard output; 0 where it is none. COLUMNS overrides.
std::size_t terminal_width();

}  // namespace ironcl::report
