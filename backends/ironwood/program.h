// SPDX-License-Identifier: Apache-2.0
// The GEMM kernels as programs on the modelled core, and one call that runs a plan's program: program_dense.cpp,
// program_grouped.cpp. kernel_body.h is the arithmetic that all programs share.
#pragma once

#include "backends/ironwood/kernel_body.h"
#include "backends/ironwood/pipeline.h"
#include "backends/ironwood/plan.h"
#include "backends/ironwood/workers.h"

namespace ironcl::ironwood {

// --- Which rows of X and D each matrix of a grouped problem multiplies, and the visits that a kernel makes to do it:
// one row of tiles with one matrix. A visit costs a step for each tile of N and of K.

/// Rows [first, first + rows) belong to matrix `matrix`; rows is at least 1.
struct MatrixRows {
  std::int64_t matrix = 0, first = 0, rows = 0;
  friend bool operator==(const MatrixRows&, const MatrixRows&) = default;
};

/// The rows of each matrix that has some, in the order of matrices, from `counts` (one per matrix), which are not
/// trusted: a negative one is 0, and rows past the last of the layout are cut off. `m`: rows of the problem, or of
/// each matrix of a masked one; without groups all are those of one matrix.
std::vector<MatrixRows> deal_rows(backend::Grouping grouping, std::int64_t m, std::span<const std::int32_t> counts);

/// `rows` rows scheduled as evenly as they can be among `matrices`, the first ones getting one more.
std::vector<std::int32_t> even_counts(std::int64_t rows, std::int64_t matrices);

/// A row of tiles that is multiplied with one matrix.
struct Visit {
  std::int64_t matrix = 0;
  std::int64_t first = 0, rows = 0;            ///< Valid: what is computed and stored.
  std::int64_t tile_first = 0, tile_rows = 0;  ///< Moved from HBM: the valid rows and some of their neighbours.
  friend bool operator==(const Visit&, const Visit&) = default;
};

/// Tiles of at most `tile` rows that begin and end at multiples of `step`, or at the end of the array's `rows`.
///   gmm_v1  step = tile: a tile that several matrices share is visited once for each of them, one visit after
///           another, and is moved as a whole. (megablox gmm, make_group_metadata.) So are the tiles of one matrix.
///   gmm_v2  step = a sublane: tiles begin at each matrix's own first row, rounded down, and only the rows there are,
///           rounded up, are moved. (fill_metadata.)
std::vector<Visit> visit_tiles(std::span<const MatrixRows> dealt, std::int64_t tile, std::int64_t step,
                               std::int64_t rows);

/// The operands of a call where the kernel finds them: arrays in HBM. All data null: only time is simulated.
struct Operands {
  HbmArray x;        ///< [m, k] of problem.x().
  HbmArray x_scale;  ///< f32, as Plan::x_scales lays out; only where problem.scaled_x().
  HbmArray out;      ///< [m, n] of problem.d.
  struct Matrix {
    HbmArray w;        ///< [n, k] of problem.w().
    HbmArray w_scale;  ///< f32, as Plan::w_scales lays out; only where the weights have scales.
    HbmArray bias;     ///< [1, n] f32; only where the problem has one.
  };
  std::vector<Matrix> matrices;  ///< One, or those of a grouped problem.
  std::vector<MatrixRows> rows;  ///< Of each matrix.
};

/// The arrays of a call of `m` rows (at least 1), tight and without data, with one matrix and no rows of any.
Operands describe_arrays(const Plan& plan, std::int64_t m);
/// The same with all matrices and their rows, of a grouped problem all its rows(), as plan.matrix_rows schedules
/// them.
Operands describe_operands(const Plan& plan, std::int64_t m);

/// Time and traffic of a run.
struct RunTotals {
  CoreTotals core;  ///< Launch included; modelled.
  PipelineTotals copies;
};

/// Runs the plan's program. `workers` may be null where the operands have no data; `timeline` may be null. Throws
/// Error(internal) where a program breaks the engine's rules.
RunTotals run_program(const Plan& plan, const Operands& operands, Workers* workers, Timeline* timeline);

/// A program: how blocks move, around the body that all share. A new one is a file with its function and a row of
/// all_programs(); options, reports and plans find it there.
struct ProgramEntry {
  std::string_view name;  ///< As the option `program` spells it.
  /// Allocates its buffers, and where `operands` has no rows does no more.
  PipelineTotals (*run)(Core& core, const Plan& plan, const Operands& operands, Workers* workers);
  Program program;
  bool grouped;  ///< Runs grouped problems, and no others.
};

/// The first is the default.
std::span<const ProgramEntry> all_programs() noexcept;
const ProgramEntry& entry_of(Program program) noexcept;
std::string_view name_of(Program program) noexcept;

PipelineTotals run_pipeline_program(Core& core, const Plan& plan, const Operands& operands, Workers* workers);
PipelineTotals run_manual_program(Core& core, const Plan& plan, const Operands& operands, Workers* workers);
PipelineTotals run_grouped_program(Core& core, const Plan& plan, const Operands& operands, Workers* workers);

/// The visits that a plan makes; `rows`: of X.
std::vector<Visit> visits_of(const Plan& plan, std::span<const MatrixRows> dealt, std::int64_t rows);

/// The inputs of a program in its grid: (visits, tiles of N, tiles of K), of a grouped problem (tiles of N, visits,
/// tiles of K). Of all programs but the pipeline every input has all its slots. Plan and operands outlive it.
class ProgramInputs {
 public:
  ProgramInputs(Core& core, const Plan& plan, const Operands& operands);
  ProgramInputs(const ProgramInputs&) = delete;
  ProgramInputs& operator=(const ProgramInputs&) = delete;

  Inputs& inputs() noexcept { return *inputs_; }
  const std::vector<Visit>& visits() const noexcept { return visits_; }
  std::int64_t tile_of_n(const GridIndex& index) const noexcept { return index[plan_.problem.grouped() ? 0 : 1]; }
  std::int64_t number_of_visit(const GridIndex& index) const noexcept {
    return index[plan_.problem.grouped() ? 1 : 0];
  }
  const Visit& visit(const GridIndex& index) const {
    return visits_[static_cast<std::size_t>(number_of_visit(index))];
  }
  /// What a step multiplies; where it leaves D is the program's to say.
  StepTile tile(const Step& step) const;

 private:
  const Plan& plan_;
  std::vector<Visit> visits_;
  std::optional<Inputs> inputs_;
  std::size_t x_scale_ = 0, w_scale_ = 0, bias_ = 0;  ///< Their windows; 0: there is none.
};

/// The slots of D.
Slots output_slots(Core& core, const Plan& plan, const Operands& operands);

// --- The tiles that the grouped kernels choose by themselves. Rules of tpu-inference's kernels/megablox: the default
// of gmm's tuned_block_sizes.py, and calculate_tiling of gmm_v2.py.

/// Rows that gmm_v2's dots come in: 128, halved for narrow weights, doubled for narrow x.
std::int64_t gmm_v2_bucket(const Plan& plan) noexcept;

/// Blocks for the grouped problem of a plan, all multiples of `quantum`.
///   gmm_v1  twice the mean rows of a matrix, rounded up to 128, at most 512 (and no more than there are); o and i up
///           to 2048, cut in equal parts.
///   gmm_v2  up to four buckets of rows; o and i whole, then o halved, thirded, ... down to twice the array's width,
///           then i, until the kernel's own estimate fits nine tenths of the VMEM limit.
KernelBlocks gmm_blocks(const Plan& plan, const KernelBlocks& quantum);

/// Bytes of VMEM by gmm_v2's own estimate: x and out twice, weights three times, their scales twice, the accumulator.
std::int64_t gmm_vmem_estimate(const Plan& plan, const KernelBlocks& blocks);

}  // namespace ironcl::ironwood
