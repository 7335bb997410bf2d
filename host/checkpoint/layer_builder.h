// SPDX-License-Identifier: Apache-2.0
// Linear layers out of the tensors of a checkpoint: the parts of every layer (layers.cpp, stacked_layers.cpp), what
// fits together, which block, which activations (layer_builder.cpp); and layers of experts out of linear ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/checkpoint/model.h"
#include "host/checkpoint/stacked.h"

namespace ironcl::checkpoint {

/// A tensor, or a slice of one, and its file.
struct Placed {
  Tensor tensor;
  const SafetensorsFile* file = nullptr;
};

/// A tensor of the index, or of a stack the slice of one expert.
Placed placed(const TensorIndex& index, const Located& located, std::optional<std::int64_t> expert = std::nullopt);

/// What was found of a layer. Slices of stacked tensors are cut already.
struct LayerParts {
  std::string name;
  std::string expected_scale;   ///< The full name that a missing scale should have.
  std::string scale_elsewhere;  ///< The file of the same model that has it, where an index says so.
  std::string expected_input_scale;
  Placed weight;
  std::optional<Placed> scale, global, input_scale, bias;
  /// Of tools that write something else than the scale itself (derive()): bitsandbytes' SCB and weight_format,
  /// msModelSlim's deq_scale and quant_bias, compressed-tensors' weight_shape.
  std::optional<Placed> row_amax, layout, product_scale, integer_bias, shape;
  std::vector<Placed> zero_points;
  std::optional<std::int64_t> expert;
  /// `scale` is of a matrix of that many equal parts, one above the other, of which this weight is one.
  std::int64_t part = 0, parts = 1;
  bool packed = false;      ///< The weight is compressed-tensors' weight_packed.
  bool transposed = false;  ///< Weight and scale lie as [K, N]; their shapes here are [N, K] all the same.
  const QuantizationGroup* group = nullptr;  ///< From the config or the layer's writer; nullptr: unknown.
  std::optional<Error> problem;              ///< Found while the parts were gathered.
  std::optional<Error> stranger;             ///< A tensor beside the weight that is not known; said last.
  std::string why_not_cast;                  ///< Why fp8 without a scale is no plain cast (conventions.h).
};

/// The weight block that config or metadata says, with where it says so. Throws Error config for malformed metadata.
std::optional<ScaleGrid> said_grid(const LayerParts& parts, BlockSource& source);

/// Every expert of a stack of weights; gate and up are a layer each where their scales were made of each alone.
std::vector<LayerParts> layers_of(const TensorIndex& index, const StackedWeight& stacked,
                                  const QuantizationConfig& config, const OpenOptions& options);

/// Codes, scales and biases that the file has in another form than the product takes them (bitsandbytes' SCB, static
/// int8 of msModelSlim, packed codes, four bits, plain casts): computed once, in F32. Throws Error.
void derive(const LayerParts& parts, LinearLayer& layer);

/// Whether the weight holds two codes of e2m1 in a byte: as the config says, or where I8 has scales of e8m0
/// (DeepSeek-V4's experts) and a config says how activations enter.
bool has_four_bits(const LayerParts& parts) noexcept;

/// The zero points of the weights, where any is not 0 and the tool subtracts them; nullptr where all are 0. Throws
/// Error unsupported for others, and for those of activations.
const Placed* find_zero_points(const LayerParts& parts);

/// Puts them into the layer, whose weight, grid and activations are known. Throws Error: unsupported, shape,
/// not_found (a config says that there are some).
void take_zero_points(const LayerParts& parts, const Placed* zero_points, LinearLayer& layer);

/// Values of fp8 as F32: a bias that was cast like the weights.
Tensor decoded(const Tensor& tensor);

/// Everything that is known of the layer; the first thing that is wrong with it becomes its problem.
LinearLayer build_layer(const LayerParts& parts, const QuantizationConfig& config, const OpenOptions& options);

struct LayerList {
  std::vector<LinearLayer> layers;
  std::vector<Unquantized> unquantized;
};

/// Sorts the tensors of `folder` into quantised layers and the rest. What is wrong with a layer goes into its
/// problem.
/// `stacked`: how the model type stores experts of one tensor.
LayerList find_layers(const Folder& folder, const QuantizationConfig& config, const OpenOptions& options,
                      StackedForm stacked = StackedForm::unknown);

/// The layers of experts among `layers` (sorted, as in the checkpoint), in the order of a reader. `routing`: of the
/// config, where it has one. What is wrong with one goes into its problem. Costs what the names cost: linear.
std::vector<ExpertsLayer> find_experts(const Folder& folder, const std::vector<LinearLayer>& layers,
                                       const std::optional<Routing>& routing);

}  // namespace ironcl::checkpoint
