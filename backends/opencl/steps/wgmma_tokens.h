// SPDX-License-Identifier: Apache-2.0
// The steps that fill the forms of forms/wgmma_tokens.h: quantising floats (cl/quantize_wgmma.cl) and packing rows of
// codes (cl/pack_wgmma.cl).
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Whether either step schedules the rows of this problem, where it is grouped, as well: a command less.
bool wgmma_step_schedules(const PlanContext& plan);

/// From floats `x` into `out`, for scale groups of one row by 128 columns. `half`: values in f16, else codes.
std::unique_ptr<Step> quantize_wgmma_step(bool half, const Operand& x, const Operand& out, const PlanContext& plan);

/// From rows of codes `a` with any scale grid into `out`.
std::unique_ptr<Step> pack_wgmma_step(bool half, const Operand& a, const Operand& out, const PlanContext& plan);

}  // namespace ironcl::opencl
