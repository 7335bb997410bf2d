// SPDX-License-Identifier: Apache-2.0
// A layer of a checkpoint as a problem: its weights as B, and the description.
// Next door: activations.h (A itself).
#pragma once

#include "host/checkpoint/model.h"
#include "host/layer/operands.h"

namespace ironcl::layer {

/// B [n, k] of a layer, of type layer.multiplied(). Codes stay in the checkpoint, which outlives this, unless they
/// had to be turned, unpacked or freed of zero points; scales and bias are copied, since a file need not align them.
struct LayerWeights {
  std::span<const std::byte> codes;
  std::vector<std::byte> turned;        ///< B where it is not as it lies in the file; else empty.
  std::vector<std::byte> scales, bias;  ///< bias: empty where the layer has none.
  std::vector<float> global;            ///< One of NVFP4; else empty.
};
LayerWeights weights_of(const checkpoint::LinearLayer& layer);

/// The caller's choices for a layer's problem.
struct ProblemChoices {
  std::int64_t m = 0;                            ///< Rows of A, at most.
  numerics::DType x = numerics::DType::bf16;     ///< Type of activations: f32, f16, bf16.
  std::optional<numerics::ScaleGrid> x_block{};  ///< Overrides the layer's.
  numerics::DType out = numerics::DType::bf16;   ///< Type of D: f32, f16, bf16.
  numerics::AccuracyClass weakest_accuracy = numerics::AccuracyClass::f32;
};

/// The problem of a layer for activations that come in choices.x; with choices.x_block they are quantised dynamically
/// in such blocks, whatever the layer says. A fixed scale of the layer's own ("static") is given to the plan
/// (a_quantizer). Throws checkpoint::Error where that scale is not there, and where activations of a layer with zero
/// points are to be quantised.
report::Problem describe(const checkpoint::LinearLayer& layer, const ProblemChoices& choices);

}  // namespace ironcl::layer
