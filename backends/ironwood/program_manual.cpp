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
  VmemBuffer* tiles = nullptr;
  VmemBuffer* scales = nullptr;
  std::vector<int> semaphores;
  std::vector<std::uint64_t> bytes;  // started into each slot, to wait for
  WindowTotals moved, scales_moved;
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
    x_ = make_side(operands.x, blocks.b, blocks.i);
    w_ = make_side(operands.w, blocks.o, blocks.i);
    if (p.scaled_x) add_scales(x_, operands.x_scale, plan.x_scales(m));
    if (p.w_scale != DType::none) add_scales(w_, operands.w_scale, plan.w_scales());
    if (p.bias != DType::none) bias_ = &core_.allocate("bias", 1, 1, p.n, 4);
    const int out_slots = std::min(plan.buffers, 2);
    out_ = &core_.allocate("out", out_slots, blocks.b, blocks.o, operands.out.element_bytes);
    for (int slot = 0; slot < out_slots; ++slot) out_semaphores_.push_back(core_.semaphore("out"));
    out_bytes_.resize(static_cast<std::size_t>(out_slots));
    body_ = std::make_unique<KernelBody>(core_, plan, m, workers);
  }

  PipelineTotals run() {
    const std::int64_t steps = grid_[0] * grid_[1] * grid_[2];
    fetch_bias();
    GridIndex index{}, ahead{};
    std::int64_t looked_at = -1;
    for (std::int64_t s = 0; s < steps; ++s, next(index)) {
      core_.advance(core_.machine().assume.step_overhead_ns);
      for (const std::int64_t until = std::min(s + plan_.buffers - 1, steps - 1); looked_at < until; ++looked_at) {
        if (looked_at >= 0) next(ahead);
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
    side.tiles = &core_.allocate(array.name, plan_.buffers, rows, cols, array.element_bytes);
    for (int slot = 0; slot < plan_.buffers; ++slot) side.semaphores.push_back(core_.semaphore(array.name));
    side.bytes.resize(static_cast<std::size_t>(plan_.buffers));
    side.moved.name = array.name;
    return side;
  }

  void add_scales(Side& side, const HbmArray& array, const ScaleLayout& layout) {
    side.scale_array = &array;
    side.layout = layout;
    side.scales = &core_.allocate(array.name, plan_.buffers, layout.block_rows, layout.block_cols, 4);
    side.scales_moved.name = array.name;
  }

  bool next(GridIndex& index) const {
    for (int dim = 2; dim >= 0; --dim) {
      const auto d = static_cast<std::size_t>(dim);
      if (++index[d] < grid_[d]) return true;
      index[d] = 0;
    }
    return false;
  }

  void fetch(Side& side, const BlockIndex& block, std::int64_t step) {
    if (block == side.last_fetched) return;
    side.last_fetched = block;
    const int slot = static_cast<int>(side.fetched++ % plan_.buffers);
    const auto at = static_cast<std::size_t>(slot);
    const std::uint64_t bytes =
        core_.start_copy_in(*side.array, block_region(*side.array, side.block_rows, side.block_cols, block),
                            *side.tiles, slot, side.semaphores[at], step);
    side.bytes[at] = bytes;
    ++side.moved.copies;
    side.moved.bytes += bytes;
    if (side.scales == nullptr) return;
    const BlockIndex scales = scale_block(side.layout, block.row, side.block_rows, block.col, side.block_cols);
    const std::uint64_t scale_bytes = core_.start_copy_in(
        *side.scale_array, block_region(*side.scale_array, side.layout.block_rows, side.layout.block_cols, scales),
        *side.scales, slot, side.semaphores[at], step);
    side.bytes[at] += scale_bytes;
    ++side.scales_moved.copies;
    side.scales_moved.bytes += scale_bytes;
  }

  /// Makes the side's current slot hold `block`. Returns whether it is another one than before.
  bool enter(Side& side, const BlockIndex& block) {
    if (block == side.in_use) return false;
    side.in_use = block;
    const auto slot = static_cast<std::size_t>(++side.held % plan_.buffers);
    core_.wait(side.semaphores[slot], side.bytes[slot]);
    return true;
  }

  void step(const GridIndex& index, StepTile& tile, std::int64_t s) {
    const int x_slot = static_cast<int>(x_.held % plan_.buffers), w_slot = static_cast<int>(w_.held % plan_.buffers);
    tile.x = block_region(*x_.array, x_.block_rows, x_.block_cols, x_.in_use);
    tile.w = block_region(*w_.array, w_.block_rows, w_.block_cols, w_.in_use);
    tile.x_data = core_.readable(*x_.tiles, x_slot);
    tile.w_data = core_.readable(*w_.tiles, w_slot);
    if (x_.scales != nullptr) tile.x_scale = core_.readable(*x_.scales, x_slot);
    if (w_.scales != nullptr) tile.w_scale = core_.readable(*w_.scales, w_slot);
    if (bias_ != nullptr && core_.with_data()) {
      tile.bias = core_.readable(*bias_, 0) + tile.w.row * static_cast<std::int64_t>(sizeof(float));
    }
    tile.first_k = index[2] == 0;
    tile.last_k = index[2] + 1 == grid_[2];
    const int slot = static_cast<int>(stores_ % out_->slots);
    if (tile.last_k) {
      drain(out_->slots - 1);
      tile.out = core_.writable(*out_, slot);
    }
    core_.compute(body_->step(tile), s, "tile");
    if (!tile.last_k) return;
    const auto at = static_cast<std::size_t>(slot);
    const Region region = block_region(operands_.out, plan_.blocks.b, plan_.blocks.o, {index[0], index[1]});
    out_bytes_[at] = core_.start_copy_out(*out_, slot, operands_.out, region, out_semaphores_[at], s);
    out_moved_.bytes += out_bytes_[at];
    ++stores_;
  }

  /// Waits until at most `may_fly` stores are in flight.
  void drain(std::int64_t may_fly) {
    for (; stores_ - stored_ > may_fly; ++stored_) {
      const auto slot = static_cast<std::size_t>(stored_ % out_->slots);
      core_.wait(out_semaphores_[slot], out_bytes_[slot]);
    }
  }

  void fetch_bias() {
    if (bias_ == nullptr) return;
    const int semaphore = core_.semaphore("bias");
    core_.wait(semaphore,
               core_.start_copy_in(operands_.bias, {0, 0, 1, operands_.bias.cols}, *bias_, 0, semaphore, -1));
  }

  PipelineTotals totals(std::int64_t steps) {
    PipelineTotals totals{.steps = steps, .windows = {x_.moved, w_.moved}};
    for (const Side* side : {&x_, &w_}) {
      if (side->scales != nullptr) totals.windows.push_back(side->scales_moved);
    }
    out_moved_.name = operands_.out.name;
    out_moved_.output = true;
    out_moved_.copies = stores_;
    totals.windows.push_back(out_moved_);
    return totals;
  }

  Core& core_;
  const Plan& plan_;
  const Operands& operands_;
  const Grid grid_;
  Side x_, w_;
  VmemBuffer* bias_ = nullptr;
  VmemBuffer* out_ = nullptr;
  std::vector<int> out_semaphores_;
  std::vector<std::uint64_t> out_bytes_;
  WindowTotals out_moved_;
  std::int64_t stores_ = 0, stored_ = 0;
  std::unique_ptr<KernelBody> body_;
};

}  // namespace

PipelineTotals run_manual_program(Core& core, const Plan& plan, std::int64_t m, const Operands& operands,
                                  Workers* workers) {
  return ManualKernel(core, plan, m, operands, workers).run();
}

}  // namespace ironcl::ironwood
