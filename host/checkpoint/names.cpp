// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/names.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <boost/regex.hpp>
#include <mutex>
#include <span>
#include <utility>

#include "backends/words.h"
#include "host/report/search.h"

namespace ironcl::checkpoint {
namespace {

/// A name with a dot on both sides, as its parts have them.
std::string dotted(std::string_view name) { return fmt::format(".{}.", name); }

/// transformers takes expressions without a mark; a module's name has none of these characters.
bool is_expression(std::string_view entry) noexcept {
  return entry.starts_with(".*") || entry.find_first_of("^$\\(|[+") != std::string_view::npos;
}

}  // namespace

struct ModuleNames::Expression {
  explicit Expression(const std::string& text) : regex(text) {}
  /// Python's re.match.
  bool begins(std::string_view name) {
    const std::lock_guard lock(mutex);
    if (left <= 0) return false;
    std::int64_t looks = std::min(left, report::looks_for(name.size()));
    const std::int64_t before = looks;
    const std::optional<bool> found = report::is_found(regex, name, true, looks);
    left = found ? left - (before - looks) : 0;
    return found.value_or(false);
  }

  boost::regex regex;
  std::mutex mutex;
  std::int64_t left = 200'000'000;  ///< For all names together: a checkpoint may have a million.
};

bool natural_less(const std::string& a, const std::string& b) { return strverscmp(a.c_str(), b.c_str()) < 0; }

std::string list_names(const std::vector<std::string>& names, std::size_t most) {
  if (names.empty()) return "none";
  const std::size_t shown = std::min(most, names.size());
  const std::string text = fmt::format("{}", fmt::join(std::span(names).first(shown), ", "));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

std::optional<ExpertName> split_expert(std::string_view layer) noexcept {
  const std::size_t last = layer.rfind('.');
  if (last == std::string_view::npos || last == 0) return std::nullopt;
  const std::size_t before = layer.rfind('.', last - 1);
  if (before == std::string_view::npos) return std::nullopt;
  const auto expert = words::number<std::int64_t>(layer.substr(before + 1, last - before - 1));
  if (!expert || *expert < 0) return std::nullopt;
  return ExpertName{layer.substr(0, before + 1), *expert, layer.substr(last + 1)};
}

ModuleNames::ModuleNames(std::vector<std::string> entries)
    : entries_(std::move(entries)), sorted_(entries_.begin(), entries_.end()) {
  for (const std::string& entry : entries_) {
    dotted_.push_back(dotted(entry));
    auto& expression = expressions_.emplace_back();
    if (entry.starts_with("re:"))
      expression = std::make_shared<Expression>(entry.substr(3));
    else if (is_expression(entry))
      expression = std::make_shared<Expression>(entry);
  }
}

const std::string* ModuleNames::find(std::string_view module) const {
  const std::string parts = dotted(module);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string& entry = entries_[i];
    if (expressions_[i] != nullptr) {
      if (expressions_[i]->begins(module)) return &entry;
    } else if ((!entry.empty() && parts.find(dotted_[i]) != std::string::npos) ||
               (entry.find_first_of("*?") != std::string::npos &&
                fnmatch(entry.c_str(), std::string(module).c_str(), 0) == 0)) {
      return &entry;
    }
  }
  return nullptr;
}

bool ModuleNames::has(std::string_view entry) const { return sorted_.contains(entry); }

}  // namespace ironcl::checkpoint
