// SPDX-License-Identifier: Apache-2.0
// Setting up a core for a plan and running its program.
#include "backends/ironwood/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace ironcl::ironwood {

using numerics::DType;

Operands describe_operands(const Plan& plan, std::int64_t m) {
  const Problem& p = plan.problem;
  const auto array = [](const char* name, std::int64_t rows, std::int64_t cols, std::uint32_t element) {
    return HbmArray{.name = name, .rows = rows, .cols = cols, .row_bytes = cols * element, .element_bytes = element};
  };
  Operands operands;
  operands.x = array("x", m, p.k, numerics::size_of(p.x()));
  if (p.scaled_x()) {
    const ScaleLayout layout = plan.x_scales(m);
    operands.x_scale = array("x_scale", layout.rows, layout.cols, 4);
  }
  Operands::Matrix one{.w = array("w", p.n, p.k, numerics::size_of(p.w())), .w_scale = {}, .bias = {}};
  if (p.scaled_w()) {
    const ScaleLayout layout = plan.w_scales();
    one.w_scale = array("w_scale", layout.rows, layout.cols, 4);
  }
  if (p.bias != DType::none) one.bias = array("bias", 1, p.n, 4);
  operands.out = array("out", m, p.n, numerics::size_of(p.d));
  operands.matrices.assign(static_cast<std::size_t>(std::max<std::int64_t>(1, p.matrices)), one);
  if (!p.grouped()) return operands;
  for (std::size_t g = 0; g < operands.matrices.size(); ++g) {
    const std::string part = fmt::format("matrix {}", g);
    for (HbmArray* of : {&operands.matrices[g].w, &operands.matrices[g].w_scale, &operands.matrices[g].bias}) {
      of->part = part;
    }
  }
  operands.rows = deal_rows(p.grouping, p.m, plan.matrix_rows);
  return operands;
}

namespace {

constexpr ProgramEntry kPrograms[] = {
    {"pipeline", "the grid pipeline", run_pipeline_program, Program::pipeline, false, false, false},
    {"manual_dma", "the kernel's own copies", run_manual_program, Program::manual_dma, true, true, false},
    {"gmm_v1", "fixed tiles, visited once for each matrix", run_grouped_program, Program::gmm_v1, false, true, true},
    {"gmm_v2", "each matrix's own tiles, of the rows there are", run_grouped_program, Program::gmm_v2, true, true,
     true},
};

}  // namespace

std::span<const ProgramEntry> all_programs() noexcept { return kPrograms; }

const ProgramEntry& entry_of(Program program) noexcept {
  for (const ProgramEntry& entry : kPrograms) {
    if (entry.program == program) return entry;
  }
  return kPrograms[0];
}

std::string_view name_of(Program program) noexcept { return entry_of(program).name; }

const ProgramEntry* find_program(std::string_view name) noexcept {
  for (const ProgramEntry& entry : kPrograms) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

RunTotals run_program(const Plan& plan, std::int64_t m, const Operands& operands, Workers* workers,
                      Timeline* timeline) {
  Core core(plan.machine, workers != nullptr, plan.vmem_limit, timeline);
  core.advance(plan.machine.assume.launch_ns);
  RunTotals totals;
  totals.copies = entry_of(plan.program).run(core, plan, m, operands, workers);
  totals.core = core.finish();
  totals.time_ns = totals.core.end_ns;
  return totals;
}

}  // namespace ironcl::ironwood
