// SPDX-License-Identifier: Apache-2.0
// Choosing blocks, and the rules that a choice must keep.
#include "backends/ironwood/plan.h"

#include "backends/ironwood/cost.h"
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {
namespace {

using backend::Reason;
using numerics::ceil_div;
using numerics::round_up;
using numerics::ScaleGrid;

constexpr std::int64_t kLanes = 128;

/// What each block dimension must be a multiple of.
struct Quanta {
  KernelBlocks step;
  std::string b_rule, o_rule, i_rule;
};

Quanta quanta_of(const Problem& p, const Machine& machine) {
  Quanta quanta;
  const std::int64_t x_rows = p.a_scale.grid.group_rows;
  const std::uint32_t narrowest = p.quantizes_x() ? 1 : numerics::size_of(p.x());
  const std::int64_t native = machine.sublane_tile(narrowest);
  if (p.scaled_x() && x_rows > 1) {
    quanta.step.b = std::lcm(x_rows, native);
    quanta.b_rule = fmt::format("the {} rows of a block of x", x_rows);
  } else {
    quanta.step.b = native;
    quanta.b_rule = fmt::format("the {} rows of a native {}-bit tile", quanta.step.b, narrowest * 8);
  }
  const bool square = p.family == Family::block;
  quanta.step.o = kLanes;
  quanta.o_rule = "the 128 lanes of a native tile";
  if (p.b_scale.grid.group_rows > 1) {
    quanta.step.o = std::lcm(kLanes, p.b_scale.grid.group_rows);
    quanta.o_rule = square && quanta.step.o == p.q ? fmt::format("the quantisation block Q = {}", p.q)
                                                   : fmt::format("{} (whole blocks of {} rows of w and 128 lanes)",
                                                                 quanta.step.o, p.b_scale.grid.group_rows);
  }
  quanta.step.i = kLanes;
  if (p.q != 0 && (square || p.q < p.k)) quanta.step.i = std::lcm(quanta.step.i, p.q);
  if (p.a_scale.grid.group_cols != 0 && p.a_scale.grid.group_cols < p.k) {
    quanta.step.i = std::lcm(quanta.step.i, p.a_scale.grid.group_cols);
  }
  quanta.i_rule = fmt::format("{} (whole K groups and 128 lanes)", quanta.step.i);
  return quanta;
}

/// A kernel block holds whole blocks of scales, so that these bound it from below; beyond this no VMEM holds one, and
/// products of block sizes leave 64 bits.
std::optional<Refusal> check_quanta(const Problem& p, const Quanta& quanta) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (std::max({quanta.step.b, quanta.step.o, quanta.step.i}) <= kMost) return std::nullopt;
  return Refusal(Reason::scale_layout,
                 "scales in blocks of {}x{} of w and {}x{} of x: whole ones make kernel blocks of {},{},{}, and "
                 "up to {} per dimension are accepted; 0 spans a dimension",
                 p.b_scale.grid.group_rows, p.b_scale.grid.group_cols, p.a_scale.grid.group_rows,
                 p.a_scale.grid.group_cols, quanta.step.b, quanta.step.o, quanta.step.i, kMost);
}

std::optional<Refusal> check_multiple(char letter, std::int64_t value, std::int64_t step, const std::string& rule) {
  if (value > 0 && value % step == 0) return std::nullopt;
  const std::int64_t below = value / step * step;
  return Refusal(Reason::option, "kernel block {} = {}: not a multiple of {}; nearest that fit: {}", letter, value,
                 rule, below > 0 ? fmt::format("{} and {}", below, below + step) : fmt::format("{}", step));
}

std::optional<Refusal> check_blocks(const KernelBlocks& blocks, const Quanta& quanta) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (blocks.b > kMost || blocks.o > kMost || blocks.i > kMost) {
    return Refusal(Reason::option, "kernel blocks {},{},{}: each is at most {}", blocks.b, blocks.o, blocks.i, kMost);
  }
  if (auto refusal = check_multiple('B', blocks.b, quanta.step.b, quanta.b_rule)) return refusal;
  if (auto refusal = check_multiple('O', blocks.o, quanta.step.o, quanta.o_rule)) return refusal;
  return check_multiple('I', blocks.i, quanta.step.i, quanta.i_rule);
}

Plan plan_with(const Problem& problem, const PlanRequest& request, const KernelBlocks& blocks) {
  Plan plan;
  static_cast<PlanSettings&>(plan) = request;
  plan.problem = problem;
  plan.blocks = blocks;
  plan.program = request.program.value_or(problem.grouped() ? Program::gmm_v2 : Program::pipeline);
  plan.w_buffers = request.buffers + (plan.program == Program::gmm_v2 ? 1 : 0);
  if (problem.grouped()) {
    plan.matrix_rows = request.matrix_rows;
    if (plan.matrix_rows.empty()) plan.matrix_rows = even_counts(problem.rows(), problem.matrices);
  }
  if (plan.vmem_limit == 0) plan.vmem_limit = plan.machine.tpu->vmem_bytes;
  const bool aligned = problem.family == Family::block && blocks == KernelBlocks{problem.q, problem.q, problem.q};
  plan.mode = aligned ? Mode::aligned : Mode::large;
  // The published rules: the accumulator is kept where K takes several steps; the quantised x where one step has the
  // whole of K, so that the same x meets one w after another.
  const Grid grid = plan.grid(problem.rows());
  plan.save_acc = request.save_acc.value_or(grid[2] > 1);
  // In a grouped problem the steps along o are outermost: another x follows.
  plan.save_x_q =
      request.save_x_q.value_or(problem.quantizes_x() && !problem.grouped() && grid[2] == 1 && grid[1] > 1);
  return plan;
}

/// Halves the dimension with the most quanta until the blocks fit, and says which do.
std::string nearest_fit(const Plan& plan, const PlanRequest& request, const KernelBlocks& quantum) {
  KernelBlocks blocks = plan.blocks;
  for (;;) {
    std::int64_t KernelBlocks::*largest = &KernelBlocks::i;
    for (const auto other : {&KernelBlocks::o, &KernelBlocks::b}) {
      if (blocks.*other / quantum.*other > blocks.*largest / quantum.*largest) largest = other;
    }
    if (blocks.*largest <= quantum.*largest) return "; no blocks fit";
    blocks.*largest = round_up(blocks.*largest / 2, quantum.*largest);
    if (!check_vmem(plan_with(plan.problem, request, blocks))) {
      return fmt::format("; nearest that fit: {},{},{}", blocks.b, blocks.o, blocks.i);
    }
  }
}

std::optional<Refusal> check_modes(const Plan& plan, const PlanRequest& request) {
  const Grid grid = plan.grid(plan.problem.rows());
  if (entry_of(plan.program).grouped != plan.problem.grouped()) {
    std::vector<std::string_view> accepted;
    for (const ProgramEntry& entry : all_programs())
      if (entry.grouped == plan.problem.grouped()) accepted.push_back(entry.name);
    return Refusal(Reason::option, "program {} for a {} problem; {} are accepted", name_of(plan.program),
                   plan.problem.grouped() ? "grouped" : "dense", fmt::join(accepted, " and "));
  }
  const auto counts = static_cast<std::int64_t>(request.matrix_rows.size());
  if (counts != 0 && counts != plan.problem.matrices) {
    return Refusal(Reason::option, "matrix_rows has {} counts, and the problem has {} matrices", counts,
                   plan.problem.matrices);
  }
  if (request.mode && *request.mode != plan.mode) {
    return Refusal(Reason::option,
                   "mode {} with kernel blocks {},{},{} and Q = {}: aligned means B = O = I = Q, large means not",
                   name_of(*request.mode), plan.blocks.b, plan.blocks.o, plan.blocks.i, plan.problem.q);
  }
  const auto needs_one_step = [&](std::string_view option, std::string_view why) {
    return Refusal(Reason::option, "{} with {} steps along K: {}; I = {} makes one step", option, grid[2], why,
                   round_up(plan.problem.k, plan.blocks.i));
  };
  if (!plan.save_acc && grid[2] > 1) return needs_one_step("save_acc off", "partial sums need the accumulator");
  if (plan.save_x_q && !plan.problem.quantizes_x()) {
    return Refusal(Reason::option, "save_x_q on, and x is not quantised in the kernel; leave it auto");
  }
  if (plan.save_x_q && plan.problem.grouped()) {
    return Refusal(Reason::option, "save_x_q on in a grouped problem: the next step has another block of x");
  }
  if (plan.save_x_q && grid[2] > 1) return needs_one_step("save_x_q on", "the next step has another block of x");
  return std::nullopt;
}

ScaleLayout layout_of(const ScaleGrid& grid, std::int64_t rows, std::int64_t cols, std::int64_t tile_rows,
                      std::int64_t tile_cols) {
  const ScaleGrid group = grid.resolved(rows, cols);
  // A scale that spans a dimension is one entry of every block, however large the block.
  const std::int64_t block_rows = grid.group_rows == 0 ? 1 : tile_rows / group.group_rows;
  const std::int64_t block_cols = grid.group_cols == 0 ? 1 : tile_cols / group.group_cols;
  ScaleLayout layout{.transposed = grid.group_rows == 1,
                     .group_rows = group.group_rows,
                     .group_cols = group.group_cols,
                     .rows = ceil_div(rows, group.group_rows),
                     .cols = ceil_div(cols, group.group_cols),
                     .block_rows = std::max<std::int64_t>(1, block_rows),
                     .block_cols = std::max<std::int64_t>(1, block_cols)};
  if (layout.transposed) {
    std::swap(layout.rows, layout.cols);
    std::swap(layout.block_rows, layout.block_cols);
  }
  return layout;
}

}  // namespace

std::string_view name_of(Mode mode) noexcept { return mode == Mode::aligned ? "aligned" : "large"; }

Grid Plan::grid(std::int64_t m) const noexcept {
  return {std::max<std::int64_t>(1, ceil_div(m, blocks.b)), ceil_div(problem.n, blocks.o),
          ceil_div(problem.k, blocks.i)};
}

ScaleLayout Plan::x_scales(std::int64_t m) const noexcept {
  return layout_of(problem.a_scale.grid, m, problem.k, blocks.b, blocks.i);
}

ScaleLayout Plan::w_scales() const noexcept {
  return layout_of(problem.b_scale.grid, problem.n, problem.k, blocks.o, blocks.i);
}

KernelBlocks smallest_blocks(const Problem& problem, const Machine& machine) {
  return quanta_of(problem, machine).step;
}

KernelBlocks aligned_blocks(const Problem& problem, const Machine& machine) {
  KernelBlocks blocks = smallest_blocks(problem, machine);
  const std::int64_t q = problem.family == Family::block ? problem.q : kLanes;
  blocks.b = round_up(std::max(blocks.b, q), blocks.b);
  return blocks;
}

std::optional<Refusal> make_plan(const Problem& problem, const PlanRequest& request, Plan* plan) {
  const Quanta quanta = quanta_of(problem, request.machine);
  if (auto refusal = check_quanta(problem, quanta)) return refusal;
  if (request.blocks) {
    if (auto refusal = check_blocks(*request.blocks, quanta)) return refusal;
    *plan = plan_with(problem, request, *request.blocks);
    plan->source = "option";
    if (auto refusal = check_modes(*plan, request)) return refusal;
    auto refusal = check_vmem(*plan);
    if (refusal) refusal->text += nearest_fit(*plan, request, quanta.step);
    return refusal;
  }
  if (problem.grouped()) {
    *plan = plan_with(problem, request, quanta.step);
    *plan = plan_with(problem, request, gmm_blocks(*plan, quanta.step));
    plan->source = "rule";
    if (auto refusal = check_modes(*plan, request)) return refusal;
    if (check_vmem(*plan)) *plan = plan_with(problem, request, quanta.step);
    return check_vmem(*plan);
  }
  if (request.mode != Mode::aligned) {
    if (auto blocks = tuned_blocks(problem, *request.machine.tpu)) {
      // The table is made with one scale per token; square blocks of x need whole ones.
      blocks->b = round_up(blocks->b, quanta.step.b);
      blocks->i = round_up(blocks->i, quanta.step.i);
      *plan = plan_with(problem, request, *blocks);
      plan->source = "tuned";
      if (!check_blocks(*blocks, quanta) && !check_modes(*plan, request) && !check_vmem(*plan)) return std::nullopt;
    }
  }
  *plan = plan_with(problem, request, aligned_blocks(problem, request.machine));
  if (request.mode != Mode::aligned && check_vmem(*plan)) *plan = plan_with(problem, request, quanta.step);
  plan->source = "aligned";
  if (auto refusal = check_modes(*plan, request)) return refusal;
  return check_vmem(*plan);
}

}  // namespace ironcl::ironwood
