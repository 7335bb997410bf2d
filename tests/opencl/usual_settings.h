// SPDX-License-Identifier: Apache-2.0
// What a host sets of kernels, for tests that build a file by hand: kernels have no settings of their own.
#pragma once

#include <string>

#include "backends/opencl/program.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl::testing {

/// Of the variants of a file the first's tunables, as its declaration begins with them.
inline Tuning first_tuning(const Variant& variant) {
  Tuning tuning;
  for (const Tunable& tunable : variant.tunables) tuning[tunable.name] = tunable.fallback;
  return tuning;
}

inline void set_tunables(Defines& defines, const Tuning& tuning) {
  for (const auto& [name, value] : tuning) defines[macro_name(name)] = std::to_string(value);
}

/// Settings with which `file` of cl/ builds: those of a product of e4m3 in blocks of 128 to f32, nothing grouped; of
/// a file that kernels share the tunables of any of them.
inline Defines usual_settings(const std::string& file) {
  Defines defines{{"A_SCALE_COLS", "128"}, {"A_SCALE_ROWS", "1"},     {"A_SCALE_TYPE", "1"},
                  {"A_TYPE", "4"},         {"ADD_TYPE", "0"},         {"B_SCALE_COLS", "128"},
                  {"B_SCALE_ROWS", "128"}, {"B_SCALE_TYPE", "1"},     {"B_TYPE", "4"},
                  {"BEST_OF_TWO", "0"},    {"BIAS_TYPE", "0"},        {"CODE", "4"},
                  {"CORES", "1"},          {"D_SCALE_COLS", "128"},   {"D_TYPE", "1"},
                  {"EXACT_DIVIDE", "0"},   {"FLOOR_BITS", "0u"},      {"FMA_DIVIDE", "0"},
                  {"GROUP", "128"},        {"GROUP_COLS", "128"},     {"HAS_BIAS", "0"},
                  {"LANES", "1"},          {"LOGITS_TYPE", "1"},      {"NORMALIZE", "0"},
                  {"POWER_OF_TWO", "0"},   {"SCALE_TYPE", "1"},       {"SCHEDULED_ROWS", "256"},
                  {"SCORE", "1"},          {"SHARED_GATE", "0"},      {"SOURCE", "1"},
                  {"TILE", "8"},           {"TILE_FORM", "1"},        {"USE_FMA", "1"},
                  {"WEIGH_ADD", "0"},      {"WIDTH", "16"},           {"X_TYPE", "1"},
                  {"Y_TYPE", "1"},         {"PERSISTENT_GROUPS", "0"}};
  bool shared = true;
  for (const Variant& variant : variants()) {
    if (file_of(variant) != file) continue;
    set_tunables(defines, first_tuning(variant));
    shared = false;
  }
  if (file == "activate.cl") defines["GROUPED"] = "0";
  if (file == "ceilings.cl") defines.insert({{"VEC", "4"}, {"CHAINS", "16"}});
  if (file.starts_with("fused"))
    defines.insert({{"TILE_M", "8"}, {"TEAMS", "1"}, {"SLOTS", "512"}, {"IN_TURNS", "0"}});
  if (!shared || file.starts_with("fused")) return defines;
  for (const char* name : {"MMA_OF_BF16", "WARPS", "SPLIT_K", "TILE_M"}) defines.try_emplace(name, "1");
  return defines;
}

}  // namespace ironcl::opencl::testing
