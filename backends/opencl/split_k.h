// SPDX-License-Identifier: Apache-2.0
// Parts of k for variants with many work-items a work-group: the host's side of cl/split_k.cl. Tunables "split_k" and
// "tile_m". What these variants read, chunks of 16 k: the host's side of cl/chunks.cl.
#pragma once

#include "backends/opencl/forms/blocked.h"
#include "backends/opencl/forms/rows.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// Where the sums of the parts lie; nothing with one part.
inline numerics::Size split_scratch(const Tuning& t, const Problem& p, const Features&) {
  return scratch_of_parts(p, t.at("split_k"), t.at("tile_m"), p.n);
}

/// `kernel` by work-groups of `items` that make `columns` columns each, and what adds its parts.
inline std::vector<Pass> split_passes(const std::string& kernel, std::int64_t columns, std::uint64_t items,
                                      const Tuning& t, const Problem& p, std::int64_t m) {
  constexpr int kReduceItems = 64;  // REDUCE_ITEMS of cl/split_k.cl.
  const std::int64_t height = t.at("tile_m");
  const auto parts = static_cast<std::size_t>(t.at("split_k"));
  std::vector<Pass> list{
      {kernel,
       {static_cast<std::size_t>(numerics::ceil_div(p.n, columns)), row_blocks(p, m, height) * parts},
       items}};
  if (parts > 1) {
    list.push_back({kernel + "_reduce",
                    {static_cast<std::size_t>(numerics::ceil_div(p.n, kReduceItems)),
                     row_blocks(p, m, p.grouped() ? height : 1)},
                    kReduceItems});
  }
  return list;
}

/// A variant that reads chunks and makes parts of k: its name, forms, scratch memory and deal.
inline Variant variant_of_chunks(std::string name, std::string summary) {
  Variant v;
  v.name = std::move(name);
  v.summary = std::move(summary);
  v.deal = [](const Tuning& t) { return DealtShape{t.at("tile_m"), 1}; };
  v.weights = [](const Tuning&, const Problem&) { return blocked_form(0, 16, 64); };
  v.activations = [](const Tuning&, const Problem&) { return rows_form(64); };
  v.scratch_bytes = split_scratch;
  return v;
}

}  // namespace ironcl::opencl
