// SPDX-License-Identifier: Apache-2.0
// From a problem description to a variant with its tuning, or to the reason why not. supports() and create_gemm()
// both ask here, so they never disagree. Next door: variant.h (declarations), tuned.h (tables), gemm.h (the plan).
#pragma once

#include <map>
#include <mutex>

#include "backends/opencl/variant.h"
#include "backends/tuned/tables.h"

namespace ironcl::opencl {

/// Says whether a variant that must prove itself was found right on a device.
class Trials {
 public:
  virtual ~Trials() = default;
  /// Empty where it was; else what went wrong. Asked often, tried once. Throws backend::Error where the driver fails
  /// before there is a trial.
  virtual std::string why_not(const Variant& variant) = 0;
};

class UsualForms;

/// The device, variants and trials that selection asks. All of them outlive it.
struct SelectionContext {
  SelectionContext(const Features& features, std::span<const Variant> variants = opencl::variants(),
                   Trials* trials = nullptr, UsualForms* usual = nullptr)
      : features(features), variants(variants), trials(trials), usual(usual) {}

  /// Why a variant that must prove itself does not work here; empty where it does, or need not.
  std::string why_not(const Variant& variant) const {
    if (!must_be_tried(variant, features)) return {};
    return trials != nullptr ? trials->why_not(variant) : "it was not tried";
  }

  const Features& features;
  std::span<const Variant> variants;
  Trials* trials;  ///< Null: no variant that needs a trial runs.
  /// Where a variant runs that reads weights in the usual form, none is taken that does not: a layer's weights serve
  /// plans of every number of rows. Null: all forms are alike.
  UsualForms* usual;
};

/// The form in which a device's plans of an accuracy class read weights of a type: that of the variant that a usual
/// problem takes among all. In that of class f32 weights are prepared without a plan. Any thread.
class UsualForms {
 public:
  explicit UsualForms(const SelectionContext& of) : selection_(of.features, of.variants, of.trials) {}
  /// Found at the first call, which may run trials.
  WeightFormPtr of(backend::AccuracyClass weakest, backend::DType weights);

 private:
  SelectionContext selection_;
  std::mutex mutex_;
  std::map<std::pair<backend::AccuracyClass, backend::DType>, WeightFormPtr> forms_;
};

/// A variant that was skipped.
struct PassedOver {
  std::string variant;
  Refusal refusal;
};

struct Choice {
  const Variant* variant = nullptr;
  Tuning tuning;
  Problem problem;
  std::string source;                   ///< "options", "rule of thumb", or the entry of a tuned table.
  std::vector<PassedOver> passed_over;  ///< By the rule of thumb.
};

/// What runs `desc` on a device. Returns the support answer; fills *choice where its reason is none. Throws
/// invalid_argument for an unknown option or a value out of its list. Every variant is asked; those whose needs are
/// not met, or whose accuracy class is weaker than `desc` allows, are skipped with their reasons, and of the rest
/// the one with the least estimated time is taken, among those that read the device's usual form of weights if there
/// are any. Without options `tables` (may be null) is asked before. Builds
/// nothing, but for the trials of variants that need one and meet all other needs.
backend::Support choose(const SelectionContext& selection, const backend::GemmDesc& desc, Choice* choice,
                        const tuned::Tables* tables = nullptr);

/// Why `variant` with `tuning` does not run here; empty where it does. Asks the trial last.
std::optional<Refusal> ask(const SelectionContext& selection, const Variant& variant, const Tuning& tuning,
                           const Problem& problem);

/// The answer of query "candidates" as JSON; docs/abi.md has its members. Options of `desc` narrow the space:
/// "variant" to that variant, a tunable to that value. The order is that of the declarations, the same on every call.
/// Nothing is built: what the device cannot run is dropped and counted by reason. Throws Error{unsupported} where no
/// configuration would run `desc`, for example for its types.
std::string candidates_json(const SelectionContext& selection, const backend::GemmDesc& desc);

/// The options that plans take, as JSON.
std::string options_json(std::span<const Variant> all = variants());

}  // namespace ironcl::opencl
