// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/quantize_tiles.h"

#include <algorithm>
#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/quantizer.h"
#include "backends/opencl/steps/schedule.h"

namespace ironcl::opencl {
namespace {

class QuantizeTiles final : public Step {
 public:
  QuantizeTiles(const Operand& x, const Operand& out, int rows, backend::DType form, bool past_caches,
                const PlanContext& plan)
      : x_(x),
        out_(out),
        rows_(rows),
        k_(plan.desc.k),
        k_groups_(plan.problem.k_groups()),
        scale_cols_(plan.desc.a_scale.grid.scale_cols(plan.desc.k)),
        problem_(plan.problem),
        schedule_(plan.scheduled),
        amax_floor_(plan.desc.a_quantizer.amax_floor),
        cores_(past_caches && !plan.problem.grouped() ? plan.features.compute_units : 0),
        defines_(quantizer_defines(plan.features, x.element, plan.desc.a, plan.desc.a_quantizer)),
        options_(quantizer_options(plan.features)) {
    defines_["TILE_FORM"] = kernel_number(form);
    defines_["TILE"] = std::to_string(rows);
    defines_["B_TYPE"] = kernel_number(plan.desc.b);
    defines_["GROUP"] = std::to_string(plan.problem.k_group);
    defines_["GROUP_COLS"] = std::to_string(reach(plan.desc.a_scale.grid.group_cols));
    if (past_caches && groups_at_once(plan.desc.m) >= kGroupsOfAFence) defines_["STREAM_TILES"] = "1";
    if (problem_.grouped()) defines_["GROUPED"] = "1";
    if (x.gathered) defines_["GATHER"] = "1";
  }

  std::string name() const override { return "quantize tiles"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("quantize_tiles.cl", defines_, options_), "quantize_tiles");
    bind<QuantizeTilesArg::k>(kernel_, k_);
    bind<QuantizeTilesArg::k_pad>(kernel_, out_.ld);
    bind<QuantizeTilesArg::groups>(kernel_, k_groups_);
    bind<QuantizeTilesArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(amax_floor_));
    bind<QuantizeTilesArg::ldx>(kernel_, x_.ld);
  }

  void launch(Call& call) override {
    bind<QuantizeTilesArg::m>(kernel_, call.m);
    bind_memory<QuantizeTilesArg::x>(kernel_, call.at(x_.data), numerics::size_of(x_.element));
    bind_memory<QuantizeTilesArg::out>(kernel_, call.at(out_.data), 4);
    bind_memory<QuantizeTilesArg::scales>(kernel_, call.at(out_.scales), 4);
    cl_uint next = kCountOf<QuantizeTilesArg>;
    if (problem_.grouped()) next = bind_schedule(kernel_, next, call, schedule_);
    if (x_.gathered) bind_gather(kernel_, next, call);
    const auto width = static_cast<std::size_t>(scale_cols_);
    const std::int64_t tiles = most_tiles(problem_, call.m, rows_);
    call.launch(kernel_,
                cl::NDRange(static_cast<std::size_t>(numerics::ceil_div(scale_cols_, groups_at_once(call.m))),
                            at_once(problem_, tiles, width)),
                cl::NDRange(1, 1));
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
  int rows_;
  std::int64_t k_, k_groups_, scale_cols_;
  Problem problem_;
  Place schedule_;
  float amax_floor_;
  std::int64_t cores_;  ///< Of a processor that stores past its caches; else 0.
  Defines defines_;
  std::string options_;
  cl::Kernel kernel_;
};

}  // namespace

bool quantizes_tiles(const Operand& x, const PlanContext& plan) {
  if (plan.desc.a_scale.grid.group_rows != 1) return false;
  // 0.3 ns an element on one core, a launch some tens of microseconds: docs/performance/cpu-f32.md.
  constexpr numerics::Size kElementsOfALaunch = 65536;
  return !x.gathered || numerics::Size(plan.desc.m) * plan.desc.k <= kElementsOfALaunch;
}

std::unique_ptr<Step> quantize_tiles_step(const Operand& x, const Operand& out, int rows, backend::DType form,
                                          bool past_caches, const PlanContext& plan) {
  return std::make_unique<QuantizeTiles>(x, out, rows, form, past_caches, plan);
}

}  // namespace ironcl::opencl
