// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/quantize_rows.h"

#include <algorithm>
#include <bit>

#include "backends/opencl/arguments.h"
#include "backends/opencl/steps/quantizer.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

class QuantizeRows final : public Step {
 public:
  QuantizeRows(const RowQuantizer& how, const Features& f, const Place& x, const Place& codes, const Place& scales)
      : how_(how),
        x_(x),
        codes_(codes),
        scales_(scales),
        defines_(quantizer_defines(f, how.source, how.code, how.quantizer)),
        options_(quantizer_options(f)) {
    if (!f.prefers_vectors()) lanes_ = std::bit_floor(std::min<std::uint64_t>(64, f.max_work_group));
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
    call.launch(kernel_,
                cl::NDRange(static_cast<std::size_t>(how_.grid.scale_cols(how_.k)),
                            static_cast<std::size_t>(how_.grid.scale_rows(call.a_rows))),
                cl::NDRange(lanes_, 1));
  }

 private:
  RowQuantizer how_;
  Place x_, codes_, scales_;
  Defines defines_;
  std::string options_;
  std::size_t lanes_ = 1;
  cl::Kernel kernel_;
};

}  // namespace

std::unique_ptr<Step> quantize_rows_step(const RowQuantizer& how, const Features& features, const Place& x,
                                         const Place& codes, const Place& scales) {
  return std::make_unique<QuantizeRows>(how, features, x, codes, scales);
}

StepResult quantize_rows(const Operand& x, std::int64_t code_ld, const PlanContext& plan) {
  const backend::GemmDesc& d = plan.desc;
  const numerics::ScaleGrid& grid = d.a_scale.grid;
  Operand out;
  out.element = d.a;
  out.ld = code_ld;
  out.scale = DType::f32;
  out.scale_ld = grid.scale_cols(d.k);
  out.grid = grid;
  out.gathered = x.gathered;
  out.data = {Source::workspace, plan.booking.book("codes of A", plan.a_rows() * code_ld)};
  out.scales = {
      Source::workspace,
      plan.booking.book("scales of codes of A", Size(grid.scale_rows(plan.a_rows().value())) * out.scale_ld * 4)};
  return {quantize_rows_step({x.element, d.a, d.k, x.ld, code_ld, grid, d.a_quantizer}, plan.features, x.data,
                             out.data, out.scales),
          out};
}

}  // namespace ironcl::opencl
