// SPDX-License-Identifier: Apache-2.0
// The verdict on a quantised D: codes with their own block scales.
//
//   |q * s - r| <= E + (u_q + 2^-23) * (|r| + E) + s * step / 2        E: the bound of the f32 that was quantised
//
// u_q and step are the unit roundoff and smallest subnormal of the code type (i8: 0 and 1). The scale itself must be
// one that the quantiser gives for some D within E of the reference, so an element beside a rounding border may have
// the code on either side of it, and no third one. Scales that were given are right by definition; r is then cut to
// what their codes reach, as the quantiser cuts d, which moves the two no further apart.
#pragma once

#include <span>

#include "backends/numerics/bounds.h"
#include "backends/numerics/quantize.h"

namespace ironcl::numerics {

/// Compares decoded codes [rows, cols] (tight) of `type` under `scales` (tight, on `grid`, decoded from `scale_type`:
/// f32 or e8m0) with the f32 values that were quantised. A group with a non-finite reference must have a NaN scale;
/// any other a scale that the quantiser can give, or all its elements are out of bounds. Under given scales, an
/// element must be NaN where its reference is. The averages are of codes times scales. Throws std::invalid_argument
/// where a size does not fit.
Comparison compare_quantized(std::span<const double> codes, DType type, std::span<const float> scales, ScaleGrid grid,
                             const Quantizer& quantizer, const Bounded& want, DType scale_type = DType::f32);

}  // namespace ironcl::numerics
