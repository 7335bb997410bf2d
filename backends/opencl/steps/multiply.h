// SPDX-License-Identifier: Apache-2.0
// The step that multiplies: the kernels of a variant, one after another.
#pragma once

#include "backends/opencl/form.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl {

/// `d` (plain rows: its place, type and leading dimension) from `a`, which is in the variant's form of activations,
/// and the call's weights in its form of weights. Books the variant's scratch.
std::unique_ptr<Step> multiply_step(const Variant& variant, const Tuning& tuning, const Operand& a, const Operand& d,
                                    const Making& making);

}  // namespace ironcl::opencl
