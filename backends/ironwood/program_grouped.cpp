// SPDX-License-Identifier: Apache-2.0
// Many matrices in one kernel: grid (tiles of N, visits, tiles of K) with K fastest, the number of visits known only
// when the kernel runs. The order of a step is that of pipeline.h; sizes of copies are data.
//
//   gmm_v1  megablox gmm: tiles of X and D lie at multiples of B. One that matrices share is visited once for each,
//           is multiplied as a whole, and stays in VMEM between its visits, each of which keeps the others' rows.
//   gmm_v2  tiles begin where a matrix's rows do, rounded down to a sublane, and only rows that are there move. A
//           last sublane that the next visit goes on with waits in VMEM and is stored with that visit's rows. Weights
//           have a buffer more than the rest.
//
// In both, a block that the step before had too is not fetched again, so that one matrix's visits share its weights
// where K is one tile. Differences from the originals, all of them so that nothing but valid rows is written: v1
// stores the valid rows of a tile, not the tile; v2 stores part of a sublane at an end of rows that the next visit
// does not continue.

#include <cstring>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {
namespace {

class GroupedKernel {
 public:
  GroupedKernel(Core& core, const Plan& plan, const Operands& operands, Workers* workers)
      : core_(core),
        plan_(plan),
        operands_(operands),
        program_(core, plan, operands),
        out_(output_slots(core, plan, operands)) {
    if (own_tiles()) {
      sublane_ = core_.machine().sublane_tile(numerics::size_of(plan.problem.x()));
      partial_ = &core_.allocate("partial_out", 1, sublane_, plan.blocks.o, operands.out.element_bytes);
    }
    body_.emplace(core_, plan, operands.x.rows, workers);
  }

  PipelineTotals run() {
    while (const Step* step = program_.inputs().next()) {
      const Visit& visit = program_.visit(step->index);
      const bool new_tile = enter_out(*step);
      StepTile tile = program_.tile(*step);
      if (tile.last_k) tile.out = out_row(visit.first);
      core_.compute(body_->step(tile), step->number,
                    core_.tracing()
                        ? fmt::format("visit {}: matrix {} rows {}:{} of tile {}:{}",
                                      program_.number_of_visit(step->index), visit.matrix, visit.first,
                                      visit.first + visit.rows, visit.tile_first, visit.tile_first + visit.tile_rows)
                        : std::string());
      if (tile.last_k) leave_out(*step);
      if (new_tile) out_.wait_before(tiles_out_);  // as pipeline.h says; with one slot enter_out has waited already
    }
    out_.wait_before(tiles_out_ + 1);
    return totals();
  }

 private:
  bool own_tiles() const noexcept { return plan_.program == Program::gmm_v2; }

  /// Row `row` of D in the slot of the tile in use; null without data.
  std::byte* out_row(std::int64_t row) {
    std::byte* slot = out_.writable(tiles_out_);
    return slot != nullptr ? slot + (row - out_first_) * row_bytes() : nullptr;
  }
  std::int64_t row_bytes() const noexcept {
    return plan_.blocks.o * static_cast<std::int64_t>(operands_.out.element_bytes);
  }

  /// Returns whether the step has another tile of D than the one before.
  bool enter_out(const Step& step) {
    const std::int64_t visit = program_.number_of_visit(step.index);
    const auto tile =
        std::pair(program_.tile_of_n(step.index), own_tiles() ? visit : program_.visit(step.index).tile_first);
    if (tiles_out_ >= 0 && tile == tile_) return false;
    tile_ = tile;
    out_first_ = program_.visit(step.index).tile_first;
    ++tiles_out_;
    out_.wait_before(tiles_out_ - out_.count() + 1);
    return true;
  }

  /// The visit's rows are in the slot: stores what is whole, keeps what the next visit goes on with.
  void leave_out(const Step& step) {
    const Visit& visit = program_.visit(step.index);
    const std::int64_t following = program_.number_of_visit(step.index) + 1;
    const bool last = following == std::ssize(program_.visits());
    const Visit* next = last ? nullptr : &program_.visits()[static_cast<std::size_t>(following)];
    const std::int64_t end = visit.first + visit.rows;
    if (!own_tiles()) {
      if (!stored_.empty() && stored_.back().row + stored_.back().rows == visit.first) {
        stored_.back().rows += visit.rows;
      } else {
        stored_.push_back({.row = visit.first, .rows = visit.rows});
      }
      if (next != nullptr && next->tile_first == visit.tile_first) return;
      for (const Region& rows : stored_) store(rows.row, rows.rows, step);
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
    if (until > first) store(first, until - first, step);
  }

  /// The held rows, between the tile in use and the scratch.
  void move_partial(bool keep) {
    if (!core_.with_data()) return;
    std::byte* in_tile = out_row(held_.row);
    std::byte* scratch = core_.writable(*partial_, 0);
    const auto bytes = static_cast<std::size_t>(held_.rows * row_bytes());
    keep ? std::memcpy(scratch, in_tile, bytes) : std::memcpy(in_tile, scratch, bytes);
  }

  void store(std::int64_t first, std::int64_t rows, const Step& step) {
    Region region = block_region(operands_.out, plan_.blocks.b, plan_.blocks.o, {0, program_.tile_of_n(step.index)});
    region.row = first, region.rows = rows;
    out_.copy_out(tiles_out_, operands_.out, region, step.number, first - out_first_);
  }

  PipelineTotals totals() {
    PipelineTotals totals = program_.inputs().totals(out_);
    std::int64_t last = -1;
    for (const Visit& visit : program_.visits()) {
      totals.visits.visits += 1;
      totals.visits.matrices += visit.matrix != last ? 1 : 0;
      totals.visits.rows += visit.rows;
      totals.visits.rows_moved += visit.tile_rows;
      totals.visits.rows_multiplied += rows_multiplied(plan_, visit);
      last = visit.matrix;
    }
    return totals;
  }

  Core& core_;
  const Plan& plan_;
  const Operands& operands_;
  ProgramInputs program_;
  Slots out_;
  std::pair<std::int64_t, std::int64_t> tile_;  // the tile of D in use: of N, and of rows
  std::int64_t out_first_ = 0;                  // the row of D where the slot in use begins
  std::int64_t tiles_out_ = -1;                 // number of the tile of D in use
  std::vector<Region> stored_;                  // gmm_v1: rows of the tile in use that are valid so far
  Region held_;                                 // gmm_v2: rows in the scratch
  std::int64_t sublane_ = 1;
  VmemBuffer* partial_ = nullptr;
  std::optional<KernelBody> body_;
};

}  // namespace

PipelineTotals run_grouped_program(Core& core, const Plan& plan, const Operands& operands, Workers* workers) {
  return GroupedKernel(core, plan, operands, workers).run();
}

}  // namespace ironcl::ironwood
