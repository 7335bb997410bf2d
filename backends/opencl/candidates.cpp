// SPDX-License-Identifier: Apache-2.0
// What a tuner may try: every valid configuration of every variant for a problem on a device.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "backends/opencl/tuned.h"

namespace ironcl::opencl {
namespace {

using backend::GemmDesc;

/// More combinations of one variant than this are thinned out evenly.
constexpr std::uint64_t kMostOfAVariant = 1u << 16;

/// Which of the `size` combinations of a run stays. Drawn, the same on every call: every second one, say, would leave
/// a tunable of two values with one of them.
std::uint64_t drawn(std::uint64_t run, std::uint64_t size) {
  std::uint64_t mixed = run + 0x9e3779b97f4a7c15;  // splitmix64
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return (mixed ^ (mixed >> 31)) % size;
}

/// Why this tuning is dropped, as few words for many tunings; empty where it is valid.
std::string why_dropped(const Variant& variant, const Tuning& tuning, const Features& features,
                        const Problem& problem) {
  if (const Constraint* broken = broken_constraint(variant, tuning, problem))
    return variant.name + ": " + broken->why;
  if (const std::int64_t local = variant.local_bytes(tuning, problem); local > most_local(variant, features))
    return fmt::format("{}: more than the {} bytes of local memory", variant.name, most_local(variant, features));
  if (most_work_items(variant, tuning, features, problem) > features.max_work_group)
    return fmt::format("{}: work-groups of more than {}", variant.name, features.max_work_group);
  if (refuse(variant, tuning, features, problem)) return variant.name + ": refused by the device";
  if (variant.weights(tuning, problem)->extent(problem.n, problem.k, 1).code_bytes.bytes() >
      features.max_buffer_bytes)
    return variant.name + ": packed weights larger than a buffer";
  return {};
}

/// Whether a smaller tile of rows, or fewer tiles to a block, would already cover every row: the larger one only
/// computes padding.
bool covers_too_much(const Variant& variant, const Tuning& tuning, std::int64_t m) {
  const std::int64_t tile = variant.tile(tuning).rows, block = variant.block(tuning).rows;
  for (const Tunable& tunable : variant.tunables) {
    const auto at = std::find(tunable.values.begin(), tunable.values.end(), tuning.at(tunable.name));
    if (at == tunable.values.begin() || at == tunable.values.end()) continue;
    Tuning smaller = tuning;
    smaller[tunable.name] = *std::prev(at);
    const std::int64_t small_tile = variant.tile(smaller).rows, small_block = variant.block(smaller).rows;
    if (small_tile < tile && small_tile >= m) return true;
    if (small_tile == tile && small_block < block && small_block >= m && m > 0) return true;
  }
  return false;
}

boost::json::object options_of(const Tuning& tuning) {
  boost::json::object options;
  for (const auto& [name, value] : tuning) options[name] = std::to_string(value);
  return options;
}

boost::json::object to_json(const Variant& variant, const Tuning& tuning, const Problem& problem) {
  return {{"variant", variant.name},
          {"options", options_of(tuning)},
          {"local_memory_bytes", variant.local_bytes(tuning, problem)},
          {"layout", weights_form(variant, tuning, problem)->name()},
          {"accuracy_class", numerics::name_of(variant.accuracy)}};
}

/// The values of each tunable that the options of `desc` leave.
std::vector<std::vector<int>> axes_of(const Variant& variant, const GemmDesc& desc) {
  std::vector<std::vector<int>> axes;
  for (const Tunable& tunable : variant.tunables) {
    std::vector<int> values = tunable.values;
    for (const auto& option : desc.options)
      if (option.first == tunable.name)
        std::erase_if(values, [&](int v) { return std::to_string(v) != option.second; });
    axes.push_back(std::move(values));
  }
  return axes;
}

}  // namespace

std::string candidates_json(const SelectionContext& selection, const GemmDesc& desc) {
  const Features& features = selection.features;
  // What a plan takes where no table has anything; it also refuses what no configuration could run.
  Choice thumb;
  const backend::Support support = choose(selection, desc, &thumb);
  if (support.reason != backend::Reason::none) throw backend::Error(backend::Status::unsupported, support.text);

  boost::json::array candidates;
  std::map<std::string, std::uint64_t> dropped;
  bool thumb_is_listed = false;
  // The rows that a tile may have to cover: of a grouped problem those of a matrix that has many.
  const Problem priced = thumb.problem.priced();
  const std::int64_t most_rows = priced.m + static_cast<std::int64_t>(3 * std::sqrt(priced.mean_rows_per_expert));
  for (const Variant& variant : selection.variants) {
    const auto named = std::ranges::find_if(desc.options, [](const auto& o) { return o.first == "variant"; });
    if (named != desc.options.end() && named->second != variant.name) continue;
    const std::vector<std::vector<int>> axes = axes_of(variant, desc);
    std::uint64_t combinations = 1;
    for (const auto& axis : axes) combinations *= axis.size();
    if (combinations == 0) continue;
    if (variant.accuracy > desc.weakest_accuracy) {
      dropped[variant.name + ": accuracy class " + std::string(numerics::name_of(variant.accuracy))] += combinations;
      continue;
    }
    // Before a trial, which is not for what a variant cannot do anyway.
    if (variant.needs != nullptr) {
      if (const auto unmet = variant.needs(features, thumb.problem)) {
        dropped[variant.name + ": " + unmet->text] += combinations;
        continue;
      }
    }
    if (const std::string why = selection.why_not(variant); !why.empty()) {
      dropped[variant.name + ": does not work on this device: " + why] += combinations;
      continue;
    }
    const std::uint64_t step = combinations / kMostOfAVariant + 1;
    if (step > 1) dropped[variant.name + ": thinned out evenly"] += combinations - (combinations + step - 1) / step;
    for (std::uint64_t first = 0; first < combinations; first += step) {
      Tuning tuning;
      std::uint64_t rest = first + drawn(first / step, std::min(step, combinations - first));
      for (std::size_t axis = axes.size(); axis-- > 0;) {
        tuning[variant.tunables[axis].name] = axes[axis][rest % axes[axis].size()];
        rest /= axes[axis].size();
      }
      if (const std::string why = why_dropped(variant, tuning, features, thumb.problem); !why.empty()) {
        ++dropped[why];
        continue;
      }
      const bool is_thumb = &variant == thumb.variant && tuning == thumb.tuning;
      if (!is_thumb && covers_too_much(variant, tuning, most_rows)) {
        ++dropped[variant.name + ": tiles for more rows than there are"];
        continue;
      }
      if (is_thumb) thumb_is_listed = true;
      candidates.push_back(to_json(variant, tuning, thumb.problem));
    }
  }
  if (!thumb_is_listed) candidates.push_back(to_json(*thumb.variant, thumb.tuning, thumb.problem));

  boost::json::array reasons;
  for (const auto& [why, count] : dropped) reasons.push_back({{"why", why}, {"count", count}});
  return boost::json::serialize(
      boost::json::object{{"candidates", std::move(candidates)},
                          {"dropped", std::move(reasons)},
                          {"rule_of_thumb", to_json(*thumb.variant, thumb.tuning, thumb.problem)},
                          {"devices", boost::json::value_from(device_classes(selection))},
                          {"dtype", table_dtype(thumb.problem)},
                          {"compute_units", features.compute_units}});
}

}  // namespace ironcl::opencl
