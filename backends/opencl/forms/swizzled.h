// SPDX-License-Identifier: Apache-2.0
// Weights as tensor cores of compute capability 9.0 want them in local memory, so that plain bulk copies fetch them;
// the same bytes serve as a register operand and stream well. Next door: wgmma_tokens.h (the activations beside
// them).
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Slots of 64 columns of B by a K block of 128, 8 KiB each, K blocks of the same columns one after another. A slot
/// is 64 lines of 128 bytes, all k of a column; the 16-byte piece c of line r lies at c ^ (r & 7), which is wgmma's
/// swizzle of 128 bytes. Line 16 i + 8 a + 2 t + e of a slot is column 16 i + 4 t + 2 a + e, so that what a work-item
/// has of D lies side by side. Columns are padded to 128 and k to 256 with zero codes. Scales: for each 128 columns
/// and scale group, 128 f32.
WeightFormPtr swizzled_form();

}  // namespace ironcl::opencl
