// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_panel.cl: one work-item a work-group, wide vectors, decoded panels. The kernel of CPUs.
#include <algorithm>

#include "backends/opencl/kernels.h"

namespace ironcl::opencl {
namespace {

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
  t["block_m"] = 1;
  while (t["block_m"] < tiles && t["block_m"] < 16) t["block_m"] *= 2;
  t["block_n"] = 64;
  // Enough work-groups for every core to have a few.
  while (t["block_n"] > 32 &&
         numerics::ceil_div(p.n, t["block_n"]) * numerics::ceil_div(rows, t["tile_m"] * t["block_m"]) <
             4 * f.compute_units) {
    t["block_n"] /= 2;
  }
  while (local_bytes(t, p) > f.local_bytes && t["block_m"] > 1) t["block_m"] /= 2;
  while (local_bytes(t, p) > f.local_bytes && t["block_n"] > 32) t["block_n"] = 32;
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
                {"block_m", 16, {1, 2, 4, 8, 16, 32, 64}, "tiles of rows per work-group"},
                {"block_n", 64, {32, 64, 96, 128, 192, 256}, "columns of D per work-group"},
                {"vector", 16, {4, 8, 16}, "f32 elements of a vector"}};
  v.local_bytes = local_bytes;
  v.work_items = [](const Tuning&) -> std::uint64_t { return 1; };
  v.layout = [](const Tuning&) { return Layout{32, 1, 1}; };
  v.activations = [](const Tuning& t) { return Activations{true, t.at("tile_m"), 1}; };
  v.passes = passes;
  v.preference = [](const Features& f, const Problem&) { return f.prefers_vectors() ? 2 : 1; };
  v.rule_of_thumb = rule_of_thumb;
  return v;
}

}  // namespace ironcl::opencl
