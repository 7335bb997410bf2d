// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

bool quantizes_tiles(const Operand& x, const PlanContext& plan) {
  if (plan.problem.a_scale.grid.group_rows != 1) return false;
  // 0.3 ns an element on one core, a launch some tens of microseconds: docs/performance/cpu.md.
  constexpr numerics::Size kElementsOfALaunch = 65536;
  return !x.gathered || numerics::Size(plan.problem.m) * plan.problem.k <= kElementsOfALaunch;
}

std::unique_ptr<Step> quantize_tiles_step(const Operand& x, const Operand& out, const Packing& packing,
                                          const PlanContext& plan) {
  const Problem& p = plan.problem;
  const RowPlaces places(x, plan);
  const std::int64_t rows = packing.rows, scale_cols = p.a_scale.grid.scale_cols(p.k);
  // Of a processor that stores past its caches; else 0.
  const std::int64_t cores = packing.past_caches && !p.grouped() ? plan.features.compute_units : 0;
  // Scale groups that a work-item makes, where each core has several work-items all the same.
  const auto groups_at_once = [&p, rows, scale_cols, cores](std::int64_t m) -> std::int64_t {
    if (cores == 0) return 1;
    return std::clamp<std::int64_t>(scale_cols * most_tiles(p, m, rows) / (8 * cores), 1, 8);
  };
  // A fence behind tiles that are stored past the caches waits for them: it pays after so many scale groups.
  constexpr std::int64_t kGroupsOfAFence = 4;
  Defines defines = quantizer_defines(plan.features, x.element, p.a, p.a_quantizer);
  defines["TILE_FORM"] = kernel_number(packing.form);
  defines["TILE"] = std::to_string(rows);
  defines["B_TYPE"] = kernel_number(type_of_b_in_tiles(out, p));
  defines["GROUP"] = std::to_string(p.k_group);
  defines["GROUP_COLS"] = std::to_string(reach(p.a_scale.grid.group_cols));
  if (packing.past_caches && groups_at_once(p.m) >= kGroupsOfAFence) defines["STREAM_TILES"] = "1";
  places.define(defines);
  const auto bind_constants = [&p, x, out](cl::Kernel& kernel) {
    bind<QuantizeTilesArg::k>(kernel, p.k);
    bind<QuantizeTilesArg::k_pad>(kernel, out.ld);
    bind<QuantizeTilesArg::groups>(kernel, p.k_groups());
    bind<QuantizeTilesArg::floor_bits>(kernel, std::bit_cast<cl_uint>(p.a_quantizer.amax_floor));
    bind<QuantizeTilesArg::ldx>(kernel, x.ld);
  };
  const auto run = [&p, x, out, places, rows, scale_cols, groups_at_once](cl::Kernel& kernel, Call& call) {
    bind<QuantizeTilesArg::m>(kernel, call.m);
    bind_memory<QuantizeTilesArg::x>(kernel, call.at(x.data), numerics::size_of(x.element));
    bind_memory<QuantizeTilesArg::out>(kernel, call.at(out.data), 4);
    bind_memory<QuantizeTilesArg::scales>(kernel, call.at(out.scales), 4);
    places.bind_gather(kernel, places.bind_schedule(kernel, kCountOf<QuantizeTilesArg>, call), call);
    call.launch(kernel, numerics::ceil_div(scale_cols, groups_at_once(call.m)),
                at_once(p, most_tiles(p, call.m, rows), scale_cols), 1);
  };
  return std::make_unique<KernelStep>("quantize tiles", "quantize_tiles.cl", "quantize_tiles", std::move(defines),
                                      quantizer_options(plan.features), bind_constants, run);
}

}  // namespace ironcl::opencl
