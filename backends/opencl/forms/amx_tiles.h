// SPDX-License-Identifier: Apache-2.0
// Activations as tiles of 16 rows for the tile instructions of x86: what cl/gemm_amx.cl reads.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Tiles of 16 rows; those of one K group lie together (cl/a_tiles.cl). `element` is bf16, which holds codes of 8
/// bits exactly, or i8. k is padded to whole K groups.
ActivationFormPtr amx_tiles_form(backend::DType element, int k_group);

}  // namespace ironcl::opencl
