// SPDX-License-Identifier: Apache-2.0
// What the variants for NVIDIA's tensor cores share: what they need, and the rates of their estimates.
#pragma once

#include <algorithm>

#include "backends/opencl/estimate.h"
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// Why a tensor-core kernel that adds up at least `least_group` k cannot run on a device that has its instructions;
/// empty where its trial may decide.
inline std::optional<Refusal> refuse_narrow_groups(const Problem& p, int least_group) {
  using backend::Reason;
  if (p.k < 1) return Refusal{Reason::shape, "k is 0"};
  if (p.k_group < least_group) {
    return Refusal(Reason::scale_layout,
                   "the scale groups along k must be multiples of {}, or span k; their common K group is {}",
                   least_group, p.k_group);
  }
  return std::nullopt;
}

/// Why a kernel of mma.sync cannot run on a device; empty where it has those instructions.
inline std::optional<Refusal> refuse_below_80(const Features& f) {
  return refuse_without(f.ptx_sm_80,
                        "this kernel is PTX for compute capability 8.0 and more, which the device lacks");
}

/// Of the kernels of compute capability 9.0, which add up 128 k.
inline std::optional<Refusal> refuse_tensor_cores(const Features& f, const Problem& p) {
  auto refusal = refuse_without(f.ptx_sm_90, "this kernel is PTX for compute capability 9.0, which the device lacks");
  return refusal ? refusal : refuse_narrow_groups(p, 128);
}

/// Why scales of b are for too few columns, of kernels that have one scale for 128 columns; empty where they are not.
inline std::optional<Refusal> refuse_narrow_scales(const Problem& p) {
  if (p.b_scale_rows() % 128 == 0) return std::nullopt;
  return Refusal{backend::Reason::scale_layout,
                 "a scale of b must be for a multiple of 128 columns of d, or for all of them"};
}

/// Why a kernel whose tiles are a work-group each, also tiles of rows that there could be, does not take matrices
/// with room between their rows; empty where there is none.
inline std::optional<Refusal> refuse_room_between_matrices(const Problem& p) {
  if (!p.masked() || p.matrices <= 1) return std::nullopt;
  return Refusal{backend::Reason::grouping, "matrices must have their rows one after another, with no room between"};
}

/// Nanoseconds in which the weights of `p` stream through a device once, cold, as the best of these kernels does it
/// on an H200. Fixed costs of a launch are left out, as all estimates leave them out.
inline double streaming_ns(const Problem& p) {
  constexpr double kBytesPerSecond = 2.9e12;
  return 1e9 * (1.0 * p.n * p.k * numerics::bits_of(p.b) / 8) / kBytesPerSecond;
}

/// The same for a kernel that streams weights at `share` times that, and takes `start_ns` longer than the least from
/// its launch to its first products and from its last ones to D: rings to fill, parts to add. Where that outweighs
/// the weights it says nothing of other kernels, whose fixed costs are left out.
inline double streaming_ns(const Problem& p, double share, double start_ns) {
  return streaming_ns(p) * share + std::min(start_ns, streaming_ns(p));
}

/// Nanoseconds in which the operands of `tiles` come from the second cache to their units, each as many lines of K as
/// it has rows and columns: 9.5 TB/s on an H200.
inline double second_cache_ns(std::int64_t tiles, std::int64_t lines, const Problem& p, const Features& f) {
  constexpr double kBytesPerCycle = 36;  ///< Per unit, at the device's clock.
  const double bytes = 1.0 * tiles * lines * p.k;
  return 1e9 * bytes / (kBytesPerCycle * f.compute_units * f.clock_hz);
}

/// What sharing a last round costs and how far it goes, in K blocks of a kernel.
struct Sharing {
  std::int64_t least;  ///< Least K blocks of a part: SHARED_BLOCKS of the kernel.
  std::int64_t cost;   ///< Time to store parts and to add them, measured (docs/performance/h200-many-rows.md).
};

/// Into how many parts cl/parts.cl cuts the K of each tile of a last round that is half empty or emptier; else 1.
inline std::int64_t parts_of_last_round(std::int64_t tiles, const Sharing& s, const Problem& p, const Features& f) {
  const std::int64_t rest = tiles % f.compute_units;
  if (rest == 0) return 1;
  return std::clamp<std::int64_t>(
      std::min<std::int64_t>(f.compute_units / rest, numerics::ceil_div(p.k, 128) / s.least), 1, 16);
}

/// Rounds of `tiles` on all compute units where a last one is shared.
inline double shared_rounds(std::int64_t tiles, const Sharing& s, const Problem& p, const Features& f) {
  const double parts = parts_of_last_round(tiles, s, p, f);
  if (parts == 1) return rounds(tiles, f);
  const double blocks = numerics::ceil_div(p.k, 128);
  const std::int64_t whole = tiles / f.compute_units;
  return whole + 1 / parts + s.cost / blocks;
}

/// Whether that is faster than `unshared` rounds. For rows scheduled on the device the number of tiles is
/// unknown to the host, and sharing cost more than it gave there.
inline bool last_round_is_shared(std::int64_t tiles, double unshared, const Sharing& s, const Problem& p,
                                 const Features& f) {
  // Parts of K would leave the codes of a quantised D to a step after the kernel, which costs more.
  return !p.repeatable && !p.scheduled && !holds_groups_of_d(p, 128) && tiles > f.compute_units &&
         shared_rounds(tiles, s, p, f) < unshared;
}

/// Tiles that m rows may become.
inline std::int64_t tiles(const Tuning& t, const Problem& p, std::int64_t m) {
  return most_tiles(p, std::max<std::int64_t>(1, m), t["tile_m"]) * numerics::ceil_div(p.n, t["tile_n"]);
}

/// The launch of a kernel whose work-groups make items, tiles or parts of them, in turn; `one_item`: one each. With
/// `share` any work-group may have a part.
inline std::vector<Pass> passes_in_turn(const char* kernel, std::int64_t tiles, bool one_item, const Tuning& t,
                                        const Features& f) {
  const std::int64_t items = tiles * t["split_k"];
  const std::int64_t at_once = t["share"] > 0 ? f.compute_units : std::min<std::int64_t>(items, f.compute_units);
  return {{kernel, {one_item ? items : at_once, 1}, 384}};
}

/// Dense problems of more rows than few-row kernels have tiles for, whose tiles can be counted.
inline bool tiles_are_counted(const Problem& p) { return p.m > 128 && !p.scheduled; }

/// The sums of `parts` split-K parts of so many tiles; of one part none are kept.
inline numerics::Size scratch_of_tiles(std::int64_t tiles, std::int64_t parts, std::int64_t rows,
                                       std::int64_t columns) {
  return parts == 1 ? numerics::Size(0) : numerics::Size(tiles) * parts * rows * columns * 4;
}

/// What tiles of a kernel cost, in cycles at the device's clock: each K block of 128; a tile besides; K in parts, and
/// each of its parts.
struct TileCost {
  double block, tile, parts, part;
};

/// Nanoseconds of so many tiles in parts of K, one after another on each unit.
inline double counted_ns(std::int64_t tiles, std::int64_t parts, const TileCost& c, const Problem& p,
                         const Features& f) {
  const std::int64_t blocks = numerics::ceil_div(numerics::ceil_div(p.k, 128), parts);
  const double of_tile = blocks * c.block + c.tile;
  return 1e9 * (rounds(tiles * parts, f) * of_tile + (parts > 1 ? c.parts + c.part * parts : 0)) / f.clock_hz;
}

/// Values of the tunable `split_k` of the kernels whose parts cl/parts.cl adds.
inline std::vector<int> split_k_values() { return {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}; }

/// That each tile in parts has its counter; `tiles`: how many tiles so many rows are.
template <std::int64_t (*tiles)(const Tuning&, const Problem&, std::int64_t)>
Constraint counters_constraint() {
  static_assert(kPartCounters == 1024, "the reason names it");
  return {"split_k needs a counter for each tile, and there are 1024",
          [](const Tuning& t, const Problem& p) { return t["split_k"] == 1 || tiles(t, p, p.m) <= kPartCounters; }};
}

/// The rule of the tunable `share`, which the kernels with parts of K have.
inline Constraint share_constraint() {
  return {"share makes sums whose order depends on how many rows there are, which a repeatable plan may not",
          [](const Tuning& t, const Problem& p) { return t["share"] == 0 || !p.repeatable; }};
}

/// A variant for tensor cores, tried in a child if one can be started: its forms, schedule and types.
inline Variant variant_of_tensor_cores(std::string name, std::string summary, const Trial& trial) {
  Variant v(std::move(name), std::move(summary));
  v.products = fp8_codes();
  v.products.push_back(integer_codes().front());
  v.trial = trial;
  v.codes_of_d = true;
  v.gate_run = [](const Tuning&, const Problem&) { return 1; };
  v.trial->in_child = v.trial->or_here = true;
  v.schedule = [](const Tuning& t) { return ScheduleShape{t["tile_m"], 1}; };
  v.weights = [](const Tuning&, const Problem&) { return swizzled_form(); };
  v.tile = v.block = [](const Tuning& t) { return Shape{t["tile_m"], t["tile_n"]}; };
  return v;
}

/// The same for compute capability 9.0; `f16`: of class f32, multiplying codes as f16.
inline Variant variant_of_wgmma(std::string name, std::string summary, bool f16) {
  Variant v = variant_of_tensor_cores(std::move(name), std::move(summary), {70, 200, 1100});
  if (!f16) v.accuracy = backend::AccuracyClass::tensor14;
  v.needs = refuse_tensor_cores;
  v.toolchain = &kPtxSm90a;
  v.own_local = true;
  v.activations = f16 ? [](const Tuning&, const Problem&) { return tokens_form(true); }
                      : [](const Tuning&, const Problem&) { return tokens_form(false); };
  return v;
}

}  // namespace ironcl::opencl
