// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

class QuantizeRows final : public Step {
 public:
  QuantizeRows(const RowQuantizer& how, const Features& f, const Place& x, const Place& codes, const Place& scales)
      : how_(how),
        x_(x),
        codes_(codes),
        scales_(scales),
        lanes_(f.prefers_vectors() ? 1 : std::bit_floor(std::min<std::uint64_t>(64, f.max_work_group))),
        defines_(quantizer_defines(f, how.source, how.code, how.quantizer)),
        options_(quantizer_options(f)) {
    defines_["LANES"] = std::to_string(lanes_);
  }

  std::string name() const override { return "quantize rows"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("quantize.cl", defines_, options_), "quantize");
    bind<QuantizeArg::k>(kernel_, how_.k);
    bind<QuantizeArg::k_fill>(kernel_, how_.fill != 0 ? how_.fill : how_.code_ld);
    bind<QuantizeArg::group_rows>(kernel_, reach(how_.grid.group_rows));
    bind<QuantizeArg::group_cols>(kernel_, reach(how_.grid.group_cols));
    bind<QuantizeArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(how_.quantizer.amax_floor));
    bind<QuantizeArg::ldx>(kernel_, how_.ld);
    bind<QuantizeArg::ldq>(kernel_, how_.code_ld);
    bind<QuantizeArg::lds>(kernel_, how_.scale_ld != 0 ? how_.scale_ld : how_.grid.scale_cols(how_.k));
  }

  void launch(Call& call) override {
    if (!call.has(codes_.source)) return;
    bind<QuantizeArg::m>(kernel_, call.a_rows);
    bind_memory<QuantizeArg::x>(kernel_, call.at(x_), numerics::size_of(how_.source));
    bind_memory<QuantizeArg::q>(kernel_, call.at(codes_), 1);
    bind_memory<QuantizeArg::scales>(kernel_, call.at(scales_), 4);
    call.launch(kernel_, how_.grid.scale_cols(how_.k), how_.grid.scale_rows(call.a_rows), lanes_);
  }

 private:
  RowQuantizer how_;
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
  out.data = plan.booking.book("codes of A", rows * code_ld);
  out.scales =
      plan.booking.book("scales of codes of A", numerics::Size(grid.scale_rows(rows.value())) * out.scale_ld * 4);
  return {quantize_rows_step({x.element, p.a, p.k, x.ld, code_ld, grid, p.a_quantizer}, plan.features, x.data,
                             out.data, out.scales),
          out};
}

}  // namespace ironcl::opencl
