// SPDX-License-Identifier: Apache-2.0
// Activations as rows, k padded with zeros: codes stay codes, floats become f32. What the tiled kernel reads.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Rows with k padded to a multiple of `k_unit`. With `floats`, the kernel also takes floats as the caller has them
/// and quantises them in groups of one row by 128, where the device's quotients are exact.
ActivationFormPtr rows_form(int k_unit, bool floats = false);

}  // namespace ironcl::opencl
