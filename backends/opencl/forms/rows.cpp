// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

class Rows final : public ActivationForm {
 public:
  Rows(std::int64_t k_unit, RowsOfFloats floats, DType element)
      : k_unit_(k_unit), floats_(floats), element_(element) {}

  std::string name() const override {
    return "rows_pad" + std::to_string(k_unit_) +
           (element_ == DType::none ? "" : "_" + std::string(numerics::name_of(element_)));
  }

  bool takes(const Operand& a, const PlanContext& plan) const override {
    if (plan.problem.k % k_unit_ != 0 || a.ld % 16 != 0) return false;
    if (element_ != DType::none) return a.element == element_ && a.scale.dtype == DType::none;
    return numerics::is_quantized(a.element) ? a.scale.dtype == DType::f32 : floats_ == RowsOfFloats::multiplied;
  }

  bool takes_floats(const Operand& x, const PlanContext& plan) const override {
    return floats_ == RowsOfFloats::quantised && numerics::is_float(x.element) &&
           plan.features.has_quick_quotients() && is_row_by_k_block(plan.problem.a_scale.grid, plan.problem.k);
  }

  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    if (element_ != DType::none) return {};
    return quantize_rows(x, Size(plan.problem.k).padded_to(k_unit_).value(), plan);
  }

  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    const DType element = element_ != DType::none ? element_ : numerics::is_float(a.element) ? DType::f32 : a.element;
    Operand out = book_packed(name(), element, plan.rows_in_memory(), Size(plan.problem.k).padded_to(k_unit_), plan);
    out.gathered = a.gathered;
    Packing packing;
    if (element_ != DType::none) packing.form = element_;
    return {pack_step(packing, a, out, plan), out};
  }

 private:
  std::int64_t k_unit_;
  RowsOfFloats floats_;
  DType element_;
};

}  // namespace

ActivationFormPtr rows_form(std::int64_t k_unit, RowsOfFloats floats, DType element) {
  return std::make_shared<Rows>(k_unit, floats, element);
}

}  // namespace ironcl::opencl
