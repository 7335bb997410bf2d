// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "backends/opencl/elements.h"
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using numerics::Size;

/// The most matrices that a work-group schedules, 256 experts and a shared one: 32 bytes each of its local memory.
constexpr std::int64_t kMostMatricesScheduled = 257;
constexpr std::int64_t kItems = 128;
/// Work-groups of a grouped problem for each compute unit: as many as are there at once. Each schedules all rows
/// before it takes its first, and a masked problem has room for many more rows than there are. 8, 16, 24 of 6188 x
/// 4096 codes take the same time, 64 a sixth more (docs/performance/h200-grouped.md).
constexpr std::int64_t kGroupsOfUnit = 16;

/// Whether both steps schedule the rows of this problem, where it is grouped, as well: a command less.
bool steps_schedule(const PlanContext& plan) {
  return plan.problem.grouped() && plan.problem.matrices <= kMostMatricesScheduled;
}

/// Whether gathered rows are quantised once and stored wherever they are wanted (cl/quantize_scatter.cl): each of its
/// work-groups, as many as X has rows for, looks through the whole index (docs/performance/h200-grouped.md).
bool scatters(const PlanContext& plan) {
  constexpr std::int64_t kMostValues = std::int64_t{32} << 20;
  return steps_schedule(plan) && plan.rows_of_d() * plan.problem.k <= kMostValues &&
         plan.rows_of_d() >= plan.problem.a_rows;
}

/// The rows of both steps: where they are scheduled to matrices, a step does that itself before its own work.
struct TokenRows {
  RowPlaces places;
  std::int64_t most;  ///< Work-groups of a grouped problem.

  TokenRows(const Operand& from, const PlanContext& plan, Defines& defines)
      : places(from, plan, steps_schedule(plan)), most(kGroupsOfUnit * plan.features.compute_units) {
    places.define(defines);
    if (places.scheduled) defines["SCHEDULED_ROWS"] = std::to_string(places.tile_rows);
  }

  /// Rows in tiles, as many as there may be.
  std::int64_t in_tiles(std::int64_t m) const {
    return places.scheduled ? most_tiles(places.problem, m, places.tile_rows) * places.tile_rows : m;
  }

  /// Work-groups for `count` pieces of work, which those of a grouped problem take in turn.
  std::int64_t in_turn(std::int64_t count) const { return places.scheduled ? std::min(count, most) : count; }

  /// Binds what follows a kernel's own list, from argument `next` on, and launches `count` work-groups.
  void run(cl::Kernel& kernel, cl_uint next, Call& call, std::int64_t count) const {
    places.bind_gather(kernel, places.bind_schedule(kernel, next, call), call);
    call.launch(kernel, count, 1, kItems, places.schedules);
  }
};

class Tokens final : public ActivationForm {
 public:
  explicit Tokens(bool f16) : f16_(f16) {}

  std::string name() const override { return f16_ ? "tokens_m64_k128_f16_swizzled" : "tokens_m64_k128_swizzled"; }

  bool schedules(const PlanContext& plan) const override { return steps_schedule(plan); }

  /// For scale groups of one row by 128 columns (cl/quantize_wgmma.cl).
  StepResult quantize(const Operand& x, const PlanContext& plan) const override {
    if (!is_row_by_k_block(plan.problem.a_scale.grid, plan.problem.k) || (x.gathered && !scatters(plan))) return {};
    const Operand out = book(plan);
    const Problem& p = plan.problem;
    Defines defines = quantizer_defines(plan.features, x.element, p.a, p.a_quantizer);
    const TokenRows rows(x, plan, defines);
    if (x.gathered) defines["F16"] = std::to_string(f16_);
    const auto bind_constants = [&p, x, out](cl::Kernel& kernel) {
      bind<QuantizeTokensArg::k>(kernel, p.k);
      bind<QuantizeTokensArg::blocks>(kernel, out.scale.ld);
      bind<QuantizeTokensArg::floor_bits>(kernel, std::bit_cast<cl_uint>(p.a_quantizer.amax_floor));
      bind<QuantizeTokensArg::ldx>(kernel, x.ld);
    };
    const auto run = [x, out, rows](cl::Kernel& kernel, Call& call) {
      bind<QuantizeTokensArg::m>(kernel, call.m);
      bind_memory<QuantizeTokensArg::x>(kernel, call.at(x.data), numerics::size_of(x.element));
      bind_memory<QuantizeTokensArg::out>(kernel, call.at(out.data), 1);
      bind_memory<QuantizeTokensArg::scales>(kernel, call.at(out.scales), 4);
      // A warp has eight rows of a K block; a work-group of gathered ones those of four K blocks.
      constexpr std::int64_t kWarps = kItems / 32, kRows = 8;
      const std::int64_t in_tiles = numerics::ceil_div(rows.in_tiles(call.m), kRows) * out.scale.ld;
      const std::int64_t gathered = numerics::ceil_div(call.a_rows, kRows) * numerics::ceil_div(out.scale.ld, kWarps);
      rows.run(kernel, kCountOf<QuantizeTokensArg>, call,
               x.gathered ? gathered : rows.in_turn(numerics::ceil_div(in_tiles, kWarps)));
    };
    const char* const kernel = x.gathered ? "quantize_scatter" : f16_ ? "quantize_wgmma_f16" : "quantize_wgmma_fp8";
    return {std::make_unique<KernelStep>("quantize tokens", x.gathered ? "quantize_scatter.cl" : "quantize_wgmma.cl",
                                         kernel, std::move(defines), quantizer_options(plan.features), bind_constants,
                                         run),
            out};
  }

  /// From rows of codes with any scale grid (cl/pack_wgmma.cl).
  StepResult pack(const Operand& a, const PlanContext& plan) const override {
    const Operand out = book(plan);
    Defines defines = device_defines(plan.features);
    const TokenRows rows(a, plan, defines);
    defines["A_TYPE"] = kernel_number(a.element);
    defines["SCALE_TYPE"] = kernel_number(a.scale.dtype);
    const auto bind_constants = [&p = plan.problem, a, out](cl::Kernel& kernel) {
      bind<PackTokensArg::k>(kernel, p.k);
      bind<PackTokensArg::blocks>(kernel, out.scale.ld);
      bind<PackTokensArg::lda>(kernel, a.ld);
      bind<PackTokensArg::lds>(kernel, a.scale.ld);
      bind<PackTokensArg::scale_rows>(kernel, reach(a.scale.grid.group_rows));
      bind<PackTokensArg::scale_cols>(kernel, reach(a.scale.grid.group_cols));
    };
    const auto run = [a, out, rows](cl::Kernel& kernel, Call& call) {
      bind<PackTokensArg::m>(kernel, call.m);
      bind_memory<PackTokensArg::a>(kernel, call.at(a.data), numerics::size_of(a.element));
      bind_memory<PackTokensArg::sa>(kernel, call.at(a.scales), numerics::size_of(a.scale.dtype));
      bind_memory<PackTokensArg::out>(kernel, call.at(out.data), 1);
      bind_memory<PackTokensArg::scales>(kernel, call.at(out.scales), 4);
      const std::int64_t pieces = numerics::ceil_div(rows.in_tiles(call.m), 64) * out.scale.ld;
      rows.run(kernel, kCountOf<PackTokensArg>, call, rows.in_turn(pieces));
    };
    return {std::make_unique<KernelStep>("pack tokens", "pack_wgmma.cl", f16_ ? "pack_wgmma_f16" : "pack_wgmma_fp8",
                                         std::move(defines), "", bind_constants, run),
            out};
  }

 private:
  static constexpr std::int64_t kRowUnit = 256;

  Operand book(const PlanContext& plan) const {
    const Size rows =
        plan.problem.grouped() ? plan.rows_in_tiles(plan.scheduled_rows) : Size(plan.problem.m).padded_to(kRowUnit);
    const Size k = Size(plan.problem.k).padded_to(256);
    Operand out;
    out.form = name();
    out.element = f16_ ? DType::f16 : plan.problem.a;
    out.ld = k.value();
    out.scale = {DType::f32, {1, 128}, k.value() / 128};
    out.data = plan.booking.book(rows * k * numerics::size_of(out.element));
    out.scales = plan.booking.book((rows * out.scale.ld + kPartCounters) * 4);
    out.scales.at += kPartCounters * 4;
    return out;
  }

  bool f16_;
};

}  // namespace

ActivationFormPtr tokens_form(bool f16) { return std::make_shared<Tokens>(f16); }

}  // namespace ironcl::opencl
