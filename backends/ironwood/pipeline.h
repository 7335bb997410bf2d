// SPDX-License-Identifier: Apache-2.0
// The grid pipeline: runs a body over a grid while blocks of its operands stream through VMEM, in the order of Pallas
// (jax/_src/pallas/mosaic/pipeline.py). A kernel states windows (array, block, index map, buffers) and a body; this
// file fetches, waits, stores and counts. Built on core.h; plan.h says which windows the GEMM kernels use.
//
// Order in a step (s), the rule that everything rests on:
//   1. start the copies in of what the steps up to s + (buffers - 1) need and no slot holds yet
//   2. wait for the copies in of this step's blocks, where the block changed
//   3. body
//   4. start the copy out of each output block that ends here (its index changes next step, or this is the last step)
//   5. wait for the copy out before that one, where the output's block is new in this step
// Before step 0 "trivial" windows (the block is the whole array) are fetched once, synchronously, into one buffer.
// After the last step the outstanding copies out are waited for.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/ironwood/core.h"

namespace ironcl::ironwood {

/// Steps in each of three dimensions; the last is the fastest. All at least 1.
using Grid = std::array<std::int64_t, 3>;
using GridIndex = std::array<std::int64_t, 3>;

/// Goes on to the next step of the grid; false where there is none, and `index` is the first one again.
bool advance(GridIndex& index, const Grid& grid);

/// Which block of an array a step uses, counted in blocks (never in elements).
struct BlockIndex {
  std::int64_t row = 0, col = 0;
  friend bool operator==(const BlockIndex&, const BlockIndex&) = default;
};

using IndexMap = std::function<BlockIndex(const GridIndex&)>;

/// One operand of a pipeline.
struct Window {
  const HbmArray* array = nullptr;  ///< Outlives the run.
  bool output = false;
  std::int64_t block_rows = 0, block_cols = 0;
  IndexMap map;
  int buffers = 2;  ///< Outputs use at most 2. Revisits of an output block must be consecutive.

  /// True where the block covers the array, so that it is loaded once; never of an output.
  bool trivial() const noexcept { return !output && block_rows >= array->rows && block_cols >= array->cols; }
};

/// The part of an array that a block covers. Throws Error(internal) where it covers none of it.
Region block_region(const HbmArray& array, std::int64_t block_rows, std::int64_t block_cols, const BlockIndex& block);

/// A body's view of a window in a step.
struct BlockView {
  const std::byte* in = nullptr;  ///< Input: the block, row-major with pitch block_cols; null without data.
  std::byte* out = nullptr;       ///< Output: the block to write; null without data.
  Region region;         ///< The part of the array that the block covers; the rest of the slot is unspecified.
  bool changed = false;  ///< A block that the step before did not have.
};

/// A step, as a body sees it.
struct Step {
  std::int64_t number = 0;
  GridIndex index{};
  std::vector<BlockView> windows;  ///< In the order of the pipeline's windows.
};

/// Does the step's work on data (where there is any) and says what it costs.
using Body = std::function<Work(const Step&)>;

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

/// Runs the grid to its end. `label` names the compute spans of a timeline. Throws Error(internal) where an index map
/// leaves its array, Error(unsupported) where the buffers do not fit in VMEM.
PipelineTotals run_pipeline(Core& core, const Grid& grid, const std::vector<Window>& windows, const Body& body,
                            const char* label);

}  // namespace ironcl::ironwood
