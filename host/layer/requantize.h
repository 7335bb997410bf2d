// SPDX-License-Identifier: Apache-2.0
// What lies between the two products of an expert, quantised, with how far a device's codes and scales may be from
// the oracle's. Next door: oracle.h.
#pragma once

#include <cstdint>
#include <span>

#include "backends/numerics/quantize.h"

namespace ironcl::layer {

/// Quantises one group of h: `value` becomes codes times scale, `bound` (of |device - h| before) how far a device's
/// codes times its scale may be from that. Where no rounding border lies within the error, that is the same code and
/// the error of the scale alone; else it reaches to the neighbouring code. A group with anything that is not finite
/// is NaN. `codes` and `scale` are the oracle's own.
void quantize_group(numerics::DType type, const numerics::Quantizer& quantizer, std::span<double> value,
                    std::span<double> bound, std::uint8_t* codes, float& scale);

}  // namespace ironcl::layer
