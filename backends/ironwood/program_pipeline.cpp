// SPDX-License-Identifier: Apache-2.0
// The published kernel: grid (b, o, i) with i fastest, windows with index maps in blocks, one body.
#include <algorithm>
#include <optional>

#include "backends/ironwood/kernel_body.h"
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {

using numerics::DType;

BlockIndex scale_block(const ScaleLayout& layout, std::int64_t tile_row, std::int64_t tile_rows,
                       std::int64_t tile_col, std::int64_t tile_cols) noexcept {
  const std::int64_t row_groups = layout.transposed ? layout.block_cols : layout.block_rows;
  const std::int64_t k_groups = layout.transposed ? layout.block_rows : layout.block_cols;
  const std::int64_t row = tile_row * tile_rows / layout.group_rows / row_groups;
  const std::int64_t k = tile_col * tile_cols / layout.group_cols / k_groups;
  return layout.transposed ? BlockIndex{k, row} : BlockIndex{row, k};
}

PipelineTotals run_pipeline_program(Core& core, const Plan& plan, std::int64_t m, const Operands& operands,
                                    Workers* workers) {
  const Problem& p = plan.problem;
  const KernelBlocks blocks = plan.blocks;
  const Operands::Matrix& one = operands.matrices.front();
  const Grid grid = plan.grid(m);
  const auto window = [&](const HbmArray& array, std::int64_t rows, std::int64_t cols, IndexMap map) {
    return Window{
        .array = &array, .block_rows = rows, .block_cols = cols, .map = std::move(map), .buffers = plan.buffers};
  };
  std::vector<Window> windows;
  windows.push_back(window(operands.x, blocks.b, blocks.i, [](const GridIndex& g) {
    return BlockIndex{g[0], g[2]};
  }));
  windows.push_back(window(one.w, blocks.o, blocks.i, [](const GridIndex& g) { return BlockIndex{g[1], g[2]}; }));
  std::size_t x_scale_at = 0, w_scale_at = 0, bias_at = 0;
  if (p.scaled_x()) {
    const ScaleLayout layout = plan.x_scales(m);
    x_scale_at = windows.size();
    windows.push_back(
        window(operands.x_scale, layout.block_rows, layout.block_cols,
               [layout, blocks](const GridIndex& g) { return scale_block(layout, g[0], blocks.b, g[2], blocks.i); }));
  }
  if (p.scaled_w()) {
    const ScaleLayout layout = plan.w_scales();
    w_scale_at = windows.size();
    windows.push_back(window(one.w_scale, layout.block_rows, layout.block_cols, [layout, blocks](const GridIndex& g) {
      return scale_block(layout, g[1], blocks.o, g[2], blocks.i);
    }));
  }
  if (p.bias != DType::none) {
    bias_at = windows.size();
    windows.push_back(window(one.bias, 1, blocks.o, [](const GridIndex& g) { return BlockIndex{0, g[1]}; }));
  }
  const std::size_t out_at = windows.size();
  windows.push_back(window(operands.out, blocks.b, blocks.o, [](const GridIndex& g) {
    return BlockIndex{g[0], g[1]};
  }));
  windows.back().output = true;

  KernelBody body(core, plan, m, workers);
  return run_pipeline(
      core, grid, windows,
      [&](const Step& step) {
        StepTile tile;
        tile.x = step.windows[0].region;
        tile.w = step.windows[1].region;
        tile.x_data = step.windows[0].in;
        tile.w_data = step.windows[1].in;
        if (x_scale_at != 0) tile.x_scale = step.windows[x_scale_at].in;
        if (w_scale_at != 0) tile.w_scale = step.windows[w_scale_at].in;
        if (bias_at != 0) tile.bias = step.windows[bias_at].in;
        tile.out = step.windows[out_at].out;
        tile.x_changed = step.windows[0].changed;
        tile.first_k = step.index[2] == 0;
        tile.last_k = step.index[2] + 1 == grid[2];
        return body.step(tile);
      },
      "step");
}

}  // namespace ironcl::ironwood
