// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_stream_bf16.cl: few rows by dot products of bf16 on vectors of 512 bits, each weight decoded once
// in registers, on CPUs that have them.
#include <algorithm>

#include "backends/opencl/estimate.h"
#include "backends/opencl/one_launch.h"

namespace ironcl::opencl {
namespace {

constexpr int kMostRows = 10;  ///< Of a register tile: 20 of 32 registers are sums, 4 the table, 2 its interleaving.
constexpr int kMostTiles = 8;  ///< Of a block.

/// In local memory, of one row: pairs of bf16, and a scale.
std::int64_t bytes_of_group(const Problem& p) { return 2 * p.k_group + 4; }

int persistent(const Tuning& t, const Problem& p) {
  return t["block_m"] > 1 ? 0 : persistent_groups(p, t["tile_m"], bytes_of_group(p));
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features& f, std::int64_t m) {
  if (persistent(t, p) > 0) return {pass_of_cores("gemm_stream_bf16", f)};
  return {{"gemm_stream_bf16", {most_tiles(p, m, rows_of_block(t)), numerics::ceil_div(p.n, kPanel)}, 1}};
}

// Of 64 codes, in dot products of a vector, fitted on an AMD core of family 25 (docs/performance/cpu-bf16.md).
constexpr double kRow = 2.6;     ///< A row of the tile: two of them, and A's broadcast.
constexpr double kDecoding = 6;  ///< Once for each tile.
/// The same of dense problems, so that gemm_bf16, which decodes once for many tiles, is taken from where it is as
/// fast: between 10 rows and 12. It pads every tile of a grouped problem, and is ahead from about 20 rows a matrix
/// on.
constexpr double kDecodingDense = 10;

/// Of all rows of a matrix in tiles of `height`, for 64 codes, in multiply-adds of a vector.
double of_rows(const Problem& p, const Features& f, std::int64_t height) {
  return p.mean_over_rows([&](std::int64_t rows) {
    const std::int64_t tiles = numerics::ceil_div(rows, height);
    const double multiplied = (p.mean_rows_per_expert > 0 ? rows : tiles * height);
    const double decoded = tiles * (p.mean_rows_per_expert > 0 ? kDecoding : kDecodingDense);
    return (multiplied * kRow + decoded) / f.dot_products_of_bf16;
  });
}

Tuning rule_of_thumb(const Features& f, const Problem& p) {
  const std::int64_t rows = std::max<std::int64_t>(1, p.m);
  Tuning t;
  t["tile_m"] = p.mean_rows_per_expert > 0
                    ? least_height(kMostRows, [&](int height) { return of_rows(p, f, height); })
                    : static_cast<int>(equal_height(rows, kMostRows));
  // Codes of a K group are 4 KiB: the tiles of a block after the first find them in the nearest cache. Blocks of one
  // tile where there are few panels for the cores.
  const std::int64_t panels = numerics::ceil_div(p.n, kPanel);
  const std::int64_t tiles = p.mean_rows_per_expert > 0 ? kMostTiles : numerics::ceil_div(rows, t["tile_m"]);
  t["block_m"] = panels < 4 * f.compute_units ? 1 : static_cast<int>(std::min<std::int64_t>(kMostTiles, tiles));
  return t;
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t tiles = row_tiles(p, t["tile_m"]);
  const std::int64_t panels = numerics::ceil_div(p.n, kPanel);
  const std::int64_t blocks = numerics::ceil_div(tiles, t["block_m"]) * panels;
  const double vectors = of_rows(p, f, t["tile_m"]) * panels * p.k / 2 / blocks * rounds(blocks, f);
  return 1e9 * vector_fma_seconds(vectors, 16, f);
}

}  // namespace

Variant gemm_stream_bf16() {
  Variant v = variant_of_narrow_units("gemm_stream_bf16",
                                      "few rows by dot products of x86 (AVX512-BF16), weights decoded in registers");
  v.tunables = {{"tile_m", 4, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "rows of the register tile"},
                {"block_m", 1, {1, 2, 3, 4, 5, 6, 7, 8}, "tiles of rows per work-group"}};
  v.products.pop_back();  // gemm_bf16 multiplies i8 by i8.
  v.persistent_groups = persistent;
  v.schedule = [](const Tuning& t) { return ScheduleShape{t["tile_m"], t["block_m"], true}; };
  v.local_bytes = [](const Tuning& t, const Problem& p) -> std::int64_t {
    const std::int64_t groups = persistent(t, p), quantised = groups * t["tile_m"] * bytes_of_group(p);
    return (rows_of_block(t) * kPanel * 4 + (groups > 0 ? quantised + std::int64_t{4} * p.k_group : 0));
  };
  v.tile = [](const Tuning& t) { return Shape{t["tile_m"], kPanel}; };
  v.block = [](const Tuning& t) { return Shape{rows_of_block(t), kPanel}; };
  v.activations = [](const Tuning& t, const Problem& p) {
    return group_tiles_form(t["tile_m"], backend::DType::bf16, p.k_group, persistent(t, p) > 0);
  };
  v.passes = passes;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

Variant gemm_stream_bf16_fp4() {
  return for_weights_of_four_bits(gemm_stream_bf16(), "any rows by dot products of x86, weights of four bits");
}

}  // namespace ironcl::opencl
