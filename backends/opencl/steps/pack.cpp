// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

std::unique_ptr<Step> pack_step(const Packing& packing, const Operand& a, const Operand& out,
                                const PlanContext& plan) {
  const Problem& p = plan.problem;
  const RowPlaces places(a, plan);
  const std::int64_t items =
      plan.features.prefers_vectors() ? 1 : std::min<std::int64_t>(plan.features.max_work_group, 64);
  Defines defines = device_defines(plan.features);
  defines["B_TYPE"] = kernel_number(type_of_b_in_tiles(out, p));
  defines["TILE"] = std::to_string(packing.rows);
  defines["TILE_FORM"] = kernel_number(packing.form);
  defines["A_TYPE"] = kernel_number(a.element);
  defines["SCALE_TYPE"] = kernel_number(a.scale.dtype);
  defines["GROUP"] = std::to_string(p.k_group);
  if (out.in_units_of_weights) defines["UNIT_IN_A"] = "1";
  if (packing.past_caches) defines["STREAM_TILES"] = "1";
  if (packing.tiles) places.define(defines);
  const auto bind_constants = [&p, a, out](cl::Kernel& kernel) {
    bind<PackArg::k>(kernel, p.k);
    bind<PackArg::k_pad>(kernel, out.ld);
    bind<PackArg::groups>(kernel, p.k_groups());
    bind<PackArg::lda>(kernel, a.ld);
    bind<PackArg::lds>(kernel, a.scale.ld);
    bind<PackArg::scale_rows>(kernel, reach(a.scale.grid.group_rows));
    bind<PackArg::scale_cols>(kernel, reach(a.scale.grid.group_cols));
  };
  const auto run = [&p, packing, a, out, places, items](cl::Kernel& kernel, Call& call) {
    const std::int64_t rows = packing.tiles ? call.m : call.a_rows;
    bind<PackArg::m>(kernel, rows);
    bind_memory<PackArg::a>(kernel, call.at(a.data), numerics::size_of(a.element));
    bind_memory<PackArg::sa>(kernel, call.at(a.scales), numerics::size_of(a.scale.dtype));
    bind_memory<PackArg::out>(kernel, call.at(out.data), 1);
    bind_memory<PackArg::scales>(kernel, call.at(out.scales), 4);
    if (packing.tiles) places.bind_gather(kernel, places.bind_schedule(kernel, kCountOf<PackArg>, call), call);
    const std::int64_t width = numerics::ceil_div(p.k_groups(), items);
    // Tiles are taken in turn (cl/scheduled.cl); a row has work-items of its own, whatever the problem.
    call.launch(kernel, width, packing.tiles ? at_once(p, most_tiles(p, rows, packing.rows), width) : rows, items);
  };
  const char* const name = packing.tiles ? "pack tiles" : "pack rows";
  return std::make_unique<KernelStep>(name, "pack_a.cl", packing.tiles ? "pack_tiles" : "pack_rows",
                                      std::move(defines), "", bind_constants, run);
}

}  // namespace ironcl::opencl
