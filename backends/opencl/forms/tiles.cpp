// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/elements.h"
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

  /// By cl/quantize_tiles.cl.
  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    if (!quantizes(x, plan)) return {};
    const Operand out = book(true, plan);
    const Problem& p = plan.problem;
    const Packing packing = this->packing(true, plan);
    const RowPlaces places(x, plan);
    const std::int64_t rows = rows_, scale_cols = p.a_scale.grid.scale_cols(p.k);
    // Of a processor that stores past its caches; else 0.
    const std::int64_t cores = packing.past_caches && !p.grouped() ? plan.features.compute_units : 0;
    // Scale groups that a work-item makes, where each core has several work-items all the same.
    const auto groups_at_once = [&p, rows, scale_cols, cores](std::int64_t m) -> std::int64_t {
      if (cores == 0) return 1;
      return std::clamp<std::int64_t>(scale_cols * most_tiles(p, m, rows) / (8 * cores), 1, 8);
    };
    // A fence behind tiles that are stored past the caches waits for them: it pays after so many scale groups.
    constexpr std::int64_t kGroupsOfAFence = 4;
    Defines defines = quantizer_defines(plan.features, x.element, p.a, p.a_quantizer);
    defines["TILE_FORM"] = kernel_number(packing.form);
    defines["TILE"] = std::to_string(rows);
    defines["B_TYPE"] = kernel_number(type_of_b_in_tiles(out, p));
    defines["GROUP"] = std::to_string(p.k_group);
    defines["GROUP_COLS"] = std::to_string(reach(p.a_scale.grid.group_cols));
    if (packing.past_caches && groups_at_once(p.m) >= kGroupsOfAFence) defines["STREAM_TILES"] = "1";
    places.define(defines);
    const auto bind_constants = [&p, x, out](cl::Kernel& kernel) {
      bind<QuantizeTilesArg::k>(kernel, p.k);
      bind<QuantizeTilesArg::k_pad>(kernel, out.ld);
      bind<QuantizeTilesArg::groups>(kernel, p.k_groups());
      bind<QuantizeTilesArg::floor_bits>(kernel, std::bit_cast<cl_uint>(p.a_quantizer.amax_floor));
      bind<QuantizeTilesArg::ldx>(kernel, x.ld);
    };
    const auto run = [&p, x, out, places, rows, scale_cols, groups_at_once](cl::Kernel& kernel, Call& call) {
      bind<QuantizeTilesArg::m>(kernel, call.m);
      bind_memory<QuantizeTilesArg::x>(kernel, call.at(x.data), numerics::size_of(x.element));
      bind_memory<QuantizeTilesArg::out>(kernel, call.at(out.data), 4);
      bind_memory<QuantizeTilesArg::scales>(kernel, call.at(out.scales), 4);
      places.bind_gather(kernel, places.bind_schedule(kernel, kCountOf<QuantizeTilesArg>, call), call);
      call.launch(kernel, numerics::ceil_div(scale_cols, groups_at_once(call.m)),
                  at_once(p, most_tiles(p, call.m, rows), scale_cols), 1);
    };
    return {std::make_unique<KernelStep>("quantize tiles", "quantize_tiles.cl", "quantize_tiles", std::move(defines),
                                         quantizer_options(plan.features), bind_constants, run),
            out};
  }

  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    // The unit of the weights' decoding goes into codes, which cannot overflow; floats can, so there it goes into
    // sums.
    const Operand out = book(numerics::is_quantized(a.element), plan);
    return {pack_step(packing(false, plan), a, out, plan), out};
  }

 private:
  /// Whether `x` may be quantised straight into tiles (scale groups of one row), and should: the kernel sees the rows
  /// of one tile only, and quantises a gathered row as often as it is wanted. Where that is little work it costs less
  /// than launching a second kernel.
  static bool quantizes(const Operand& x, const PlanContext& plan) {
    if (plan.problem.a_scale.grid.group_rows != 1) return false;
    // 0.3 ns an element on one core, a launch some tens of microseconds: docs/performance/cpu.md.
    constexpr Size kElementsOfALaunch = 65536;
    return !x.gathered || Size(plan.problem.m) * plan.problem.k <= kElementsOfALaunch;
  }

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
