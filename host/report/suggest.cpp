// SPDX-License-Identifier: Apache-2.0
// What somebody who mistyped a name may have meant.
#include "host/report/suggest.h"

#include <algorithm>
#include <utility>

namespace ironcl::report {
namespace {

std::string_view without_dashes(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  return name;
}

/// Slips between `a` and `b` (the distance of Damerau and Levenshtein, a character moved once).
std::size_t slips(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> near_names(std::string_view word, const std::vector<std::string>& known) {
  // Names of tensors come from outside: what is very long is nobody's slip, and would take long to compare.
  constexpr std::size_t kLongest = 512;
  word = without_dashes(word);
  if (word.empty() || word.size() > kLongest) return {};
  const std::size_t allowed = std::max<std::size_t>(1, word.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> found;
  std::vector<std::string> longer;
  for (const std::string& name : known) {
    const std::string_view plain = without_dashes(name);
    if (plain.starts_with(word)) longer.push_back(name);
    const std::size_t difference =
        plain.size() > word.size() ? plain.size() - word.size() : word.size() - plain.size();
    if (difference > allowed) continue;
    if (const std::size_t distance = slips(word, plain); distance <= allowed && distance < plain.size())
      found.emplace_back(distance, name);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  if (longer.size() == 1) names = longer;
  for (const auto& [distance, name] : found) {
    if (names.size() < 3 && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string> names = near_names(word, known);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "; did you mean " : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text.empty() ? text : text + "?";
}

}  // namespace ironcl::report
