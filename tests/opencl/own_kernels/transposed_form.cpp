// SPDX-License-Identifier: Apache-2.0
#include "tests/opencl/own_kernels/transposed_form.h"

#include "backends/opencl/elements.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;
using numerics::Size;

cl_ulong at(const Memory& memory, std::uint64_t size) { return memory.at / size; }

class PackTransposed final : public Step {
 public:
  PackTransposed(const Operand& a, const Operand& out, const PlanContext& plan)
      : a_(a), out_(out), k_(plan.problem.k), defines_(device_defines(plan.features)) {
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["SCALE_TYPE"] = kernel_number(a.scale.dtype);
    defines_["GROUP"] = std::to_string(plan.problem.k_group);
  }
  std::string name() const override { return "pack transposed"; }
  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("pack_transposed.cl", defines_), "pack_transposed");
    kernel_.setArg(1, static_cast<cl_int>(k_));
    kernel_.setArg(4, static_cast<cl_ulong>(a_.ld));
    set_args(kernel_, 7, static_cast<cl_ulong>(a_.scale.ld), static_cast<cl_int>(reach(a_.scale.grid.group_rows)),
             static_cast<cl_int>(reach(a_.scale.grid.group_cols)));
    kernel_.setArg(14, static_cast<cl_ulong>(out_.ld));
  }
  void launch(Call& call) override {
    const Memory a = call.at(a_.data), sa = call.at(a_.scales), out = call.at(out_.data),
                 scales = call.at(out_.scales);
    kernel_.setArg(0, static_cast<cl_int>(call.m));
    set_args(kernel_, 2, a.buffer, at(a, numerics::size_of(a_.element)));
    set_args(kernel_, 5, sa.buffer, at(sa, std::max<std::uint32_t>(1, numerics::size_of(a_.scale.dtype))));
    set_args(kernel_, 10, out.buffer, at(out, 4), scales.buffer, at(scales, 4));
    call.launch(kernel_, k_, call.m, 1);
  }

 private:
  Operand a_, out_;
  std::int64_t k_;
  Defines defines_;
  cl::Kernel kernel_;
};

class Transposed final : public ActivationForm {
 public:
  std::string name() const override { return "transposed_pad4_f32"; }
  bool takes(const Operand&, const PlanContext&) const override { return false; }
  StepResult quantize(const Operand&, const PlanContext&) const override { return {}; }
  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    Operand out;
    out.form = name();
    out.element = DType::f32;
    out.ld = Size(plan.problem.m).padded_to(4).value();
    out.scale = {DType::f32, {}, out.ld};
    out.data = plan.booking.book(Size(plan.problem.k) * out.ld * 4);
    out.scales = plan.booking.book(Size(plan.problem.k_groups()) * out.ld * 4);
    return {std::make_unique<PackTransposed>(a, out, plan), out};
  }
};

}  // namespace

ActivationFormPtr transposed_form() { return std::make_shared<Transposed>(); }

}  // namespace ironcl::opencl::testing
