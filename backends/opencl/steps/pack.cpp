// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

class Pack final : public Step {
 public:
  Pack(const Packing& packing, const Operand& a, const Operand& out, const PlanContext& plan)
      : packing_(packing),
        a_(a),
        out_(out),
        problem_(plan.problem),
        places_(a, plan),
        items_(plan.features.prefers_vectors() ? 1 : std::min<std::int64_t>(plan.features.max_work_group, 64)),
        defines_(device_defines(plan.features)) {
    defines_["B_TYPE"] = kernel_number(type_of_b_in_tiles(out, problem_));
    defines_["TILE"] = std::to_string(packing.rows);
    defines_["TILE_FORM"] = kernel_number(packing.form);
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["SCALE_TYPE"] = kernel_number(a.scale);
    defines_["GROUP"] = std::to_string(problem_.k_group);
    if (out.in_units_of_weights) defines_["UNIT_IN_A"] = "1";
    if (packing.past_caches) defines_["STREAM_TILES"] = "1";
    if (packing.tiles) places_.define(defines_);
  }

  std::string name() const override { return packing_.tiles ? "pack tiles" : "pack rows"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("pack_a.cl", defines_), packing_.tiles ? "pack_tiles" : "pack_rows");
    bind<PackArg::k>(kernel_, problem_.k);
    bind<PackArg::k_pad>(kernel_, out_.ld);
    bind<PackArg::groups>(kernel_, problem_.k_groups());
    bind<PackArg::lda>(kernel_, a_.ld);
    bind<PackArg::lds>(kernel_, a_.scale_ld);
    bind<PackArg::scale_rows>(kernel_, reach(a_.grid.group_rows));
    bind<PackArg::scale_cols>(kernel_, reach(a_.grid.group_cols));
  }

  void launch(Call& call) override {
    const std::int64_t rows = packing_.tiles ? call.m : call.a_rows;
    bind<PackArg::m>(kernel_, rows);
    bind_memory<PackArg::a>(kernel_, call.at(a_.data), numerics::size_of(a_.element));
    bind_memory<PackArg::sa>(kernel_, call.at(a_.scales), numerics::size_of(a_.scale));
    bind_memory<PackArg::out>(kernel_, call.at(out_.data), 1);
    bind_memory<PackArg::scales>(kernel_, call.at(out_.scales), 4);
    if (packing_.tiles) places_.bind_gather(kernel_, places_.bind_schedule(kernel_, kCountOf<PackArg>, call), call);
    const std::int64_t width = numerics::ceil_div(problem_.k_groups(), items_);
    // Tiles are taken in turn (cl/scheduled.cl); a row has work-items of its own, whatever the problem.
    call.launch(kernel_, width,
                packing_.tiles ? at_once(problem_, most_tiles(problem_, rows, packing_.rows), width) : rows, items_);
  }

 private:
  Packing packing_;
  Operand a_, out_;
  const Problem& problem_;
  RowPlaces places_;
  std::int64_t items_;
  Defines defines_;
  cl::Kernel kernel_;
};

}  // namespace

std::unique_ptr<Step> pack_step(const Packing& packing, const Operand& a, const Operand& out,
                                const PlanContext& plan) {
  return std::make_unique<Pack>(packing, a, out, plan);
}

}  // namespace ironcl::opencl
