// SPDX-License-Identifier: Apache-2.0
// The VMEM of a plan: what its program allocates, and what the published formula says.
#include "backends/ironwood/cost.h"

#include <algorithm>
#include <limits>

namespace ironcl::ironwood {
namespace {

using numerics::size_of;

/// get_vmem_limit of fp8_quantized_matmul_2d (util.py 224-297) and of the 1D kernel: everything twice for temporaries
/// and register spills, an operand that changes between steps once more, scratch twice.
std::int64_t formula(const Plan& plan, const Grid& grid) {
  const Problem& p = plan.problem;
  const KernelBlocks& k = plan.blocks;
  const std::int64_t x = k.b * k.i * size_of(p.x());
  const std::int64_t w = k.o * k.i * size_of(p.w());
  const std::int64_t out = k.b * k.o * size_of(p.d);
  const std::int64_t acc = k.b * k.o * 4;
  const auto bytes_of = [](const ScaleLayout& layout) { return layout.block_rows * layout.block_cols * 4; };
  const std::int64_t x_scale = p.scaled_x() ? bytes_of(plan.x_scales(p.m)) : 0;
  const std::int64_t w_scale = p.scaled_w() ? bytes_of(plan.w_scales()) : 0;
  const bool many_b = grid[0] > 1, many_o = grid[1] > 1, many_i = grid[2] > 1;
  std::int64_t used = 2 * (x + x_scale + w + w_scale + out);
  if (many_b || many_i) used += x;
  if (many_b) used += x_scale;
  if (many_o || many_i) used += w;
  if (many_o) used += w_scale;
  if (many_b || many_o) used += out;
  if (plan.save_acc) used += 2 * acc;
  if (plan.save_x_q) used += 2 * (k.b * k.i + x_scale);
  return used;
}

}  // namespace

VmemUse vmem_of(const Plan& plan) {
  const std::int64_t m = std::max<std::int64_t>(plan.problem.rows(), 1);
  Core core(plan.machine, false, std::numeric_limits<std::int64_t>::max(), nullptr);
  entry_of(plan.program).run(core, plan, describe_arrays(plan, m), nullptr);
  VmemUse use;
  use.parts.assign(core.buffers().begin(), core.buffers().end());
  use.footprint_bytes = core.finish().vmem_bytes;
  use.formula_bytes =
      plan.problem.grouped() ? gmm_vmem_estimate(plan, plan.blocks) : formula(plan, plan.grid(plan.problem.rows()));
  return use;
}

std::optional<Refusal> check_vmem(const Plan& plan) {
  const VmemUse use = vmem_of(plan);
  const bool formula_rule = plan.vmem_rule == VmemRule::formula;
  const std::int64_t needed = formula_rule ? use.formula_bytes : use.footprint_bytes;
  if (needed <= plan.vmem_limit && use.footprint_bytes <= plan.vmem_limit) return std::nullopt;
  return Refusal(backend::Reason::device_memory,
                 "VMEM: kernel blocks {},{},{} with {} buffers take {} bytes{} and the limit is {}", plan.blocks.b,
                 plan.blocks.o, plan.blocks.i, plan.buffers, needed, formula_rule ? " by the published formula" : "",
                 plan.vmem_limit);
}

}  // namespace ironcl::ironwood
