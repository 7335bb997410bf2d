// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

class QuantizeTiles final : public Step {
 public:
  QuantizeTiles(const Operand& x, const Operand& out, const Packing& packing, const PlanContext& plan)
      : x_(x),
        out_(out),
        rows_(packing.rows),
        problem_(plan.problem),
        places_(x, plan),
        scale_cols_(problem_.a_scale.grid.scale_cols(problem_.k)),
        cores_(packing.past_caches && !problem_.grouped() ? plan.features.compute_units : 0),
        defines_(quantizer_defines(plan.features, x.element, problem_.a, problem_.a_quantizer)),
        options_(quantizer_options(plan.features)) {
    defines_["TILE_FORM"] = kernel_number(packing.form);
    defines_["TILE"] = std::to_string(rows_);
    defines_["B_TYPE"] = kernel_number(type_of_b_in_tiles(out, problem_));
    defines_["GROUP"] = std::to_string(problem_.k_group);
    defines_["GROUP_COLS"] = std::to_string(reach(problem_.a_scale.grid.group_cols));
    if (packing.past_caches && groups_at_once(problem_.m) >= kGroupsOfAFence) defines_["STREAM_TILES"] = "1";
    places_.define(defines_);
  }

  std::string name() const override { return "quantize tiles"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("quantize_tiles.cl", defines_, options_), "quantize_tiles");
    bind<QuantizeTilesArg::k>(kernel_, problem_.k);
    bind<QuantizeTilesArg::k_pad>(kernel_, out_.ld);
    bind<QuantizeTilesArg::groups>(kernel_, problem_.k_groups());
    bind<QuantizeTilesArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(problem_.a_quantizer.amax_floor));
    bind<QuantizeTilesArg::ldx>(kernel_, x_.ld);
  }

  void launch(Call& call) override {
    bind<QuantizeTilesArg::m>(kernel_, call.m);
    bind_memory<QuantizeTilesArg::x>(kernel_, call.at(x_.data), numerics::size_of(x_.element));
    bind_memory<QuantizeTilesArg::out>(kernel_, call.at(out_.data), 4);
    bind_memory<QuantizeTilesArg::scales>(kernel_, call.at(out_.scales), 4);
    places_.bind_gather(kernel_, places_.bind_schedule(kernel_, kCountOf<QuantizeTilesArg>, call), call);
    call.launch(kernel_, numerics::ceil_div(scale_cols_, groups_at_once(call.m)),
                at_once(problem_, most_tiles(problem_, call.m, rows_), scale_cols_), 1);
  }

 private:
  /// A fence behind tiles that are stored past the caches waits for them: it pays after so many scale groups.
  static constexpr std::int64_t kGroupsOfAFence = 4;

  /// Scale groups that a work-item makes, where each core has several work-items all the same.
  std::int64_t groups_at_once(std::int64_t m) const {
    if (cores_ == 0) return 1;
    return std::clamp<std::int64_t>(scale_cols_ * most_tiles(problem_, m, rows_) / (8 * cores_), 1, 8);
  }

  Operand x_, out_;
  std::int64_t rows_;
  const Problem& problem_;
  RowPlaces places_;
  std::int64_t scale_cols_;
  std::int64_t cores_;  ///< Of a processor that stores past its caches; else 0.
  Defines defines_;
  std::string options_;
  cl::Kernel kernel_;
};

}  // namespace

bool quantizes_tiles(const Operand& x, const PlanContext& plan) {
  if (plan.problem.a_scale.grid.group_rows != 1) return false;
  // 0.3 ns an element on one core, a launch some tens of microseconds: docs/performance/cpu.md.
  constexpr numerics::Size kElementsOfALaunch = 65536;
  return !x.gathered || numerics::Size(plan.problem.m) * plan.problem.k <= kElementsOfALaunch;
}

std::unique_ptr<Step> quantize_tiles_step(const Operand& x, const Operand& out, const Packing& packing,
                                          const PlanContext& plan) {
  return std::make_unique<QuantizeTiles>(x, out, packing, plan);
}

}  // namespace ironcl::opencl
