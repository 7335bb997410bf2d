// SPDX-License-Identifier: Apache-2.0
// Experts in one tensor: weights [E, N, K], and scales [E, rows, cols] of stacked or of separate weights.
// Next door: layer_builder.h (layers out of single tensors).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/checkpoint/routing.h"
#include "host/checkpoint/tensor_index.h"

namespace ironcl::checkpoint {

/// A three-dimensional tensor of quantised weights `<prefix><name>`, with the tensors that belong to it.
struct StackedWeight {
  std::string_view prefix;  ///< "model.layers.0.mlp.experts."
  std::string projection;   ///< "gate_up_proj", without ".weight".
  const Located* weight = nullptr;
  const Located* scale = nullptr;           ///< [E, ...]
  const Located* global = nullptr;          ///< [E], or of gate and up [E, 2]
  const Located* input_scale = nullptr;     ///< [E] or one value
  const Located* bias = nullptr;            ///< [E, N]
  std::vector<const Located*> zero_points;  ///< Read only where they are 0.
  std::vector<const Located*> refused;      ///< Tensors that `problem` is about, and more of the kind.
  /// Of the first tensor beside the weight that changes its product in a way that is not computed here, or that is
  /// there twice.
  std::optional<Error> problem;
  StackedForm form = StackedForm::unknown;    ///< As the model type says.
  StackedForm shapes = StackedForm::unknown;  ///< As the dimensions of gate_up and down together show.

  /// gpt-oss's MXFP4, which needs no config: codes [E, N, K / 32, 16].
  bool blocks() const noexcept { return weight->tensor->shape.size() == 4; }
  bool transposed() const noexcept { return form == StackedForm::transposed; }

  std::int64_t experts() const { return weight->tensor->shape[0]; }
  /// "model.layers.0.mlp.experts.3.gate_up_proj"
  std::string layer_name(std::int64_t expert) const;
};

/// All of them that are called experts or moe, of a model whose type stores them as `form`.
std::vector<StackedWeight> find_stacked(const TensorIndex& index, StackedForm form);

/// The slice [expert, ...] of a tensor of `file`, without its first dimension; a tensor of one element as it is.
/// Throws Error shape where it has no such slice.
Tensor slice_of(const Tensor& tensor, std::int64_t expert, const std::filesystem::path& file);

/// The same bytes of a matrix, described the other way round: [rows, cols] of a matrix that lies as [cols, rows].
Tensor turned(Tensor matrix);

/// The rows [begin, end) of a matrix that has them.
Tensor rows_of(const Tensor& matrix, std::int64_t begin, std::int64_t end);

/// The tensor of stacked scales that an expert's own weight shares.
struct SharedScale {
  const Located* scale = nullptr;
  const Located* input_scale = nullptr;
  std::int64_t expert = 0;
  /// Which part of the rows of a fused projection this one is; gate and up share gate_up_proj. 0 of 1: all of them.
  std::int64_t part = 0, parts = 1;
};

/// The stacked scales of layer "<...>.<expert>.<projection>": `<...>.<projection>_scale_inv`, or for gate_proj and
/// up_proj
/// `<...>.gate_up_proj_scale_inv`. Empty where there are none.
std::optional<SharedScale> find_shared_scale(const TensorIndex& index, std::string_view layer);

}  // namespace ironcl::checkpoint
