// SPDX-License-Identifier: Apache-2.0
// The renderings of a table: aligned text for a terminal, Markdown for a document, CSV and JSON for programs.
#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "host/report/table.h"

namespace ironcl::report {

/// Aligned columns with a rule below the headings; text to the left, numbers to the right. Where that is wider than
/// `width` characters (0: no limit), each row becomes a block of "heading  value" lines instead: nothing is cut off.
std::string to_text(const Table& table, std::size_t width = 0);

/// The same with the first column as headings: rows that share it stand indented below it, under one set of columns.
std::string to_grouped_text(const Table& table, std::size_t width = 0);

/// The same in pieces, for rows that come one after another: as wide as the cells of `sample`, which are as wide as
/// those to come are likely to be. A wider cell makes its own line longer.
class GroupedText {
 public:
  explicit GroupedText(const Table& sample, std::size_t width = 0);

  /// The headings with their rule; empty where rows are blocks of lines.
  std::string heading() const;
  /// The rows of `table`, which has the sample's columns.
  std::string rows(const Table& table) const;
  /// Whether rows are blocks of lines, each with a blank line behind it, since columns would be too wide.
  bool blocks() const noexcept { return blocks_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  bool blocks_ = false;
};

/// A Markdown table; bars inside cells are escaped.
std::string to_markdown(const Table& table);

/// RFC 4180 with the keys as first line: plain values, full precision, empty cells for empty ones.
std::string to_csv(const Table& table);

/// An array with an object for each row, keys of the columns; empty cells are null, numbers as json.h says.
boost::json::array to_json(const Table& table);

/// Characters in a line of the terminal on the standard output; 0 where it is none. COLUMNS overrides.
std::size_t terminal_width();

}  // namespace ironcl::report
