// SPDX-License-Identifier: Apache-2.0
// Many matrices in one kernel: grid (tiles of N, visits, tiles of K) with K fastest, the number of visits known only
// when the kernel runs. The order of a step is that of pipeline.h; sizes of copies are data.
//
//   gmm_v1  megablox gmm: tiles of X and D lie at multiples of B. One that matrices share is visited once for each,
//   is
//           multiplied as a whole, and stays in VMEM between its visits, each of which keeps the others' rows.
//   gmm_v2  tiles begin where a matrix's rows do, rounded down to a sublane, and only rows that are there move. A
//   last
//           sublane that the next visit goes on with waits in VMEM and is stored with that visit's rows. Weights have
//           a buffer more than the rest.
//
// In both, a block that the step before had too is not fetched again, so that one matrix's visits share its weights
// where K is one tile. Differences from the originals, all of them so that nothing but valid rows is written: v1
// stores the valid rows of a tile, not the tile; v2 stores part of a sublane at an end of rows that the next visit
// does not continue.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/kernel_body.h"
#include "backends/ironwood/program.h"
#include "backends/numerics/checked.h"

namespace ironcl::ironwood {
namespace {

using numerics::DType;

/// Where a step is: tile of N, visit, tile of K.
struct At {
  std::int64_t n = 0, visit = 0, k = 0;
};

/// What identifies a block: two steps with the same one share its copy.
using BlockKey = std::array<std::int64_t, 4>;

struct Block {
  const HbmArray* array = nullptr;
  Region region;
  BlockKey key{};
};

enum class Operand { x, x_scale, w, w_scale, bias };

/// An operand's slots and how far its copies have come.
struct Stream {
  Operand operand = Operand::x;
  Slots slots;
  std::int64_t issued = 0;      // blocks whose copy was started
  std::int64_t looked_at = -1;  // the last step whose block was issued or found unchanged
  BlockKey last_issued{}, current{};
  std::int64_t block = -1;  // number of the current block
};

class GroupedKernel {
 public:
  GroupedKernel(Core& core, const Plan& plan, const Operands& operands, Workers* workers)
      : core_(core), plan_(plan), operands_(operands), visits_(visits_of(plan, operands.rows, operands.x.rows)) {
    const Problem& p = plan.problem;
    const KernelBlocks& blocks = plan.blocks;
    const Grid grid = plan.grid(operands.x.rows);
    n_tiles_ = grid[1], k_tiles_ = grid[2];
    element_ = static_cast<std::int64_t>(numerics::size_of(p.d));
    add(Operand::x, "x", plan.buffers, blocks.b, blocks.i, numerics::size_of(p.x()));
    add(Operand::w, "w", plan.w_buffers, blocks.o, blocks.i, numerics::size_of(p.w()));
    if (p.scaled_x()) {
      x_scales_ = plan.x_scales(operands.x.rows);
      add(Operand::x_scale, "x_scale", plan.buffers, x_scales_.block_rows, x_scales_.block_cols, 4);
    }
    if (p.scaled_w()) {
      w_scales_ = plan.w_scales();
      add(Operand::w_scale, "w_scale", plan.buffers, w_scales_.block_rows, w_scales_.block_cols, 4);
    }
    if (p.bias != DType::none) add(Operand::bias, "bias", plan.buffers, 1, blocks.o, 4);
    out_ = Slots(core_, "out", std::min(plan.buffers, 2), blocks.b, blocks.o, operands.out.element_bytes);
    out_.moved.output = true;
    if (own_tiles()) {
      sublane_ = core_.machine().sublane_tile(numerics::size_of(p.x()));
      partial_ = &core_.allocate("partial_out", 1, sublane_, blocks.o, operands.out.element_bytes);
    }
    body_ = std::make_unique<KernelBody>(core_, plan, operands.x.rows, workers);
  }

  PipelineTotals run() {
    steps_ = n_tiles_ * static_cast<std::int64_t>(visits_.size()) * k_tiles_;
    for (std::int64_t s = 0; s < steps_; ++s) step(s);
    drain(tiles_out_ + 1);
    return totals();
  }

 private:
  bool own_tiles() const noexcept { return plan_.program == Program::gmm_v2; }

  void add(Operand operand, const char* name, int slots, std::int64_t rows, std::int64_t cols,
           std::uint32_t element) {
    streams_.push_back({.operand = operand, .slots = Slots(core_, name, slots, rows, cols, element)});
    deepest_ = std::max(deepest_, slots);
  }

  At at(std::int64_t step) const {
    const auto visits = static_cast<std::int64_t>(visits_.size());
    return {.n = step / k_tiles_ / visits, .visit = step / k_tiles_ % visits, .k = step % k_tiles_};
  }
  const Visit& visit(const At& at) const { return visits_[static_cast<std::size_t>(at.visit)]; }

  Block locate(Operand operand, const At& at) const {
    const KernelBlocks& blocks = plan_.blocks;
    const Visit& visit = this->visit(at);
    const Operands::Matrix& matrix = operands_.matrices[static_cast<std::size_t>(visit.matrix)];
    switch (operand) {
      case Operand::x: {
        Region region = block_region(operands_.x, blocks.b, blocks.i, {0, at.k});
        region.row = visit.tile_first, region.rows = visit.tile_rows;
        return {&operands_.x, region, {visit.tile_first, visit.tile_rows, at.k, 0}};
      }
      case Operand::x_scale: {  // [K groups, rows]
        const BlockIndex index = scale_block(x_scales_, 0, blocks.b, at.k, blocks.i);
        Region region = block_region(operands_.x_scale, x_scales_.block_rows, x_scales_.block_cols, {index.row, 0});
        region.col = visit.tile_first, region.cols = visit.tile_rows;
        return {&operands_.x_scale, region, {visit.tile_first, visit.tile_rows, index.row, 0}};
      }
      case Operand::w:
        return {&matrix.w, block_region(matrix.w, blocks.o, blocks.i, {at.n, at.k}), {visit.matrix, at.n, at.k, 0}};
      case Operand::w_scale: {
        const BlockIndex index = scale_block(w_scales_, at.n, blocks.o, at.k, blocks.i);
        return {&matrix.w_scale,
                block_region(matrix.w_scale, w_scales_.block_rows, w_scales_.block_cols, index),
                {visit.matrix, index.row, index.col, 0}};
      }
      case Operand::bias:
        break;
    }
    return {&matrix.bias, block_region(matrix.bias, 1, blocks.o, {0, at.n}), {visit.matrix, at.n, 0, 0}};
  }

  void prefetch(Stream& stream, std::int64_t s, int ahead) {
    const std::int64_t until = std::min(s + std::min(ahead, stream.slots.count() - 1), steps_ - 1);
    while (stream.looked_at < until) {
      const Block block = locate(stream.operand, at(++stream.looked_at));
      if (stream.issued > 0 && block.key == stream.last_issued) continue;
      stream.last_issued = block.key;
      stream.slots.copy_in(stream.issued++, *block.array, block.region, stream.looked_at);
    }
  }

  /// Makes the stream's current slot hold the step's block and returns it.
  const std::byte* enter(Stream& stream, const Block& block) {
    if (stream.block < 0 || block.key != stream.current) {
      stream.current = block.key;
      stream.slots.wait(++stream.block);
    }
    return stream.slots.readable(stream.block);
  }

  void step(std::int64_t s) {
    core_.advance(core_.machine().assume.step_overhead_ns);
    // Nearest steps first, so that no block waits behind one that is needed later.
    for (int ahead = 0; ahead < deepest_; ++ahead) {
      for (Stream& stream : streams_) prefetch(stream, s, ahead);
    }
    const At here = at(s);
    const Visit& visit = this->visit(here);
    const bool new_tile = enter_out(here);
    StepTile tile = tile_of(here);
    tile.first_k = here.k == 0;
    tile.last_k = here.k + 1 == k_tiles_;
    if (tile.last_k) tile.out = out_row(visit.first);
    const Work work = body_->step(tile);
    if (core_.tracing()) {
      core_.compute(work, s,
                    fmt::format("visit {}: matrix {} rows {}:{} of tile {}:{}", here.visit, visit.matrix, visit.first,
                                visit.first + visit.rows, visit.tile_first, visit.tile_first + visit.tile_rows));
    } else {
      core_.compute(work, s, {});
    }
    if (tile.last_k) leave_out(here, s);
    if (new_tile) drain(tiles_out_);  // as pipeline.h says; with one slot enter_out has waited already
  }

  StepTile tile_of(const At& here) {
    const Visit& visit = this->visit(here);
    StepTile tile;
    for (Stream& stream : streams_) {
      const Block block = locate(stream.operand, here);
      const std::byte* data = enter(stream, block);
      switch (stream.operand) {
        case Operand::x: {
          tile.x = block.region;
          tile.x.row = visit.first, tile.x.rows = visit.rows;
          const std::int64_t skipped = (visit.first - visit.tile_first) * plan_.blocks.i *
                                       static_cast<std::int64_t>(numerics::size_of(plan_.problem.x()));
          tile.x_data = data != nullptr ? data + skipped : nullptr;
          break;
        }
        case Operand::x_scale:
          tile.x_scale = data;
          break;
        case Operand::w:
          tile.w = block.region;
          tile.w_data = data;
          break;
        case Operand::w_scale:
          tile.w_scale = data;
          break;
        case Operand::bias:
          tile.bias = data;
          break;
      }
    }
    tile.x_scale_row = visit.tile_first;
    tile.rows = rows_multiplied(plan_, visit);
    return tile;
  }

  /// Row `row` of D in the slot of the tile in use; null without data.
  std::byte* out_row(std::int64_t row) {
    std::byte* slot = out_.writable(tiles_out_);
    return slot != nullptr ? slot + (row - out_first_) * plan_.blocks.o * element_ : nullptr;
  }

  /// Returns whether the step has another tile of D than the one before.
  bool enter_out(const At& here) {
    const BlockKey key{visit(here).tile_first, here.n, own_tiles() ? here.visit : 0, 0};
    if (tiles_out_ >= 0 && key == out_key_) return false;
    out_key_ = key;
    out_first_ = visit(here).tile_first;
    ++tiles_out_;
    drain(tiles_out_ - out_.count() + 1);
    return true;
  }

  /// The visit's rows are in the slot: stores what is whole, keeps what the next visit goes on with.
  void leave_out(const At& here, std::int64_t s) {
    const Visit& visit = this->visit(here);
    const bool last = here.visit + 1 == static_cast<std::int64_t>(visits_.size());
    const Visit* next = last ? nullptr : &visits_[static_cast<std::size_t>(here.visit + 1)];
    const std::int64_t end = visit.first + visit.rows;
    if (!own_tiles()) {
      if (!stored_.empty() && stored_.back().row + stored_.back().rows == visit.first) {
        stored_.back().rows += visit.rows;
      } else {
        stored_.push_back({.row = visit.first, .rows = visit.rows});
      }
      if (next != nullptr && next->tile_first == visit.tile_first) return;
      for (const Region& rows : stored_) store(rows.row, rows.rows, here.n, s);
      stored_.clear();
      return;
    }
    std::int64_t first = visit.first;
    if (held_.rows > 0) {  // what the visit before left of this one's first sublane
      first = held_.row;
      move_partial(false);
    }
    const bool continued = next != nullptr && next->first == end && end % sublane_ != 0;
    const std::int64_t until = continued ? std::max(first, end / sublane_ * sublane_) : end;
    held_ = {.row = until, .rows = end - until};
    if (held_.rows > 0) move_partial(true);
    if (until > first) store(first, until - first, here.n, s);
  }

  /// The held rows, between the tile in use and the scratch.
  void move_partial(bool keep) {
    if (!core_.with_data()) return;
    std::byte* in_tile = out_row(held_.row);
    std::byte* scratch = core_.writable(*partial_, 0);
    const auto bytes = static_cast<std::size_t>(held_.rows * plan_.blocks.o * element_);
    keep ? std::memcpy(scratch, in_tile, bytes) : std::memcpy(in_tile, scratch, bytes);
  }

  void store(std::int64_t first, std::int64_t rows, std::int64_t n, std::int64_t s) {
    Region region = block_region(operands_.out, plan_.blocks.b, plan_.blocks.o, {0, n});
    region.row = first, region.rows = rows;
    out_.copy_out(tiles_out_, operands_.out, region, s, first - out_first_);
  }

  /// Waits for the stores of all tiles before number `tile`.
  void drain(std::int64_t tile) {
    for (; drained_ < tile; ++drained_) out_.wait(drained_);
  }

  PipelineTotals totals() {
    PipelineTotals totals;
    totals.steps = steps_;
    std::int64_t last = -1;
    for (const Visit& visit : visits_) {
      totals.visits.visits += 1;
      totals.visits.matrices += visit.matrix != last ? 1 : 0;
      totals.visits.rows += visit.rows;
      totals.visits.rows_moved += visit.tile_rows;
      totals.visits.rows_multiplied += rows_multiplied(plan_, visit);
      last = visit.matrix;
    }
    for (const Stream& stream : streams_) totals.windows.push_back(stream.slots.moved);
    totals.windows.push_back(out_.moved);
    return totals;
  }

  Core& core_;
  const Plan& plan_;
  const Operands& operands_;
  const std::vector<Visit> visits_;
  std::int64_t n_tiles_ = 0, k_tiles_ = 0, steps_ = 0, element_ = 1;
  std::vector<Stream> streams_;
  int deepest_ = 1;
  ScaleLayout x_scales_, w_scales_;
  Slots out_;
  BlockKey out_key_{};
  std::int64_t out_first_ = 0;   // the row of D where the slot in use begins
  std::int64_t tiles_out_ = -1;  // number of the tile of D in use
  std::int64_t drained_ = 0;     // tiles of D whose stores were waited for
  std::vector<Region> stored_;   // gmm_v1: rows of the tile in use that are valid so far
  Region held_;                  // gmm_v2: rows in the scratch
  std::int64_t sublane_ = 1;
  VmemBuffer* partial_ = nullptr;
  std::unique_ptr<KernelBody> body_;
};

}  // namespace

std::vector<Visit> visits_of(const Plan& plan, std::span<const MatrixRows> dealt, std::int64_t rows) {
  const bool v1 = plan.program == Program::gmm_v1;
  const std::int64_t step = v1 ? plan.blocks.b : plan.machine.sublane_tile(numerics::size_of(plan.problem.x()));
  return visit_tiles(dealt, plan.blocks.b, step, rows);
}

PipelineTotals run_grouped_program(Core& core, const Plan& plan, std::int64_t m, const Operands& operands,
                                   Workers* workers) {
  (void)m;  // as many rows as the operands say
  return GroupedKernel(core, plan, operands, workers).run();
}

}  // namespace ironcl::ironwood
