// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/forms/wgmma_tokens.h"

#include "backends/opencl/steps/wgmma_tokens.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

class WgmmaTokens final : public ActivationForm {
 public:
  explicit WgmmaTokens(bool half) : half_(half) {}

  std::string name() const override { return half_ ? "tokens_m64_k128_f16_swizzled" : "tokens_m64_k128_swizzled"; }

  bool takes(const Operand&, const PlanContext&) const override { return false; }  // Nobody hands them over so.

  bool schedules(const PlanContext& plan) const override { return wgmma_step_schedules(plan); }

  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    const numerics::ScaleGrid& grid = plan.desc.a_scale.grid;
    if (grid.group_rows != 1 || !is_one_k_block(grid, plan.desc.k) || x.gathered) return {};
    const Operand out = book(plan);
    return {quantize_wgmma_step(half_, x, out, plan), out};
  }

  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    const Operand out = book(plan);
    return {pack_wgmma_step(half_, a, out, plan), out};
  }

 private:
  Operand book(const PlanContext& plan) const {
    const Size rows =
        plan.problem.grouped() ? plan.rows_in_tiles(plan.scheduled_rows) : Size(plan.desc.m).padded_to(kTokenUnit);
    const Size k = Size(plan.desc.k).padded_to(256);
    Operand out;
    out.form = name();
    out.element = half_ ? DType::f16 : plan.desc.a;
    out.ld = k.value();
    out.scale = DType::f32;
    out.scale_ld = k.value() / 128;
    out.grid = {1, 128};
    out.data = {Source::workspace,
                plan.booking.book("tokens for tensor cores", rows * k * numerics::size_of(out.element))};
    const Size scales = rows * out.scale_ld + kPartCounters;
    out.scales = {Source::workspace, plan.booking.book("counters and scales of tokens", scales * 4) +
                                         static_cast<std::uint64_t>(kPartCounters) * 4};
    return out;
  }

  bool half_;
};

}  // namespace

ActivationFormPtr tokens_f16_form() {
  static const ActivationFormPtr form = std::make_shared<WgmmaTokens>(true);
  return form;
}

ActivationFormPtr tokens_fp8_form() {
  static const ActivationFormPtr form = std::make_shared<WgmmaTokens>(false);
  return form;
}

}  // namespace ironcl::opencl
