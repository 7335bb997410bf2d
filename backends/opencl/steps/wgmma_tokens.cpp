// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/wgmma_tokens.h"

#include <algorithm>
#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/deal.h"
#include "backends/opencl/steps/quantizer.h"

namespace ironcl::opencl {
namespace {

/// The most matrices that a work-group deals: 32 bytes each of its local memory.
constexpr std::int64_t kMostMatricesDealt = 256;
constexpr std::int64_t kItems = 128;
/// Work-groups of a grouped problem for each compute unit: as many as are there at once. Each deals all rows before
/// it takes its first, and a masked problem has room for many more rows than there are. 8, 16, 24 of 6188 x 4096
/// codes take the same time, 64 a sixth more (docs/performance/h200-grouped.md).
constexpr std::int64_t kGroupsOfUnit = 16;

/// What the steps of this file have in common where rows are dealt to matrices.
class Dealer {
 public:
  explicit Dealer(const Making& making)
      : problem_(making.problem),
        dealt_(making.dealt),
        rows_(making.dealt_rows),
        deals_(wgmma_step_deals(making)),
        most_(kGroupsOfUnit * making.features.compute_units) {
    if (!deals_) return;
    const DealtLists lists(problem_, making.desc.m, {rows_, 1});
    tiles_at_ = lists.tiles_at;
    blocks_at_ = lists.blocks_at;
  }

  void define(Defines& defines) const {
    if (!problem_.grouped()) return;
    defines["GROUPED"] = "1", defines["DEALT_ROWS"] = std::to_string(rows_);
    if (deals_) defines["DEALS"] = "1";
  }

  /// Sets DEALS_ARGS of cl/deal_rows.cl, from argument `first` on; returns the number of the argument after them.
  cl_uint set(cl::Kernel& kernel, cl_uint first, const Call& call) const {
    if (!problem_.grouped()) return first;
    const cl_uint next = set_dealt(kernel, first, call, dealt_);
    if (!deals_) return next;
    const Memory counts = call.at({Source::matrix_rows, 0});
    set_args(kernel, next, static_cast<cl_int>(problem_.matrices), static_cast<cl_int>(problem_.masked ? 1 : 0),
             counts.buffer, element_of(counts, 4), static_cast<cl_int>(tiles_at_), static_cast<cl_int>(blocks_at_),
             cl::Local(static_cast<std::size_t>(problem_.matrices) * 32));
    return next + 7;
  }

  /// Rows in tiles, as many as there may be.
  std::int64_t rows(std::int64_t m) const { return problem_.grouped() ? most_tiles(problem_, m, rows_) * rows_ : m; }

  /// Launches for `count` pieces of work of a work-group each.
  void launch(const cl::Kernel& kernel, Call& call, std::int64_t count) const {
    if (problem_.grouped()) count = std::min(count, most_);
    call.launch(kernel, cl::NDRange(static_cast<std::size_t>(count), 1), cl::NDRange(kItems, 1));
    if (deals_) call.depend_on_last();
  }

 private:
  Problem problem_;
  Place dealt_;
  std::int64_t rows_;
  bool deals_;
  std::int64_t most_;
  std::int64_t tiles_at_ = 0, blocks_at_ = 0;
};

class QuantizeTokens final : public Step {
 public:
  QuantizeTokens(bool half, const Operand& x, const Operand& out, const Making& making)
      : half_(half),
        x_(x),
        out_(out),
        k_(making.desc.k),
        dealer_(making),
        amax_floor_(making.desc.a_quantizer.amax_floor),
        defines_(quantizer_defines(making.features, x.element, making.desc.a, making.desc.a_quantizer)),
        options_(quantizer_options(making.features)) {
    dealer_.define(defines_);
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
    dealer_.set(kernel_, 11, call);
    constexpr std::int64_t kWarps = kItems / 32, kRowsOfWarp = 16;
    const std::int64_t warps = numerics::ceil_div(dealer_.rows(call.m), kRowsOfWarp) * out_.scale_ld;
    dealer_.launch(kernel_, call, numerics::ceil_div(warps, kWarps));
  }

 private:
  bool half_;
  Operand x_, out_;
  std::int64_t k_;
  Dealer dealer_;
  float amax_floor_;
  Defines defines_;
  std::string options_;
  cl::Kernel kernel_;
};

class PackTokens final : public Step {
 public:
  PackTokens(bool half, const Operand& a, const Operand& out, const Making& making)
      : half_(half), a_(a), out_(out), k_(making.desc.k), dealer_(making), defines_(device_defines(making.features)) {
    dealer_.define(defines_);
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
    const cl_uint next = dealer_.set(kernel_, 15, call);
    if (a_.gathered) set_gather(kernel_, next, call);
    dealer_.launch(kernel_, call, numerics::ceil_div(dealer_.rows(call.m), std::int64_t{64}) * out_.scale_ld);
  }

 private:
  bool half_;
  Operand a_, out_;
  std::int64_t k_;
  Dealer dealer_;
  Defines defines_;
  cl::Kernel kernel_;
};

}  // namespace

bool wgmma_step_deals(const Making& making) {
  // Its table is in local memory.
  return making.problem.grouped() && making.problem.matrices <= kMostMatricesDealt;
}

std::unique_ptr<Step> quantize_wgmma_step(bool half, const Operand& x, const Operand& out, const Making& making) {
  return std::make_unique<QuantizeTokens>(half, x, out, making);
}

std::unique_ptr<Step> pack_wgmma_step(bool half, const Operand& a, const Operand& out, const Making& making) {
  return std::make_unique<PackTokens>(half, a, out, making);
}

}  // namespace ironcl::opencl
