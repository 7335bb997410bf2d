// SPDX-License-Identifier: Apache-2.0
// Rows and columns to codes and scales on the device (cl/quantize.cl): a step of plans, and an operation by itself.
#include <bit>
#include <optional>

#include "backends/not_yet.h"
#include "backends/opencl/device.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

std::unique_ptr<Step> quantize_rows_step(const backend::QuantizeDesc& desc, const Features& f, const Place& x,
                                         const Place& codes, const Place& scales, std::int64_t fill,
                                         const PlanContext* of) {
  const std::int64_t lanes = lanes_of(f, kLanesOfFours);
  // What a work-group does: a scale group, or a share of one that is given.
  numerics::ScaleGrid work = desc.scale.grid;
  Defines defines = quantizer_defines(f, desc.x, desc.code, desc.quantizer);
  defines["LANES"] = std::to_string(lanes);
  defines["SCALE_TYPE"] = kernel_number(desc.scale.dtype);
  if (desc.quantizer.given) {
    defines["GIVEN_ROWS"] = std::to_string(reach(desc.scale.grid.group_rows));
    defines["GIVEN_COLS"] = std::to_string(reach(desc.scale.grid.group_cols));
    constexpr std::int64_t kShare = 256;
    work = {1, desc.scale.grid.group_cols != 0 ? desc.scale.grid.group_cols : kShare};
  }
  std::optional<RowPlaces> places;
  if (of != nullptr) {
    places.emplace(Operand{}, *of);
    places->define(defines);
  }
  const auto bind_constants = [desc, work, fill](cl::Kernel& kernel) {
    bind<QuantizeArg::k>(kernel, desc.cols);
    bind<QuantizeArg::k_fill>(kernel, fill != 0 ? fill : desc.cols);
    bind<QuantizeArg::group_rows>(kernel, reach(work.group_rows));
    bind<QuantizeArg::group_cols>(kernel, reach(work.group_cols));
    bind<QuantizeArg::floor_bits>(kernel, std::bit_cast<cl_uint>(desc.quantizer.amax_floor));
    bind<QuantizeArg::ldx>(kernel, desc.x_ld);
    bind<QuantizeArg::ldq>(kernel, desc.code_ld);
    bind<QuantizeArg::lds>(kernel, desc.scale.ld != 0 ? desc.scale.ld : desc.scale.grid.scale_cols(desc.cols));
  };
  const auto run = [desc, work, places, x, codes, scales, lanes](cl::Kernel& kernel, Call& call) {
    if (!call.has(codes.source)) return;
    const std::int64_t rows = places ? call.m : call.a_rows, width = work.scale_cols(desc.cols);
    bind<QuantizeArg::m>(kernel, rows);
    bind_memory<QuantizeArg::x>(kernel, call.at(x), numerics::size_of(desc.x));
    bind_memory<QuantizeArg::q>(kernel, call.at(codes), 1);
    bind_memory<QuantizeArg::scales>(kernel, call.at(scales), numerics::size_of(desc.scale.dtype));
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

std::unique_ptr<Step> quantize_d_step(const Operand& d, const PlanContext& plan) {
  const Problem& p = plan.problem;
  const backend::QuantizeDesc desc{.cols = p.d_cols(),
                                   .x_ld = d.ld,
                                   .code_ld = p.ldd,
                                   .x = d.element,
                                   .code = p.d_later,
                                   .scale = p.d_scale,
                                   .quantizer = p.d_quantizer};
  return quantize_rows_step(desc, plan.features, d.data, {Source::d, 0}, {Source::d_scale, 0}, 0, &plan);
}

StepResult quantize_rows(const Operand& x, std::int64_t code_ld, const PlanContext& plan) {
  const Problem& p = plan.problem;
  const numerics::ScaleGrid& grid = p.a_scale.grid;
  const numerics::Size rows = plan.rows_in_memory();
  Operand out;
  out.element = p.a;
  out.ld = code_ld;
  out.scale = {backend::DType::f32, grid, grid.scale_cols(p.k)};
  out.gathered = x.gathered;
  out.data = plan.booking.book(rows * code_ld);
  out.scales = plan.booking.book(numerics::Size(grid.scale_rows(rows.value())) * out.scale.ld * 4);
  std::unique_ptr<Step> step = quantize_rows_step(quantizing_a(p, x.element, x.ld, code_ld, out.scale), plan.features,
                                                  x.data, out.data, out.scales, code_ld);
  return {std::move(step), out};
}

std::shared_ptr<backend::Quantize> Device::create_quantize(const backend::QuantizeDesc& desc) {
  backend::refuse_not_yet(desc.code, desc.scale, "x");
  const Features& f = context()->features;
  expect_countable("columns", desc.cols);
  expect_countable("rows", desc.rows);
  expect_fits(f, "X", numerics::Size(std::max<std::int64_t>(desc.rows, 1)) * desc.x_ld * numerics::size_of(desc.x));
  const std::shared_ptr<Step> step =
      quantize_rows_step(desc, f, {Source::a, 0}, {Source::a_codes, 0}, {Source::a_code_scales, 0});
  guarded("building a quantiser", [&] {
    step->build(*context()->builder);
    const Queue queue(context());
    Call dry(0, context(), queue.native());  // For drivers that compile at the first launch.
    step->launch(dry);
    queue.native().finish();
  });
  const auto run = [step](Call& call, const backend::QuantizeArgs& args) {
    call[Source::a] = call.memory(args.x);
    call[Source::a_codes] = call.memory(args.codes);
    call[Source::a_code_scales] = call.memory(args.scales);
    step->launch(call);
  };
  return std::make_shared<QuantizeOperation>(context(), desc, "quantising a matrix", &backend::QuantizeArgs::rows,
                                             run);
}

}  // namespace ironcl::opencl
