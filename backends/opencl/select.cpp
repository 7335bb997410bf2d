// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/select.h"

#include <fmt/ranges.h>

#include "backends/not_yet.h"
#include "backends/opencl/tuned.h"
#include "backends/words.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using backend::Error;
using backend::GemmDesc;
using backend::Reason;
using backend::Status;
using backend::Support;

constexpr std::int64_t kMostMatrices = 65536;

/// The types that no variant multiplies, beyond what the adapter has checked.
std::optional<Refusal> refuse_types(const GemmDesc& d) {
  if (d.a_source != DType::none && d.a_scale.dtype != DType::f32)
    return Refusal(Reason::dtype, "scales of a quantised here are f32, not {}", numerics::name_of(d.a_scale.dtype));
  if (numerics::is_quantized(d.a) && numerics::is_integer(d.a) != numerics::is_integer(d.b)) {
    return Refusal(Reason::dtype, "a is {} and b is {}; i8 goes with i8 only", numerics::name_of(d.a),
                   numerics::name_of(d.b));
  }
  return std::nullopt;
}

/// What no variant takes; empty where it is for the variants to say.
std::optional<Refusal> refuse_all(const GemmDesc& desc) {
  if (auto refusal = backend::not_yet(desc)) return refusal;
  if (auto refusal = refuse_types(desc)) return refusal;
  if (desc.grouping != backend::Grouping::none &&
      (desc.matrices > kMostMatrices ||
       (desc.grouping == backend::Grouping::masked && desc.m > kLargestSize / desc.matrices))) {
    return Refusal(Reason::grouping, "{} matrices with m = {}; here they are 1 to {}, with at most {} rows together",
                   desc.matrices, desc.m, kMostMatrices, kLargestSize);
  }
  if (desc.m > kLargestSize || desc.b_rows() > kLargestSize || desc.k > kLargestSize)
    return Refusal(Reason::shape, "m, k and the rows of B are at most {} here", kLargestSize);
  if (k_group_of(desc) == 0) {
    return Refusal(Reason::scale_layout,
                   "the scale groups along k are {} (a) and {} (b); both must be multiples of 32, or span k",
                   desc.a_scale.grid.group_cols, desc.b_scale.grid.group_cols);
  }
  return std::nullopt;
}

/// Whether the options leave the choice to tables and the rule of thumb.
bool asks_for_nothing(const GemmDesc& desc) {
  return std::ranges::all_of(desc.options, [](const auto& option) { return option.first == kExpectedRows; });
}

std::vector<std::string> names_of(std::span<const Variant> all) { return words::each(all, &Variant::name); }

std::string known_options(std::span<const Variant> all) {
  std::string text = "variant, expected_rows (of grouped problems)";
  for (const Variant& variant : all) {
    text += "; of " + variant.name + ":";
    for (const Tunable& tunable : variant.tunables) text += " " + tunable.name;
  }
  return text;
}

const Variant* asked_variant(const SelectionContext& selection, const GemmDesc& desc) {
  const Variant* asked = nullptr;
  for (const auto& [key, value] : desc.options) {
    if (key != "variant") continue;
    asked = find_variant(value, selection.variants);
    if (asked != nullptr) continue;
    throw Error(Status::invalid_argument, "option variant={}: there is no such variant; there are {}", value,
                fmt::join(names_of(selection.variants), ", "));
  }
  return asked;
}

void apply_options(const SelectionContext& selection, const GemmDesc& desc, const Variant& variant, Tuning& tuning) {
  for (const auto& [key, value] : desc.options) {
    if (key == "variant" || key == kExpectedRows) continue;
    const Tunable* tunable = find_tunable(variant, key);
    if (tunable == nullptr) {
      throw Error(Status::invalid_argument, "option {} is not known to variant {}; known are {}", key, variant.name,
                  known_options(selection.variants));
    }
    const auto number = value_of(*tunable, value);
    if (!number) {
      throw Error(Status::invalid_argument, "option {}={} of variant {} is out of range; it takes {}", key, value,
                  variant.name, fmt::join(tunable->values, ", "));
    }
    tuning[key] = *number;
  }
}

/// All that a variant is asked but its trial, which may build and run a kernel.
std::optional<Refusal> ask_all_but_trial(const SelectionContext& selection, const Variant& variant,
                                         const Tuning& tuning, const Problem& problem) {
  if (variant.accuracy > problem.weakest_accuracy) {
    return Refusal(Reason::accuracy, "{} is of class {}, the problem asks for {}", variant.name,
                   numerics::name_of(variant.accuracy), numerics::name_of(problem.weakest_accuracy));
  }
  if (auto refusal = refuse(variant, tuning, selection.features, problem)) return refusal;
  std::uint64_t bytes = 0;
  try {
    const numerics::Size one = variant.weights(tuning, problem)->extent(problem.n, problem.k, 1).code_bytes;
    bytes = (one * std::max<std::int64_t>(1, problem.matrices)).bytes();
  } catch (const std::overflow_error&) {
    return Refusal{Reason::device_memory, "the weights take more than 2^63 bytes"};
  }
  if (bytes > selection.features.max_buffer_bytes) {
    return Refusal(Reason::device_memory, "the weights take {} bytes, a buffer of {} has at most {}", bytes,
                   selection.features.name, selection.features.max_buffer_bytes);
  }
  return std::nullopt;
}

std::optional<Refusal> ask_trial(const SelectionContext& selection, const Variant& variant) {
  const std::string why = selection.why_not(variant);
  if (why.empty()) return std::nullopt;
  return Refusal(Reason::device_feature, "{} does not work on this device: {}", variant.name, why);
}

/// Asks every variant at its rule of thumb. The least estimate among those that run, among those with the usual form
/// of weights if there are any; where none runs, among all, so that its refusal is the one to report. Trials build
/// and run kernels, so only those are asked for theirs that would be taken.
void take_rule_of_thumb(const SelectionContext& selection, Choice& choice) {
  struct Candidate {
    const Variant* variant;
    Tuning tuning;
    double ns;
    bool later;  ///< Reads other weights than the usual form; where it does not run, lacks more than memory.
  };
  const auto sooner = [](const Candidate& a, const Candidate& b) {
    return std::pair(a.later, a.ns) < std::pair(b.later, b.ns);
  };
  const Problem priced = choice.problem.priced();
  const std::string usual = selection.usual != nullptr
                                ? selection.usual->of(choice.problem.weakest_accuracy, choice.problem.b)->name()
                                : std::string();
  std::optional<Candidate> refused;
  const auto pass_over = [&](Candidate& candidate, Refusal&& refusal) {
    // That memory is short says a kernel that runs here otherwise; it tells more than what another one lacks.
    candidate.later = refusal.reason != Reason::device_memory;
    choice.passed_over.push_back({candidate.variant->name, std::move(refusal)});
    if (!refused || sooner(candidate, *refused)) refused = std::move(candidate);
  };
  const auto take = [&](Candidate& candidate) {
    choice.variant = candidate.variant;
    choice.tuning = std::move(candidate.tuning);
  };
  std::vector<Candidate> candidates;
  for (const Variant& variant : selection.variants) {
    Candidate candidate{&variant, variant.rule_of_thumb(selection.features, priced), 0, false};
    candidate.ns = variant.estimate_ns(candidate.tuning, priced, selection.features);
    if (auto refusal = ask_all_but_trial(selection, variant, candidate.tuning, choice.problem)) {
      pass_over(candidate, std::move(*refusal));
      continue;
    }
    candidate.later = usual.empty() || variant.weights(candidate.tuning, choice.problem)->name() != usual;
    candidates.push_back(std::move(candidate));
  }
  std::stable_sort(candidates.begin(), candidates.end(), sooner);
  for (Candidate& candidate : candidates) {
    auto refusal = ask_trial(selection, *candidate.variant);
    if (!refusal) return take(candidate);
    pass_over(candidate, std::move(*refusal));
  }
  if (refused) take(*refused);
}

}  // namespace

std::optional<Refusal> ask(const SelectionContext& selection, const Variant& variant, const Tuning& tuning,
                           const Problem& problem) {
  if (auto refusal = ask_all_but_trial(selection, variant, tuning, problem)) return refusal;
  return ask_trial(selection, variant);
}

Support choose(const SelectionContext& selection, const GemmDesc& desc, Choice* choice, const tuned::Tables* tables) {
  const Variant* asked = asked_variant(selection, desc);
  Choice found;
  found.problem = Problem(desc);
  found.source = asks_for_nothing(desc) ? "rule of thumb" : "options";
  // Options are looked at before the problem is: a wrong one is the caller's mistake whatever the problem.
  if (asked != nullptr) {
    found.variant = asked;
    found.tuning = asked->rule_of_thumb(selection.features, found.problem.priced());
    apply_options(selection, desc, *asked, found.tuning);
  }
  if (auto refusal = refuse_all(desc)) {
    if (asked == nullptr && !asks_for_nothing(desc)) {
      take_rule_of_thumb({selection.features, selection.variants}, found);
      apply_options(selection, desc, *found.variant, found.tuning);
    }
    return std::move(*refusal);
  }
  auto tuned =
      tables != nullptr && asks_for_nothing(desc) ? find_tuned(*tables, selection, found.problem) : std::nullopt;
  // The fastest of class f32, for a caller who allows a weaker one: where the rule of thumb takes that, it is faster.
  if (tuned && !tuned->of_own_class && tuned->variant->accuracy == backend::AccuracyClass::f32)
    take_rule_of_thumb(selection, found);
  const bool thumb_is_faster = found.variant != nullptr && found.variant->accuracy != backend::AccuracyClass::f32;
  if (tuned && !thumb_is_faster) {
    found.variant = tuned->variant;
    found.tuning = tuned->tuning;
    found.source = tuned->source;
    found.passed_over.clear();
  } else if (found.variant == nullptr) {
    take_rule_of_thumb(selection, found);
    apply_options(selection, desc, *found.variant, found.tuning);
  }
  // What the rule of thumb took was asked already; what options made of it was not.
  if (auto refusal = ask(selection, *found.variant, found.tuning, found.problem)) return std::move(*refusal);
  Support support;
  support.accuracy = found.variant->accuracy;
  if (choice != nullptr) *choice = std::move(found);
  return support;
}

WeightFormPtr UsualForms::of(backend::AccuracyClass weakest, DType weights) {
  const std::lock_guard lock(mutex_);
  WeightFormPtr& form = forms_[{weakest, weights}];
  if (form == nullptr) {
    // A problem of about the size that layers have.
    const DType a = numerics::is_float(weights) || numerics::is_integer(weights) ? weights : DType::e4m3fn;
    Choice choice;
    choice.problem = {128, 4096, 4096, 128, a, weights, DType::f32};
    if (numerics::bits_of(weights) < 8) {  // As MXFP4 has them; activations most often stay as they are.
      choice.problem.a = DType::bf16;
      choice.problem.b_scale = {DType::e8m0, {1, 32}, 0};
      choice.problem.k_group = 32;
    }
    choice.problem.weakest_accuracy = weakest;
    take_rule_of_thumb(selection_, choice);
    form = choice.variant->weights(choice.tuning, choice.problem);
  }
  return form;
}

std::string options_json(std::span<const Variant> all) {
  boost::json::object options{{"variant", boost::json::value_from(names_of(all))}};
  for (const Variant& variant : all) {
    for (const Tunable& tunable : variant.tunables) {
      auto& entry = options[tunable.name];
      if (!entry.is_object()) entry = boost::json::object{};
      entry.as_object()[variant.name] = boost::json::value_from(tunable.values);
    }
  }
  return boost::json::serialize(options);
}

}  // namespace ironcl::opencl
