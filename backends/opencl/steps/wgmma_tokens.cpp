// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/wgmma_tokens.h"

#include <algorithm>
#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/quantizer.h"
#include "backends/opencl/steps/schedule.h"

namespace ironcl::opencl {
namespace {

/// The most matrices that a work-group schedules: 32 bytes each of its local memory.
constexpr std::int64_t kMostMatricesScheduled = 256;
constexpr std::int64_t kItems = 128;
/// Work-groups of a grouped problem for each compute unit: as many as are there at once. Each schedules all rows
/// before it takes its first, and a masked problem has room for many more rows than there are. 8, 16, 24 of 6188 x
/// 4096 codes take the same time, 64 a sixth more (docs/performance/h200-grouped.md).
constexpr std::int64_t kGroupsOfUnit = 16;

/// What the steps of this file have in common where rows are scheduled to matrices.
class Scheduler {
 public:
  explicit Scheduler(const PlanContext& plan)
      : problem_(plan.problem),
        schedule_(plan.scheduled),
        rows_(plan.scheduled_rows),
        schedules_(wgmma_step_schedules(plan)),
        most_(kGroupsOfUnit * plan.features.compute_units) {
    if (!schedules_) return;
    const ScheduleLists lists(problem_, plan.desc.m, {rows_, 1});
    tiles_at_ = lists.tiles_at;
    blocks_at_ = lists.blocks_at;
  }

  void define(Defines& defines) const {
    if (!problem_.grouped()) return;
    defines["GROUPED"] = "1", defines["SCHEDULED_ROWS"] = std::to_string(rows_);
    if (schedules_) defines["SCHEDULES"] = "1";
  }

  /// Binds SCHEDULE_FIRST_LIST of cl/arguments.cl, from argument `first` on; returns the number of the argument after
  /// them.
  cl_uint set(cl::Kernel& kernel, cl_uint first, const Call& call) const {
    if (!problem_.grouped()) return first;
    if (!schedules_) return bind_schedule(kernel, first, call, schedule_);
    bind_memory<ScheduleFirstArg::schedule_memory>(kernel, call.at(schedule_), 4, first);
    bind<ScheduleFirstArg::matrices>(kernel, problem_.matrices, first);
    bind<ScheduleFirstArg::masked>(kernel, problem_.masked, first);
    bind_memory<ScheduleFirstArg::matrix_rows>(kernel, call.at({Source::matrix_rows, 0}), 4, first);
    bind<ScheduleFirstArg::tiles_at>(kernel, tiles_at_, first);
    bind<ScheduleFirstArg::blocks_at>(kernel, blocks_at_, first);
    bind<ScheduleFirstArg::table>(kernel, cl::Local(static_cast<std::size_t>(problem_.matrices) * 32), first);
    return first + kCountOf<ScheduleFirstArg>;
  }

  /// Rows in tiles, as many as there may be.
  std::int64_t rows(std::int64_t m) const { return problem_.grouped() ? most_tiles(problem_, m, rows_) * rows_ : m; }

  /// Launches for `count` pieces of work of a work-group each.
  void launch(const cl::Kernel& kernel, Call& call, std::int64_t count) const {
    if (problem_.grouped()) count = std::min(count, most_);
    call.launch(kernel, cl::NDRange(static_cast<std::size_t>(count), 1), cl::NDRange(kItems, 1), schedules_);
  }

 private:
  Problem problem_;
  Place schedule_;
  std::int64_t rows_;
  bool schedules_;
  std::int64_t most_;
  std::int64_t tiles_at_ = 0, blocks_at_ = 0;
};

class QuantizeTokens final : public Step {
 public:
  QuantizeTokens(bool half, const Operand& x, const Operand& out, const PlanContext& plan)
      : half_(half),
        x_(x),
        out_(out),
        k_(plan.desc.k),
        scheduler_(plan),
        amax_floor_(plan.desc.a_quantizer.amax_floor),
        defines_(quantizer_defines(plan.features, x.element, plan.desc.a, plan.desc.a_quantizer)),
        options_(quantizer_options(plan.features)) {
    scheduler_.define(defines_);
  }

  std::string name() const override { return "quantize tokens"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("quantize_wgmma.cl", defines_, options_),
                         half_ ? "quantize_wgmma_f16" : "quantize_wgmma_fp8");
    bind<QuantizeTokensArg::k>(kernel_, k_);
    bind<QuantizeTokensArg::blocks>(kernel_, out_.scale_ld);
    bind<QuantizeTokensArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(amax_floor_));
    bind<QuantizeTokensArg::ldx>(kernel_, x_.ld);
  }

  void launch(Call& call) override {
    bind<QuantizeTokensArg::m>(kernel_, call.m);
    bind_memory<QuantizeTokensArg::x>(kernel_, call.at(x_.data), numerics::size_of(x_.element));
    bind_memory<QuantizeTokensArg::out>(kernel_, call.at(out_.data), 1);
    bind_memory<QuantizeTokensArg::scales>(kernel_, call.at(out_.scales), 4);
    scheduler_.set(kernel_, kCountOf<QuantizeTokensArg>, call);
    constexpr std::int64_t kWarps = kItems / 32, kRowsOfWarp = 16;
    const std::int64_t warps = numerics::ceil_div(scheduler_.rows(call.m), kRowsOfWarp) * out_.scale_ld;
    scheduler_.launch(kernel_, call, numerics::ceil_div(warps, kWarps));
  }

 private:
  bool half_;
  Operand x_, out_;
  std::int64_t k_;
  Scheduler scheduler_;
  float amax_floor_;
  Defines defines_;
  std::string options_;
  cl::Kernel kernel_;
};

class PackTokens final : public Step {
 public:
  PackTokens(bool half, const Operand& a, const Operand& out, const PlanContext& plan)
      : half_(half), a_(a), out_(out), k_(plan.desc.k), scheduler_(plan), defines_(device_defines(plan.features)) {
    scheduler_.define(defines_);
    if (a.gathered) defines_["GATHER"] = "1";
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["SCALE_TYPE"] = kernel_number(a.scale);
  }

  std::string name() const override { return "pack tokens"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("pack_wgmma.cl", defines_), half_ ? "pack_wgmma_f16" : "pack_wgmma_fp8");
    bind<PackTokensArg::k>(kernel_, k_);
    bind<PackTokensArg::blocks>(kernel_, out_.scale_ld);
    bind<PackTokensArg::lda>(kernel_, a_.ld);
    bind<PackTokensArg::lds>(kernel_, a_.scale_ld);
    bind<PackTokensArg::scale_rows>(kernel_, reach(a_.grid.group_rows));
    bind<PackTokensArg::scale_cols>(kernel_, reach(a_.grid.group_cols));
  }

  void launch(Call& call) override {
    bind<PackTokensArg::m>(kernel_, call.m);
    bind_memory<PackTokensArg::a>(kernel_, call.at(a_.data), numerics::size_of(a_.element));
    bind_memory<PackTokensArg::sa>(kernel_, call.at(a_.scales), numerics::size_of(a_.scale));
    bind_memory<PackTokensArg::out>(kernel_, call.at(out_.data), 1);
    bind_memory<PackTokensArg::scales>(kernel_, call.at(out_.scales), 4);
    const cl_uint next = scheduler_.set(kernel_, kCountOf<PackTokensArg>, call);
    if (a_.gathered) bind_gather(kernel_, next, call);
    scheduler_.launch(kernel_, call, numerics::ceil_div(scheduler_.rows(call.m), std::int64_t{64}) * out_.scale_ld);
  }

 private:
  bool half_;
  Operand a_, out_;
  std::int64_t k_;
  Scheduler scheduler_;
  Defines defines_;
  cl::Kernel kernel_;
};

}  // namespace

bool wgmma_step_schedules(const PlanContext& plan) {
  // Its table is in local memory.
  return plan.problem.grouped() && plan.problem.matrices <= kMostMatricesScheduled;
}

std::unique_ptr<Step> quantize_wgmma_step(bool half, const Operand& x, const Operand& out, const PlanContext& plan) {
  return std::make_unique<QuantizeTokens>(half, x, out, plan);
}

std::unique_ptr<Step> pack_wgmma_step(bool half, const Operand& a, const Operand& out, const PlanContext& plan) {
  return std::make_unique<PackTokens>(half, a, out, plan);
}

}  // namespace ironcl::opencl
