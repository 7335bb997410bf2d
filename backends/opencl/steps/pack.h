// SPDX-License-Identifier: Apache-2.0
// The step that packs rows of A, codes with scales or floats, into a form: cl/pack_a.cl.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Which kernel of pack_a.cl, and for what.
struct Packing {
  std::string kernel;
  int rows = 1;              ///< Of a tile.
  bool past_caches = false;  ///< The result is stored past the caches.
  /// TILE_FORM of cl/a_tiles.cl: how tiles lie.
  backend::DType form = backend::DType::f32;
};

/// From `a` into `out`, whose scales are one f32 for each row and K group.
std::unique_ptr<Step> pack_step(const Packing& packing, const Operand& a, const Operand& out,
                                const PlanContext& plan);

}  // namespace ironcl::opencl
