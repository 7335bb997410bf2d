// SPDX-License-Identifier: Apache-2.0
// Kernels of processors, and those of them that quantise what they multiply: whatever the number of rows, in one
// launch (cl/one_launch.cl), or few rows by persistent work-groups, one for each core (cl/stretches.cl), each of
// which quantises all activations once and keeps them. What they book, and how many work-groups they have.
#pragma once

#include <algorithm>
#include <bit>

#include "backends/opencl/forms/forms.h"
#include "backends/opencl/matrix_unit.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// Values of the tunables `block_m`, tiles of rows of a block, and `block_n`, its columns.
inline const std::vector<int> kBlocksM{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 16, 20, 24, 32};
inline const std::vector<int> kBlocksN{32, 64, 96, 128, 192, 256, 288, 384};

inline std::int64_t rows_of_block(const Tuning& t) { return t["block_m"] * t["tile_m"]; }

/// `of` with the blocks of the least cost among those that fit, as wide as groups of D ask for, and no higher than so
/// many tiles: higher ones make the same blocks in more memory.
template <class Fits, class Cost>
Tuning cheapest_blocks(const Tuning& of, const Problem& p, std::int64_t tiles, Fits&& fits, Cost&& cost) {
  const int narrowest = width_for_d(p, kBlocksN);
  Tuning best = of, candidate = of;
  best["block_m"] = 1;
  best["block_n"] = narrowest;
  double least = 0;
  for (const int block_n : kBlocksN) {
    if (block_n % narrowest != 0) continue;
    candidate["block_n"] = block_n;
    for (const int block_m : kBlocksM) {
      candidate["block_m"] = block_m;
      if (!fits(candidate)) break;
      const double here = cost(candidate);
      if (least == 0 || here < least) {
        least = here;
        best = candidate;
      }
      if (block_m >= tiles) break;
    }
  }
  return best;
}

/// How such a kernel cuts D and k.
struct OneLaunch {
  std::int64_t tile_rows = 1;  ///< Rows of a tile of A: TILE_ROWS.
  std::int64_t block_m = 1;    ///< Tiles of a block: BLOCK_M.
  std::int64_t block_n = 1;    ///< Columns of a block: BLOCK_N.
  std::int64_t parts = 1;      ///< Parts of k: SPLIT_K.
};

/// Whether a plan may be told to quantise in the launch that multiplies. Rows that are gathered or scheduled come as
/// the step before has laid them.
inline bool fits_one_launch(const Problem& p) {
  return p.a_source != backend::DType::none && !p.grouped() && !p.gathers() && !p.scheduled;
}

/// Whether its words can count all blocks and all who come for them (MARK_BITS of cl/one_launch.cl), and 32 bits all
/// runs of K groups.
inline bool counts_in_one_launch(const OneLaunch& cut, const Problem& p) {
  constexpr std::int64_t kMostCounted = std::int64_t{1} << 19, kMostRuns = std::int64_t{1} << 30;
  const numerics::Size tiles = row_tiles(p, cut.tile_rows);
  const numerics::Size blocks = numerics::ceil_div(tiles.value(), cut.block_m);
  const numerics::Size columns = numerics::ceil_div(p.n, cut.block_n);
  return blocks * (columns + cut.parts) + columns < kMostCounted && tiles * p.k_groups() < kMostRuns;
}

/// What cl/one_launch.cl has in scratch: its words, tiles of A with their scales, and parts of k. Nothing where a
/// step before has quantised.
template <OneLaunch (*cut)(const Tuning&)>
numerics::Size one_launch_scratch(const Tuning& t, const Problem& p, const Features&) {
  if (t["floats"] == 0 || !fits_one_launch(p)) return 0;
  const OneLaunch c = cut(t);
  const numerics::Size tiles = row_tiles(p, c.tile_rows);
  const numerics::Size blocks = numerics::ceil_div(tiles.value(), c.block_m);
  const numerics::Size columns = numerics::ceil_div(p.n, c.block_n), groups = p.k_groups();
  const numerics::Size words = blocks * c.parts + tiles * groups + blocks * columns + 1;
  const numerics::Size sums = c.parts == 1 ? numerics::Size(0) : blocks * columns * c.parts * c.block_m;
  return (words * 8).padded_to(64) + tiles * c.tile_rows * groups * (p.k_group * bytes_of_element(p) + 4) +
         sums * c.tile_rows * c.block_n * 4;
}

/// `v` is `kernel`, with the tunable `floats`; `cut` says how it cuts D and k, and tiles of A are bf16 or i8. Its one
/// pass has one work-group per block; with `floats` one per core that can have a panel, where blocks are fewer.
template <OneLaunch (*cut)(const Tuning&)>
void set_one_launch(Variant& v, const char* kernel) {
  v.constraints = {{"floats counts blocks of D in one launch, and these are too many; take 0",
                    [](const Tuning& t, const Problem& p) {
                      return t["floats"] == 0 || !fits_one_launch(p) || counts_in_one_launch(cut(t), p);
                    }}};
  v.block = [](const Tuning& t) { return Shape{cut(t).tile_rows * cut(t).block_m, cut(t).block_n}; };
  v.activations = [](const Tuning& t, const Problem& p) {
    using backend::DType;
    return group_tiles_form(cut(t).tile_rows, numerics::is_integer(p.b) ? DType::i8 : DType::bf16, p.k_group,
                            t["floats"] == 1);
  };
  v.numbered_calls = true;
  v.scratch_bytes = one_launch_scratch<cut>;
  v.passes = [kernel](const Tuning& t, const Problem& p, const Features& f, std::int64_t m) {
    const OneLaunch c = cut(t);
    const std::int64_t columns = numerics::ceil_div(p.n, c.block_n);
    std::int64_t blocks = most_tiles(p, m, c.tile_rows * c.block_m);
    if (t["floats"] == 1 && !p.grouped())
      blocks = std::max(blocks, std::min(blocks * c.parts, f.compute_units / columns));
    return std::vector<Pass>{{kernel, {columns, blocks}, 1}};
  };
}

constexpr int kMostPersistentGroups = 128;
constexpr std::int64_t kMostPersistentBytes = 128
                                              << 10;  ///< Fits a core's second cache, and any device's local memory.

/// For how many K groups of `rows` rows, `group_bytes` each, a work-group of `p` has room: a power of two, so that
/// problems share programs; 0 where it does not stay. Of several tiles of rows each is multiplied with columns that
/// are decoded once; activations that come quantised need no keeping.
inline int persistent_groups(const Problem& p, std::int64_t rows, std::int64_t group_bytes) {
  const std::int64_t groups = p.k_groups();
  if (p.a_source == backend::DType::none || p.m > rows || p.mean_rows_per_expert > 0 || p.grouped() || p.gathers())
    return 0;
  if (groups < 1 || groups > kMostPersistentGroups) return 0;
  const auto room = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(groups)));
  return rows * room * group_bytes <= kMostPersistentBytes ? static_cast<int>(room) : 0;
}

/// The one pass of such a kernel.
inline Pass pass_of_cores(const char* kernel, const Features& f) { return {kernel, {1, f.compute_units}, 1}; }

/// A variant that reads panels of weights, as all kernels of processors do.
inline Variant variant_of_panels(std::string name, std::string summary) {
  Variant v(std::move(name), std::move(summary));
  v.products = every_code();
  v.products.push_back(unquantised());
  v.codes_of_d = true;
  v.gate_run = [](const Tuning&, const Problem&) { return 16; };
  v.weights = [](const Tuning&, const Problem& p) { return panel_form(p.b); };
  return v;
}

/// The same for the units of matrix_unit.h, which a process is tried for that may end over it.
inline Variant variant_of_narrow_units(std::string name, std::string summary) {
  Variant v = variant_of_panels(std::move(name), std::move(summary));
  // bf16, which holds every code of fp8, by bf16; and i8 by i8.
  v.products = fp8_codes();
  v.products.front().a.push_back(backend::DType::bf16);
  v.products.push_back(integer_codes().front());
  v.needs = [](const Features& f, const Problem&) {
    return refuse_without(f.dot_products_why_not.empty(), f.dot_products_why_not);
  };
  v.trial = Trial{19, 72, 320};
  v.trial->in_child = true;
  v.toolchain = &kOpenclCUnsaved;
  return v;
}

}  // namespace ironcl::opencl
