// SPDX-License-Identifier: Apache-2.0
// Names of tuned tables of layers of experts, and the look-up by load.
#include "backends/tuned/experts_table.h"

#include <algorithm>
#include <cmath>

#include "backends/tuned/file_name.h"

namespace ironcl::tuned {

std::string file_name(const ExpertsKey& key) {
  return "E=" + std::to_string(key.experts) + ",N=" + std::to_string(key.width) +
         NameEnd{key.device, key.dtype, key.group_rows, key.group_cols}.text() + (key.down ? "_down" : "") + ".json";
}

std::optional<ExpertsKey> parse_experts_file_name(std::string_view name) {
  if (!name.starts_with("E=")) return std::nullopt;
  name.remove_prefix(2);
  const auto experts = take_size(name, ",N=");
  const auto width = experts ? take_size(name, ",device_name=") : std::nullopt;
  const auto end = width ? take_name_end(name) : std::nullopt;
  if (!end) return std::nullopt;
  const bool down = name.starts_with("_down");
  if (down) name.remove_prefix(5);
  if (name != ".json") return std::nullopt;
  return ExpertsKey{*experts, *width, end->device, end->dtype, end->group_rows, end->group_cols, down};
}

double rows_per_active_expert(std::int64_t tokens, std::int64_t top_k, std::int64_t experts) noexcept {
  if (tokens < 1 || top_k < 1 || experts < 1) return 0;
  const double all = static_cast<double>(experts), k = std::min(static_cast<double>(top_k), all);
  const double hit = all * -std::expm1(static_cast<double>(tokens) * std::log1p(-k / all));
  return static_cast<double>(tokens) * k / hit;
}

double rows_per_active_expert(std::int64_t rows, std::int64_t experts) noexcept {
  return rows_per_active_expert(rows, 1, experts);
}

std::vector<Tables::Found> ExpertsTables::find(const std::vector<std::string>& devices, const Product& product,
                                               std::string_view dtype, std::int64_t group_rows,
                                               std::int64_t group_cols) const {
  const auto far = [](double a, double b) { return a > 0 && b > 0 ? std::fabs(std::log(a) - std::log(b)) : 0; };
  const auto size = [](std::int64_t n, std::int64_t k) { return static_cast<double>(n) * static_cast<double>(k); };
  std::vector<Tables::Found> choices;
  const auto take_from = [&](const ExpertsKey& key, const Table& table) {
    std::optional<Tables::Found> best;
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
        if (key.device != device || key.dtype != dtype || key.group_rows != group_rows ||
            key.group_cols != group_cols || key.width != product.width || key.down != product.down ||
            (key.experts == product.experts) != exact)
          continue;
        take_from(key, table);
      }
    }
  }
  return choices;
}

}  // namespace ironcl::tuned
