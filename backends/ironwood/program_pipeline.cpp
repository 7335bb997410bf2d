// SPDX-License-Identifier: Apache-2.0
// The published kernel: grid (b, o, i) with i fastest, on the pipeline.
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {

PipelineTotals run_pipeline_program(Core& core, const Plan& plan, const Operands& operands, Workers* workers) {
  ProgramInputs program(core, plan, operands);
  Slots out = output_slots(core, plan, operands);
  KernelBody body(core, plan, operands.x.rows, workers);
  return run_pipeline(
      program.inputs(), out,
      [&](const GridIndex& g) {
        return Block{&operands.out, block_region(operands.out, plan.blocks.b, plan.blocks.o, {g[0], g[1]})};
      },
      [&](const Step& step, std::byte* block) {
        StepTile tile = program.tile(step);
        tile.out = block;
        return body.step(tile);
      },
      "step");
}

}  // namespace ironcl::ironwood
