// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/pack.h"

#include <algorithm>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/schedule.h"

namespace ironcl::opencl {
namespace {

class Pack final : public Step {
 public:
  Pack(const Packing& packing, const Operand& a, const Operand& out, const PlanContext& plan)
      : packing_(packing),
        a_(a),
        out_(out),
        k_(plan.desc.k),
        k_groups_(plan.problem.k_groups()),
        tiles_(packing.kernel == "pack_tiles"),
        problem_(plan.problem),
        schedule_(plan.scheduled),
        items_(plan.features.prefers_vectors() ? 1 : std::min<std::size_t>(plan.features.max_work_group, 64)),
        defines_(device_defines(plan.features)) {
    defines_["B_TYPE"] = kernel_number(plan.desc.b);
    defines_["TILE"] = std::to_string(packing.rows);
    defines_["TILE_FORM"] = kernel_number(packing.form);
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["SCALE_TYPE"] = kernel_number(a.scale);
    defines_["GROUP"] = std::to_string(plan.problem.k_group);
    if (out.in_units_of_weights) defines_["UNIT_IN_A"] = "1";
    if (packing.past_caches) defines_["STREAM_TILES"] = "1";
    if (tiles_ && problem_.grouped()) defines_["GROUPED"] = "1";
    if (tiles_ && a.gathered) defines_["GATHER"] = "1";
  }

  std::string name() const override { return packing_.kernel == "pack_rows" ? "pack rows" : "pack tiles"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("pack_a.cl", defines_), packing_.kernel.c_str());
    bind<PackArg::k>(kernel_, k_);
    bind<PackArg::k_pad>(kernel_, out_.ld);
    bind<PackArg::groups>(kernel_, k_groups_);
    bind<PackArg::lda>(kernel_, a_.ld);
    bind<PackArg::lds>(kernel_, a_.scale_ld);
    bind<PackArg::scale_rows>(kernel_, reach(a_.grid.group_rows));
    bind<PackArg::scale_cols>(kernel_, reach(a_.grid.group_cols));
  }

  void launch(Call& call) override {
    // Rows are packed where they are; tiles are packed of the rows that are wanted.
    const std::int64_t rows = tiles_ ? call.m : call.a_rows;
    bind<PackArg::m>(kernel_, rows);
    bind_memory<PackArg::a>(kernel_, call.at(a_.data), numerics::size_of(a_.element));
    bind_memory<PackArg::sa>(kernel_, call.at(a_.scales), numerics::size_of(a_.scale));
    bind_memory<PackArg::out>(kernel_, call.at(out_.data), 1);
    bind_memory<PackArg::scales>(kernel_, call.at(out_.scales), 4);
    cl_uint next = kCountOf<PackArg>;
    if (tiles_ && problem_.grouped()) next = bind_schedule(kernel_, next, call, schedule_);
    if (tiles_ && a_.gathered) bind_gather(kernel_, next, call);
    const auto width = static_cast<std::size_t>(numerics::ceil_div(k_groups_, static_cast<std::int64_t>(items_)));
    // Tiles are taken in turn (cl/scheduled.cl); a row has work-items of its own, whatever the problem.
    const std::size_t high =
        tiles_ ? at_once(problem_, most_tiles(problem_, rows, packing_.rows), width) : static_cast<std::size_t>(rows);
    call.launch(kernel_, cl::NDRange(width, high), cl::NDRange(items_, 1));
  }

 private:
  Packing packing_;
  Operand a_, out_;
  std::int64_t k_, k_groups_;
  bool tiles_;
  Problem problem_;
  Place schedule_;
  std::size_t items_;
  Defines defines_;
  cl::Kernel kernel_;
};

}  // namespace

std::unique_ptr<Step> pack_step(const Packing& packing, const Operand& a, const Operand& out,
                                const PlanContext& plan) {
  return std::make_unique<Pack>(packing, a, out, plan);
}

}  // namespace ironcl::opencl
