// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

/// Tiles by runs of 16 k, or with `by_groups` by K groups.
class Tiles final : public ActivationForm {
 public:
  Tiles(std::int64_t rows, std::int64_t k_unit, DType element, bool by_groups, bool floats)
      : rows_(rows), k_unit_(k_unit), element_(element), by_groups_(by_groups), floats_(floats) {}

  std::string name() const override {
    const auto element = numerics::name_of(element_);
    if (by_groups_) return fmt::format("group_tiles_m{}_g{}_{}", rows_, k_unit_, element);
    return fmt::format("tiles_m{}_k16_pad{}_{}", rows_, k_unit_, element);
  }

  /// K group by K group of the rows as they lie.
  bool takes_floats(const Operand& x, const PlanContext& plan) const override {
    const numerics::ScaleGrid& grid = plan.problem.a_scale.grid;
    return floats_ && numerics::is_float(x.element) && !plan.problem.grouped() && !x.gathered &&
           grid.group_rows == 1 && grid.group_cols == plan.problem.k_group;
  }

  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    if (!quantizes_tiles(x, plan)) return {};
    const Operand out = book(true, plan);
    return {quantize_tiles_step(x, out, packing(true, plan), plan), out};
  }

  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    // The unit of the weights' decoding goes into codes, which cannot overflow; floats can, so there it goes into
    // sums.
    const Operand out = book(numerics::is_quantized(a.element), plan);
    return {pack_step(packing(false, plan), a, out, plan), out};
  }

 private:
  /// Processors store tiles past the caches where they are many: every line of them is overwritten, so reading it
  /// first is for nothing (cl/cache_hints.cl).
  Packing packing(bool quantizes, const PlanContext& plan) const {
    const Features& f = plan.features;
    const Size bytes = plan.rows_in_tiles(rows_) * Size(plan.problem.k).padded_to(k_unit_) * 4;
    const bool many = by_groups_ ? quantizes : bytes > 2 * f.local_bytes * f.compute_units;
    return {true, rows_, f.prefers_vectors() && many, element_};
  }

  /// By groups the scales are followed by the count of the blocks that were taken (cl/a_tiles.cl).
  Operand book(bool in_units_of_weights, const PlanContext& plan) const {
    Operand out = book_packed(name(), element_, plan.rows_in_tiles(rows_), Size(plan.problem.k).padded_to(k_unit_),
                              plan, by_groups_ ? 4 : 0);
    out.in_units_of_weights = in_units_of_weights && !by_groups_;
    return out;
  }

  std::int64_t rows_, k_unit_;
  DType element_;
  bool by_groups_, floats_;
};

}  // namespace

ActivationFormPtr tiles_form(std::int64_t rows, bool floats) {
  return std::make_shared<Tiles>(rows, 16, DType::f32, false, floats);
}

ActivationFormPtr group_tiles_form(std::int64_t rows, DType element, int k_group, bool floats) {
  return std::make_shared<Tiles>(rows, k_group, element, true, floats);
}

}  // namespace ironcl::opencl
