// SPDX-License-Identifier: Apache-2.0
#include "backends/tuned/tables.h"

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <cmath>
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

/// The size before `mark`, 1 or more, taken off with it; nothing where there is none.
std::optional<std::int64_t> take_size(std::string_view& text, std::string_view mark) {
  const auto digits = words::take_before(text, mark);
  const auto size = digits ? words::number<std::int64_t>(*digits) : std::nullopt;
  return size && *size >= 1 ? size : std::nullopt;
}

bool is_for(const Key& key, const std::string& device, std::string_view dtype, std::int64_t group_rows,
            std::int64_t group_cols) {
  return key.device == device && key.dtype == dtype && key.group_rows == group_rows && key.group_cols == group_cols;
}

}  // namespace

double ratio(std::int64_t a, std::int64_t b) noexcept {
  const double x = static_cast<double>(std::max<std::int64_t>(a, 1));
  const double y = static_cast<double>(std::max<std::int64_t>(b, 1));
  return std::max(x, y) / std::min(x, y);
}

Table Table::parse(std::string_view text) {
  const auto [value, error, read, twice] = parse_exactly(text);
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

std::string sanitize(std::string_view device_name) {
  using namespace boost::algorithm;
  std::vector<std::string> words;
  const auto alnum = is_alnum(std::locale::classic());
  const auto is_between = [&](char c) { return !alnum(c) && c != '-' && c != '.' && c != '+'; };
  split(words, device_name, is_between, token_compress_on);
  return join_if(words, "_", [](const std::string& word) { return !word.empty(); });
}

std::string file_name(const Key& key) {
  const std::string n = std::to_string(key.n), end = key.down ? "_down.json" : ".json";
  return (key.experts != 0 ? "E=" + std::to_string(key.experts) + ",N=" + n
                           : "N=" + n + ",K=" + std::to_string(key.k)) +
         ",device_name=" + key.device + ",dtype=" + key.dtype + ",block_shape=[" + std::to_string(key.group_rows) +
         "," + std::to_string(key.group_cols) + "]" + end;
}

std::optional<Key> parse_file_name(std::string_view name) {
  const bool of_experts = name.starts_with("E=");
  if (!of_experts && !name.starts_with("N=")) return std::nullopt;
  name.remove_prefix(2);
  const auto first = take_size(name, of_experts ? ",N=" : ",K=");
  const auto second = first ? take_size(name, ",device_name=") : std::nullopt;
  const auto device = second ? words::take_before(name, ",dtype=") : std::nullopt;
  const auto dtype = device ? words::take_before(name, ",block_shape=[") : std::nullopt;
  const auto rows = dtype ? take_size(name, ",") : std::nullopt;
  if (!rows) return std::nullopt;
  if (name.starts_with(' ')) name.remove_prefix(1);
  const auto cols = take_size(name, "]");
  const bool down = of_experts && name == "_down.json";
  if (!cols || device->empty() || dtype->empty() || (!down && name != ".json")) return std::nullopt;
  Key key{*first, *second, std::string(*device), std::string(*dtype), *rows, *cols};
  if (of_experts) key.n = *second, key.k = 0, key.experts = *first, key.down = down;
  return key;
}

double rows_per_active_expert(std::int64_t tokens, std::int64_t top_k, std::int64_t experts) noexcept {
  if (tokens < 1 || top_k < 1 || experts < 1) return 0;
  const double all = static_cast<double>(experts), k = std::min(static_cast<double>(top_k), all);
  const double hit = all * -std::expm1(static_cast<double>(tokens) * std::log1p(-k / all));
  return static_cast<double>(tokens) * k / hit;
}

std::vector<Tables::Found> Tables::find(const std::vector<std::string>& devices, std::int64_t m, std::int64_t n,
                                        std::int64_t k, std::string_view dtype, std::int64_t group_rows,
                                        std::int64_t group_cols) const {
  std::vector<Found> choices;
  const auto take_from = [&](std::map<Key, Table>::const_iterator at) {
    std::int64_t found = 0;
    const boost::json::object* entry = at != tables_.end() ? at->second.nearest(m, &found) : nullptr;
    if (entry == nullptr) return;
    if (ratio(found, m) <= kFarthest || (found >= kManyRows && found < m))
      choices.push_back({entry_of(*entry), file_name(at->first) + ": M=" + std::to_string(found), found});
  };
  for (const std::string& device : devices) {
    const Key exact{n, k, device, std::string(dtype), group_rows, group_cols};
    take_from(tables_.find(exact));
    auto near = tables_.end();
    double near_distance = std::numeric_limits<double>::infinity();
    for (auto at = tables_.begin(); at != tables_.end(); ++at) {
      const Key& key = at->first;
      if (key.experts != 0 || key == exact || !is_for(key, device, dtype, group_rows, group_cols)) continue;
      const double d = ratio(key.n, n) * ratio(key.k, k);
      if (d >= near_distance || d > kFarthest) continue;
      near_distance = d;
      near = at;
    }
    take_from(near);
  }
  return choices;
}

std::vector<Tables::Found> Tables::find(const std::vector<std::string>& devices, const Product& product,
                                        std::string_view dtype, std::int64_t group_rows,
                                        std::int64_t group_cols) const {
  const auto far = [](double a, double b) { return a > 0 && b > 0 ? std::fabs(std::log(a) - std::log(b)) : 0; };
  const auto size = [](std::int64_t n, std::int64_t k) { return static_cast<double>(n) * static_cast<double>(k); };
  std::vector<Found> choices;
  const auto take_from = [&](const Key& key, const Table& table) {
    std::optional<Found> best;
    double least = std::log(kFarthest);
    for (const auto& [tokens, fields] : table.entries()) {
      const Entry entry = entry_of(fields);
      if (entry.variant.empty() || !(entry.rows_per_expert > 0)) continue;  // Somebody else's.
      if (entry.n > 0 && entry.k > 0 && far(size(entry.n, entry.k), size(product.n, product.k)) > std::log(kFarthest))
        continue;
      double distance = far(entry.rows_per_expert, product.rows);
      const bool serves_more =
          entry.rows_per_expert >= static_cast<double>(kManyRows) && product.rows > entry.rows_per_expert;
      if (serves_more) distance = std::min(distance, std::log(kFarthest));
      if (distance > least || (best && distance == least)) continue;
      best = {entry, file_name(key) + ": T=" + std::to_string(tokens), tokens};
      least = distance;
    }
    if (best) choices.push_back(std::move(*best));
  };
  for (const std::string& device : devices) {
    for (const bool exact : {true, false}) {
      for (const auto& [key, table] : tables_) {
        if (key.experts != 0 && is_for(key, device, dtype, group_rows, group_cols) && key.n == product.width &&
            key.down == product.down && (key.experts == product.experts) == exact)
          take_from(key, table);
      }
    }
  }
  return choices;
}

}  // namespace ironcl::tuned
