// SPDX-License-Identifier: Apache-2.0
// The steps of plans; and how kernels of several steps are told of rows that are scheduled or gathered. A step is a
// file here; what fills one form alone is in that form's file, and what is an operation too in that one's.
#pragma once

#include "backends/opencl/arguments.h"
#include "backends/opencl/step.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// The kernels of a variant, one after another: `d` (plain rows: its place, type and leading dimension) from `a`,
/// which is in the variant's form of activations, and the call's weights in its form of weights. Books the variant's
/// scratch.
std::unique_ptr<Step> multiply_step(const Variant& variant, const Tuning& tuning, const Operand& a, const Operand& d,
                                    const PlanContext& plan);

/// Whether the kernel schedules the rows of this problem itself (cl/schedule_rows.cl), where it is grouped.
bool schedules_itself(const Variant& variant, const Tuning& tuning, const Problem& p);

/// Whether the work-groups of a grouped product, one for each core of a processor, take shares of it from a counter.
/// A driver that schedules out a launch gives a core up to half of it at once, and waits for that core where the
/// system has given it to another program.
bool takes_from_counter(const Variant& variant, const Tuning& tuning, const Problem& p, const Features& f);

/// Which kernel of cl/pack_a.cl, and for what.
struct Packing {
  bool tiles = false;                         ///< Makes tiles of the wanted rows; else leaves rows in place.
  std::int64_t rows = 1;                      ///< Rows of a tile.
  bool past_caches = false;                   ///< The result is stored past the caches.
  backend::DType form = backend::DType::f32;  ///< TILE_FORM of cl/a_tiles.cl: how tiles lie.
};

/// The type of B as kernels that fill tiles are told of it: where it changes nothing in `out`, one for all, which
/// then share a program.
inline backend::DType type_of_b_in_tiles(const Operand& out, const Problem& p) {
  return out.in_units_of_weights || numerics::bits_of(p.b) < 8 ? p.b : backend::DType::e4m3fn;
}

/// Packs rows of codes with scales, or of floats, into `out`, whose scales are one f32 for each row and K group.
std::unique_ptr<Step> pack_step(const Packing& packing, const Operand& a, const Operand& out,
                                const PlanContext& plan);

/// How `p` quantises A: rows of `x`, `ld` apart, to codes `code_ld` apart.
inline backend::QuantizeDesc quantizing_a(const Problem& p, backend::DType x, std::int64_t ld, std::int64_t code_ld,
                                          const backend::ScaleDesc& scale) {
  return {
      .cols = p.k, .x_ld = ld, .code_ld = code_ld, .x = x, .code = p.a, .scale = scale, .quantizer = p.a_quantizer};
}

/// Quantises what lies at `x` to codes at `codes`, with scales at `scales` (cl/quantize.cl). Rows come with each
/// call, not with `desc`; columns from its own to `fill` become zero codes, and scales whose ld is 0 have no gaps. A
/// call that does not bring the memory of `codes` leaves the step out. `of`: the plan whose D this is; null: it is no
/// D.
std::unique_ptr<Step> quantize_rows_step(const backend::QuantizeDesc& desc, const Features& features, const Place& x,
                                         const Place& codes, const Place& scales, std::int64_t fill = 0,
                                         const PlanContext* of = nullptr);

/// Quantises D, as the kernels leave it at `d`, into what the caller takes; of a grouped problem rows that a matrix
/// has.
std::unique_ptr<Step> quantize_d_step(const Operand& d, const PlanContext& plan);

/// Activates `totals`, gates and ups side by side in f32, into `d` (activation.cpp).
std::unique_ptr<Step> activate_d_step(const Operand& totals, const Operand& d, const PlanContext& plan);

/// Books codes and scales, rows `code_ld` elements apart.
StepResult quantize_rows(const Operand& x, std::int64_t code_ld, const PlanContext& plan);

/// The first step of a grouped plan whose form of A does not schedule by itself: schedules rows into tiles and blocks
/// (cl/schedule.cl), in the lists that are booked for `shape`.
std::unique_ptr<Step> schedule_step(const ScheduleShape& shape, const PlanContext& plan);

/// What a kernel is told of rows that are scheduled or gathered: SCHEDULE_LIST, or SCHEDULE_FIRST_LIST of a kernel
/// that schedules them itself, and GATHER_LIST of cl/arguments.cl.
struct RowPlaces {
  bool scheduled, gathered, schedules;
  Place schedule;
  const Problem& problem;
  std::int64_t tile_rows;  ///< One tile per block, where the kernel schedules.

  RowPlaces(const Operand& a, const PlanContext& plan, bool schedules = false)
      : scheduled(plan.problem.grouped()),
        gathered(a.gathered),
        schedules(schedules),
        schedule(plan.scheduled),
        problem(plan.problem),
        tile_rows(plan.scheduled_rows) {}

  void define(Defines& defines) const {
    if (scheduled) defines["GROUPED"] = "1";
    if (schedules) defines["SCHEDULES"] = "1";
    if (gathered) defines["GATHER"] = "1";
  }
  /// Both return the number of the argument after their lists.
  cl_uint bind_schedule(cl::Kernel& kernel, cl_uint first, const Call& call) const {
    if (schedules) {
      const ScheduleLists lists(problem, problem.m, {tile_rows, 1});
      bind_memory<ScheduleFirstArg::schedule_memory>(kernel, call.at(schedule), 4, first);
      bind<ScheduleFirstArg::matrices>(kernel, problem.matrices, first);
      bind<ScheduleFirstArg::masked>(kernel, problem.masked(), first);
      bind_memory<ScheduleFirstArg::matrix_rows>(kernel, call.at({Source::matrix_rows, 0}), 4, first);
      bind<ScheduleFirstArg::tiles_at>(kernel, lists.tiles_at, first);
      bind<ScheduleFirstArg::blocks_at>(kernel, lists.blocks_at, first);
      bind<ScheduleFirstArg::table>(kernel, cl::Local(static_cast<std::size_t>(problem.matrices) * 32), first);
      return first + kCountOf<ScheduleFirstArg>;
    }
    if (!scheduled) return first;
    bind_memory<ScheduleArg::schedule_memory>(kernel, call.at(schedule), 4, first);
    return first + kCountOf<ScheduleArg>;
  }
  cl_uint bind_gather(cl::Kernel& kernel, cl_uint first, const Call& call) const {
    if (!gathered) return first;
    bind_memory<GatherArg::a_index>(kernel, call.at({Source::a_index, 0}), 4, first);
    bind<GatherArg::a_rows>(kernel, call.a_rows, first);
    return first + kCountOf<GatherArg>;
  }
};

/// Work-groups that are launched beside `width` others for so many tiles or blocks, 65536 in all if that leaves one.
/// Kernels of a grouped problem take several in turn: what could be there and is not costs no launch of its own.
inline std::int64_t at_once(const Problem& p, std::int64_t count, std::int64_t width) {
  constexpr std::int64_t kMost = 65536;
  return p.grouped() ? std::min(count, std::max<std::int64_t>(1, kMost / width)) : count;
}

}  // namespace ironcl::opencl
