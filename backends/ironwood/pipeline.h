// SPDX-License-Identifier: Apache-2.0
// The grid pipeline: runs a body over a grid while blocks of its operands stream through VMEM, in the order of Pallas
// (jax/_src/pallas/mosaic/pipeline.py). A kernel states windows (array, block, map, buffers) and a body; this file
// fetches, waits, stores and counts. Built on core.h; program.h says which windows the GEMM kernels use.
//
// Order in a step (s), the rule that everything rests on:
//   1. start the copies in of what the steps up to s + (buffers - 1) need and no slot holds yet
//   2. wait for the copies in of this step's blocks, where the block changed
//   3. body
//   4. start the copy out of the output block if it ends here (another one follows, or this is the last step)
//   5. wait for the copy out before that one, where the output's block is new in this step
// Before step 0 windows whose block is the whole array are fetched once, synchronously, into one buffer. After the
// last step the outstanding copies out are waited for. Kernels that store in another order use Inputs by itself.
#pragma once

#include <array>
#include <functional>

#include "backends/ironwood/core.h"

namespace ironcl::ironwood {

/// Steps in each of three dimensions; the last is the fastest. All at least 1.
using Grid = std::array<std::int64_t, 3>;
using GridIndex = std::array<std::int64_t, 3>;

/// Which block of an array a step uses, counted in blocks (never in elements).
struct BlockIndex {
  std::int64_t row = 0, col = 0;
  friend bool operator==(const BlockIndex&, const BlockIndex&) = default;
};

/// The part of an array that a block covers. Throws Error(internal) where it covers none of it.
Region block_region(const HbmArray& array, std::int64_t block_rows, std::int64_t block_cols, const BlockIndex& block);

/// A block as it is copied. Steps with the same one share its copy.
struct Block {
  const HbmArray* array = nullptr;  ///< Outlives the run.
  Region region;
  friend bool operator==(const Block&, const Block&) = default;
};
using BlockMap = std::function<Block(const GridIndex&)>;

/// An input of a kernel.
struct Window {
  const HbmArray* array = nullptr;  ///< Of several arrays any one: they are alike.
  std::int64_t block_rows = 0, block_cols = 0;
  BlockMap map;
  int buffers = 2;
  bool once = false;  ///< All steps have the same block: it is copied before the first, into one buffer.
  int with = -1;      ///< The window with whose blocks these are copied and waited for; -1: none.
};

/// A body's view of a window in a step.
struct BlockView {
  const std::byte* in = nullptr;  ///< The block, row-major with pitch block_cols; null without data.
  Region region;         ///< The part of the array that the block covers; the rest of the slot is unspecified.
  bool changed = false;  ///< A block that the step before did not have.
};

/// A step, as a body sees it.
struct Step {
  std::int64_t number = -1;
  GridIndex index{};
  std::vector<BlockView> windows;  ///< In the order of the kernel's windows.
};

/// How the rows of a grouped problem were scheduled.
struct VisitTotals {
  std::int64_t visits = 0;
  std::int64_t matrices = 0;         ///< Matrices that have rows.
  std::int64_t rows = 0;             ///< Valid ones: what is asked for.
  std::int64_t rows_moved = 0;       ///< Brought into VMEM, for each pass over N.
  std::int64_t rows_multiplied = 0;  ///< Rows given to the MXU, for each pass over N.
};

struct PipelineTotals {
  std::int64_t steps = 0;
  VisitTotals visits = {};  ///< Visits of a grouped problem.
  std::vector<WindowTotals> windows;
};

/// The inputs of a kernel: their slots in VMEM, and the copies on their way.
class Inputs {
 public:
  /// Throws Error(unsupported) where the slots do not fit in VMEM.
  Inputs(Core& core, const Grid& grid, std::vector<Window> windows);

  /// Goes on to the next step: spends its scalar work, starts copies and waits for its blocks. Null after the last.
  const Step* next();
  Core& core() const noexcept { return core_; }
  const Grid& grid() const noexcept { return grid_; }
  /// Steps and windows of the run, `out` behind the inputs.
  PipelineTotals totals(const Slots& out) const;

 private:
  void prefetch(std::size_t w, int ahead);
  void enter(std::size_t w);

  Core& core_;
  Grid grid_;
  std::int64_t steps_;
  std::vector<Window> windows_;
  /// How far the copies of each window have come.
  struct Stream {
    Slots slots;
    std::int64_t issued = 0;      ///< Blocks whose copy was started.
    std::int64_t looked_at = -1;  ///< The last step whose block was issued or found unchanged.
    Block last_issued, current;
    GridIndex ahead{};        ///< Index of step looked_at.
    std::int64_t block = -1;  ///< Number of the current block.
  };
  std::vector<Stream> streams_;
  int deepest_ = 1;  ///< Most buffers of a window.
  Step step_;
};

/// Does the step's work on data (where there is any), leaves the block of the output at the address, and says what it
/// costs.
using Body = std::function<Work(const Step&, std::byte*)>;

/// Runs the grid to its end. `out_map` says which block of the output a step makes; revisits are consecutive. `label`
/// names the compute spans of a timeline. Throws Error(internal) where a map leaves its array.
PipelineTotals run_pipeline(Inputs& inputs, Slots& out, const BlockMap& out_map, const Body& body, const char* label);

}  // namespace ironcl::ironwood
