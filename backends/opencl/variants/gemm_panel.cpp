// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_panel.cl: one work-item a work-group, wide vectors, decoded panels. The kernel of CPUs.
#include <algorithm>
#include <iterator>

#include "backends/opencl/kernels.h"

namespace ironcl::opencl {
namespace {

const std::vector<int> kBlocksM{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 16, 20, 24, 32};
const std::vector<int> kBlocksN{32, 64, 96, 128, 192, 256};

std::uint64_t local_bytes(const Tuning& t, const Problem& p) {
  return (2ull * static_cast<std::uint64_t>(p.group) +
          static_cast<std::uint64_t>(t.at("block_m")) * static_cast<std::uint64_t>(t.at("tile_m"))) *
         static_cast<std::uint64_t>(t.at("block_n")) * sizeof(float);
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, std::int64_t m) {
  return {{"gemm_panel",
           {static_cast<std::size_t>(numerics::ceil_div(p.n, t.at("block_n"))),
            static_cast<std::size_t>(numerics::ceil_div(m, t.at("tile_m") * t.at("block_m")))},
           1}};
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  Tuning t;
  t["vector"] = f.vector_width >= 16 ? 16 : f.vector_width >= 8 ? 8 : 4;
  t["tile_n"] = t["vector"] == 16 ? 32 : 16;
  // As many rows as registers hold, in tiles as equal as can be: 17 rows are two tiles of 9, not 14 and 3.
  const std::int64_t most = t["vector"] == 16 ? 14 : t["vector"] == 8 ? 6 : 3;
  const std::int64_t rows = std::max<std::int64_t>(1, p.m);
  const std::int64_t tiles = numerics::ceil_div(rows, most);
  t["tile_m"] = static_cast<int>(numerics::ceil_div(rows, tiles));
  // Blocks of at most 16 tiles, as equal as can be.
  const std::int64_t wanted = numerics::ceil_div(tiles, numerics::ceil_div(tiles, 16));
  t["block_m"] = *std::find_if(kBlocksM.begin(), kBlocksM.end(), [&](int value) { return value >= wanted; });
  // The width that ends first: work-groups in rounds over the cores, plus a pass over A for every block of columns.
  const std::int64_t blocks_m = numerics::ceil_div(tiles, t["block_m"]);
  double best = 0;
  for (const int width : kBlocksN) {
    Tuning candidate = t;
    candidate["block_n"] = width;
    if (width > kBlocksN.front() && (width > 192 || 2 * local_bytes(candidate, p) > f.local_bytes)) continue;
    const std::int64_t rounds = numerics::ceil_div(numerics::ceil_div(p.n, width) * blocks_m, f.compute_units);
    const double cost = static_cast<double>(rounds * width) * (1 + 3.0 / width);
    if (best == 0 || cost < best) {
      best = cost;
      t["block_n"] = width;
    }
  }
  while (local_bytes(t, p) > f.local_bytes && t["block_m"] > 1) {
    t["block_m"] = *std::prev(std::find(kBlocksM.begin(), kBlocksM.end(), t["block_m"]));
  }
  return t;
}

}  // namespace

Variant gemm_panel() {
  Variant v;
  v.name = "gemm_panel";
  v.summary =
      "decoded panels of B in two slots of local memory, register tiles in wide vectors, one work-item a group";
  v.tunables = {{"tile_m", 8, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, "rows of the register tile"},
                {"tile_n", 32, {16, 32}, "columns of the register tile"},
                {"block_m", 16, kBlocksM, "tiles of rows per work-group"},
                {"block_n", 64, kBlocksN, "columns of D per work-group"},
                {"vector", 16, {4, 8, 16}, "f32 elements of a vector"}};
  v.local_bytes = local_bytes;
  v.work_items = [](const Tuning&) -> std::uint64_t { return 1; };
  v.layout = [](const Tuning&) { return Layout{32, 1, 16}; };
  v.activations = [](const Tuning& t) { return Activations{true, t.at("tile_m"), 16}; };
  v.passes = passes;
  v.preference = [](const Features& f, const Problem&) { return f.prefers_vectors() ? 2 : 1; };
  v.rule_of_thumb = rule_of_thumb;
  return v;
}

}  // namespace ironcl::opencl
