// SPDX-License-Identifier: Apache-2.0
// The kernels of one matrix: the published one, with grid (b, o, i) and i fastest, on the pipeline; and the same GEMM
// as a kernel that moves its own tiles, as the production kernels do (fused_moe v1, ragged paged attention v3): grid
// (1,), operands in HBM, loops over (b, o, i) inside, a prefetch that crosses all three loops.
//
//   start the fetch of the tiles that the next steps need -> wait for this step's -> compute
//     -> (last k) wait for the store that used this output slot -> finish the block -> start its store
//
// There sizes are dynamic, so a ragged last block of rows costs its rows and no more; a tile and its scales share one
// semaphore and are waited for once, by their bytes together; the bias stays in VMEM.
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

PipelineTotals run_manual_program(Core& core, const Plan& plan, const Operands& operands, Workers* workers) {
  ProgramInputs program(core, plan, operands);
  Slots out = output_slots(core, plan, operands);
  KernelBody body(core, plan, operands.x.rows, workers);
  std::int64_t stores = 0;
  while (const Step* step = program.inputs().next()) {
    StepTile tile = program.tile(*step);
    if (tile.last_k) {
      out.wait_before(stores - out.count() + 1);
      tile.out = out.writable(stores);
    }
    core.compute(body.step(tile), step->number, "tile");
    if (!tile.last_k) continue;
    const BlockIndex block{step->index[0], step->index[1]};
    out.copy_out(stores++, operands.out, block_region(operands.out, plan.blocks.b, plan.blocks.o, block),
                 step->number);
  }
  out.wait_before(stores);
  return program.inputs().totals(out);
}

}  // namespace ironcl::ironwood
