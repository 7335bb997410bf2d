// SPDX-License-Identifier: Apache-2.0
// Experts in one tensor: weights [E, N, K], and scales [E, rows, cols] of stacked or of separate weights.
// Next door: layer_builder.h (layers out of single tensors).
#pragma once

#include <unordered_set>

#include "host/checkpoint/layer_builder.h"

namespace ironcl::checkpoint {

/// How experts lie by the dimensions of `<prefix>gate_up_proj` [E, A, B] and `<prefix>down_proj` [E, C, D]: B = C and
/// A = 2 D where they are [E, N, K], A = D and B = 2 C where they are [E, K, N]. Both cannot be.
StackedForm form_of_shapes(const Folder& folder, std::string_view prefix);

/// Every expert of every stack of quantised weights that is called experts or moe, of a model whose type stores them
/// as `form`: "model.layers.0.mlp.experts.3.gate_up_proj"; gate and up are a layer each where their scales were made
/// of each alone. What belongs to the stacks is added to `used`.
std::vector<LayerParts> stacked_layers(const TensorIndex& index, StackedForm form, const QuantizationConfig& config,
                                       const OpenOptions& options, std::unordered_set<const Tensor*>& used);

/// The slice [expert, ...] of a tensor, without its first dimension; a tensor of one element as it is.
/// Throws Error shape where it has no such slice.
Tensor slice_of(const Tensor& tensor, std::int64_t expert);

/// The rows [begin, end) of a matrix that has them.
Tensor rows_of(const Tensor& matrix, std::int64_t begin, std::int64_t end);

/// Gives layer "<...>.<expert>.<projection>" its slices of the stacked scales that its weight shares with its
/// neighbours, where there are such: `<...>.<projection>_scale_inv`, or for gate_proj and up_proj
/// `<...>.gate_up_proj_scale_inv`. The tensors are added to `used`. Throws Error shape.
void share_scales(const TensorIndex& index, LayerParts& parts, std::unordered_set<const Tensor*>& used);

}  // namespace ironcl::checkpoint
