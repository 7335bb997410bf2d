// SPDX-License-Identifier: Apache-2.0
// Scales, biases and codes that a file has in another form than the product takes them: computed once, in F32.
// Next door: layer_builder.h, which asks for them.
#pragma once

#include "host/checkpoint/layer_builder.h"

namespace ironcl::checkpoint {

/// A tensor of F32 that owns its values.
Tensor f32_tensor(std::string name, std::vector<std::int64_t> shape, const std::vector<float>& values);

/// bitsandbytes' SCB [N] or [1, N]: the scales [N] = SCB / 127. Throws Error dtype, shape.
Tensor scale_of_row_amax(const Placed& amax, std::int64_t n);

/// Static W8A8 of msModelSlim, y = deq_scale (sum q code + quant_bias): weight scale deq_scale / input_scale and bias
/// quant_bias deq_scale, both [N]. Throws Error not_found, dtype, shape, value.
struct StaticInt8 {
  Tensor scale, bias;
};
StaticInt8 static_int8(const LayerParts& parts, std::int64_t n);

/// compressed-tensors' weight_packed I32 [N, ceil(K / 4)] as I8 [N, K], in place: a row takes 4 ceil(K / 4) bytes of
/// code + 128. Throws Error not_found (no weight_shape), dtype, shape.
Tensor unpacked_shape(const LayerParts& parts);

/// Values of fp8 as F32: a bias that was cast like the weights.
Tensor decoded(const Tensor& tensor);

}  // namespace ironcl::checkpoint
