// SPDX-License-Identifier: Apache-2.0
// Split-K for variants with many work-items per work-group: the host's side of cl/split_k.cl. Tunables "split_k" and
// "tile_m". What these variants read, chunks of 16 k: the host's side of cl/chunks.cl.
#pragma once

#include <algorithm>

#include "backends/opencl/estimate.h"
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// What a work-group has of something.
using OfWorkGroup = std::int64_t (*)(const Tuning&);

/// `v` is `kernel` by work-groups of so many work-items that make `columns` columns each, and what adds its parts.
inline void split_passes(Variant& v, const std::string& kernel, OfWorkGroup columns, OfWorkGroup items) {
  v.tile = v.block = [columns](const Tuning& t) { return Shape{t["tile_m"], columns(t)}; };
  v.passes = [=](const Tuning& t, const Problem& p, const Features&, std::int64_t m) {
    constexpr int kReduceItems = 64;  // REDUCE_ITEMS of cl/split_k.cl.
    const std::int64_t height = t["tile_m"], parts = t["split_k"];
    std::vector<Pass> list{
        {kernel, {numerics::ceil_div(p.n, columns(t)), most_tiles(p, m, height) * parts}, items(t)}};
    if (parts > 1) {
      list.push_back({kernel + "_reduce",
                      {numerics::ceil_div(p.n, kReduceItems), most_tiles(p, m, p.grouped() ? height : 1)},
                      kReduceItems});
    }
    return list;
  };
}

/// Work-groups that make `columns` columns each; a part of k is one of its own.
inline std::int64_t split_work_groups(const Tuning& t, const Problem& p, std::int64_t columns) {
  return row_tiles(p, t["tile_m"]) * numerics::ceil_div(p.n, columns) * t["split_k"];
}

/// Doubles the parts of k, each of a K group at least, while half of the `wanted` work-groups would be missing.
inline void split_for(std::int64_t wanted, Tuning& t, const Problem& p, std::int64_t columns) {
  while (split_work_groups(t, p, columns) * 2 <= wanted && t["split_k"] < 16 &&
         p.k_groups() >= std::int64_t{2} * t["split_k"])
    t["split_k"] *= 2;
}

/// Multiply-adds of all rounds, a tile that is partly outside counted whole: units without one wait for those with
/// one.
inline double split_multiply_adds(const Tuning& t, const Problem& p, const Features& f, std::int64_t columns) {
  const double in_rounds = rounds(split_work_groups(t, p, columns), f) * f.compute_units;
  return in_rounds * t["tile_m"] * columns * p.k / t["split_k"];
}

/// A variant that reads chunks and makes parts of k: its name, forms, scratch memory, schedule, and as
/// split_passes().
inline Variant variant_of_chunks(std::string name, std::string summary, const std::string& kernel,
                                 OfWorkGroup columns, OfWorkGroup items) {
  Variant v(std::move(name), std::move(summary));
  v.schedule = [](const Tuning& t) { return ScheduleShape{t["tile_m"], 1}; };
  v.weights = [](const Tuning&, const Problem& p) { return blocked_form(0, 16, 64, p.b); };
  v.activations = [](const Tuning&, const Problem&) { return rows_form(64); };
  v.products = every_code();
  v.scratch_bytes = [](const Tuning& t, const Problem& p, const Features&) {
    return scratch_of_parts(p, t["split_k"], t["tile_m"], p.n);
  };
  v.codes_of_d = true;
  v.gate_run = [](const Tuning& t, const Problem&) { return t["split_k"] == 1 ? 1 : 0; };
  split_passes(v, kernel, columns, items);
  return v;
}

}  // namespace ironcl::opencl
