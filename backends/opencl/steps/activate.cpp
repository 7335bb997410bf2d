// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

using backend::DType;
using numerics::Size;

namespace {

/// Of an unquantised Y: long enough that a work-group is not all overhead.
constexpr std::int64_t kColumnsAtOnce = 512;

backend::ActivateDesc desc_of(const Operand& totals, const Operand& d, const PlanContext& plan) {
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
  desc.scale = {d.scale, d.grid, d.scale_ld};
  desc.quantizer = p.d_quantizer;
  return desc;
}

class ActivateD final : public Step {
 public:
  ActivateD(const Operand& totals, const Operand& d, const PlanContext& plan)
      : totals_(totals.data),
        up_(totals.data),
        y_(d.data),
        scales_(d.scales),
        kernel_(plan.features, desc_of(totals, d, plan)) {
    up_.at += static_cast<std::uint64_t>(plan.problem.d_cols()) * numerics::size_of(totals.element);
  }
  std::string name() const override { return "activate D"; }
  void build(ProgramBuilder& builder) override { kernel_.build(builder); }
  void launch(Call& call) override {
    kernel_.launch(call, call.m, call.at(totals_), call.at(up_), call.at(y_), call.at(scales_),
                   call.at({Source::matrix_rows, 0}));
  }

 private:
  Place totals_, up_, y_, scales_;
  ActivateKernel kernel_;
};

}  // namespace

ActivateKernel::ActivateKernel(const Features& features, const backend::ActivateDesc& desc)
    : features_(features),
      desc_(desc),
      group_cols_(numerics::is_quantized(desc.y) ? desc.scale.grid.group_cols : kColumnsAtOnce),
      lanes_(lanes_of(features, 64)) {
  expect_countable("columns", desc.cols);
  expect_countable("rows", desc.rows);
  expect_fits(features, "gate",
              Size(std::max<std::int64_t>(desc.rows, 1)) * (masked() ? desc.matrices : 1) * desc.gate_ld *
                  numerics::size_of(desc.x));
}

void ActivateKernel::build(ProgramBuilder& builder) {
  const bool codes = numerics::is_quantized(desc_.y);
  Defines defines =
      codes ? quantizer_defines(features_, DType::f32, desc_.y, desc_.quantizer) : device_defines(features_);
  defines["LANES"] = std::to_string(lanes_);
  defines["X_TYPE"] = kernel_number(desc_.x);
  if (!codes) {
    defines["CODE"] = "0";
    defines["Y_TYPE"] = kernel_number(desc_.y);
  }
  defines["ACTIVATION"] = std::to_string(static_cast<std::uint32_t>(desc_.activation));
  defines["GROUP_COLS"] = std::to_string(reach(group_cols_));
  defines["GROUPED"] = std::to_string(static_cast<std::uint32_t>(desc_.grouping));
  // The same options for every type of y: they say how divisions round, and codes are those of the f32 values.
  kernel_ = cl::Kernel(builder.build("activate.cl", defines, quantizer_options(features_)), "activate");
  bind<ActivateArg::cols>(kernel_, desc_.cols);
  bind<ActivateArg::matrices>(kernel_, std::max<std::int64_t>(1, desc_.matrices));
  bind<ActivateArg::limit>(kernel_, desc_.limit);
  bind<ActivateArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(desc_.quantizer.amax_floor));
  bind<ActivateArg::ld_gate>(kernel_, desc_.gate_ld);
  bind<ActivateArg::ld_up>(kernel_, desc_.up_ld);
  bind<ActivateArg::ldy>(kernel_, desc_.y_ld);
  bind<ActivateArg::lds>(kernel_, desc_.scale.ld);
}

void ActivateKernel::launch(Launcher& call, std::int64_t rows, const Memory& gate, const Memory& up, const Memory& y,
                            const Memory& scales, const Memory& counts) {
  bind<ActivateArg::rows>(kernel_, rows);
  bind_memory<ActivateArg::gate>(kernel_, gate, numerics::size_of(desc_.x));
  bind_memory<ActivateArg::up>(kernel_, up, numerics::size_of(desc_.x));
  bind_memory<ActivateArg::y>(kernel_, y, numerics::size_of(desc_.y));
  bind_memory<ActivateArg::scales>(kernel_, scales, 4);
  bind_memory<ActivateArg::counts>(kernel_, counts, 4);
  // Work-groups take units in turn, so that rows which nobody has cost next to nothing.
  const std::int64_t groups = group_cols_ == 0 ? 1 : numerics::ceil_div(desc_.cols, group_cols_);
  const std::int64_t units = (Size(rows) * (masked() ? desc_.matrices : 1) * groups).value();
  const std::int64_t most = features_.compute_units * (lanes_ == 1 ? 8 : 64);
  call.launch(kernel_, std::min(units, most), 1, lanes_);
}

std::unique_ptr<Step> activate_d_step(const Operand& totals, const Operand& d, const PlanContext& plan) {
  return std::make_unique<ActivateD>(totals, d, plan);
}

}  // namespace ironcl::opencl
