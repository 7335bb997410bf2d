// SPDX-License-Identifier: Apache-2.0
// A kernel for a problem: blocks, grid, mode, buffers, and whether it fits the machine. Next door: cost.h (what it
// occupies, what a step takes), program.h (the kernels that run a plan).
#pragma once

#include "backends/ironwood/machine.h"
#include "backends/ironwood/pipeline.h"
#include "backends/ironwood/problem.h"

namespace ironcl::ironwood {

/// Rows of x, rows of w and depth of a grid step: (B, O, I) of the published kernel.
struct KernelBlocks {
  std::int64_t b = 0, o = 0, i = 0;
  friend bool operator==(const KernelBlocks&, const KernelBlocks&) = default;
};

/// aligned: B = O = I = Q, one dot per step. large: several blocks per step, each K group scaled by itself.
enum class Mode { aligned, large };
std::string_view name_of(Mode mode) noexcept;

/// Which program runs the plan; program.h has the table of them.
enum class Program { pipeline, manual_dma, gmm_v1, gmm_v2 };

/// What is held against the VMEM limit: what the engine allocates, or the published kernel's formula.
enum class VmemRule { footprint, formula };

/// What a plan takes over from its request.
struct PlanSettings {
  int buffers = 2;              ///< Buffers per input; outputs have min(buffers, 2).
  std::int64_t vmem_limit = 0;  ///< Bytes; 0, in a request: the machine's VMEM.
  VmemRule vmem_rule = VmemRule::footprint;
  unsigned threads = 0;  ///< Threads of the host; 0: all.
  Machine machine;
};

/// What a caller wants of a plan; empty or 0: the kernel's own rule.
struct PlanRequest : PlanSettings {
  std::optional<KernelBlocks> blocks;
  std::optional<Mode> mode;
  std::optional<bool> save_x_q, save_acc;
  std::optional<Program> program;  ///< Default: pipeline; of a grouped problem gmm_v2.
  std::vector<std::int32_t>
      matrix_rows;                ///< Rows of each matrix that reports and traces assume; empty: as even as can be.
  std::vector<std::int32_t> ids;  ///< Experts of each token, for the query "fused"; empty: spread evenly.
  std::size_t trace_spans = 50'000;  ///< Most spans of a trace.
};

/// How the scales of an operand lie in HBM (always f32 there) and which part of them a step sees.
/// Element (row group i, K group j) is at [i, j], or [j, i] where transposed.
struct ScaleLayout {
  bool transposed = false;  ///< One scale per row: K groups are the rows, so that a block is wide and not tall.
  std::int64_t group_rows = 1, group_cols = 1;  ///< Elements of the operand; resolved, never 0.
  std::int64_t rows = 0, cols = 0;              ///< Sizes of the array, after transposing.
  std::int64_t block_rows = 0, block_cols = 0;  ///< Sizes of a step's block.
};

struct Plan : PlanSettings {
  Problem problem;
  KernelBlocks blocks;
  Mode mode = Mode::large;
  Program program = Program::pipeline;
  int w_buffers = 2;                      ///< gmm_v2 has one more for the weights than for the rest.
  std::vector<std::int32_t> matrix_rows;  ///< Rows per matrix that reports assume; empty where not grouped.
  bool save_x_q = false;  ///< The quantised block of x is kept and used again while x does not change.
  bool save_acc = false;  ///< The accumulator is kept in VMEM between steps.
  std::string source;     ///< Where the blocks come from: "option", "tuned", "aligned", "rule" (of gmm).

  /// Steps (b, o, i) for `m` rows. Of a grouped problem the steps along o and i hold, those along b are its visits.
  Grid grid(std::int64_t m) const noexcept;
  /// Scale grid of x for `m` rows. Only where problem.scaled_x.
  ScaleLayout x_scales(std::int64_t m) const noexcept;
  /// Scale grid of w. Only where problem.w_scale is not none.
  ScaleLayout w_scales() const noexcept;
};

/// The smallest legal blocks, which all others are multiples of.
KernelBlocks smallest_blocks(const Problem& problem, const Machine& machine);

/// B = O = I = Q where the problem has a Q and allows it, else the nearest legal blocks.
KernelBlocks aligned_blocks(const Problem& problem, const Machine& machine);

/// Makes the plan, or says which rule is broken, by which value, and the nearest choice that fits. Without blocks of
/// the caller's: the tuned table's, else aligned ones.
std::optional<Refusal> make_plan(const Problem& problem, const PlanRequest& request, Plan* plan);

/// The tuned table of kernel blocks (cl/tuned/ironwood.json, built in): the blocks for a problem on that TPU, by N,
/// K, Q, the type of x and whether x is quantised in the kernel; of the batches in the table the smallest that is at
/// least m, else the largest. Empty where it has none.
std::optional<KernelBlocks> tuned_blocks(const Problem& problem, const Tpu& tpu);

/// Reads the options of a plan, {"kernel_blocks", "1024,2048,512"} and so on. Throws Error(invalid_argument) for an
/// unknown key, naming the keys, and for a value that does not parse or is out of range, naming the values.
PlanRequest read_options(const backend::Options& options);

/// The options with their values, defaults and meanings, as JSON.
std::string describe_options();

}  // namespace ironcl::ironwood
