// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/forms/tiles.h"

#include "backends/opencl/steps/pack.h"
#include "backends/opencl/steps/quantize_tiles.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

class Tiles final : public ActivationForm {
 public:
  Tiles(int rows, int k_unit, bool floats) : rows_(rows), k_unit_(k_unit), floats_(floats) {}

  std::string name() const override {
    return "tiles_m" + std::to_string(rows_) + "_k16_pad" + std::to_string(k_unit_) + "_f32";
  }

  bool takes(const Operand&, const PlanContext&) const override { return false; }  // Nobody hands over tiles.

  bool takes_floats(const Operand& x, const PlanContext& plan) const override {
    return floats_ && takes_floats_of_k_groups(x, plan);
  }

  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    if (!quantizes_tiles(x, plan)) return {};
    const Operand out = book(true, plan);
    return {quantize_tiles_step(x, out, rows_, DType::f32, past_caches(plan), plan), out};
  }

  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    // The unit of the weights' decoding goes into codes, which cannot overflow; floats can, so there it goes into
    // sums.
    const Operand out = book(numerics::is_quantized(a.element), plan);
    return {pack_step({"pack_tiles", rows_, past_caches(plan)}, a, out, plan), out};
  }

 private:
  Size bytes(const PlanContext& plan) const {
    return plan.rows_in_tiles(rows_) * Size(plan.desc.k).padded_to(k_unit_) * 4;
  }

  /// Tiles larger than the caches are stored past them (cl/cache_hints.cl).
  bool past_caches(const PlanContext& plan) const {
    const Features& f = plan.features;
    return f.prefers_vectors() && bytes(plan).bytes() > 2 * f.local_bytes * f.compute_units;
  }

  Operand book(bool in_units_of_weights, const PlanContext& plan) const {
    Operand out;
    out.form = name();
    out.element = DType::f32;
    out.ld = Size(plan.desc.k).padded_to(k_unit_).value();
    out.scale = DType::f32;
    out.scale_ld = plan.problem.k_groups();
    out.grid = {1, plan.problem.k_group};
    out.in_units_of_weights = in_units_of_weights;
    out.data = {Source::workspace, plan.booking.book("tiles of A", bytes(plan))};
    out.scales = {Source::workspace,
                  plan.booking.book("scales of tiles", plan.rows_in_tiles(rows_) * out.scale_ld * 4)};
    return out;
  }

  int rows_, k_unit_;
  bool floats_;
};

}  // namespace

ActivationFormPtr tiles_form(int rows, int k_unit, bool floats) {
  return std::make_shared<Tiles>(rows, k_unit, floats);
}

}  // namespace ironcl::opencl
