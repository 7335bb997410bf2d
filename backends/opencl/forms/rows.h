// SPDX-License-Identifier: Apache-2.0
// Activations as rows, k padded with zeros: codes stay codes, floats become f32. What the tiled kernel reads.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Rows with k padded to a multiple of `k_unit`.
ActivationFormPtr rows_form(int k_unit);

}  // namespace ironcl::opencl
