// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

std::unique_ptr<Step> schedule_step(const ScheduleShape& shape, const PlanContext& plan) {
  const Problem& p = plan.problem;
  const std::int64_t lanes =
      std::min<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(p.matrices)), lanes_of(plan.features, 256));
  Defines defines = device_defines(plan.features);
  defines["LANES"] = std::to_string(lanes);
  if (shape.even) defines["EVEN_TILES"] = "1";
  const auto bind_constants = [&p, shape](cl::Kernel& kernel) {
    const ScheduleLists lists(p, p.m, shape);
    bind<ScheduleRowsArg::matrices>(kernel, p.matrices);
    bind<ScheduleRowsArg::masked>(kernel, p.masked());
    bind<ScheduleRowsArg::tile>(kernel, shape.tile_rows);
    bind<ScheduleRowsArg::block>(kernel, shape.block_tiles);
    bind<ScheduleRowsArg::tiles_at>(kernel, lists.tiles_at);
    bind<ScheduleRowsArg::blocks_at>(kernel, lists.blocks_at);
  };
  const auto run = [schedule = plan.scheduled, lanes](cl::Kernel& kernel, Call& call) {
    bind<ScheduleRowsArg::m>(kernel, call.m);
    bind_memory<ScheduleRowsArg::matrix_rows>(kernel, call.at({Source::matrix_rows, 0}), 4);
    bind_memory<ScheduleRowsArg::schedule_memory>(kernel, call.at(schedule), 4);
    call.launch(kernel, 1, 1, lanes, true);
  };
  return std::make_unique<KernelStep>("schedule rows", "schedule.cl", "schedule", std::move(defines), "",
                                      bind_constants, run);
}

}  // namespace ironcl::opencl
