// SPDX-License-Identifier: Apache-2.0
// Weights that were only cast to fp8: their scale is 1, and nothing in the files says so. Next door: parts.h.
#pragma once

#include <string>

#include "host/checkpoint/quantization_config.h"
#include "host/checkpoint/tensor_index.h"

namespace ironcl::checkpoint {

/// Why fp8 weights without scales are not taken for plain casts: a scale may have been lost. Empty where they are:
/// no tensor is a scale by its name, no config speaks of quantisation, the files are whole, and no weight is an
/// integer.
std::string why_not_cast(const TensorIndex& index, const QuantizationConfig& config);

/// Whether `tensor` has elements of fp8 (of any kind; e8m0 is a scale's type).
bool is_fp8(const Tensor& tensor) noexcept;

}  // namespace ironcl::checkpoint
