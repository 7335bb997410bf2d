// SPDX-License-Identifier: Apache-2.0
// Counts to rows, rows to visits, and the blocks of the grouped kernels.
#include <limits>

#include "backends/ironwood/program.h"

namespace ironcl::ironwood {

std::vector<MatrixRows> deal_rows(backend::Grouping grouping, std::int64_t m, std::span<const std::int32_t> counts) {
  if (grouping == backend::Grouping::none) return {{.matrix = 0, .first = 0, .rows = m}};
  std::vector<std::int64_t> first(counts.size()), rows(counts.size());
  numerics::clamp_counts(counts, m, grouping == backend::Grouping::masked, first, rows);
  std::vector<MatrixRows> dealt;
  for (std::size_t g = 0; g < counts.size(); ++g)
    if (rows[g] > 0) dealt.push_back({.matrix = static_cast<std::int64_t>(g), .first = first[g], .rows = rows[g]});
  return dealt;
}

std::vector<std::int32_t> even_counts(std::int64_t rows, std::int64_t matrices) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(matrices));
  for (std::int64_t g = 0; g < matrices; ++g) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    counts[static_cast<std::size_t>(g)] =
        static_cast<std::int32_t>(std::min(kMost, rows / matrices + (g < rows % matrices ? 1 : 0)));
  }
  return counts;
}

std::vector<Visit> visit_tiles(std::span<const MatrixRows> dealt, std::int64_t tile, std::int64_t step,
                               std::int64_t rows) {
  std::vector<Visit> visits;
  for (const MatrixRows& own : dealt) {
    const std::int64_t end = own.first + own.rows;
    for (std::int64_t at = own.first; at < end;) {
      const std::int64_t tile_first = at / step * step;
      const std::int64_t until = std::min(end, tile_first + tile);
      const std::int64_t tile_end = std::min(rows, numerics::round_up(until, step));
      visits.push_back({.matrix = own.matrix,
                        .first = at,
                        .rows = until - at,
                        .tile_first = tile_first,
                        .tile_rows = tile_end - tile_first});
      at = until;
    }
  }
  return visits;
}

namespace {

using numerics::ceil_div;
using numerics::round_up;
using numerics::size_of;

constexpr std::int64_t kMostTile = 2048, kMostRows = 512, kBaseRows = 128, kBuckets = 4;

/// `size` in `parts` equal parts of whole quanta.
std::int64_t part_of(std::int64_t size, std::int64_t parts, std::int64_t quantum) {
  return round_up(ceil_div(size, parts), quantum);
}

KernelBlocks v1_blocks(const Problem& p, const KernelBlocks& quantum) {
  const std::int64_t rows = std::max<std::int64_t>(p.rows(), 1);
  const std::int64_t mean = ceil_div(2 * rows, p.matrices);
  const auto at_most = [](std::int64_t size, std::int64_t step) {
    return part_of(size, ceil_div(size, std::max(kMostTile, step)), step);
  };
  return {round_up(std::min({round_up(mean, kBaseRows), kMostRows, rows}), quantum.b), at_most(p.n, quantum.o),
          at_most(p.k, quantum.i)};
}

KernelBlocks v2_blocks(const Plan& plan, const KernelBlocks& quantum) {
  const Problem& p = plan.problem;
  const std::int64_t most = plan.vmem_limit / 10 * 9;
  const std::int64_t narrowest_o = std::min<std::int64_t>(std::int64_t{2} * plan.machine.tpu->mxu_size, p.n);
  const std::int64_t rows = std::max<std::int64_t>(p.rows(), 1);
  KernelBlocks blocks{round_up(std::min(kBuckets * gmm_v2_bucket(plan), rows), quantum.b), round_up(p.n, quantum.o),
                      round_up(p.k, quantum.i)};
  for (std::int64_t parts = 2; gmm_vmem_estimate(plan, blocks) > most && blocks.o > narrowest_o; ++parts) {
    const std::int64_t next = part_of(p.n, parts, quantum.o);
    if (next < narrowest_o) break;
    blocks.o = next;
    if (next == quantum.o) break;
  }
  for (std::int64_t parts = 2; gmm_vmem_estimate(plan, blocks) > most && blocks.i > quantum.i; ++parts) {
    blocks.i = part_of(p.k, parts, quantum.i);
  }
  return blocks;
}

}  // namespace

std::int64_t gmm_v2_bucket(const Plan& plan) noexcept {
  const bool narrow_x = size_of(plan.problem.a) == 1, narrow_w = size_of(plan.problem.w()) == 1;
  return kBaseRows * (narrow_x ? 2 : 1) / (narrow_w ? 2 : 1);
}

std::int64_t gmm_vmem_estimate(const Plan& plan, const KernelBlocks& blocks) {
  const Problem& p = plan.problem;
  const std::int64_t x = blocks.b * blocks.i * size_of(p.x()), w = blocks.o * blocks.i * size_of(p.w());
  std::int64_t scales = 0;
  if (p.scaled_w()) {  // a scale a column, as the kernel keeps them
    const std::int64_t group = p.b_scale.grid.group_cols == 0 ? p.k : p.b_scale.grid.group_cols;
    scales = ceil_div(blocks.i, group) * blocks.o * 4;
  }
  const std::int64_t bias = p.bias != numerics::DType::none ? blocks.o * 4 : 0;
  return 2 * x + 3 * w + 2 * scales + 2 * bias + blocks.b * blocks.o * 4 + 2 * blocks.b * blocks.o * size_of(p.d);
}

KernelBlocks gmm_blocks(const Plan& plan, const KernelBlocks& quantum) {
  return plan.program == Program::gmm_v1 ? v1_blocks(plan.problem, quantum) : v2_blocks(plan, quantum);
}

}  // namespace ironcl::ironwood
