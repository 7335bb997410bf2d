// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/variant.h"

#include <fmt/ranges.h>

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/json.hpp>

#include "backends/opencl/forms/forms.h"
#include "backends/words.h"

namespace ironcl::opencl {

// Made by the build: declares each `Variant NAME();` of variants/ and lists them in kVariantMakers.
#include "variant_list.inc"

std::span<const Variant> variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> made = words::each(kVariantMakers, [](const auto& maker) { return maker(); });
    std::sort(made.begin(), made.end(), [](const Variant& a, const Variant& b) { return a.name < b.name; });
    return made;
  }();
  return all;
}

Variant for_weights_of_four_bits(Variant v, std::string summary) {
  v.file = v.name + ".cl";
  v.name += "_fp4";
  v.summary = std::move(summary);
  v.products = {{{backend::DType::bf16, backend::DType::e4m3fn, backend::DType::e5m2}, {backend::DType::e2m1}}};
  return v;
}

bool holds_groups_of_d(const Problem& p, std::int64_t columns) {
  const std::int64_t group = p.d_group();
  return group != 0 && columns != 0 && columns / (p.gated() ? 2 : 1) % group == 0;
}

int width_for_d(const Problem& p, const std::vector<int>& widths) {
  const auto holds = [&](int width) { return holds_groups_of_d(p, width); };
  const auto found = std::find_if(widths.begin(), widths.end(), holds);
  return found != widths.end() ? *found : widths.front();
}

const Variant* find_variant(std::string_view name, std::span<const Variant> all) {
  const auto found = std::ranges::find(all, name, &Variant::name);
  return found != all.end() ? &*found : nullptr;
}

const Tunable* find_tunable(const Variant& variant, std::string_view name) {
  const auto found = std::ranges::find(variant.tunables, name, &Tunable::name);
  return found != variant.tunables.end() ? &*found : nullptr;
}

std::optional<int> value_of(const Tunable& tunable, std::string_view text) {
  const auto value = words::number<int>(text);
  const bool allowed = value && std::ranges::find(tunable.values, *value) != tunable.values.end();
  return allowed ? value : std::nullopt;
}

std::string macro_name(const std::string& tunable) { return boost::to_upper_copy(tunable, std::locale::classic()); }

const Constraint* broken_constraint(const Variant& variant, const Tuning& tuning, const Problem& problem) {
  const Problem seen = problem.selected();
  for (const Constraint& constraint : variant.constraints)
    if (!constraint.holds(tuning, seen)) return &constraint;
  return nullptr;
}

namespace {

using backend::DType;
using backend::Reason;

/// As a sentence has them: "f32, f16 or bf16".
std::string to_string(const Types& types) {
  std::string text;
  for (std::size_t i = 0; i < types.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 < types.size() ? ", " : " or ", numerics::name_of(types[i]));
  return text;
}

/// "e4m3fn by e4m3fn", each.
std::vector<std::string> texts_of(const std::vector<Products>& products) {
  return words::each(products, [](const Products& one) { return to_string(one.a) + " by " + to_string(one.b); });
}

}  // namespace

std::vector<Products> codes_of_a_byte() {
  using enum numerics::DType;
  return {{{f32, f16, bf16, e4m3fn, e5m2}, {e4m3fn, e5m2}}, {{f32, f16, bf16, i8}, {i8}}};
}
std::vector<Products> every_code() {
  std::vector<Products> list = codes_of_a_byte();
  list.front().b.push_back(DType::e2m1);
  return list;
}
Products unquantised() {
  using enum numerics::DType;
  return {{f32, f16, bf16}, {f32, f16, bf16}};
}
std::vector<Products> fp8_codes() { return {{{DType::e4m3fn, DType::e5m2}, {DType::e4m3fn, DType::e5m2}}}; }
std::vector<Products> integer_codes() { return {{{DType::i8}, {DType::i8}}}; }

std::pair<DType, DType> trial_codes(const Variant& variant) {
  const auto& [a, b] = variant.products.front();
  const auto both = std::find_first_of(a.begin(), a.end(), b.begin(), b.end());
  return both != a.end() ? std::pair(*both, *both) : std::pair(DType::e4m3fn, b.front());
}

std::int64_t most_work_items(const Variant& variant, const Tuning& tuning, const Features& f,
                             const Problem& problem) {
  std::int64_t most = 1;
  for (const Pass& pass : variant.passes(tuning, problem, f, 1)) most = std::max(most, pass.items);
  return most;
}

bool makes_codes_of_d(const Variant& variant, const Tuning& tuning, const Problem& problem) {
  const auto has_more_than = [&](const char* tunable, int value) {
    return tuning.contains(tunable) && tuning.at(tunable) > value;
  };
  // Kernels of one launch add their parts themselves.
  const bool in_parts = has_more_than("share", 0) || (has_more_than("split_k", 1) && !variant.numbered_calls);
  if (!variant.codes_of_d || in_parts) return false;
  const std::int64_t columns = variant.block(tuning).columns;
  return holds_groups_of_d(problem, columns) ||
         (columns % 32 == 0 && problem.d_group() > problem.d_cols() && columns >= problem.n);
}

int gate_run(const Variant& variant, const Tuning& tuning, const Problem& problem) {
  const int run = problem.gated() && variant.gate_run != nullptr ? variant.gate_run(tuning, problem) : 0;
  if (run == 0 || problem.d_cols() % run != 0) return 0;
  return problem.activates_to_codes() && !makes_codes_of_d(variant, tuning, problem) ? 0 : run;
}

WeightFormPtr weights_form(const Variant& variant, const Tuning& tuning, const Problem& problem) {
  WeightFormPtr form = variant.weights(tuning, problem);
  const int run = gate_run(variant, tuning, problem);
  return run == 0 ? form : interleaved_form(std::move(form), problem.d_cols(), run, problem.b);
}

std::optional<Refusal> refuse(const Variant& variant, const Tuning& tuning, const Features& features,
                              const Problem& problem) {
  if (variant.schedule == nullptr && (problem.grouped() || problem.gathers()))
    return Refusal(Reason::grouping, "{} takes neither grouped problems nor gathered rows", variant.name);
  if (std::none_of(variant.products.begin(), variant.products.end(),
                   [&](const Products& one) { return contains(one.a, problem.a) && contains(one.b, problem.b); })) {
    return Refusal(Reason::dtype, "{} multiplies {}, not {} by {}", variant.name,
                   fmt::join(texts_of(variant.products), "; "), numerics::name_of(problem.a),
                   numerics::name_of(problem.b));
  }
  if (variant.needs != nullptr) {
    if (auto refusal = variant.needs(features, problem)) return refusal;
  }
  const std::string tuned = variant.name + " with " + to_string(tuning);
  if (variant.lanes != nullptr && tuning["lanes"] != features.*variant.lanes) {
    return Refusal(Reason::option, "{}: lanes must be {}, as the device's products are", tuned,
                   features.*variant.lanes);
  }
  if (const Constraint* broken = broken_constraint(variant, tuning, problem)) {
    return Refusal(Reason::option, "{}: {} (the K group is {})", tuned, broken->why, problem.k_group);
  }
  const std::int64_t local = variant.local_bytes(tuning, problem), most = most_local(variant, features);
  if (local > most) {
    return Refusal(Reason::device_feature, "{} needs {} bytes of local memory, the device has {}; take smaller tiles",
                   tuned, local, most);
  }
  const std::int64_t items = most_work_items(variant, tuning, features, problem);
  if (items > features.max_work_group) {
    return Refusal(Reason::device_feature,
                   "{} needs work-groups of {}, the device takes {}; take smaller tiles or more work per item", tuned,
                   items, features.max_work_group);
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
                                       {"multiplies", boost::json::value_from(texts_of(variant.products))},
                                       {"accuracy_class", numerics::name_of(variant.accuracy)},
                                       {"toolchain", variant.toolchain->name()},
                                       {"needs_trial", variant.trial.has_value()},
                                       {"tunables", tunables},
                                       {"constraints", constraints}});
  }
  return boost::json::serialize(list);
}

}  // namespace ironcl::opencl
