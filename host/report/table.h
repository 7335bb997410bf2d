// SPDX-License-Identifier: Apache-2.0
// A table as data: columns with a key, a heading and a kind, rows of typed cells. Next door: render.h (text,
// Markdown, CSV, JSON of the same data).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ironcl::report {

/// What a column holds, which decides how people see it; machines (CSV, JSON) get the plain value.
enum class Kind {
  text,     ///< Made visible (visible.h), to the left.
  integer,  ///< To the right.
  number,   ///< Three significant digits, to the right.
  time,     ///< Nanoseconds: "1.25 ms".
  bytes,    ///< Bytes: "1.31 MiB".
};

struct Column {
  std::string key;      ///< The machine's name, with its unit: "time_ns".
  std::string heading;  ///< The reader's name: "time".
  Kind kind = Kind::text;
};

/// One value; empty prints as "-" and is null or nothing for a machine.
using Cell = std::variant<std::monostate, std::string, std::int64_t, double, bool>;

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Appends a row; a cell for each column. Throws std::invalid_argument where their number differs.
  void add(std::vector<Cell> row);

  const std::vector<Column>& columns() const noexcept { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const noexcept { return rows_; }
  bool empty() const noexcept { return rows_.empty(); }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// The cell as a reader sees it under a column of that kind.
std::string human_text(const Cell& cell, Kind kind);

}  // namespace ironcl::report
