// SPDX-License-Identifier: Apache-2.0
// A table as data: columns with a key, a heading and a kind, rows of typed cells; and its renderings: aligned text
// for a terminal, Markdown for a document, CSV and JSON for programs.
#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ironcl::report {

/// What a column holds, which decides how people see it; machines (CSV, JSON) get the plain value.
enum class Kind {
  text,      ///< Made visible (visible.h), to the left.
  integer,   ///< Right-aligned.
  number,    ///< Three significant digits, to the right.
  time,      ///< Nanoseconds: "1.25 ms".
  bytes,     ///< Bytes: "1.31 MiB".
  machines,  ///< Not shown to people.
};

struct Column {
  std::string key;      ///< The machine's name, with its unit: "time_ns"; empty: machines do not get it.
  std::string heading;  ///< The reader's name: "time".
  Kind kind = Kind::text;
};

/// One value; null prints as "-". Arrays and objects are for machines only.
using Cell = boost::json::value;

/// A cell with its column, for rows of many.
struct Field {
  template <class Value>
  Field(Column of, Value&& cell) : column(std::move(of)), value(std::forward<Value>(cell)) {}
  Column column;
  Cell value;
};
/// A field for machines only.
template <class Value>
Field machine_field(std::string key, Value&& value) {
  return {{std::move(key), {}, Kind::machines}, std::forward<Value>(value)};
}

class Table {
 public:
  using Row = boost::json::array;  ///< A cell for each column.

  Table() = default;  ///< The first row of fields brings the columns.
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Appends a row. Throws std::invalid_argument where its length is another than the table's.
  void add(Row row);
  void add_fields(std::vector<Field> row);

  const std::vector<Column>& columns() const noexcept { return columns_; }
  const std::vector<Row>& rows() const noexcept { return rows_; }
  bool empty() const noexcept { return rows_.empty(); }

 private:
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

/// The cell as a reader sees it under a column of that kind.
std::string human_text(const Cell& cell, Kind kind);

/// Aligned columns with a rule below the headings; text to the left, numbers to the right. Where that is wider than
/// `width` characters (0: no limit), each row becomes a block of "heading  value" lines instead: nothing is cut off.
std::string to_text(const Table& table, std::size_t width = 0);

/// The same with the first column as headings, in pieces, for rows that come one after another: rows that share it
/// stand indented below it, under one set of columns, which are as wide as the cells of `sample`, which are as wide
/// as those to come are likely to be. A wider cell makes its own line longer. Without `groups`, as to_text() has it.
class GroupedText {
 public:
  explicit GroupedText(const Table& sample, std::size_t width = 0, bool groups = true);

  /// The headings with their rule; empty where rows are blocks of lines.
  std::string heading() const;
  /// The rows of `table`, which has the sample's columns.
  std::string rows(const Table& table) const;

 private:
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  bool groups_, blocks_ = false;  ///< blocks_: rows are blocks of lines, since columns would be too wide.
};

/// A Markdown table; bars inside cells are escaped.
std::string to_markdown(const Table& table);

/// RFC 4180 with the keys as first line: plain values, full precision, empty cells for empty ones.
std::string to_csv(const Table& table);

/// An array with an object for each row, keys of the columns; empty cells are null, numbers as json.h says.
boost::json::array to_json(const Table& table);

/// Characters in a line of the terminal on the standard output, or that stream; 0 where it is none. COLUMNS
/// overrides.
std::size_t terminal_width(int stream = 1);

}  // namespace ironcl::report
