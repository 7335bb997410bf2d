// SPDX-License-Identifier: Apache-2.0
// Tuned tables: which configuration was fastest for a shape on a device. Text in, text out, no files: the backends
// look configurations up in them, host/tuning reads and writes the files.
//
// A table is what SGLang and vLLM keep in a file named
//   N=4096,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json
// (SGLang writes a blank behind the comma of block_shape; both are read, vLLM's is written): a JSON object from the
// number of rows M, as text, to a configuration. Their fields (BLOCK_SIZE_M, num_warps, ...) are kept as they are;
// ours stand beside them in one member, "ironcl": {"variant": "gemm_panel", "options": {"tile_m": "12"}, ...}.
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

/// The key of a table.
struct Key {
  std::int64_t n = 0, k = 0;
  std::string device;                               ///< sanitize()d: a device, an architecture, a vendor or "any".
  std::string dtype = "fp8_w8a8";                   ///< "fp8_w8a8" or "int8_w8a8".
  std::int64_t group_rows = 128, group_cols = 128;  ///< Scale groups of B: block_shape of the file name.

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of the comparison for a pointer.
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// A device's name as file names have it: letters, digits, '-', '.' and '+' stay, runs of anything else become one
/// '_'.
std::string sanitize(std::string_view device_name);

/// The file of a key, as vLLM spells it.
std::string file_name(const Key& key);

/// The key of a file name of either spelling; empty where it is not such a name.
std::optional<Key> parse_file_name(std::string_view name);

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

/// How far a look-up goes: an entry whose M, or whose N times K, is more than this factor away is none for the
/// problem.
inline constexpr double kFarthest = 4;
/// From here on rows only repeat: an entry for so many rows also serves any larger M.
inline constexpr std::int64_t kManyRows = 1024;

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

/// What stands in the "ironcl" member of an entry as the file has it.
Entry entry_of(const boost::json::object& of);

/// Several tables, and the look-up over them.
class Tables {
 public:
  /// Adds or, where the key is there, merges over: later additions win.
  void add(const Key& key, const Table& table);
  bool empty() const noexcept { return tables_.empty(); }

  struct Found {
    Entry entry;
    std::string source;  ///< "N=...: M=64", for reports.
    std::int64_t m = 0;  ///< Rows of the entry.
  };
  /// The configurations to try for a problem, best first: for each of `devices` (device, architecture, vendor, ...)
  /// the table of exactly this (n, k), then the one nearest in log N + log K, each at the M that is nearest in log M;
  /// nothing that is farther than kFarthest. The caller takes the first that is valid, or its rule of thumb.
  std::vector<Found> find(const std::vector<std::string>& devices, std::int64_t m, std::int64_t n, std::int64_t k,
                          std::string_view dtype, std::int64_t group_rows, std::int64_t group_cols) const;

 private:
  std::map<Key, Table> tables_;
};

}  // namespace ironcl::tuned
