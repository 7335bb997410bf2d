// SPDX-License-Identifier: Apache-2.0
// Names of modules and tensors: order for readers, lists for messages, and the patterns of configs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ironcl::checkpoint {

/// Order of a reader: runs of digits compare as numbers ("layers.2" before "layers.10"), as strverscmp(3) has it.
bool natural_less(const std::string& a, const std::string& b);

/// "a, b, c and 5 more": at most `most` of `names`; "none" where there are none.
std::string list_names(const std::vector<std::string>& names, std::size_t most = 8);

/// The parts of "<stem><expert>.<projection>", the stem with its last dot.
struct ExpertName {
  std::string_view stem;
  std::int64_t expert = 0;
  std::string_view projection;
};
/// Those of a layer whose name ends so; empty for another one.
std::optional<ExpertName> split_expert(std::string_view layer) noexcept;

/// A list of modules as configs write it: names, patterns with * and ?, and regular expressions, with the mark "re:"
/// or where it can be nothing else, which match from the start.
class ModuleNames {
 public:
  ModuleNames() = default;
  /// Throws std::runtime_error where an expression is malformed.
  explicit ModuleNames(std::vector<std::string> entries);

  const std::vector<std::string>& entries() const noexcept { return entries_; }
  /// The first entry that names `module`, a part of it between dots ("lm_head", "mlp.gate"), or matches; nullptr
  /// where none does. An expression that has become too costly does not match any more.
  const std::string* find(std::string_view module) const;
  /// True where `entry` is one of the entries, as written.
  bool has(std::string_view entry) const;

 private:
  std::vector<std::string> entries_;
  std::set<std::string, std::less<>> sorted_;  ///< The entries once more: some configs list every layer.
  std::vector<std::string> dotted_;            ///< Each entry with a dot on both sides.
  struct Expression;
  std::vector<std::shared_ptr<Expression>> expressions_;  ///< One for each entry; null for a plain name.
};

}  // namespace ironcl::checkpoint
