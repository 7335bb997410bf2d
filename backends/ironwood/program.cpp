// SPDX-License-Identifier: Apache-2.0
// The arrays and inputs of a plan's program, and running it.
#include "backends/ironwood/program.h"

#include "backends/ironwood/cost.h"

namespace ironcl::ironwood {
namespace {

using numerics::DType;

// In the order of Program.
constexpr ProgramEntry kPrograms[] = {
    {"pipeline", run_pipeline_program, Program::pipeline, false},
    {"manual_dma", run_manual_program, Program::manual_dma, false},
    {"gmm_v1", run_grouped_program, Program::gmm_v1, true},
    {"gmm_v2", run_grouped_program, Program::gmm_v2, true},
};

/// Which block of the scales a tile has.
BlockIndex scale_block(const ScaleLayout& layout, std::int64_t tile_row, std::int64_t tile_rows,
                       std::int64_t tile_col, std::int64_t tile_cols) noexcept {
  const std::int64_t row_groups = layout.transposed ? layout.block_cols : layout.block_rows;
  const std::int64_t k_groups = layout.transposed ? layout.block_rows : layout.block_cols;
  const std::int64_t row = tile_row * tile_rows / layout.group_rows / row_groups;
  const std::int64_t k = tile_col * tile_cols / layout.group_cols / k_groups;
  return layout.transposed ? BlockIndex{k, row} : BlockIndex{row, k};
}

}  // namespace

Operands describe_arrays(const Plan& plan, std::int64_t m) {
  const Problem& p = plan.problem;
  const auto scales = [](const char* name, const ScaleLayout& layout) {
    return tight_array(name, layout.rows, layout.cols, 4);
  };
  Operands operands;
  operands.x = tight_array("x", m, p.k, numerics::size_of(p.x()));
  if (p.scaled_x()) operands.x_scale = scales("x_scale", plan.x_scales(m));
  Operands::Matrix one{.w = tight_array("w", p.n, p.k, numerics::size_of(p.w())), .w_scale = {}, .bias = {}};
  if (p.scaled_w()) one.w_scale = scales("w_scale", plan.w_scales());
  if (p.bias != DType::none) one.bias = tight_array("bias", 1, p.n, 4);
  operands.out = tight_array("out", m, p.n, numerics::size_of(p.d));
  operands.matrices.push_back(one);
  return operands;
}

Operands describe_operands(const Plan& plan, std::int64_t m) {
  const Problem& p = plan.problem;
  Operands operands = describe_arrays(plan, m);
  operands.rows = deal_rows(p.grouping, p.grouped() ? p.m : m, plan.matrix_rows);
  if (!p.grouped()) return operands;
  operands.matrices.resize(static_cast<std::size_t>(p.matrices), operands.matrices.front());
  for (std::size_t g = 0; g < operands.matrices.size(); ++g) {
    const std::string part = fmt::format("matrix {}", g);
    for (HbmArray* of : {&operands.matrices[g].w, &operands.matrices[g].w_scale, &operands.matrices[g].bias}) {
      of->part = part;
    }
  }
  return operands;
}

std::vector<Visit> visits_of(const Plan& plan, std::span<const MatrixRows> dealt, std::int64_t rows) {
  const bool own = plan.program == Program::gmm_v2;
  const std::int64_t step = own ? plan.machine.sublane_tile(numerics::size_of(plan.problem.x())) : plan.blocks.b;
  return visit_tiles(dealt, plan.blocks.b, step, rows);
}

ProgramInputs::ProgramInputs(Core& core, const Plan& plan, const Operands& operands)
    : plan_(plan), visits_(visits_of(plan, operands.rows, operands.x.rows)) {
  const Problem& p = plan.problem;
  const KernelBlocks blocks = plan.blocks;
  const bool pipeline = plan.program == Program::pipeline, manual = plan.program == Program::manual_dma;
  std::vector<Window> windows;
  const auto add = [&](const HbmArray& array, std::int64_t rows, std::int64_t cols, int buffers, BlockMap map) {
    const bool once = pipeline && rows >= array.rows && cols >= array.cols;
    windows.push_back({&array, rows, cols, std::move(map), buffers, once});
    return windows.size() - 1;
  };
  const HbmArray &x = operands.x, &x_scale = operands.x_scale;
  add(x, blocks.b, blocks.i, plan.buffers, [this, &x, blocks](const GridIndex& g) {
    Block block{&x, block_region(x, blocks.b, blocks.i, {0, g[2]})};
    block.region.row = visit(g).tile_first, block.region.rows = visit(g).tile_rows;
    return block;
  });
  const auto matrix = [this, &operands](const GridIndex& g) -> const Operands::Matrix& {
    return operands.matrices[static_cast<std::size_t>(visit(g).matrix)];
  };
  const Operands::Matrix& any = operands.matrices.front();
  add(any.w, blocks.o, blocks.i, plan.w_buffers, [this, matrix, blocks](const GridIndex& g) {
    const HbmArray& w = matrix(g).w;
    return Block{&w, block_region(w, blocks.o, blocks.i, {tile_of_n(g), g[2]})};
  });
  if (p.scaled_x()) {
    const ScaleLayout layout = plan.x_scales(x.rows);
    x_scale_ = add(x_scale, layout.block_rows, layout.block_cols, plan.buffers,
                   [this, &x_scale, layout, blocks](const GridIndex& g) {
                     const std::int64_t tile = layout.transposed ? 0 : visit(g).tile_first / blocks.b;
                     Block block{&x_scale, block_region(x_scale, layout.block_rows, layout.block_cols,
                                                        scale_block(layout, tile, blocks.b, g[2], blocks.i))};
                     // [K groups, rows]: those of the rows that move.
                     if (layout.transposed)
                       block.region.col = visit(g).tile_first, block.region.cols = visit(g).tile_rows;
                     return block;
                   });
    if (manual) windows[x_scale_].with = 0;
  }
  if (p.scaled_w()) {
    const ScaleLayout layout = plan.w_scales();
    w_scale_ = add(any.w_scale, layout.block_rows, layout.block_cols, plan.buffers,
                   [this, matrix, layout, blocks](const GridIndex& g) {
                     const HbmArray& scale = matrix(g).w_scale;
                     return Block{&scale, block_region(scale, layout.block_rows, layout.block_cols,
                                                       scale_block(layout, tile_of_n(g), blocks.o, g[2], blocks.i))};
                   });
    if (manual) windows[w_scale_].with = 1;
  }
  if (p.bias != DType::none) {
    const std::int64_t cols = manual ? p.n : blocks.o;
    bias_ = add(any.bias, 1, cols, plan.buffers, [this, matrix, cols, manual](const GridIndex& g) {
      const HbmArray& bias = matrix(g).bias;
      return Block{&bias, block_region(bias, 1, cols, {0, manual ? 0 : tile_of_n(g)})};
    });
    windows[bias_].once |= manual;
  }
  const Grid tiles = plan.grid(x.rows);
  const std::int64_t visits = std::ssize(visits_);
  inputs_.emplace(core, p.grouped() ? Grid{tiles[1], visits, tiles[2]} : Grid{visits, tiles[1], tiles[2]},
                  std::move(windows));
}

StepTile ProgramInputs::tile(const Step& step) const {
  const Visit& here = visit(step.index);
  const BlockView &x = step.windows[0], &w = step.windows[1];
  const auto data = [&](std::size_t window) { return window != 0 ? step.windows[window].in : nullptr; };
  StepTile tile{.x = x.region, .w = w.region, .w_data = w.in, .x_scale = data(x_scale_), .w_scale = data(w_scale_)};
  tile.x.row = here.first, tile.x.rows = here.rows;
  const std::int64_t skipped = (here.first - here.tile_first) * plan_.blocks.i;
  if (x.in != nullptr) tile.x_data = x.in + skipped * numerics::size_of(plan_.problem.x());
  tile.bias = data(bias_);
  if (tile.bias != nullptr) tile.bias += (w.region.row - step.windows[bias_].region.col) * 4;
  tile.x_changed = x.changed;
  tile.first_k = step.index[2] == 0;
  tile.last_k = step.index[2] + 1 == inputs_->grid()[2];
  tile.x_scale_row = here.tile_first;
  tile.rows = rows_multiplied(plan_, here);
  return tile;
}

Slots output_slots(Core& core, const Plan& plan, const Operands& operands) {
  Slots out(core, "out", std::min(plan.buffers, 2), plan.blocks.b, plan.blocks.o, operands.out.element_bytes);
  out.moved.output = true;
  return out;
}

std::span<const ProgramEntry> all_programs() noexcept { return kPrograms; }

const ProgramEntry& entry_of(Program program) noexcept { return kPrograms[static_cast<std::size_t>(program)]; }

std::string_view name_of(Program program) noexcept { return entry_of(program).name; }

RunTotals run_program(const Plan& plan, const Operands& operands, Workers* workers, Timeline* timeline) {
  Core core(plan.machine, workers != nullptr, plan.vmem_limit, timeline);
  core.advance(plan.machine.assume.launch_ns);
  RunTotals totals;
  totals.copies = entry_of(plan.program).run(core, plan, operands, workers);
  totals.core = core.finish();
  return totals;
}

}  // namespace ironcl::ironwood
