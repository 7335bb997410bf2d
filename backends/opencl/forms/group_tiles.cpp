// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

class GroupTiles final : public ActivationForm {
 public:
  GroupTiles(std::int64_t rows, DType element, int k_group, bool floats)
      : rows_(rows), element_(element), k_group_(k_group), floats_(floats) {}

  std::string name() const override {
    return "group_tiles_m" + std::to_string(rows_) + "_g" + std::to_string(k_group_) + "_" +
           std::string(numerics::name_of(element_));
  }

  bool takes(const Operand&, const PlanContext&) const override { return false; }  // Nobody hands over tiles.

  bool takes_floats(const Operand& x, const PlanContext& plan) const override {
    return floats_ && takes_floats_of_k_groups(x, plan);
  }

  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    if (!quantizes_tiles(x, plan)) return {};
    const Operand out = book(plan);
    // Processors store tiles past the caches where they are many: every line of them is overwritten, so reading it
    // first is for nothing.
    return {quantize_tiles_step(x, out, {true, rows_, plan.features.prefers_vectors(), element_}, plan), out};
  }

  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    const Operand out = book(plan);
    return {pack_step({true, rows_, false, element_}, a, out, plan), out};
  }

 private:
  /// After the scales the count of the blocks that were taken (cl/a_tiles.cl).
  Operand book(const PlanContext& plan) const {
    return book_packed(name(), element_, plan.rows_in_tiles(rows_), Size(plan.problem.k).padded_to(k_group_), plan,
                       4);
  }

  std::int64_t rows_;
  DType element_;
  int k_group_;
  bool floats_;
};

}  // namespace

ActivationFormPtr group_tiles_form(std::int64_t rows, DType element, int k_group, bool floats) {
  return std::make_shared<GroupTiles>(rows, element, k_group, floats);
}

}  // namespace ironcl::opencl
