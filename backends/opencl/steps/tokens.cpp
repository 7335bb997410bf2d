// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

/// The most matrices that a work-group schedules: 32 bytes each of its local memory.
constexpr std::int64_t kMostMatricesScheduled = 256;
constexpr std::int64_t kItems = 128;
/// Work-groups of a grouped problem for each compute unit: as many as are there at once. Each schedules all rows
/// before it takes its first, and a masked problem has room for many more rows than there are. 8, 16, 24 of 6188 x
/// 4096 codes take the same time, 64 a sixth more (docs/performance/h200-grouped.md).
constexpr std::int64_t kGroupsOfUnit = 16;

/// What both steps do: where rows are scheduled to matrices, a step does that itself before its own work.
class TokenStep : public Step {
 public:
  TokenStep(const Operand& from, const Operand& out, const PlanContext& plan, Defines defines)
      : from_(from),
        out_(out),
        problem_(plan.problem),
        defines_(std::move(defines)),
        places_(from, plan, token_steps_schedule(plan)),
        rows_(plan.scheduled_rows),
        most_(kGroupsOfUnit * plan.features.compute_units) {
    places_.define(defines_);
    if (problem_.grouped()) defines_["SCHEDULED_ROWS"] = std::to_string(rows_);
  }

 protected:
  /// Binds what follows a kernel's own list, from argument `next` on.
  void bind_places(cl_uint next, const Call& call) {
    places_.bind_gather(kernel_, places_.bind_schedule(kernel_, next, call), call);
  }

  /// Rows in tiles, as many as there may be.
  std::int64_t rows(std::int64_t m) const { return problem_.grouped() ? most_tiles(problem_, m, rows_) * rows_ : m; }

  /// Launches for `count` pieces of work of a work-group each.
  void launch_for(Call& call, std::int64_t count) const {
    call.launch(kernel_, problem_.grouped() ? std::min(count, most_) : count, 1, kItems, places_.schedules);
  }

  Operand from_, out_;
  const Problem& problem_;
  Defines defines_;
  cl::Kernel kernel_;

 private:
  RowPlaces places_;
  std::int64_t rows_;
  std::int64_t most_;
};

class QuantizeTokens final : public TokenStep {
 public:
  QuantizeTokens(bool f16, const Operand& x, const Operand& out, const PlanContext& plan)
      : TokenStep(x, out, plan,
                  quantizer_defines(plan.features, x.element, plan.problem.a, plan.problem.a_quantizer)),
        kernel_name_(f16 ? "quantize_wgmma_f16" : "quantize_wgmma_fp8"),
        options_(quantizer_options(plan.features)) {}

  std::string name() const override { return "quantize tokens"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("quantize_wgmma.cl", defines_, options_), kernel_name_);
    bind<QuantizeTokensArg::k>(kernel_, problem_.k);
    bind<QuantizeTokensArg::blocks>(kernel_, out_.scale_ld);
    bind<QuantizeTokensArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(problem_.a_quantizer.amax_floor));
    bind<QuantizeTokensArg::ldx>(kernel_, from_.ld);
  }

  void launch(Call& call) override {
    bind<QuantizeTokensArg::m>(kernel_, call.m);
    bind_memory<QuantizeTokensArg::x>(kernel_, call.at(from_.data), numerics::size_of(from_.element));
    bind_memory<QuantizeTokensArg::out>(kernel_, call.at(out_.data), 1);
    bind_memory<QuantizeTokensArg::scales>(kernel_, call.at(out_.scales), 4);
    bind_places(kCountOf<QuantizeTokensArg>, call);
    constexpr std::int64_t kWarps = kItems / 32, kRowsOfWarp = 16;
    launch_for(call, numerics::ceil_div(numerics::ceil_div(rows(call.m), kRowsOfWarp) * out_.scale_ld, kWarps));
  }

 private:
  const char* kernel_name_;
  std::string options_;
};

class PackTokens final : public TokenStep {
 public:
  PackTokens(bool f16, const Operand& a, const Operand& out, const PlanContext& plan)
      : TokenStep(a, out, plan, device_defines(plan.features)),
        kernel_name_(f16 ? "pack_wgmma_f16" : "pack_wgmma_fp8") {
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["SCALE_TYPE"] = kernel_number(a.scale);
  }

  std::string name() const override { return "pack tokens"; }

  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build("pack_wgmma.cl", defines_), kernel_name_);
    bind<PackTokensArg::k>(kernel_, problem_.k);
    bind<PackTokensArg::blocks>(kernel_, out_.scale_ld);
    bind<PackTokensArg::lda>(kernel_, from_.ld);
    bind<PackTokensArg::lds>(kernel_, from_.scale_ld);
    bind<PackTokensArg::scale_rows>(kernel_, reach(from_.grid.group_rows));
    bind<PackTokensArg::scale_cols>(kernel_, reach(from_.grid.group_cols));
  }

  void launch(Call& call) override {
    bind<PackTokensArg::m>(kernel_, call.m);
    bind_memory<PackTokensArg::a>(kernel_, call.at(from_.data), numerics::size_of(from_.element));
    bind_memory<PackTokensArg::sa>(kernel_, call.at(from_.scales), numerics::size_of(from_.scale));
    bind_memory<PackTokensArg::out>(kernel_, call.at(out_.data), 1);
    bind_memory<PackTokensArg::scales>(kernel_, call.at(out_.scales), 4);
    bind_places(kCountOf<PackTokensArg>, call);
    launch_for(call, numerics::ceil_div(rows(call.m), 64) * out_.scale_ld);
  }

 private:
  const char* kernel_name_;
};

}  // namespace

bool token_steps_schedule(const PlanContext& plan) {
  return plan.problem.grouped() && plan.problem.matrices <= kMostMatricesScheduled;
}

std::unique_ptr<Step> quantize_tokens_step(bool f16, const Operand& x, const Operand& out, const PlanContext& plan) {
  return std::make_unique<QuantizeTokens>(f16, x, out, plan);
}

std::unique_ptr<Step> pack_tokens_step(bool f16, const Operand& a, const Operand& out, const PlanContext& plan) {
  return std::make_unique<PackTokens>(f16, a, out, plan);
}

}  // namespace ironcl::opencl
