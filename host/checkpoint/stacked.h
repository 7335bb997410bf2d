// SPDX-License-Identifier: Apache-2.0
// Experts in one tensor: weights [E, N, K], and scales [E, rows, cols] of stacked or of separate weights.
// Next door: layer_builder.h (layers out of single tensors).
#pragma once

#include "host/checkpoint/layer_builder.h"

namespace ironcl::checkpoint {

/// A three-dimensional tensor of quantised weights `<prefix><name>`, with the tensors that belong to it.
struct StackedWeight {
  std::string_view prefix;  ///< "model.layers.0.mlp.experts."
  std::string projection;   ///< "gate_up_proj", without ".weight".
  /// Weight [E, N, K], scale [E, ...], global [E] or of gate and up [E, 2], input_scale [E] or one value, bias [E,
  /// N]. Its problem is of the first tensor beside the weight that changes its product in a way that is not computed
  /// here, or that is there twice.
  LayerParts whole;
  std::vector<const Tensor*> tensors;         ///< All that belong to it, and those that `problem` is about.
  StackedForm form = StackedForm::unknown;    ///< As the model type says.
  StackedForm shapes = StackedForm::unknown;  ///< As the dimensions of gate_up and down together show.

  /// gpt-oss's MXFP4, which needs no config: codes [E, N, K / 32, 16].
  bool blocks() const noexcept { return whole.weight.shape.size() == 4; }
  bool transposed() const noexcept { return form == StackedForm::transposed; }
  std::int64_t experts() const { return whole.weight.shape[0]; }
};

/// All of them that are called experts or moe, of a model whose type stores them as `form`.
std::vector<StackedWeight> find_stacked(const TensorIndex& index, StackedForm form);

/// Every expert of a stack of weights, "model.layers.0.mlp.experts.3.gate_up_proj"; gate and up are a layer each
/// where their scales were made of each alone.
std::vector<LayerParts> layers_of(const StackedWeight& stacked, const QuantizationConfig& config,
                                  const OpenOptions& options);

/// The slice [expert, ...] of a tensor, without its first dimension; a tensor of one element as it is.
/// Throws Error shape where it has no such slice.
Tensor slice_of(const Tensor& tensor, std::int64_t expert);

/// The rows [begin, end) of a matrix that has them.
Tensor rows_of(const Tensor& matrix, std::int64_t begin, std::int64_t end);

/// The tensor of stacked scales that an expert's own weight shares.
struct SharedScale {
  const Tensor* scale = nullptr;
  const Tensor* input_scale = nullptr;
  std::int64_t expert = 0;
  /// Which part of the rows of a fused projection this one is; gate and up share gate_up_proj. 0 of 1: all of them.
  std::int64_t part = 0, parts = 1;
};

/// The stacked scales of layer "<...>.<expert>.<projection>": `<...>.<projection>_scale_inv`, or for gate_proj and
/// up_proj `<...>.gate_up_proj_scale_inv`. Empty where there are none.
std::optional<SharedScale> find_shared_scale(const TensorIndex& index, std::string_view layer);

}  // namespace ironcl::checkpoint
