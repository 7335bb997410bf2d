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

/// The launches that a grouped product on a processor is made in, a few milliseconds each; of all others 1. A system
/// that has put two of a driver's threads on one core, or has given a core to somebody else, puts it right when
/// threads wake for the next launch, else within tens of milliseconds; and drivers deal out a launch in stretches of
/// up to a half of it.
std::int64_t pieces_of(const Variant& variant, const Tuning& tuning, const Problem& p, const Features& f);

}  // namespace ironcl::opencl
