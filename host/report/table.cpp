// SPDX-License-Identifier: Apache-2.0
// A table and its renderings.
#include "host/report/table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

#include "backends/words.h"
#include "host/report/json.h"
#include "host/report/units.h"
#include "host/report/visible.h"

namespace ironcl::report {
namespace {

/// Characters of UTF-8 text: bytes that do not continue one.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string blanks(width - std::min(width, characters(text)), ' ');
  return left ? text + blanks : blanks + text;
}

/// What people see of a table: columns, and texts of the rows.
struct Shown {
  explicit Shown(const Table& table) {
    rows.resize(table.rows().size());
    for (std::size_t i = 0; i < table.columns().size(); ++i) {
      const Column& column = table.columns()[i];
      if (column.kind == Kind::machines) continue;
      columns.push_back(column);
      widths.push_back(characters(column.heading));
      for (std::size_t row = 0; row < rows.size(); ++row) {
        rows[row].push_back(human_text(table.rows()[row][i], column.kind));
        widths.back() = std::max(widths.back(), characters(rows[row].back()));
      }
    }
  }

  std::vector<Column> columns;
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> rows;
};

std::string records(const Shown& shown) {
  std::size_t label = 0;
  for (const Column& column : shown.columns) label = std::max(label, characters(column.heading));
  std::string text;
  for (const auto& row : shown.rows) {
    if (!text.empty()) text += "\n";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += fmt::format("{}  {}\n", padded(shown.columns[i].heading, label, true), row[i]);
  }
  return text;
}

std::string csv_text(const Cell& cell) {
  if (cell.is_null()) return {};
  if (const auto* number = cell.if_double()) return exact_number(*number);
  return cell.is_string() ? std::string(cell.get_string()) : boost::json::serialize(cell);
}

}  // namespace

void Table::add(Row row) {
  if (row.size() != columns_.size())
    throw std::invalid_argument(fmt::format("a row has {} cells, the table {} columns", row.size(), columns_.size()));
  rows_.push_back(std::move(row));
}

void Table::add_fields(std::vector<Field> row) {
  if (rows_.empty())
    for (Field& field : row) columns_.push_back(std::move(field.column));
  Row cells;
  for (Field& field : row) cells.push_back(std::move(field.value));
  add(std::move(cells));
}

std::string human_text(const Cell& cell, Kind kind) {
  if (const auto* text = cell.if_string()) return text->empty() ? "-" : visible(*text);
  if (const auto* flag = cell.if_bool()) return *flag ? "yes" : "no";
  if (cell.is_array()) return boost::json::serialize(cell);
  if (!cell.is_number()) return "-";
  if (kind == Kind::time) return human_time(cell.to_number<double>());
  if (kind == Kind::bytes) return human_bytes(cell.to_number<double>());
  return cell.is_double() ? human_number(cell.get_double()) : boost::json::serialize(cell);
}

std::string to_text(const Table& table, std::size_t width) {
  const GroupedText text(table, width, false);
  return text.heading() + text.rows(table);
}

GroupedText::GroupedText(const Table& sample, std::size_t width, bool groups) : groups_(groups) {
  const Shown shown(sample);
  columns_ = shown.columns;
  widths_ = shown.widths;
  // Two blanks behind each column but the last; in front of the rows of a group they are in place of the first
  // column.
  const std::size_t all = std::accumulate(widths_.begin(), widths_.end(), 2 * widths_.size());
  blocks_ = width != 0 && all - (groups ? widths_.front() : 0) > width + 2;
}

std::string GroupedText::line(const std::vector<std::string>& cells) const {
  std::string line(groups_ ? "  " : "");
  for (std::size_t i = groups_ ? 1 : 0; i < cells.size(); ++i)
    line += padded(cells[i], widths_[i], columns_[i].kind == Kind::text) + "  ";
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string GroupedText::heading() const {
  if (blocks_) return {};
  const auto rule = [](std::size_t width) { return std::string(width, '-'); };
  return line(words::each(columns_, &Column::heading)) + line(words::each(widths_, rule));
}

std::string GroupedText::rows(const Table& table) const {
  const Shown shown(table);
  if (blocks_) return records(shown) + (groups_ ? "\n" : "");
  std::string text;
  const std::string* group = nullptr;
  for (const auto& row : shown.rows) {
    if (groups_ && (group == nullptr || *group != row[0])) text += row[0] + "\n";
    group = &row[0];
    text += line(row);
  }
  return text;
}

std::string to_markdown(const Table& table) {
  const Shown shown(table);
  std::string heading = "|", rule = "|", body;
  for (const Column& column : shown.columns) {
    heading += fmt::format(" {} |", column.heading);
    rule += column.kind == Kind::text ? "---|" : "---:|";
  }
  for (const auto& row : shown.rows) {
    body += "|";
    for (const std::string& cell : row)
      body += fmt::format(" {} |", boost::algorithm::replace_all_copy(cell, "|", "\\|"));
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
  line(words::each(table.columns(), &Column::key));
  for (const auto& row : table.rows()) line(words::each(row, csv_text));
  return text;
}

boost::json::array to_json(const Table& table) {
  boost::json::array rows;
  for (const auto& row : table.rows()) {
    boost::json::object object;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (const std::string& key = table.columns()[i].key; !key.empty()) object[key] = row[i];
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
