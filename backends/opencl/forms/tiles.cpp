// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

class Tiles final : public ActivationForm {
 public:
  Tiles(std::int64_t rows, bool floats) : rows_(rows), floats_(floats) {}

  std::string name() const override { return "tiles_m" + std::to_string(rows_) + "_k16_pad16_f32"; }

  bool takes(const Operand&, const PlanContext&) const override { return false; }  // Nobody hands over tiles.

  bool takes_floats(const Operand& x, const PlanContext& plan) const override {
    return floats_ && takes_floats_of_k_groups(x, plan);
  }

  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    if (!quantizes_tiles(x, plan)) return {};
    const Operand out = book(true, plan);
    return {quantize_tiles_step(x, out, packing(plan), plan), out};
  }

  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    // The unit of the weights' decoding goes into codes, which cannot overflow; floats can, so there it goes into
    // sums.
    const Operand out = book(numerics::is_quantized(a.element), plan);
    return {pack_step(packing(plan), a, out, plan), out};
  }

 private:
  static constexpr std::int64_t kUnitOfK = 16;

  Size bytes(const PlanContext& plan) const {
    return plan.rows_in_tiles(rows_) * Size(plan.problem.k).padded_to(kUnitOfK) * 4;
  }

  /// Tiles larger than the caches are stored past them (cl/cache_hints.cl).
  Packing packing(const PlanContext& plan) const {
    const Features& f = plan.features;
    return {true, rows_, f.prefers_vectors() && bytes(plan) > 2 * f.local_bytes * f.compute_units};
  }

  Operand book(bool in_units_of_weights, const PlanContext& plan) const {
    Operand out =
        book_packed(name(), DType::f32, plan.rows_in_tiles(rows_), Size(plan.problem.k).padded_to(kUnitOfK), plan);
    out.in_units_of_weights = in_units_of_weights;
    return out;
  }

  std::int64_t rows_;
  bool floats_;
};

}  // namespace

ActivationFormPtr tiles_form(std::int64_t rows, bool floats) { return std::make_shared<Tiles>(rows, floats); }

}  // namespace ironcl::opencl
