// SPDX-License-Identifier: Apache-2.0
// The step that quantises floats straight into tiles, for scale groups of one row: cl/quantize_tiles.cl.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Whether `x` may be quantised straight into tiles, and should: one kernel sees the rows of one tile only, and
/// quantises a gathered row as often as it is wanted. Where that is little work it costs less than launching a second
/// kernel.
bool quantizes_tiles(const Operand& x, const PlanContext& plan);

/// From `x` into `out`, tiles of `rows` rows that lie as `form` says (TILE_FORM of cl/a_tiles.cl). `past_caches`:
/// they are stored past the caches.
std::unique_ptr<Step> quantize_tiles_step(const Operand& x, const Operand& out, int rows, backend::DType form,
                                          bool past_caches, const PlanContext& plan);

}  // namespace ironcl::opencl
