// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/variant.h"

#include <algorithm>
#include <boost/json.hpp>

#include "backends/opencl/elements.h"
#include "backends/words.h"

namespace ironcl::opencl {

// Made by the build: declares each `Variant NAME();` of variants/ and lists them in kVariantMakers.
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

const Variant* find_variant(std::string_view name, std::span<const Variant> all) {
  for (const Variant& variant : all) {
    if (variant.name == name) return &variant;
  }
  return nullptr;
}

const Tunable* find_tunable(const Variant& variant, std::string_view name) {
  for (const Tunable& tunable : variant.tunables) {
    if (tunable.name == name) return &tunable;
  }
  return nullptr;
}

std::optional<int> value_of(const Tunable& tunable, std::string_view text) {
  const auto value = words::number<int>(text);
  const bool allowed =
      value && std::find(tunable.values.begin(), tunable.values.end(), *value) != tunable.values.end();
  return allowed ? value : std::nullopt;
}

std::string macro_name(const std::string& tunable) {
  std::string name = tunable;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

const Constraint* broken_constraint(const Variant& variant, const Tuning& tuning, const Problem& problem) {
  const Problem seen = problem.selected();
  for (const Constraint& constraint : variant.constraints)
    if (!constraint.holds(tuning, seen)) return &constraint;
  return nullptr;
}

std::optional<Refusal> refuse(const Variant& variant, const Tuning& tuning, const Features& features,
                              const Problem& problem) {
  using backend::Reason;
  if (variant.schedule == nullptr && (problem.grouped() || problem.gathers)) {
    return Refusal{Reason::grouping, variant.name + " takes neither grouped problems nor gathered rows"};
  }
  if (!variant.real_weights && numerics::is_float(problem.b)) {
    return Refusal{Reason::dtype, variant.name + " takes no unquantised weights"};
  }
  for (const backend::DType type : {problem.a, problem.b}) {
    if (variant.every_code || !numerics::is_quantized(type) || element(type).usual) continue;
    return Refusal{Reason::dtype, variant.name + " decodes " + names_of(&Element::usual) + ", not " +
                                      std::string(numerics::name_of(type))};
  }
  if (variant.needs != nullptr) {
    if (auto refusal = variant.needs(features, problem)) return refusal;
  }
  if (variant.lanes != nullptr && tuning.at("lanes") != features.*variant.lanes) {
    return Refusal{Reason::option, variant.name + " with " + to_string(tuning) + ": lanes must be " +
                                       std::to_string(features.*variant.lanes) + ", as the device's products are"};
  }
  if (const Constraint* broken = broken_constraint(variant, tuning, problem)) {
    return Refusal{Reason::option, variant.name + " with " + to_string(tuning) + ": " + broken->why +
                                       " (the K group is " + std::to_string(problem.k_group) + ")"};
  }
  const std::uint64_t local = variant.local_bytes(tuning, problem);
  if (local > most_local(variant, features)) {
    return Refusal{Reason::device_feature, variant.name + " with " + to_string(tuning) + " needs " +
                                               std::to_string(local) + " bytes of local memory, the device has " +
                                               std::to_string(most_local(variant, features)) +
                                               "; take smaller tiles"};
  }
  std::uint64_t items = variant.work_items(tuning);
  for (const Pass& pass : variant.passes(tuning, problem, features, 1))  // What adds parts of k has its own.
    items = std::max<std::uint64_t>(items, pass.local);
  if (items > features.max_work_group) {
    return Refusal{Reason::device_feature, variant.name + " with " + to_string(tuning) + " needs work-groups of " +
                                               std::to_string(items) + ", the device takes " +
                                               std::to_string(features.max_work_group) +
                                               "; take smaller tiles or more work per item"};
  }
  return std::nullopt;
}

std::string variants_json(std::span<const Variant> all) {
  boost::json::array list;
  for (const Variant& variant : all) {
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
                                       {"toolchain", variant.toolchain->name()},
                                       {"needs_trial", variant.trial.has_value()},
                                       {"tunables", tunables},
                                       {"constraints", constraints}});
  }
  return boost::json::serialize(list);
}

}  // namespace ironcl::opencl
