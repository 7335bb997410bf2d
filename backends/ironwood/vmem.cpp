// SPDX-License-Identifier: Apache-2.0
// The parts of vmem.h are the buffers that program_*.cpp allocate; a test holds the two together.
#include "backends/ironwood/cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/ironwood/program.h"
#include "backends/numerics/checked.h"

namespace ironcl::ironwood {
namespace {

using numerics::DType;
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
  std::int64_t x_scale = 0, w_scale = 0;
  if (p.scaled_x()) {
    const ScaleLayout layout = plan.x_scales(p.m);
    x_scale = layout.block_rows * layout.block_cols * 4;
  }
  if (p.scaled_w()) {
    const ScaleLayout layout = plan.w_scales();
    w_scale = layout.block_rows * layout.block_cols * 4;
  }
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
  const Problem& p = plan.problem;
  const KernelBlocks& k = plan.blocks;
  const Grid grid = plan.grid(p.rows());
  VmemUse use;
  const auto add = [&](const char* name, int slots, std::int64_t rows, std::int64_t cols, std::uint32_t bytes) {
    VmemPart part{.name = name, .slots = slots, .rows = rows, .cols = cols, .element_bytes = bytes};
    part.bytes = numerics::checked_mul(plan.machine.padded_bytes(rows, cols, bytes), slots);
    use.footprint_bytes = numerics::checked_add(use.footprint_bytes, part.bytes);
    use.parts.push_back(std::move(part));
  };
  const bool manual = entry_of(plan.program).own_buffers;
  // The pipeline loads a block that covers its array once, into one buffer; the manual kernel has the same slots
  // always.
  const auto slots = [&](bool covers) { return covers && !manual ? 1 : plan.buffers; };
  const auto add_scales = [&](const char* name, const ScaleLayout& layout) {
    add(name, slots(layout.block_rows >= layout.rows && layout.block_cols >= layout.cols), layout.block_rows,
        layout.block_cols, 4);
  };
  add("x", slots(k.b >= p.m && grid[2] == 1), k.b, k.i, size_of(p.x()));
  add("w", p.grouped() ? plan.w_buffers : slots(grid[1] == 1 && grid[2] == 1), k.o, k.i, size_of(p.w()));
  if (p.scaled_x()) add_scales("x_scale", plan.x_scales(std::max<std::int64_t>(p.rows(), 1)));
  if (p.scaled_w()) add_scales("w_scale", plan.w_scales());
  if (p.bias != DType::none && p.grouped()) {
    add("bias", plan.buffers, 1, k.o, 4);
  } else if (p.bias != DType::none) {
    add("bias", manual || grid[1] == 1 ? 1 : plan.buffers, 1, manual ? p.n : k.o, 4);
  }
  add("out", std::min(plan.buffers, 2), k.b, k.o, size_of(p.d));
  if (plan.program == Program::gmm_v2) {
    add("partial_out", 1, plan.machine.sublane_tile(size_of(p.x())), k.o, size_of(p.d));
  }
  if (plan.save_acc) add("acc", 1, k.b, k.o, 4);
  if (plan.save_x_q) add("x_q", 1, k.b, k.i, 1);
  use.formula_bytes = p.grouped() ? gmm_vmem_estimate(plan, plan.blocks) : formula(plan, grid);
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
