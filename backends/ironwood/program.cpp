// SPDX-License-Identifier: Apache-2.0
// Setting up a core for a plan and running its program.
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {

using numerics::DType;

Operands describe_operands(const Plan& plan, std::int64_t m) {
  const Problem& p = plan.problem;
  const auto array = [](const char* name, std::int64_t rows, std::int64_t cols, std::uint32_t element) {
    return HbmArray{.name = name, .rows = rows, .cols = cols, .row_bytes = cols * element, .element_bytes = element};
  };
  Operands operands;
  operands.x = array("x", m, p.k, numerics::size_of(p.x));
  operands.w = array("w", p.n, p.k, numerics::size_of(p.w));
  if (p.scaled_x) {
    const ScaleLayout layout = plan.x_scales(m);
    operands.x_scale = array("x_scale", layout.rows, layout.cols, 4);
  }
  if (p.w_scale != DType::none) {
    const ScaleLayout layout = plan.w_scales();
    operands.w_scale = array("w_scale", layout.rows, layout.cols, 4);
  }
  if (p.bias != DType::none) operands.bias = array("bias", 1, p.n, 4);
  operands.out = array("out", m, p.n, numerics::size_of(p.d));
  return operands;
}

RunTotals run_program(const Plan& plan, std::int64_t m, const Operands& operands, Workers* workers,
                      Timeline* timeline) {
  Core core(plan.machine, workers != nullptr, plan.vmem_limit, timeline);
  core.advance(plan.machine.assume.launch_ns);
  RunTotals totals;
  totals.copies = plan.program == Program::pipeline ? run_pipeline_program(core, plan, m, operands, workers)
                                                    : run_manual_program(core, plan, m, operands, workers);
  totals.core = core.finish();
  totals.time_ns = totals.core.end_ns;
  return totals;
}

}  // namespace ironcl::ironwood
