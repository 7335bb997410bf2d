// SPDX-License-Identifier: Apache-2.0
// The GEMM kernels as programs on the modelled core, and one call that runs a plan's program. program_pipeline.cpp is
// the published kernel on the grid pipeline; program_grouped.cpp are the kernels of many matrices; kernel_body.h is
// the arithmetic that all programs share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/ironwood/pipeline.h"
#include "backends/ironwood/plan.h"
#include "backends/ironwood/row_deal.h"
#include "backends/ironwood/timeline.h"
#include "backends/ironwood/workers.h"

namespace ironcl::ironwood {

/// The operands of a call where the kernel finds them: arrays in HBM. All data null: only time is simulated.
struct Operands {
  HbmArray x;        ///< [m, k] of problem.x.
  HbmArray w;        ///< [n, k] of problem.w.
  HbmArray x_scale;  ///< f32, as Plan::x_scales lays out; only where problem.scaled_x.
  HbmArray w_scale;  ///< f32, as Plan::w_scales lays out; only where the weights have scales.
  HbmArray bias;     ///< [1, n] f32; only where the problem has one.
  HbmArray out;      ///< [m, n] of problem.d.
  /// Of a grouped problem: the arrays of each matrix, instead of w, w_scale and bias; and whose rows are whose.
  struct Matrix {
    HbmArray w, w_scale, bias;
  };
  std::vector<Matrix> matrices;
  std::vector<MatrixRows> rows;
};

/// The arrays of a call of `m` rows (at least 1), tight and without data. Of a grouped problem all its rows(), dealt
/// as plan.matrix_rows says.
Operands describe_operands(const Plan& plan, std::int64_t m);

/// What a run took and moved.
struct RunTotals {
  CoreTotals core;
  PipelineTotals copies;
  double time_ns = 0;  ///< Launch included; modelled.
};

/// Runs the plan's program on `m` rows (at least 1). `workers` may be null where the operands have no data;
/// `timeline` may be null. Throws Error(internal) where a program breaks the engine's rules.
RunTotals run_program(const Plan& plan, std::int64_t m, const Operands& operands, Workers* workers,
                      Timeline* timeline);

/// A program: how blocks move, around the body that all share. A new one is a file with its function and a row of
/// all_programs(); options, reports and plans find it there.
struct ProgramEntry {
  std::string_view name;     ///< As the option `program` spells it.
  std::string_view meaning;  ///< In a few words.
  PipelineTotals (*run)(Core& core, const Plan& plan, std::int64_t m, const Operands& operands, Workers* workers);
  Program program;
  bool cuts_rows;    ///< A ragged last block of rows costs the rows there are, not a full block.
  bool own_buffers;  ///< Every operand has all its slots, and the bias lies in VMEM as a whole.
  bool grouped;      ///< Runs grouped problems, and no others.
};

/// The first is the default.
std::span<const ProgramEntry> all_programs() noexcept;
const ProgramEntry& entry_of(Program program) noexcept;
std::string_view name_of(Program program) noexcept;
/// Null where there is no program of that name.
const ProgramEntry* find_program(std::string_view name) noexcept;

PipelineTotals run_pipeline_program(Core& core, const Plan& plan, std::int64_t m, const Operands& operands,
                                    Workers* workers);
PipelineTotals run_manual_program(Core& core, const Plan& plan, std::int64_t m, const Operands& operands,
                                  Workers* workers);
PipelineTotals run_grouped_program(Core& core, const Plan& plan, std::int64_t m, const Operands& operands,
                                   Workers* workers);

/// The visits that a plan of a grouped problem makes; `rows`: of X.
std::vector<Visit> visits_of(const Plan& plan, std::span<const MatrixRows> dealt, std::int64_t rows);

/// Which block of its array a step (b, o, i) uses.
BlockIndex scale_block(const ScaleLayout& layout, std::int64_t tile_row, std::int64_t tile_rows,
                       std::int64_t tile_col, std::int64_t tile_cols) noexcept;

}  // namespace ironcl::ironwood
