// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <optional>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

/// `of`: the plan whose D this is; null: it is no D.
std::unique_ptr<Step> quantizing_step(const RowQuantizer& how, const Features& f, const Place& x, const Place& codes,
                                      const Place& scales, const PlanContext* of) {
  const std::int64_t lanes = lanes_of(f, 64);
  numerics::ScaleGrid work = how.grid;  // What a work-group does: a scale group, or a share of one that is given.
  Defines defines = quantizer_defines(f, how.source, how.code, how.quantizer);
  defines["LANES"] = std::to_string(lanes);
  defines["SCALE_TYPE"] = kernel_number(how.scale);
  if (how.quantizer.given) {
    defines["GIVEN_ROWS"] = std::to_string(reach(how.grid.group_rows));
    defines["GIVEN_COLS"] = std::to_string(reach(how.grid.group_cols));
    constexpr std::int64_t kShare = 256;
    work = {1, how.grid.group_cols != 0 ? how.grid.group_cols : kShare};
  }
  std::optional<RowPlaces> places;
  if (of != nullptr) {
    places.emplace(Operand{}, *of);
    places->define(defines);
  }
  const auto bind_constants = [how, work](cl::Kernel& kernel) {
    bind<QuantizeArg::k>(kernel, how.k);
    bind<QuantizeArg::k_fill>(kernel, how.fill != 0 ? how.fill : how.code_ld);
    bind<QuantizeArg::group_rows>(kernel, reach(work.group_rows));
    bind<QuantizeArg::group_cols>(kernel, reach(work.group_cols));
    bind<QuantizeArg::floor_bits>(kernel, std::bit_cast<cl_uint>(how.quantizer.amax_floor));
    bind<QuantizeArg::ldx>(kernel, how.ld);
    bind<QuantizeArg::ldq>(kernel, how.code_ld);
    bind<QuantizeArg::lds>(kernel, how.scale_ld != 0 ? how.scale_ld : how.grid.scale_cols(how.k));
  };
  const auto run = [how, work, places, x, codes, scales, lanes](cl::Kernel& kernel, Call& call) {
    if (!call.has(codes.source)) return;
    const std::int64_t rows = places ? call.m : call.a_rows, width = work.scale_cols(how.k);
    bind<QuantizeArg::m>(kernel, rows);
    bind_memory<QuantizeArg::x>(kernel, call.at(x), numerics::size_of(how.source));
    bind_memory<QuantizeArg::q>(kernel, call.at(codes), 1);
    bind_memory<QuantizeArg::scales>(kernel, call.at(scales), numerics::size_of(how.scale));
    if (places) places->bind_schedule(kernel, kCountOf<QuantizeArg>, call);
    const std::int64_t height =
        places && places->scheduled
            ? at_once(places->problem, most_tiles(places->problem, rows, places->tile_rows), width)
            : work.scale_rows(rows);
    call.launch(kernel, width, height, lanes);
  };
  return std::make_unique<KernelStep>(of != nullptr ? "quantize D" : "quantize rows", "quantize.cl", "quantize",
                                      std::move(defines), quantizer_options(f), bind_constants, run);
}

}  // namespace

std::unique_ptr<Step> quantize_rows_step(const RowQuantizer& how, const Features& features, const Place& x,
                                         const Place& codes, const Place& scales) {
  return quantizing_step(how, features, x, codes, scales, nullptr);
}

std::unique_ptr<Step> quantize_d_step(const Operand& d, const PlanContext& plan) {
  const Problem& p = plan.problem;
  const RowQuantizer how{.source = d.element,
                         .code = p.d_code,
                         .k = p.d_cols(),
                         .ld = d.ld,
                         .code_ld = p.ldd,
                         .grid = p.d_scale.grid,
                         .quantizer = p.d_quantizer,
                         .fill = p.d_cols(),
                         .scale_ld = p.d_scale.ld,
                         .scale = p.d_scale.dtype};
  return quantizing_step(how, plan.features, d.data, {Source::d, 0}, {Source::d_scale, 0}, &plan);
}

StepResult quantize_rows(const Operand& x, std::int64_t code_ld, const PlanContext& plan) {
  const Problem& p = plan.problem;
  const numerics::ScaleGrid& grid = p.a_scale.grid;
  const numerics::Size rows = plan.rows_in_memory();
  Operand out;
  out.element = p.a;
  out.ld = code_ld;
  out.scale = backend::DType::f32;
  out.scale_ld = grid.scale_cols(p.k);
  out.grid = grid;
  out.gathered = x.gathered;
  out.data = plan.booking.book(rows * code_ld);
  out.scales = plan.booking.book(numerics::Size(grid.scale_rows(rows.value())) * out.scale_ld * 4);
  return {quantize_rows_step({x.element, p.a, p.k, x.ld, code_ld, grid, p.a_quantizer}, plan.features, x.data,
                             out.data, out.scales),
          out};
}

}  // namespace ironcl::opencl
