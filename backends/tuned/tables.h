// SPDX-License-Identifier: Apache-2.0
// Tuned tables: which configuration was fastest on a device. Text in, text out, no files: the backends look
// configurations up, host/tuning reads and writes the files.
//
// A table is what SGLang and vLLM keep in a file: a JSON object from the number of rows M, or for a layer of experts
// of tokens T, as text, to a configuration. Their fields (BLOCK_SIZE_M, num_warps, ...) are kept as they are; ours
// stand beside them in one member, "ironcl": {"variant": "gemm_panel", "options": {"tile_m": "12"}, ...}. What a
// table is for stands in its file's name:
//
//   N=4096,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json
//   E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json
//
// The second is of a layer of experts. E: the experts that are here; N: the width of an expert as it is here, which
// is down's last dimension and half of gate and up's rows together. What a kernel sees is not the number of tokens
// but how many rows an expert gets, so our member of an entry says that ("rows_per_expert") and is found by it: one
// table then serves models that differ in k. SGLang writes a blank behind the comma of block_shape and a suffix _down
// for the second product; both spellings are read, vLLM's is written. Sources: vLLM, fused_moe.py,
// get_config_file_name and try_get_optimal_moe_config; SGLang, fused_moe_triton_config.py.
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

/// The key of a table.
struct Key {
  std::int64_t n = 0, k = 0;                        ///< For a layer of experts n is N above, and k 0.
  std::string device;                               ///< sanitize()d: a device, an architecture, a vendor or "any".
  std::string dtype = "fp8_w8a8";                   ///< "fp8_w8a8" or "int8_w8a8".
  std::int64_t group_rows = 128, group_cols = 128;  ///< Scale groups of B: block_shape of the file name.
  std::int64_t experts = 0;                         ///< E; 0: a table of single products.
  bool down = false;                                ///< Whether it is for the second product of a layer alone.

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

/// How far a look-up goes: an entry whose M or load, or whose N times K, is more than this factor away is none for
/// the problem.
inline constexpr double kFarthest = 4;
/// From here on rows only repeat: an entry for so many rows also serves any larger M or load.
inline constexpr std::int64_t kManyRows = 1024;

/// The rows of an expert that gets any, where `tokens` tokens have `top_k` of `experts` each and all are as likely:
/// T k over the number of experts that are hit, E (1 - (1 - k / E)^T). Where only the rows of all experts are known,
/// they are tokens that have one expert each.
double rows_per_active_expert(std::int64_t tokens, std::int64_t top_k, std::int64_t experts) noexcept;

/// Several tables, and the look-up over them.
class Tables {
 public:
  /// Adds or, where the key is there, merges over: later additions win.
  void add(const Key& key, const Table& table) { tables_[key].merge(table); }
  bool empty() const noexcept { return tables_.empty(); }

  struct Found {
    Entry entry;
    std::string source;  ///< "N=...: M=64", for reports.
    std::int64_t m = 0;  ///< Rows, or tokens, of the entry.
  };
  /// The configurations to try for a problem, best first: for each of `devices` (device, architecture, vendor, ...)
  /// the table of exactly this (n, k), then the one nearest in log N + log K, each at the M that is nearest in log M;
  /// nothing that is farther than kFarthest. The caller takes the first that is valid, or its rule of thumb.
  std::vector<Found> find(const std::vector<std::string>& devices, std::int64_t m, std::int64_t n, std::int64_t k,
                          std::string_view dtype, std::int64_t group_rows, std::int64_t group_cols) const;

  /// A product of a layer: of `experts` matrices [n, k] with so many rows for each that has any.
  struct Product {
    std::int64_t experts = 0, width = 0;  ///< width: N of the table's name.
    bool down = false;
    std::int64_t n = 0, k = 0;
    double rows = 0;
  };
  /// Our entries to try for it, best first: for each of `devices` those of tables with exactly these experts and this
  /// width, then those of any other number of experts; of a table the entry whose load is nearest in its logarithm,
  /// the smaller of two that are equally near. Nothing whose load, or whose n times k, is farther than kFarthest.
  std::vector<Found> find(const std::vector<std::string>& devices, const Product& product, std::string_view dtype,
                          std::int64_t group_rows, std::int64_t group_cols) const;

 private:
  std::map<Key, Table> tables_;
};

}  // namespace ironcl::tuned
