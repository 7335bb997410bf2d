// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/kernels.h"

#include <algorithm>
#include <boost/json.hpp>

namespace ironcl::opencl {

// Made by the build: declares `Variant FILE();` for each file of variants/ and lists them in kVariantMakers.
#include "variant_list.inc"

std::span<const Variant> variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> made;
    for (const auto maker : kVariantMakers) made.push_back(maker());
    std::sort(made.begin(), made.end(), [](const Variant& a, const Variant& b) { return a.name < b.name; });
    return made;
  }();
  return all;
}

const Variant* find_variant(std::string_view name) {
  for (const Variant& variant : variants()) {
    if (variant.name == name) return &variant;
  }
  return nullptr;
}

std::string macro_name(const std::string& tunable) {
  std::string name = tunable;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

std::string to_string(const Tuning& tuning) {
  std::string text;
  for (const auto& [name, value] : tuning) text += (text.empty() ? "" : ",") + name + "=" + std::to_string(value);
  return text;
}

std::string Layout::name() const {
  return (n_block == 0 ? std::string("columns") : "panel_n" + std::to_string(n_block)) + "_k" + std::to_string(k_run);
}

std::optional<Refusal> refuse(const Variant& variant, const Tuning& tuning, const Features& features,
                              const Problem& problem) {
  using backend::Reason;
  for (const Constraint& constraint : variant.constraints) {
    if (!constraint.holds(tuning, problem)) {
      return Refusal{Reason::option, variant.name + " with " + to_string(tuning) + ": " + constraint.why +
                                         " (the K group is " + std::to_string(problem.group) + ")"};
    }
  }
  const std::uint64_t local = variant.local_bytes(tuning, problem);
  if (local > features.local_bytes) {
    return Refusal{Reason::device_feature, variant.name + " with " + to_string(tuning) + " needs " +
                                               std::to_string(local) + " bytes of local memory, the device has " +
                                               std::to_string(features.local_bytes) + "; take smaller tiles"};
  }
  const std::uint64_t items = variant.work_items(tuning);
  if (items > features.max_work_group) {
    return Refusal{Reason::device_feature, variant.name + " with " + to_string(tuning) + " needs work-groups of " +
                                               std::to_string(items) + ", the device takes " +
                                               std::to_string(features.max_work_group) +
                                               "; take smaller tiles or more work per item"};
  }
  return std::nullopt;
}

std::string variants_json() {
  boost::json::array list;
  for (const Variant& variant : variants()) {
    boost::json::array tunables, constraints;
    for (const Tunable& tunable : variant.tunables) {
      tunables.push_back(boost::json::object{{"name", tunable.name},
                                             {"default", tunable.fallback},
                                             {"values", boost::json::value_from(tunable.values)},
                                             {"meaning", tunable.meaning}});
    }
    for (const Constraint& constraint : variant.constraints)
      constraints.push_back(boost::json::string(constraint.why));
    list.push_back(boost::json::object{{"name", variant.name},
                                       {"summary", variant.summary},
                                       {"accuracy_class", numerics::name_of(variant.accuracy)},
                                       {"tunables", tunables},
                                       {"constraints", constraints}});
  }
  return boost::json::serialize(list);
}

}  // namespace ironcl::opencl
