// SPDX-License-Identifier: Apache-2.0
// Activations as tiles of bf16 or bytes, those of a K group together: what cl/gemm_amx.cl and cl/gemm_bf16.cl read.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Tiles of `rows` rows; those of one K group lie together (cl/a_tiles.cl). `element` is bf16, which holds fp8 codes
/// exactly, or i8. k is padded to whole K groups. `floats`: rows of floats whose scale groups are K groups are taken
/// as they are, for a kernel that makes tiles of them itself.
ActivationFormPtr group_tiles_form(int rows, backend::DType element, int k_group, bool floats = false);

}  // namespace ironcl::opencl
