// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/choose.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <numeric>

#include "backends/opencl/pack.h"
#include "backends/opencl/tuned.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using backend::Error;
using backend::GemmDesc;
using backend::Reason;
using backend::Status;
using backend::Support;

constexpr std::int64_t kLargestSize = (std::int64_t{1} << 31) - 4096;  // Kernels count rows and columns in 32 bits.

std::string text_of(DType type) { return std::string(numerics::name_of(type)); }

Refusal dtype(const std::string& text) { return {Reason::dtype, text}; }

std::optional<Refusal> refuse_types(const GemmDesc& d) {
  if (!numerics::is_quantized(d.b)) return dtype("b is " + text_of(d.b) + "; this backend takes e4m3fn, e5m2 or i8");
  if (d.a_source != DType::none) {
    if (!numerics::is_float(d.a_source))
      return dtype("a comes as " + text_of(d.a_source) + "; f32, f16 and bf16 are quantised here");
    if (!numerics::is_quantized(d.a))
      return dtype("a is to be quantised to " + text_of(d.a) + "; take e4m3fn, e5m2 or i8");
    if (d.a_scale.dtype != DType::f32)
      return dtype("scales of a quantised here are f32, not " + text_of(d.a_scale.dtype));
  } else if (numerics::is_float(d.a)) {
    if (d.a_scale.dtype != DType::none)
      return dtype("a is " + text_of(d.a) + " and has scales; unquantised a takes none");
  } else if (!numerics::is_quantized(d.a)) {
    return dtype("a is " + text_of(d.a) + "; take e4m3fn, e5m2, i8, or f32, f16, bf16 for unquantised activations");
  }
  if (numerics::is_quantized(d.a) && (d.a == DType::i8) != (d.b == DType::i8)) {
    return dtype("a is " + text_of(d.a) + " and b is " + text_of(d.b) + "; i8 goes with i8 only");
  }
  if (!numerics::is_float(d.d)) return dtype("d is " + text_of(d.d) + "; this backend gives f32, f16 or bf16");
  if (d.d_scale.dtype != DType::none) return dtype("d has scales; quantised output is not there yet");
  if (d.bias != DType::none && !numerics::is_float(d.bias))
    return dtype("the bias is " + text_of(d.bias) + "; take f32, f16 or bf16");
  return std::nullopt;
}

/// The K group: the widest of 128, 64, 32 that divides both operands' scale groups. 0 where there is none.
int k_group(const GemmDesc& d) {
  std::int64_t group = 128;
  const auto narrow = [&](const backend::ScaleDesc& scale) {
    if (scale.dtype != DType::none && scale.grid.group_cols != 0 && scale.grid.group_cols < d.k) {
      group = std::gcd(group, scale.grid.group_cols);
    }
  };
  narrow(d.a_scale);
  narrow(d.b_scale);
  return group >= 32 ? static_cast<int>(group) : 0;
}

std::string known_options() {
  std::string text = "variant";
  for (const Variant& variant : variants()) {
    text += "; of " + variant.name + ":";
    for (const Tunable& tunable : variant.tunables) text += " " + tunable.name;
  }
  return text;
}

const Variant* asked_variant(const GemmDesc& desc) {
  const Variant* asked = nullptr;
  for (const auto& [key, value] : desc.options) {
    if (key != "variant") continue;
    asked = find_variant(value);
    if (asked == nullptr) {
      std::string names;
      for (const Variant& variant : variants()) names += (names.empty() ? "" : ", ") + variant.name;
      throw Error(Status::invalid_argument,
                  "option variant=" + value + ": there is no such variant; there are " + names);
    }
  }
  return asked;
}

/// The most preferred variant whose rule of thumb the device takes; the most preferred of all where it takes none.
const Variant& best_variant(const Features& features, const Problem& problem) {
  const Variant* best = nullptr;
  int best_rank = -1;
  for (const Variant& candidate : variants()) {
    const bool fits = !refuse(candidate, candidate.rule_of_thumb(features, problem), features, problem);
    const int rank = candidate.preference(features, problem) + (fits ? 1000 : 0);
    if (rank > best_rank) {
      best = &candidate;
      best_rank = rank;
    }
  }
  return *best;
}

void apply_options(const GemmDesc& desc, const Variant& variant, Tuning& tuning) {
  for (const auto& [key, value] : desc.options) {
    if (key == "variant") continue;
    const auto tunable = std::find_if(variant.tunables.begin(), variant.tunables.end(),
                                      [&](const Tunable& t) { return t.name == key; });
    if (tunable == variant.tunables.end()) {
      throw Error(Status::invalid_argument,
                  "option " + key + " is not known to variant " + variant.name + "; known are " + known_options());
    }
    int number = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (code != std::errc() || end != value.data() + value.size() ||
        std::find(tunable->values.begin(), tunable->values.end(), number) == tunable->values.end()) {
      std::string allowed;
      for (const int v : tunable->values) allowed += (allowed.empty() ? "" : ", ") + std::to_string(v);
      throw Error(Status::invalid_argument, "option " + key + "=" + value + " of variant " + variant.name +
                                                " is out of range; it takes " + allowed);
    }
    tuning[key] = number;
  }
}

Support no(Refusal refusal) {
  Support support;
  support.reason = refusal.reason;
  support.text = std::move(refusal.text);
  return support;
}

}  // namespace

Support choose(const Features& features, const GemmDesc& desc, Choice* choice, const tuned::Tables* tables) {
  const Variant* variant = asked_variant(desc);
  Problem problem{desc.m, desc.n, desc.k, 128, desc.a, desc.b, desc.d};
  if (const int group = k_group(desc); group != 0) problem.group = group;
  Tuning tuning;
  std::string source = desc.options.empty() ? "rule of thumb" : "options";
  const auto found =
      tables != nullptr && desc.options.empty() ? find_tuned(*tables, features, desc, problem) : std::nullopt;
  if (found) {
    variant = found->variant;
    tuning = found->tuning;
    source = found->source;
  } else {
    if (variant == nullptr) variant = &best_variant(features, problem);
    tuning = variant->rule_of_thumb(features, problem);
    apply_options(desc, *variant, tuning);
  }

  if (desc.grouping != backend::Grouping::none) {
    return no({Reason::grouping, "grouped problems are not there yet; run the groups one by one"});
  }
  if (const auto refusal = refuse_types(desc)) return no(*refusal);
  if (desc.m > kLargestSize || desc.n > kLargestSize || desc.k > kLargestSize) {
    return no({Reason::shape, "m, n and k are at most " + std::to_string(kLargestSize) + " here"});
  }
  if (k_group(desc) == 0) {
    return no({Reason::scale_layout, "the scale groups along k are " + std::to_string(desc.a_scale.grid.group_cols) +
                                         " (a) and " + std::to_string(desc.b_scale.grid.group_cols) +
                                         " (b); both must be multiples of 32, or span k"});
  }
  if (variant->accuracy > desc.weakest_accuracy) {
    return no({Reason::accuracy, variant->name + " is of class " + std::string(numerics::name_of(variant->accuracy)) +
                                     ", the problem asks for " +
                                     std::string(numerics::name_of(desc.weakest_accuracy))});
  }
  if (const auto refusal = refuse(*variant, tuning, features, problem)) return no(*refusal);
  const auto bytes = static_cast<std::uint64_t>(packed_bytes(variant->layout(tuning), desc.n, desc.k));
  if (bytes > features.max_buffer_bytes) {
    return no({Reason::device_memory, "the weights take " + std::to_string(bytes) + " bytes, a buffer of " +
                                          features.name + " has at most " +
                                          std::to_string(features.max_buffer_bytes)});
  }
  if (choice != nullptr) *choice = {variant, std::move(tuning), problem, std::move(source)};
  Support support;
  support.accuracy = variant->accuracy;
  return support;
}

Layout usual_layout(const Features& features) {
  const Problem problem{128, 4096, 4096, 128, DType::e4m3fn, DType::e4m3fn, DType::f32};
  const Variant& best = best_variant(features, problem);
  return best.layout(best.rule_of_thumb(features, problem));
}

std::string options_json() {
  boost::json::array names;
  for (const Variant& variant : variants()) names.push_back(boost::json::string(variant.name));
  boost::json::object options{{"variant", names}};
  for (const Variant& variant : variants()) {
    for (const Tunable& tunable : variant.tunables) {
      auto& entry = options[tunable.name];
      if (!entry.is_object()) entry = boost::json::object{};
      entry.as_object()[variant.name] = boost::json::value_from(tunable.values);
    }
  }
  return boost::json::serialize(options);
}

}  // namespace ironcl::opencl
