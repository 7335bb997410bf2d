// SPDX-License-Identifier: Apache-2.0
// A table and its renderings.
#include "host/report/table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "host/report/json.h"
#include "host/report/units.h"
#include "host/report/visible.h"

namespace ironcl::report {
namespace {

std::string human_quantity(double value, Kind kind) {
  switch (kind) {
    case Kind::time:
      return human_time(value);
    case Kind::bytes:
      return human_bytes(value);
    default:
      return human_number(value);
  }
}

/// In front of the rows of a group.
constexpr std::string_view kIndent = "  ";

/// Characters of UTF-8 text: bytes that do not continue one.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string blanks(width - std::min(width, characters(text)), ' ');
  return left ? text + blanks : blanks + text;
}

std::vector<std::vector<std::string>> human_rows(const Table& table) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : table.rows()) {
    auto& out = rows.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) out.push_back(human_text(row[i], table.columns()[i].kind));
  }
  return rows;
}

std::string records(const Table& table, const std::vector<std::vector<std::string>>& rows) {
  std::size_t label = 0;
  for (const Column& column : table.columns()) label = std::max(label, characters(column.heading));
  std::string text;
  for (const auto& row : rows) {
    if (!text.empty()) text += "\n";
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += fmt::format("{}  {}\n", padded(table.columns()[i].heading, label, true), row[i]);
    }
  }
  return text;
}

std::vector<std::size_t> column_widths(const Table& table, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(table.columns().size());
  for (std::size_t i = 0; i < widths.size(); ++i) {
    widths[i] = characters(table.columns()[i].heading);
    for (const auto& row : rows) widths[i] = std::max(widths[i], characters(row[i]));
  }
  return widths;
}

/// Characters of a line with the columns from `first` on.
std::size_t total_width(const std::vector<std::size_t>& widths, std::size_t first) {
  std::size_t total = 0;
  for (std::size_t i = first; i < widths.size(); ++i) total += widths[i] + (i > first ? 2 : 0);
  return total;
}

/// The cells from `first` on.
std::string row_line(const std::vector<Column>& columns, const std::vector<std::string>& cells,
                     const std::vector<std::size_t>& widths, std::size_t first) {
  std::string line(first == 0 ? "" : kIndent);
  for (std::size_t i = first; i < cells.size(); ++i)
    line += padded(cells[i], widths[i], columns[i].kind == Kind::text) + "  ";
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string heading_lines(const std::vector<Column>& columns, const std::vector<std::size_t>& widths,
                          std::size_t first) {
  std::vector<std::string> headings, rules;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    headings.push_back(columns[i].heading);
    rules.emplace_back(widths[i], '-');
  }
  return row_line(columns, headings, widths, first) + row_line(columns, rules, widths, first);
}

std::string csv_text(const Cell& cell) {
  if (const auto* flag = std::get_if<bool>(&cell)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&cell)) return exact_number(*number);
  const auto* text = std::get_if<std::string>(&cell);
  return text != nullptr ? *text : std::string();
}

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

void Table::add(std::vector<Cell> row) {
  if (row.size() != columns_.size()) {
    throw std::invalid_argument(fmt::format("a row has {} cells, the table {} columns", row.size(), columns_.size()));
  }
  rows_.push_back(std::move(row));
}

std::string human_text(const Cell& cell, Kind kind) {
  if (const auto* text = std::get_if<std::string>(&cell)) return text->empty() ? "-" : visible(*text);
  if (const auto* flag = std::get_if<bool>(&cell)) return *flag ? "yes" : "no";
  if (const auto* number = std::get_if<double>(&cell)) return human_quantity(*number, kind);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) {
    const bool plain = kind == Kind::text || kind == Kind::integer || kind == Kind::number;
    return plain ? fmt::format("{}", *integer) : human_quantity(static_cast<double>(*integer), kind);
  }
  return "-";
}

std::string to_text(const Table& table, std::size_t width) {
  const auto rows = human_rows(table);
  const std::vector<std::size_t> widths = column_widths(table, rows);
  if (width != 0 && total_width(widths, 0) > width) return records(table, rows);
  std::string text = heading_lines(table.columns(), widths, 0);
  for (const auto& row : rows) text += row_line(table.columns(), row, widths, 0);
  return text;
}

GroupedText::GroupedText(const Table& sample, std::size_t width)
    : columns_(sample.columns()), widths_(column_widths(sample, human_rows(sample))) {
  blocks_ = width != 0 && kIndent.size() + total_width(widths_, 1) > width;
}

std::string GroupedText::heading() const { return blocks_ ? std::string() : heading_lines(columns_, widths_, 1); }

std::string GroupedText::rows(const Table& table) const {
  const auto rows = human_rows(table);
  if (blocks_) return records(table, rows) + "\n";
  std::string text;
  const std::string* group = nullptr;
  for (const auto& row : rows) {
    if (group == nullptr || *group != row[0]) text += row[0] + "\n";
    group = &row[0];
    text += row_line(columns_, row, widths_, 1);
  }
  return text;
}

std::string to_markdown(const Table& table) {
  std::string heading = "|", rule = "|", body;
  for (const Column& column : table.columns()) {
    heading += fmt::format(" {} |", column.heading);
    rule += column.kind == Kind::text ? "---|" : "---:|";
  }
  for (const auto& row : human_rows(table)) {
    body += "|";
    for (std::string cell : row) {
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, 1, '\\');
      body += fmt::format(" {} |", cell);
    }
    body += "\n";
  }
  return heading + "\n" + rule + "\n" + body;
}

std::string to_csv(const Table& table) {
  std::string text;
  const auto line = [&text](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) text.append(i == 0 ? "" : ",").append(csv_quoted(cells[i]));
    text += "\r\n";
  };
  std::vector<std::string> cells;
  for (const Column& column : table.columns()) cells.push_back(column.key);
  line(cells);
  for (const auto& row : table.rows()) {
    cells.clear();
    for (const Cell& cell : row) cells.push_back(csv_text(cell));
    line(cells);
  }
  return text;
}

boost::json::array to_json(const Table& table) {
  boost::json::array rows;
  for (const auto& row : table.rows()) {
    boost::json::object object;
    for (std::size_t i = 0; i < row.size(); ++i) {
      boost::json::value& value = object[table.columns()[i].key];
      if (const auto* text = std::get_if<std::string>(&row[i])) value = *text;
      if (const auto* integer = std::get_if<std::int64_t>(&row[i])) value = *integer;
      if (const auto* real = std::get_if<double>(&row[i])) value = number(*real);
      if (const auto* flag = std::get_if<bool>(&row[i])) value = *flag;
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

std::size_t terminal_width(int stream) {
  if (const char* columns = std::getenv("COLUMNS")) {
    const long value = std::strtol(columns, nullptr, 10);
    if (value > 0) return static_cast<std::size_t>(value);
  }
  winsize size{};
  if (::isatty(stream) == 1 && ::ioctl(stream, TIOCGWINSZ, &size) == 0) return size.ws_col;
  return 0;
}

}  // namespace ironcl::report
