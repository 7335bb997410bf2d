// SPDX-License-Identifier: Apache-2.0
// Kernels that quantise what they multiply, whatever the number of rows, in one launch (cl/one_launch.cl): what they
// book, and how many work-groups they have. Next door: persistent.h (few rows, quantised once for each core),
// variants/gemm_amx.cpp, variants/gemm_bf16.cpp.
#pragma once

#include <algorithm>

#include "backends/opencl/elements.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// How such a kernel cuts D and k.
struct OneLaunch {
  std::int64_t tile_rows = 1;  ///< Of a tile of A: TILE_ROWS.
  std::int64_t block_m = 1;    ///< Tiles of a block: BLOCK_M.
  std::int64_t block_n = 1;    ///< Columns of a block: BLOCK_N.
  std::int64_t parts = 1;      ///< Of k: SPLIT_K.
};

/// Whether a plan may be told to quantise in the launch that multiplies. Rows that are gathered or scheduled come as
/// the step before has laid them.
inline bool fits_one_launch(const Problem& p) {
  return p.a_source != backend::DType::none && !p.grouped() && !p.gathers && !p.scheduled;
}

/// Whether its words can count all blocks and all who come for them (MARK_BITS of cl/one_launch.cl), and 32 bits all
/// runs of K groups.
inline bool counts_in_one_launch(const OneLaunch& cut, const Problem& p) {
  constexpr std::int64_t kMostCounted = std::int64_t{1} << 19, kMostRuns = std::int64_t{1} << 30;
  const numerics::Size tiles = numerics::ceil_div(std::max<std::int64_t>(1, p.m), cut.tile_rows);
  const numerics::Size blocks = numerics::ceil_div(tiles.value(), cut.block_m);
  const numerics::Size columns = numerics::ceil_div(p.n, cut.block_n);
  return blocks * (columns + cut.parts) + columns < kMostCounted && tiles * p.k_groups() < kMostRuns;
}

/// The rule of the tunable `floats` of such a variant; `cut` says how it cuts D and k.
template <OneLaunch (*cut)(const Tuning&)>
Constraint one_launch_constraint() {
  return {"floats counts blocks of D in one launch, and these are too many; take 0",
          [](const Tuning& t, const Problem& p) {
            return t.at("floats") == 0 || !fits_one_launch(p) || counts_in_one_launch(cut(t), p);
          }};
}

/// What cl/one_launch.cl has in scratch: its words, tiles of A with their scales, and parts of k. Nothing where a
/// step before has quantised.
template <OneLaunch (*cut)(const Tuning&)>
numerics::Size one_launch_scratch(const Tuning& t, const Problem& p, const Features&) {
  if (t.at("floats") == 0 || !fits_one_launch(p)) return 0;
  const OneLaunch c = cut(t);
  const numerics::Size tiles = numerics::ceil_div(std::max<std::int64_t>(1, p.m), c.tile_rows);
  const numerics::Size blocks = numerics::ceil_div(tiles.value(), c.block_m);
  const numerics::Size columns = numerics::ceil_div(p.n, c.block_n), groups = p.k_groups();
  const numerics::Size words = blocks * c.parts + tiles * groups + blocks * columns + 1;
  const numerics::Size sums = c.parts == 1 ? numerics::Size(0) : blocks * columns * c.parts * c.block_m;
  return (words * 8).padded_to(64) + tiles * c.tile_rows * groups * (p.k_group * bytes_of_element(p) + 4) +
         sums * c.tile_rows * c.block_n * 4;
}

/// The one pass of such a kernel, a work-group a block; with `floats` one for each core that can have a panel, where
/// blocks are fewer.
template <OneLaunch (*cut)(const Tuning&)>
Pass one_launch_pass(const char* kernel, const Tuning& t, const Problem& p, const Features& f, std::int64_t m) {
  const OneLaunch c = cut(t);
  const auto columns = static_cast<std::size_t>(numerics::ceil_div(p.n, c.block_n));
  std::size_t blocks = row_blocks(p, m, c.tile_rows * c.block_m);
  if (t.at("floats") == 1 && !p.grouped()) {
    const auto cores = static_cast<std::size_t>(f.compute_units);
    blocks = std::max(blocks, std::min(blocks * static_cast<std::size_t>(c.parts), cores / columns));
  }
  return {kernel, {columns, blocks}, 1};
}

}  // namespace ironcl::opencl
