// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/wgmma_tokens.h"

#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/deal.h"
#include "backends/opencl/steps/quantizer.h"

namespace ironcl::opencl {
namespace {

/// The most work-groups of a grouped problem: four times what a GPU holds at once. A masked problem has room for many
/// more rows than there are, and a work-group that finds none costs about two nanoseconds: 32 matrices of 20 rows
/// inside 4096 took 1.1 ms, of which the weights are a third, when each possible row had its own.
std::int64_t most_groups(const Making& making) { return std::int64_t{64} * making.features.compute_units; }

class QuantizeTokens final : public Step {
 public:
  QuantizeTokens(bool half, const Operand& x, const Operand& out, const Making& making)
      : half_(half),
        x_(x),
        out_(out),
        k_(making.desc.k),
        problem_(making.problem),
        dealt_(making.dealt),
        dealt_rows_(making.dealt_rows),
        most_groups_(most_groups(making)),
        amax_floor_(making.desc.a_quantizer.amax_floor),
        defines_(quantizer_defines(making.features, x.element, making.desc.a, making.desc.a_quantizer)),
        options_(quantizer_options(making.features)) {
    if (problem_.grouped()) defines_["GROUPED"] = "1", defines_["DEALT_ROWS"] = std::to_string(dealt_rows_);
  }

  std::string name() const override { return "quantize tokens"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("quantize_wgmma.cl", defines_, options_),
                         half_ ? "quantize_wgmma_f16" : "quantize_wgmma_fp8");
    set_args(kernel_, 1, static_cast<cl_int>(k_), static_cast<cl_int>(out_.scale_ld),
             std::bit_cast<cl_uint>(amax_floor_));
    kernel_.setArg(6, static_cast<cl_ulong>(x_.ld));
  }

  void launch(Call& call) override {
    const Memory x = call.at(x_.data), out = call.at(out_.data), scales = call.at(out_.scales);
    kernel_.setArg(0, static_cast<cl_int>(call.m));
    set_args(kernel_, 4, x.buffer, element_of(x, numerics::size_of(x_.element)));
    set_args(kernel_, 7, out.buffer, element_of(out, 1), scales.buffer, element_of(scales, 4));
    constexpr std::int64_t kItems = 128, kWarps = kItems / 32, kRowsOfWarp = 16;
    const std::int64_t rows = problem_.grouped() ? most_tiles(problem_, call.m, dealt_rows_) * dealt_rows_ : call.m;
    const std::int64_t warps = numerics::ceil_div(rows, kRowsOfWarp) * out_.scale_ld;
    if (problem_.grouped()) set_dealt(kernel_, 11, call, dealt_);
    call.launch(kernel_, cl::NDRange(at_once(problem_, numerics::ceil_div(warps, kWarps), 1, most_groups_), 1),
                cl::NDRange(kItems, 1));
  }

 private:
  bool half_;
  Operand x_, out_;
  std::int64_t k_;
  Problem problem_;
  Place dealt_;
  std::int64_t dealt_rows_, most_groups_;
  float amax_floor_;
  Defines defines_;
  std::string options_;
  cl::Kernel kernel_;
};

class PackTokens final : public Step {
 public:
  PackTokens(bool half, const Operand& a, const Operand& out, const Making& making)
      : half_(half),
        a_(a),
        out_(out),
        k_(making.desc.k),
        problem_(making.problem),
        dealt_(making.dealt),
        dealt_rows_(making.dealt_rows),
        most_groups_(most_groups(making)),
        defines_(device_defines(making.features)) {
    if (problem_.grouped()) defines_["GROUPED"] = "1", defines_["DEALT_ROWS"] = std::to_string(dealt_rows_);
    if (a.gathered) defines_["GATHER"] = "1";
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["SCALE_TYPE"] = kernel_number(a.scale);
  }

  std::string name() const override { return "pack tokens"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("pack_wgmma.cl", defines_), half_ ? "pack_wgmma_f16" : "pack_wgmma_fp8");
    set_args(kernel_, 1, static_cast<cl_int>(k_), static_cast<cl_int>(out_.scale_ld));
    kernel_.setArg(5, static_cast<cl_ulong>(a_.ld));
    set_args(kernel_, 8, static_cast<cl_ulong>(a_.scale_ld), static_cast<cl_int>(reach(a_.grid.group_rows)),
             static_cast<cl_int>(reach(a_.grid.group_cols)));
  }

  void launch(Call& call) override {
    const Memory a = call.at(a_.data), sa = call.at(a_.scales), out = call.at(out_.data),
                 scales = call.at(out_.scales);
    kernel_.setArg(0, static_cast<cl_int>(call.m));
    set_args(kernel_, 3, a.buffer, element_of(a, numerics::size_of(a_.element)));
    set_args(kernel_, 6, sa.buffer, element_of(sa, std::max<std::uint32_t>(1, numerics::size_of(a_.scale))));
    set_args(kernel_, 11, out.buffer, element_of(out, 1), scales.buffer, element_of(scales, 4));
    constexpr std::int64_t kItems = 128;
    cl_uint next = 15;
    if (problem_.grouped()) next = set_dealt(kernel_, next, call, dealt_);
    if (a_.gathered) set_gather(kernel_, next, call);
    const std::int64_t units = problem_.grouped() ? most_tiles(problem_, call.m, dealt_rows_) * (dealt_rows_ / 64)
                                                  : numerics::ceil_div(call.m, std::int64_t{64});
    const auto groups = static_cast<std::size_t>(out_.scale_ld * (half_ ? 1024 : 512) / kItems);
    call.launch(kernel_, cl::NDRange(groups, at_once(problem_, units, groups, most_groups_)), cl::NDRange(kItems, 1));
  }

 private:
  bool half_;
  Operand a_, out_;
  std::int64_t k_;
  Problem problem_;
  Place dealt_;
  std::int64_t dealt_rows_, most_groups_;
  Defines defines_;
  cl::Kernel kernel_;
};

}  // namespace

std::unique_ptr<Step> quantize_wgmma_step(bool half, const Operand& x, const Operand& out, const Making& making) {
  return std::make_unique<QuantizeTokens>(half, x, out, making);
}

std::unique_ptr<Step> pack_wgmma_step(bool half, const Operand& a, const Operand& out, const Making& making) {
  return std::make_unique<PackTokens>(half, a, out, making);
}

}  // namespace ironcl::opencl
