// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <optional>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

class QuantizeRows final : public Step {
 public:
  /// `of`: the plan whose D this is; null: it is no D.
  QuantizeRows(const RowQuantizer& how, const Features& f, const Place& x, const Place& codes, const Place& scales,
               const PlanContext* of = nullptr)
      : how_(how),
        work_(how.grid),
        of_(of != nullptr ? &of->problem : nullptr),
        x_(x),
        codes_(codes),
        scales_(scales),
        lanes_(lanes_of(f, 64)),
        defines_(quantizer_defines(f, how.source, how.code, how.quantizer)),
        options_(quantizer_options(f)) {
    defines_["LANES"] = std::to_string(lanes_);
    defines_["SCALE_TYPE"] = kernel_number(how.scale);
    if (how.quantizer.given) {
      defines_["GIVEN_ROWS"] = std::to_string(reach(how.grid.group_rows));
      defines_["GIVEN_COLS"] = std::to_string(reach(how.grid.group_cols));
      constexpr std::int64_t kShare = 256;
      work_ = {1, how.grid.group_cols != 0 ? how.grid.group_cols : kShare};
    }
    if (of == nullptr) return;
    places_.emplace(Operand{}, *of);
    places_->define(defines_);
    tile_rows_ = of->scheduled_rows;
  }

  std::string name() const override { return of_ != nullptr ? "quantize D" : "quantize rows"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("quantize.cl", defines_, options_), "quantize");
    bind<QuantizeArg::k>(kernel_, how_.k);
    bind<QuantizeArg::k_fill>(kernel_, how_.fill != 0 ? how_.fill : how_.code_ld);
    bind<QuantizeArg::group_rows>(kernel_, reach(work_.group_rows));
    bind<QuantizeArg::group_cols>(kernel_, reach(work_.group_cols));
    bind<QuantizeArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(how_.quantizer.amax_floor));
    bind<QuantizeArg::ldx>(kernel_, how_.ld);
    bind<QuantizeArg::ldq>(kernel_, how_.code_ld);
    bind<QuantizeArg::lds>(kernel_, how_.scale_ld != 0 ? how_.scale_ld : how_.grid.scale_cols(how_.k));
  }

  void launch(Call& call) override {
    if (!call.has(codes_.source)) return;
    const std::int64_t rows = of_ != nullptr ? call.m : call.a_rows, width = work_.scale_cols(how_.k);
    bind<QuantizeArg::m>(kernel_, rows);
    bind_memory<QuantizeArg::x>(kernel_, call.at(x_), numerics::size_of(how_.source));
    bind_memory<QuantizeArg::q>(kernel_, call.at(codes_), 1);
    bind_memory<QuantizeArg::scales>(kernel_, call.at(scales_), numerics::size_of(how_.scale));
    if (places_) places_->bind_schedule(kernel_, kCountOf<QuantizeArg>, call);
    const bool scheduled = of_ != nullptr && of_->grouped();
    call.launch(kernel_, width,
                scheduled ? at_once(*of_, most_tiles(*of_, rows, tile_rows_), width) : work_.scale_rows(rows),
                lanes_);
  }

 private:
  RowQuantizer how_;
  numerics::ScaleGrid work_;  ///< What a work-group does: a scale group, or where scales are given a share of one.
  const Problem* of_;
  std::optional<RowPlaces> places_;
  std::int64_t tile_rows_ = 0;
  Place x_, codes_, scales_;
  std::int64_t lanes_;
  Defines defines_;
  std::string options_;
  cl::Kernel kernel_;
};

}  // namespace

std::unique_ptr<Step> quantize_rows_step(const RowQuantizer& how, const Features& features, const Place& x,
                                         const Place& codes, const Place& scales) {
  return std::make_unique<QuantizeRows>(how, features, x, codes, scales);
}

std::unique_ptr<Step> quantize_d_step(const Operand& d, const PlanContext& plan) {
  const Problem& p = plan.problem;
  const RowQuantizer how{.source = d.element,
                         .code = p.d_code,
                         .k = p.d_cols(),
                         .ld = d.ld,
                         .code_ld = p.ldd,
                         .grid = p.d_scale.grid,
                         .quantizer = p.d_quantizer,
                         .fill = p.d_cols(),
                         .scale_ld = p.d_scale.ld,
                         .scale = p.d_scale.dtype};
  return std::make_unique<QuantizeRows>(how, plan.features, d.data, Place{Source::d, 0}, Place{Source::d_scale, 0},
                                        &plan);
}

StepResult quantize_rows(const Operand& x, std::int64_t code_ld, const PlanContext& plan) {
  const Problem& p = plan.problem;
  const numerics::ScaleGrid& grid = p.a_scale.grid;
  const numerics::Size rows = plan.rows_in_memory();
  Operand out;
  out.element = p.a;
  out.ld = code_ld;
  out.scale = backend::DType::f32;
  out.scale_ld = grid.scale_cols(p.k);
  out.grid = grid;
  out.gathered = x.gathered;
  out.data = plan.booking.book(rows * code_ld);
  out.scales = plan.booking.book(numerics::Size(grid.scale_rows(rows.value())) * out.scale_ld * 4);
  return {quantize_rows_step({x.element, p.a, p.k, x.ld, code_ld, grid, p.a_quantizer}, plan.features, x.data,
                             out.data, out.scales),
          out};
}

}  // namespace ironcl::opencl
