// SPDX-License-Identifier: Apache-2.0
// The same GEMM as a kernel that moves its own tiles, as the production kernels do (fused_moe v1, ragged paged
// attention v3): grid (1,), operands in HBM, loops over (b, o, i) inside, a prefetch that crosses all three loops.
//
//   start the fetch of the tiles that the next steps need -> wait for this step's -> compute
//     -> (last k) wait for the store that used this output slot -> finish the block -> start its store
//
// What differs from the pipeline: sizes are dynamic, so a ragged last block of rows costs its rows and no more; a
// tile and its scales share one semaphore and are waited for once, by their bytes together; the bias stays in VMEM.
#include <algorithm>
#include <vector>

#include "backends/ironwood/kernel_body.h"
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {
namespace {

using numerics::DType;

/// Tiles of one operand with their scales: `slots` buffers, each with a semaphore.
struct Side {
  const HbmArray* array = nullptr;
  const HbmArray* scale_array = nullptr;  // null: no scales
  ScaleLayout layout;
  std::int64_t block_rows = 0, block_cols = 0;
  Slots tiles, scales;
  std::int64_t fetched = 0;  // tiles whose fetch was started
  std::int64_t held = -1;    // number of the tile in use; its slot is held % slots
  BlockIndex last_fetched{-1, -1}, in_use{-1, -1};
};

class ManualKernel {
 public:
  ManualKernel(Core& core, const Plan& plan, std::int64_t m, const Operands& operands, Workers* workers)
      : core_(core), plan_(plan), operands_(operands), grid_(plan.grid(m)) {
    const Problem& p = plan.problem;
    const KernelBlocks& blocks = plan.blocks;
    const Operands::Matrix& w = operands.matrices.front();
    x_ = make_side(operands.x, blocks.b, blocks.i);
    w_ = make_side(w.w, blocks.o, blocks.i);
    if (p.scaled_x()) add_scales(x_, operands.x_scale, plan.x_scales(m));
    if (p.scaled_w()) add_scales(w_, w.w_scale, plan.w_scales());
    if (p.bias != DType::none) bias_ = &core_.allocate("bias", 1, 1, p.n, 4);
    const int out_slots = std::min(plan.buffers, 2);
    out_ = Slots(core_, "out", out_slots, blocks.b, blocks.o, operands.out.element_bytes);
    out_.moved.output = true;
    body_ = std::make_unique<KernelBody>(core_, plan, m, workers);
  }

  PipelineTotals run() {
    const std::int64_t steps = grid_[0] * grid_[1] * grid_[2];
    fetch_bias();
    GridIndex index{}, ahead{};
    std::int64_t looked_at = -1;
    for (std::int64_t s = 0; s < steps; ++s, advance(index, grid_)) {
      core_.advance(core_.machine().assume.step_overhead_ns);
      for (const std::int64_t until = std::min(s + plan_.buffers - 1, steps - 1); looked_at < until; ++looked_at) {
        if (looked_at >= 0) advance(ahead, grid_);
        fetch(x_, {ahead[0], ahead[2]}, looked_at + 1);
        fetch(w_, {ahead[1], ahead[2]}, looked_at + 1);
      }
      StepTile tile;
      tile.x_changed = enter(x_, {index[0], index[2]});
      enter(w_, {index[1], index[2]});
      step(index, tile, s);
    }
    drain(0);
    return totals(steps);
  }

 private:
  Side make_side(const HbmArray& array, std::int64_t rows, std::int64_t cols) {
    Side side;
    side.array = &array;
    side.block_rows = rows;
    side.block_cols = cols;
    side.tiles = Slots(core_, array.name, plan_.buffers, rows, cols, array.element_bytes);
    return side;
  }

  void add_scales(Side& side, const HbmArray& array, const ScaleLayout& layout) {
    side.scale_array = &array;
    side.layout = layout;
    side.scales = Slots(core_, array.name, plan_.buffers, layout.block_rows, layout.block_cols, 4);
  }

  void fetch(Side& side, const BlockIndex& block, std::int64_t step) {
    if (block == side.last_fetched) return;
    side.last_fetched = block;
    const std::int64_t number = side.fetched++;
    side.tiles.copy_in(number, *side.array, block_region(*side.array, side.block_rows, side.block_cols, block), step);
    if (side.scale_array == nullptr) return;
    const ScaleLayout& layout = side.layout;
    const BlockIndex scales = scale_block(layout, block.row, side.block_rows, block.col, side.block_cols);
    side.scales.copy_in(number, *side.scale_array,
                        block_region(*side.scale_array, layout.block_rows, layout.block_cols, scales), step,
                        &side.tiles);
  }

  /// Makes the side's current slot hold `block`. Returns whether it is another one than before.
  bool enter(Side& side, const BlockIndex& block) {
    if (block == side.in_use) return false;
    side.in_use = block;
    side.tiles.wait(++side.held);
    return true;
  }

  void step(const GridIndex& index, StepTile& tile, std::int64_t s) {
    tile.x = block_region(*x_.array, x_.block_rows, x_.block_cols, x_.in_use);
    tile.w = block_region(*w_.array, w_.block_rows, w_.block_cols, w_.in_use);
    tile.x_data = x_.tiles.readable(x_.held);
    tile.w_data = w_.tiles.readable(w_.held);
    if (x_.scale_array != nullptr) tile.x_scale = x_.scales.readable(x_.held);
    if (w_.scale_array != nullptr) tile.w_scale = w_.scales.readable(w_.held);
    if (bias_ != nullptr && core_.with_data()) {
      tile.bias = core_.readable(*bias_, 0) + tile.w.row * static_cast<std::int64_t>(sizeof(float));
    }
    tile.first_k = index[2] == 0;
    tile.last_k = index[2] + 1 == grid_[2];
    if (tile.last_k) {
      drain(out_.count() - 1);
      tile.out = out_.writable(stores_);
    }
    core_.compute(body_->step(tile), s, "tile");
    if (!tile.last_k) return;
    out_.copy_out(stores_++, operands_.out,
                  block_region(operands_.out, plan_.blocks.b, plan_.blocks.o, {index[0], index[1]}), s);
  }

  /// Waits until at most `may_fly` stores are in flight.
  void drain(std::int64_t may_fly) {
    while (stores_ - stored_ > may_fly) out_.wait(stored_++);
  }

  void fetch_bias() {
    if (bias_ == nullptr) return;
    const HbmArray& bias = operands_.matrices.front().bias;
    const int semaphore = core_.semaphore("bias");
    core_.wait(semaphore, core_.start_copy_in(bias, {0, 0, 1, bias.cols}, *bias_, 0, semaphore, -1));
  }

  PipelineTotals totals(std::int64_t steps) {
    PipelineTotals totals{.steps = steps, .windows = {x_.tiles.moved, w_.tiles.moved}};
    for (const Side* side : {&x_, &w_}) {
      if (side->scale_array != nullptr) totals.windows.push_back(side->scales.moved);
    }
    totals.windows.push_back(out_.moved);
    return totals;
  }

  Core& core_;
  const Plan& plan_;
  const Operands& operands_;
  const Grid grid_;
  Side x_, w_;
  VmemBuffer* bias_ = nullptr;
  Slots out_;
  std::int64_t stores_ = 0, stored_ = 0;
  std::unique_ptr<KernelBody> body_;
};

}  // namespace

PipelineTotals run_manual_program(Core& core, const Plan& plan, std::int64_t m, const Operands& operands,
                                  Workers* workers) {
  return ManualKernel(core, plan, m, operands, workers).run();
}

}  // namespace ironcl::ironwood
