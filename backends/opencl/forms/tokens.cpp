// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

class Tokens final : public ActivationForm {
 public:
  explicit Tokens(bool f16) : f16_(f16) {}

  std::string name() const override { return f16_ ? "tokens_m64_k128_f16_swizzled" : "tokens_m64_k128_swizzled"; }

  bool schedules(const PlanContext& plan) const override { return token_steps_schedule(plan); }

  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    const numerics::ScaleGrid& grid = plan.problem.a_scale.grid;
    if (grid.group_rows != 1 || !is_one_k_block(grid, plan.problem.k) || x.gathered) return {};
    const Operand out = book(plan);
    return {quantize_tokens_step(f16_, x, out, plan), out};
  }

  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    const Operand out = book(plan);
    return {pack_tokens_step(f16_, a, out, plan), out};
  }

 private:
  static constexpr std::int64_t kRowUnit = 256;

  Operand book(const PlanContext& plan) const {
    const Size rows =
        plan.problem.grouped() ? plan.rows_in_tiles(plan.scheduled_rows) : Size(plan.problem.m).padded_to(kRowUnit);
    const Size k = Size(plan.problem.k).padded_to(256);
    Operand out;
    out.form = name();
    out.element = f16_ ? DType::f16 : plan.problem.a;
    out.ld = k.value();
    out.scale = {DType::f32, {1, 128}, k.value() / 128};
    out.data = plan.booking.book(rows * k * numerics::size_of(out.element));
    out.scales = plan.booking.book((rows * out.scale.ld + kPartCounters) * 4);
    out.scales.at += kPartCounters * 4;
    return out;
  }

  bool f16_;
};

}  // namespace

ActivationFormPtr tokens_form(bool f16) { return std::make_shared<Tokens>(f16); }

}  // namespace ironcl::opencl
