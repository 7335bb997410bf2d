// SPDX-License-Identifier: Apache-2.0
// Tuned tables of layers of experts: how vLLM and SGLang name them, and which entry serves a load. Next door: table.h
// (of single products; what is in a table is the same).
//
//   E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json
//
// E: the experts that are here. N: the width of an expert as it is here, which is down's last dimension and half of
// gate and up's rows together. Keys of theirs are numbers of tokens T. What a kernel sees is how many rows an expert
// gets, though, and that depends on k and E too, so ours are compared as rows of an active expert: one table then
// serves models that differ in k. Sources: vLLM, fused_moe.py, get_config_file_name and try_get_optimal_moe_config;
// SGLang, fused_moe_triton_config.py (a blank behind the comma of block_shape, a suffix _down for the second
// product).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/tuned/table.h"

namespace ironcl::tuned {

/// What a table of a layer of experts is for.
struct ExpertsKey {
  std::int64_t experts = 0;  ///< E
  std::int64_t width = 0;    ///< N
  std::string device;        ///< As in Key.
  std::string dtype = "fp8_w8a8";
  std::int64_t group_rows = 128, group_cols = 128;  ///< block_shape
  bool down = false;                                ///< For the second product alone.

  friend auto operator<=>(const ExpertsKey&, const ExpertsKey&) = default;
};

/// The file of a key, as vLLM spells it.
std::string file_name(const ExpertsKey& key);

/// The key of a file name of either spelling; empty where it is not such a name.
std::optional<ExpertsKey> parse_experts_file_name(std::string_view name);

/// The rows of an expert that gets any, where `tokens` tokens have `top_k` of `experts` each and all are as likely:
/// T k over the number of experts that are hit, E (1 - (1 - k / E)^T).
double rows_per_active_expert(std::int64_t tokens, std::int64_t top_k, std::int64_t experts) noexcept;

/// The entry of a table (keys: tokens) for a load: the one whose rows per active expert are nearest in their
/// logarithm, the smaller of two that are equally near; nothing that is farther than kFarthest, but that the largest
/// entry also serves any larger load from kManyRows rows on. Null if none.
const boost::json::object* nearest_load(const Table& table, std::int64_t tokens, std::int64_t top_k,
                                        std::int64_t experts, std::int64_t* found_tokens = nullptr);

}  // namespace ironcl::tuned
