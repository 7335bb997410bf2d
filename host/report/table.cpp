// SPDX-License-Identifier: Apache-2.0
// A table as data.
#include "host/report/table.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

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

}  // namespace ironcl::report
