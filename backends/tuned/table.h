// SPDX-License-Identifier: Apache-2.0
// A tuned table: which configuration was fastest on a device. Text in, text out, no files: the backends look
// configurations up in tables (tables.h), host/tuning reads and writes the files.
//
// A table is what SGLang and vLLM keep in a file: a JSON object from the number of rows M, or for a layer of experts
// of tokens T, as text, to a configuration. Their fields (BLOCK_SIZE_M, num_warps, ...) are kept as they are; ours
// stand beside them in one member, "ironcl": {"variant": "gemm_panel", "options": {"tile_m": "12"}, ...}.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ironcl::tuned {

/// Our member for one number of rows. Empty variant: the entry has no "ironcl" member (another tool's table).
struct Entry {
  std::string variant;
  std::vector<std::pair<std::string, std::string>> options;
  std::int64_t compute_units = 0;  ///< Compute units of the measured device; 0: unknown.
  std::string accuracy_class;      ///< Name of the measured class; empty: f32.
  bool is_rule_of_thumb = false;   ///< Nothing beat the rule of thumb, which took this: take the rule of thumb.
  // Of an entry for a layer of experts; 0: not said.
  double rows_per_expert = 0;  ///< Mean rows of the experts that have any.
  std::int64_t n = 0, k = 0;   ///< Sizes of the measured product; the table's name has only one of them.
};

/// Entries by rows of A.
class Table {
 public:
  /// Throws std::invalid_argument saying what is wrong with the text and where.
  static Table parse(std::string_view text);
  /// JSON with one entry per line, keys sorted as numbers.
  std::string to_text() const;

  /// Puts our member into the entry of `m`, keeping whatever else the entry has.
  void set(std::int64_t m, const boost::json::object& ironcl);
  /// Takes over every entry of `other`, member by member; members that only this table has stay.
  void merge(const Table& other);
  /// The entry with our member that is nearest to m in log M; the smaller one of two that are equally near. Null if
  /// none.
  const boost::json::object* nearest(std::int64_t m, std::int64_t* found_m = nullptr) const;

  const std::map<std::int64_t, boost::json::object>& entries() const noexcept { return entries_; }

 private:
  std::map<std::int64_t, boost::json::object> entries_;
  boost::json::object remarks_;  ///< Members that are no entries, such as "triton_version"; kept.
};

/// max / min of two sizes, 0 as 1: orders as |log a - log b| does, and equal ratios compare equal.
double ratio(std::int64_t a, std::int64_t b) noexcept;

/// What stands in the "ironcl" member of an entry as the file has it.
Entry entry_of(const boost::json::object& of);

}  // namespace ironcl::tuned
