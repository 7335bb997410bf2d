// SPDX-License-Identifier: Apache-2.0
#include "backends/tuned/table.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "backends/tuned/exact_json.h"
#include "backends/words.h"

namespace ironcl::tuned {
namespace {

constexpr std::string_view kMember = "ironcl";

void overlay(boost::json::object& onto, const boost::json::object& from) {
  for (const auto& member : from) onto[member.key()] = member.value();
}

}  // namespace

double ratio(std::int64_t a, std::int64_t b) noexcept {
  const double x = static_cast<double>(std::max<std::int64_t>(a, 1));
  const double y = static_cast<double>(std::max<std::int64_t>(b, 1));
  return std::max(x, y) / std::min(x, y);
}

Table Table::parse(std::string_view text) {
  boost::system::error_code error;
  const boost::json::value value = parse_exactly(text, error);
  if (error) throw std::invalid_argument("a tuned table must be JSON: " + error.message());
  if (!value.is_object()) throw std::invalid_argument("a tuned table must be an object from M to a configuration");
  Table table;
  for (const auto& member : value.as_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const auto m = words::number<std::int64_t>(name);
    if (!m || *m < 1) {
      // Triton-made tables may carry such a remark beside the entries.
      if (name == "triton_version") {
        table.remarks_[name] = member.value();
        continue;
      }
      throw std::invalid_argument("a tuned table's key must be a number of rows, not '" + std::string(name) + "'");
    }
    if (!member.value().is_object())
      throw std::invalid_argument("the entry of M=" + std::string(name) +
                                  " must be an object of configuration fields");
    table.entries_[*m] = member.value().as_object();
  }
  return table;
}

std::string Table::to_text() const {
  boost::json::object all = remarks_;
  for (const auto& [m, entry] : entries_) all[std::to_string(m)] = entry;
  std::string text = "{";
  const char* before = "\n";
  for (const auto& member : all) {
    text += std::exchange(before, ",\n") + boost::json::serialize(boost::json::value(member.key())) + ": " +
            boost::json::serialize(member.value());
  }
  return text + "\n}\n";
}

void Table::set(std::int64_t m, const boost::json::object& ironcl) { entries_[m][kMember] = ironcl; }

void Table::merge(const Table& other) {
  overlay(remarks_, other.remarks_);
  for (const auto& [m, entry] : other.entries_) overlay(entries_[m], entry);
}

const boost::json::object* Table::nearest(std::int64_t m, std::int64_t* found_m) const {
  const boost::json::object* best = nullptr;
  double best_distance = std::numeric_limits<double>::infinity();
  for (const auto& [entry_m, entry] : entries_) {
    if (!entry.contains(kMember)) continue;
    const double d = ratio(entry_m, m);
    if (d >= best_distance) continue;
    best_distance = d;
    best = &entry;
    if (found_m != nullptr) *found_m = entry_m;
  }
  return best;
}

Entry entry_of(const boost::json::object& of) {
  Entry entry;
  const boost::json::value* member = of.if_contains(kMember);
  if (member == nullptr || !member->is_object()) return entry;
  const boost::json::object& ironcl = member->as_object();
  const auto take = [&ironcl](const char* name, auto& to) {
    if (const auto* value = ironcl.if_contains(name))
      if (const auto known = boost::json::try_value_to<std::remove_reference_t<decltype(to)>>(*value)) to = *known;
  };
  take("variant", entry.variant);
  take("accuracy_class", entry.accuracy_class);
  take("compute_units", entry.compute_units);
  take("is_rule_of_thumb", entry.is_rule_of_thumb);
  take("rows_per_expert", entry.rows_per_expert);
  take("n", entry.n);
  take("k", entry.k);
  if (const auto* options = ironcl.if_contains("options"); options != nullptr && options->is_object())
    for (const auto& option : options->as_object())
      if (option.value().is_string())
        entry.options.emplace_back(std::string(option.key().data(), option.key().size()),
                                   option.value().as_string().c_str());
  return entry;
}

}  // namespace ironcl::tuned
