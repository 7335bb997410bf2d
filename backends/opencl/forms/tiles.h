// SPDX-License-Identifier: Apache-2.0
// Activations as f32 tiles: what the kernels with register tiles read.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Tiles of `rows` rows; in a tile, each 16 k of a row lie side by side (cl/pack_a.cl). k is padded to a multiple of
/// `k_unit`, itself a multiple of 16. Codes are multiplied with the unit of the weights' decoding. With `floats` the
/// kernel itself quantises floats whose scale groups are its K groups.
ActivationFormPtr tiles_form(int rows, int k_unit, bool floats = false);

}  // namespace ironcl::opencl
