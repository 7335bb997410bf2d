// SPDX-License-Identifier: Apache-2.0
// Work of a step from block sizes and rates.
#include "backends/ironwood/cost.h"

namespace ironcl::ironwood {
namespace {

using numerics::ceil_div;
using numerics::DType;
using numerics::size_of;

/// Parts of bf16 that an operand is split into: f16 and f32 have 11 = 8 + 3 and 24 = 8 + 8 + 8 bits.
int parts(DType type) noexcept { return type == DType::f32 ? 3 : type == DType::f16 ? 2 : 1; }

/// Passes through the MXU for one multiplication: each part with each, but for those that lie below the last bit of
/// the wider operand. f32 by f32 takes 6, as XLA's highest precision does. An assumption.
int passes(DType left, DType right) noexcept {
  const int l = parts(left), r = parts(right);
  int count = 0;
  for (int i = 0; i < l; ++i) count += std::min(r, std::max(l, r) - i);
  return count;
}

/// Depth and columns of one dot: a quantisation block of the weights, or what fits the array.
struct Dot {
  std::int64_t cols, depth;
};

/// gmm_v2 multiplies unquantised x with weights that it has widened and scaled in VMEM, where their K group is
/// narrower than the array: the dots then fill it.
bool dequantizes_first(const Plan& plan) noexcept {
  const Problem& p = plan.problem;
  return plan.program == Program::gmm_v2 && numerics::is_float(p.a) && p.scaled_w() && p.group < p.k &&
         p.group < plan.machine.tpu->mxu_size;
}

Dot dot_of(const Plan& plan) {
  const Problem& p = plan.problem;
  const std::int64_t array = plan.machine.tpu->mxu_size;
  if (dequantizes_first(plan)) return {plan.blocks.o, plan.blocks.i};
  // A group of few rows is scaled on the vector unit, whatever the width of the dot: narrower than a native tile is
  // never worth a push of its own.
  // The grouped kernels have a scale for every column, so their dots are as wide as the array.
  const std::int64_t cols =
      p.family == Family::block && !p.grouped() ? std::max<std::int64_t>(p.q, plan.machine.tpu->lanes) : array;
  // A K group that spans K is accumulated inside the MXU, dot after dot.
  const std::int64_t depth = p.group >= p.k ? plan.blocks.i : p.group;
  return {std::min(cols, plan.blocks.o), std::min(depth, plan.blocks.i)};
}

/// Of a grouped problem, by the visits of an even load: what run_grouped_program would step through.
double estimate_grouped_ns(const Plan& plan) {
  const Problem& p = plan.problem;
  const std::vector<MatrixRows> dealt = deal_rows(p.grouping, p.m, plan.matrix_rows);
  const Grid grid = plan.grid(p.rows());
  const auto no = static_cast<double>(grid[1]), ni = static_cast<double>(grid[2]);
  const double weights = 1.0 * p.n * p.k * size_of(p.w());
  double compute_ns = 0, rows = 0, weight_reads = 0;
  std::int64_t last = -1;
  for (const Visit& visit : visits_of(plan, dealt, p.rows())) {
    const std::int64_t given = rows_multiplied(plan, visit);
    const Work inner = step_work(plan, given, p.quantizes_x(), false),
               outer = step_work(plan, given, p.quantizes_x(), true);
    compute_ns += no * ((ni - 1) * std::max(inner.mxu_ns, inner.vpu_ns) + std::max(outer.mxu_ns, outer.vpu_ns));
    rows += static_cast<double>(visit.tile_rows);
    if (ni > 1 || visit.matrix != last) weight_reads += 1;
    last = visit.matrix;
  }
  const double x_bytes = no * rows * p.k * size_of(p.x());
  const double out_bytes = rows * p.n * size_of(p.d);
  const double transfer_ns = (weight_reads * weights + x_bytes + out_bytes) / plan.machine.hbm_bytes_per_ns();
  return plan.machine.assume.launch_ns + std::max(compute_ns, transfer_ns);
}

}  // namespace

DType mxu_type(const Machine& machine, DType left, DType right) noexcept {
  const auto fp8 = [](DType type) { return type == DType::e4m3fn || type == DType::e5m2; };
  if (fp8(left) && fp8(right)) return DType::e4m3fn;
  if (left == DType::i8 && right == DType::i8 && machine.tpu->int8_ops > 0) return DType::i8;
  return DType::bf16;
}

double dot_ns(const Machine& machine, DType left, DType right, std::int64_t rows, std::int64_t cols,
              std::int64_t depth) {
  const std::int64_t array = machine.tpu->mxu_size;
  const double pushes = static_cast<double>(ceil_div(depth, array)) * static_cast<double>(ceil_div(cols, array));
  const double rate = machine.rows_per_s(mxu_type(machine, left, right));
  return pushes * static_cast<double>(rows) * passes(left, right) / rate * 1e9;
}

Work step_work(const Plan& plan, std::int64_t rows, bool quantizes, bool stores) {
  const KernelBlocks& blocks = plan.blocks;
  const Assumptions& assume = plan.machine.assume;
  const Dot dot = dot_of(plan);
  const DType left = plan.problem.a, right = plan.problem.w();
  const auto along_k = static_cast<double>(ceil_div(blocks.i, dot.depth));
  const auto along_n = static_cast<double>(ceil_div(blocks.o, dot.cols));
  Work work;
  work.mxu_ns = along_k * along_n * dot_ns(plan.machine, left, right, rows, dot.cols, dot.depth);

  const double outputs = 1.0 * rows * blocks.o;
  double operations = 0;
  if (quantizes) operations += 1.0 * rows * blocks.i * assume.vpu_ops_per_quantised_element;
  if (mxu_type(plan.machine, left, right) == DType::bf16) {
    const auto widened = [&](DType type, std::int64_t of_rows) {
      return type == DType::i8 ? 1.0 * of_rows * blocks.i : 0.0;
    };
    operations += (widened(left, rows) + widened(right, blocks.o)) * assume.vpu_ops_per_widened_element;
  }
  // Each K group's sum is scaled and added. Where one group spans K, the steps add and the last one scales.
  double scales = (plan.problem.scaled_x() ? 1 : 0) + (plan.problem.scaled_w() ? 1 : 0);
  const bool dequantizes = dequantizes_first(plan);
  if (dequantizes) {  // The weights are widened and scaled, the sums only added.
    operations += 1.0 * blocks.o * blocks.i * (assume.vpu_ops_per_widened_element + 1);
    scales = 0;
  }
  if (plan.problem.group < plan.problem.k && !dequantizes) {
    operations += outputs * along_k * (scales + 1);
  } else {
    operations += (plan.save_acc ? outputs : 0) + (stores ? outputs * scales : 0);
  }
  if (stores) operations += outputs * assume.vpu_ops_per_stored_element;
  work.vpu_ns = operations / plan.machine.vpu_ops_per_s() * 1e9;
  return work;
}

std::int64_t rows_multiplied(const Plan& plan, const Visit& visit) {
  std::int64_t rows = plan.blocks.b;
  if (plan.program == Program::gmm_v2)
    rows = numerics::round_up(visit.first + visit.rows - visit.tile_first, gmm_v2_bucket(plan));
  if (plan.program == Program::manual_dma)
    rows = numerics::round_up(visit.rows, plan.machine.sublane_tile(size_of(plan.problem.a)));
  return std::min(plan.blocks.b, rows);
}

double estimate_ns(const Plan& plan, std::int64_t m) {
  if (plan.problem.grouped()) return estimate_grouped_ns(plan);
  const Grid grid = plan.grid(m);
  const auto nb = static_cast<double>(grid[0]), no = static_cast<double>(grid[1]), ni = static_cast<double>(grid[2]);
  const KernelBlocks& k = plan.blocks;
  // Bytes of a tile of x, of w and of out.
  const double x = 1.0 * k.b * k.i * size_of(plan.problem.x());
  const double w = 1.0 * k.o * k.i * size_of(plan.problem.w());
  const double out = 1.0 * k.b * k.o * size_of(plan.problem.d);
  // The closed forms of the fetch counts: x (b, i), w (o, i), out (b, o), i fastest.
  const double x_fetches = ni > 1 ? nb * no * ni : nb;
  const double w_fetches = no > 1 ? nb * no * ni : ni > 1 ? nb * ni : 1;
  const double bytes = x_fetches * x + w_fetches * w + nb * no * out;
  const Work inner = step_work(plan, k.b, plan.problem.quantizes_x() && !plan.save_x_q, false);
  const Work last = step_work(plan, k.b, plan.problem.quantizes_x(), true);
  const double compute_ns =
      nb * no * ((ni - 1) * std::max(inner.mxu_ns, inner.vpu_ns) + std::max(last.mxu_ns, last.vpu_ns));
  const double transfer_ns = bytes / plan.machine.hbm_bytes_per_ns();
  const double first = (x + w) / plan.machine.hbm_bytes_per_ns();
  const double last_store = out / plan.machine.hbm_bytes_per_ns();
  const double overlapped = std::max(compute_ns, transfer_ns - first - last_store);
  return plan.machine.assume.launch_ns + nb * no * ni * plan.machine.assume.step_overhead_ns +
         (plan.buffers > 1 ? first + overlapped + last_store : compute_ns + transfer_ns);
}

}  // namespace ironcl::ironwood
