// SPDX-License-Identifier: Apache-2.0
// Work of a step from block sizes and rates.
#include "backends/ironwood/cost.h"

#include <algorithm>

#include "backends/numerics/checked.h"

namespace ironcl::ironwood {
namespace {

using numerics::ceil_div;
using numerics::DType;

/// Passes through the MXU for one multiplication. e4m3fn and bf16 take one. f16 and f32 are split into bf16 parts
/// (11 = 8 + 3 and 24 = 8 + 8 + 8 bits); the right operand is exact in bf16. An assumption.
int passes(DType left) noexcept { return left == DType::f32 ? 3 : left == DType::f16 ? 2 : 1; }

/// Depth and columns of one dot: a quantisation block of the weights, or what fits the array.
struct Dot {
  std::int64_t cols, depth;
};

Dot dot_of(const Plan& plan) {
  const Problem& p = plan.problem;
  const std::int64_t array = plan.machine.tpu->mxu_size;
  // A group of few rows is scaled on the vector unit, whatever the width of the dot: narrower than a native tile is
  // never worth a push of its own.
  const std::int64_t cols = p.family == Family::block ? std::max<std::int64_t>(p.q, plan.machine.tpu->lanes) : array;
  // A K group that spans K is accumulated inside the MXU, dot after dot.
  const std::int64_t depth = p.group >= p.k ? plan.blocks.i : p.group;
  return {std::min(cols, plan.blocks.o), std::min(depth, plan.blocks.i)};
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
  return pushes * static_cast<double>(rows) * passes(left) / rate * 1e9;
}

Work step_work(const Plan& plan, std::int64_t rows, bool quantizes, bool stores) {
  const KernelBlocks& blocks = plan.blocks;
  const Assumptions& assume = plan.machine.assume;
  const Dot dot = dot_of(plan);
  const DType left = plan.problem.multiplied(), right = plan.problem.w;
  const auto along_k = static_cast<double>(ceil_div(blocks.i, dot.depth));
  const auto along_n = static_cast<double>(ceil_div(blocks.o, dot.cols));
  Work work;
  work.mxu_ns = along_k * along_n * dot_ns(plan.machine, left, right, rows, dot.cols, dot.depth);

  const double outputs = static_cast<double>(rows) * static_cast<double>(blocks.o);
  double operations = 0;
  if (quantizes) {
    operations += static_cast<double>(rows) * static_cast<double>(blocks.i) * assume.vpu_ops_per_quantised_element;
  }
  if (mxu_type(plan.machine, left, right) == DType::bf16) {
    const auto widened = [&](DType type, std::int64_t of_rows) {
      return type == DType::i8 ? static_cast<double>(of_rows) * static_cast<double>(blocks.i) : 0.0;
    };
    operations += (widened(left, rows) + widened(right, blocks.o)) * assume.vpu_ops_per_widened_element;
  }
  // Each K group's sum is scaled and added. Where one group spans K, the steps add and the last one scales.
  const double scales = (plan.problem.scaled_x ? 1 : 0) + (plan.problem.w_scale != DType::none ? 1 : 0);
  if (plan.problem.group < plan.problem.k) {
    operations += outputs * along_k * (scales + 1);
  } else {
    operations += (plan.save_acc ? outputs : 0) + (stores ? outputs * scales : 0);
  }
  if (stores) operations += outputs * assume.vpu_ops_per_stored_element;
  work.vpu_ns = operations / plan.machine.vpu_ops_per_s() * 1e9;
  return work;
}

Estimate estimate(const Plan& plan, std::int64_t m) {
  const Grid grid = plan.grid(m);
  const auto nb = static_cast<double>(grid[0]), no = static_cast<double>(grid[1]), ni = static_cast<double>(grid[2]);
  const KernelBlocks& k = plan.blocks;
  const auto area = [](std::int64_t a, std::int64_t b, std::uint32_t bytes) {
    return static_cast<double>(a) * static_cast<double>(b) * bytes;
  };
  // The closed forms of the fetch counts: x (b, i), w (o, i), out (b, o), i fastest.
  const double x_fetches = ni > 1 ? nb * no * ni : nb;
  const double w_fetches = no > 1 ? nb * no * ni : ni > 1 ? nb * ni : 1;
  const double bytes = x_fetches * area(k.b, k.i, numerics::size_of(plan.problem.x)) +
                       w_fetches * area(k.o, k.i, numerics::size_of(plan.problem.w)) +
                       nb * no * area(k.b, k.o, numerics::size_of(plan.problem.d));
  const Work inner = step_work(plan, k.b, plan.problem.quantize_x && !plan.save_x_q, false);
  const Work last = step_work(plan, k.b, plan.problem.quantize_x, true);
  Estimate sum;
  sum.compute_ns = nb * no * ((ni - 1) * std::max(inner.mxu_ns, inner.vpu_ns) + std::max(last.mxu_ns, last.vpu_ns));
  sum.transfer_ns = bytes / plan.machine.hbm_bytes_per_ns();
  const double first =
      (area(k.b, k.i, numerics::size_of(plan.problem.x)) + area(k.o, k.i, numerics::size_of(plan.problem.w))) /
      plan.machine.hbm_bytes_per_ns();
  const double last_store = area(k.b, k.o, numerics::size_of(plan.problem.d)) / plan.machine.hbm_bytes_per_ns();
  const double overlapped = std::max(sum.compute_ns, sum.transfer_ns - first - last_store);
  sum.time_ns = plan.machine.assume.launch_ns + nb * no * ni * plan.machine.assume.step_overhead_ns +
                (plan.buffers > 1 ? first + overlapped + last_store : sum.compute_ns + sum.transfer_ns);
  return sum;
}

}  // namespace ironcl::ironwood
