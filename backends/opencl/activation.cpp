// SPDX-License-Identifier: Apache-2.0
// activation(gate, up) on the device, rounded or quantised (cl/activate.cl): a step of plans, and an operation by
// itself.
#include <bit>

#include "backends/not_yet.h"
#include "backends/opencl/device.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

using numerics::Size;

namespace {

/// Activates the call's rows of `gate` and `up` into `y`, with `scales` where it is quantised. Throws unsupported for
/// sizes that no kernel counts.
std::unique_ptr<Step> activate_step(const backend::ActivateDesc& desc, const Features& features, const Place& gate,
                                    const Place& up, const Place& y, const Place& scales) {
  const std::int64_t lanes = lanes_of(features, kLanesOfFours), rows_of_each = std::max<std::int64_t>(desc.rows, 1);
  const std::int64_t stacked = desc.grouping == backend::Grouping::masked ? desc.matrices : 1;
  expect_countable("columns", desc.cols);
  expect_countable("rows", desc.rows);
  expect_fits(features, "gate", Size(rows_of_each) * stacked * desc.gate_ld * numerics::size_of(desc.x));
  // Columns that a work-group makes at once; of an unquantised Y so many that it is not all overhead.
  constexpr std::int64_t kColumnsAtOnce = 512;
  const bool codes = numerics::is_quantized(desc.y);
  const std::int64_t group_cols = codes ? desc.scale.grid.group_cols : kColumnsAtOnce;
  Defines defines =
      codes ? quantizer_defines(features, backend::DType::f32, desc.y, desc.quantizer) : device_defines(features);
  defines["LANES"] = std::to_string(lanes);
  defines["X_TYPE"] = kernel_number(desc.x);
  if (!codes) {
    defines["CODE"] = "0";
    defines["Y_TYPE"] = kernel_number(desc.y);
  }
  defines["ACTIVATION"] = std::to_string(static_cast<std::uint32_t>(desc.activation));
  defines["GROUP_COLS"] = std::to_string(reach(group_cols));
  defines["GROUPED"] = std::to_string(static_cast<std::uint32_t>(desc.grouping));
  const auto bind_constants = [desc](cl::Kernel& kernel) {
    bind<ActivateArg::cols>(kernel, desc.cols);
    bind<ActivateArg::matrices>(kernel, std::max<std::int64_t>(1, desc.matrices));
    bind<ActivateArg::limit>(kernel, desc.limit);
    bind<ActivateArg::floor_bits>(kernel, std::bit_cast<cl_uint>(desc.quantizer.amax_floor));
    bind<ActivateArg::ld_gate>(kernel, desc.gate_ld);
    bind<ActivateArg::ld_up>(kernel, desc.up_ld);
    bind<ActivateArg::ldy>(kernel, desc.y_ld);
    bind<ActivateArg::lds>(kernel, desc.scale.ld);
  };
  // Work-groups take rows in turn, so that rows which nobody has cost next to nothing.
  const std::int64_t groups = group_cols == 0 ? 1 : numerics::ceil_div(desc.cols, group_cols);
  const std::int64_t most = numerics::ceil_div(features.compute_units * (lanes == 1 ? 8 : 32), groups);
  const auto run = [=](cl::Kernel& kernel, Call& call) {
    bind<ActivateArg::rows>(kernel, call.m);
    bind_memory<ActivateArg::gate>(kernel, call.at(gate), numerics::size_of(desc.x));
    bind_memory<ActivateArg::up>(kernel, call.at(up), numerics::size_of(desc.x));
    bind_memory<ActivateArg::y>(kernel, call.at(y), numerics::size_of(desc.y));
    bind_memory<ActivateArg::scales>(kernel, call.at(scales), 4);
    bind_memory<ActivateArg::counts>(kernel, call.at({Source::matrix_rows, 0}), 4);
    call.launch(kernel, groups, std::min((Size(call.m) * stacked).value(), most), lanes);
  };
  // The same options for every type of y: they say how divisions round, and codes are those of the f32 values.
  return std::make_unique<KernelStep>("activate D", "activate.cl", "activate", std::move(defines),
                                      quantizer_options(features), bind_constants, run);
}

}  // namespace

std::unique_ptr<Step> activate_d_step(const Operand& totals, const Operand& d, const PlanContext& plan) {
  const Problem& p = plan.problem;
  backend::ActivateDesc desc;
  desc.rows = p.m;
  desc.cols = p.d_cols();
  desc.gate_ld = desc.up_ld = totals.ld;
  desc.y_ld = d.ld;
  desc.x = totals.element;
  desc.y = d.element;
  desc.activation = p.gate;
  desc.limit = p.activation_limit;
  desc.grouping = p.grouping;
  desc.matrices = p.matrices;
  desc.scale = d.scale;
  desc.quantizer = p.d_quantizer;
  Place up = totals.data;
  up.at += static_cast<std::uint64_t>(p.d_cols()) * numerics::size_of(totals.element);
  return activate_step(desc, plan.features, totals.data, up, d.data, d.scales);
}

std::shared_ptr<backend::Activate> Device::create_activate(const backend::ActivateDesc& desc) {
  backend::refuse_not_yet(desc);
  const std::shared_ptr<Step> step =
      activate_step(desc, context()->features, {Source::a, 0}, {Source::up, 0}, {Source::d, 0}, {Source::d_scale, 0});
  guarded("building an activation", [&] { step->build(*context()->builder); });
  const auto run = [step](Call& call, const backend::ActivateArgs& args) {
    call[Source::a] = call.memory(args.gate);
    call[Source::up] = call.memory(args.up);
    call[Source::d] = call.memory(args.y);
    call[Source::d_scale] = call.memory(args.scales);
    call[Source::matrix_rows] = call.memory(args.matrix_rows);
    step->launch(call);
  };
  return std::make_shared<ActivateOperation>(context(), desc, "an activation", &backend::ActivateArgs::rows, run);
}

}  // namespace ironcl::opencl
