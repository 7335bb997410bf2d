// SPDX-License-Identifier: Apache-2.0
// Tuned tables of layers of experts: how vLLM and SGLang name them, and which entry serves a load. Next door: table.h
// (of single products; what is in a table is the same).
//
//   E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json
//
// E: the experts that are here. N: the width of an expert as it is here, which is down's last dimension and half of
// gate and up's rows together. Keys of theirs are numbers of tokens T. What a kernel sees is how many rows an expert
// gets, though, and that depends on k and E too, so our member of an entry says that ("rows_per_expert") and is found
// by it: one table then serves models that differ in k. Sources: vLLM, fused_moe.py, get_config_file_name and
// try_get_optimal_moe_config; SGLang, fused_moe_triton_config.py (a blank behind the comma of block_shape, a suffix
// _down for the second product).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tuned/table.h"

namespace ironcl::tuned {

/// The key of a table for layers of experts.
struct ExpertsKey {
  std::int64_t experts = 0;  ///< E
  std::int64_t width = 0;    ///< N
  std::string device;        ///< As in Key.
  std::string dtype = "fp8_w8a8";
  std::int64_t group_rows = 128, group_cols = 128;  ///< block_shape
  bool down = false;                                ///< Whether it is for the second product alone.

  // clang-tidy 14 takes the 0 of comparisons that the compiler writes for a pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const ExpertsKey&, const ExpertsKey&) = default;
};

/// The file of a key, as vLLM spells it.
std::string file_name(const ExpertsKey& key);

/// The key of a file name of either spelling; empty where it is not such a name.
std::optional<ExpertsKey> parse_experts_file_name(std::string_view name);

/// The rows of an expert that gets any, where `tokens` tokens have `top_k` of `experts` each and all are as likely:
/// T k over the number of experts that are hit, E (1 - (1 - k / E)^T).
double rows_per_active_expert(std::int64_t tokens, std::int64_t top_k, std::int64_t experts) noexcept;

/// The same where only the rows of all experts are known, each of which has chosen its expert by chance.
double rows_per_active_expert(std::int64_t rows, std::int64_t experts) noexcept;

/// Several tables, and the look-up over them.
class ExpertsTables {
 public:
  /// Adds or, where the key is there, merges over: later additions win.
  void add(const ExpertsKey& key, const Table& table) { tables_[key].merge(table); }
  bool empty() const noexcept { return tables_.empty(); }

  /// What is looked for: the product of `experts` matrices [n, k] with so many rows for each that has any.
  struct Product {
    std::int64_t experts = 0, width = 0;  ///< width: N of the table's name.
    bool down = false;
    std::int64_t n = 0, k = 0;
    double rows = 0;
  };
  /// Our entries to try, best first: for each of `devices` those of tables with exactly these experts and this width,
  /// then those of any other number of experts; of a table the entry whose load is nearest in its logarithm, the
  /// smaller of two that are equally near. Nothing whose load, or whose n times k, is more than kFarthest away, but
  /// an entry for kManyRows rows and more also serves any larger load.
  std::vector<Tables::Found> find(const std::vector<std::string>& devices, const Product& product,
                                  std::string_view dtype, std::int64_t group_rows, std::int64_t group_cols) const;

 private:
  std::map<ExpertsKey, Table> tables_;
};

/// Tables of single products and of layers of experts.
struct AllTables {
  Tables products;
  ExpertsTables experts;
};

}  // namespace ironcl::tuned
