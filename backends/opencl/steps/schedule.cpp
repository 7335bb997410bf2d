// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

class ScheduleRows final : public Step {
 public:
  ScheduleRows(const ScheduleShape& shape, const PlanContext& plan)
      : shape_(shape),
        problem_(plan.problem),
        schedule_(plan.scheduled),
        lanes_(std::min<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(plan.problem.matrices)),
                                      lanes_of(plan.features, 256))) {}

  std::string name() const override { return "schedule rows"; }

  void build(ProgramBuilder& builder) override {
    Defines defines{{"LANES", std::to_string(lanes_)}};
    if (shape_.even) defines["EVEN_TILES"] = "1";
    const ScheduleLists lists(problem_, problem_.m, shape_);
    kernel_ = cl::Kernel(builder.build("schedule.cl", defines), "schedule");
    bind<ScheduleRowsArg::matrices>(kernel_, problem_.matrices);
    bind<ScheduleRowsArg::masked>(kernel_, problem_.masked());
    bind<ScheduleRowsArg::tile>(kernel_, shape_.tile_rows);
    bind<ScheduleRowsArg::block>(kernel_, shape_.block_tiles);
    bind<ScheduleRowsArg::tiles_at>(kernel_, lists.tiles_at);
    bind<ScheduleRowsArg::blocks_at>(kernel_, lists.blocks_at);
  }

  void launch(Call& call) override {
    bind<ScheduleRowsArg::m>(kernel_, call.m);
    bind_memory<ScheduleRowsArg::matrix_rows>(kernel_, call.at({Source::matrix_rows, 0}), 4);
    bind_memory<ScheduleRowsArg::schedule_memory>(kernel_, call.at(schedule_), 4);
    call.launch(kernel_, 1, 1, lanes_, true);
  }

 private:
  ScheduleShape shape_;
  const Problem& problem_;
  Place schedule_;
  std::int64_t lanes_;
  cl::Kernel kernel_;
};

}  // namespace

Place book_schedule(const ScheduleShape& shape, const PlanContext& plan) {
  return plan.booking.book(numerics::Size(ScheduleLists(plan.problem, plan.problem.m, shape).elements) * 4);
}

std::unique_ptr<Step> schedule_step(const ScheduleShape& shape, const PlanContext& plan) {
  return std::make_unique<ScheduleRows>(shape, plan);
}

}  // namespace ironcl::opencl
