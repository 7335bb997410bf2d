// SPDX-License-Identifier: Apache-2.0
// Linear layers out of their parts (layers.cpp and stacked.cpp find them), and layers of experts out of linear
// ones.
#pragma once

#include "host/checkpoint/model.h"
#include "host/checkpoint/tensor_index.h"

namespace ironcl::checkpoint {

/// What was found of a layer. Slices of stacked tensors are cut already.
struct LayerParts {
  std::string name{};
  std::string expected_scale{};   ///< The full name that a missing scale should have.
  std::string scale_elsewhere{};  ///< The file of the same model that has it, where an index says so.
  std::string expected_input_scale{};
  Tensor weight{};
  std::optional<Tensor> scale{}, global{}, input_scale{}, bias{};
  /// Of tools that write something else than the scale itself (derive()): bitsandbytes' SCB and weight_format,
  /// msModelSlim's deq_scale and quant_bias, compressed-tensors' weight_shape.
  std::optional<Tensor> row_amax{}, layout{}, product_scale{}, integer_bias{}, shape{};
  std::vector<Tensor> zero_points{};
  std::optional<std::int64_t> expert{};
  /// `scale` is of a matrix of that many equal parts, one above the other, of which this weight is one.
  std::int64_t part = 0, parts = 1;
  bool packed = false;      ///< The weight is compressed-tensors' weight_packed.
  bool transposed = false;  ///< Weight and scale lie as [K, N]; their shapes here are [N, K] all the same.
  const QuantizationGroup* group = nullptr;  ///< From the config or the layer's writer; nullptr: unknown.
  std::optional<Error> problem{};            ///< Found while the parts were gathered.
  std::optional<Error> stranger{};           ///< A tensor beside the weight that is not known; said last.
  std::string why_not_cast{};                ///< Why fp8 without a scale is no plain cast (conventions.h).

  /// What the group says; where it is unknown, nothing.
  const QuantizationGroup& said() const noexcept {
    static const QuantizationGroup nothing{};
    return group != nullptr ? *group : nothing;
  }
};

/// Where the parts go of which a layer has one at most.
struct Slot {
  Part part;
  std::optional<Tensor> LayerParts::*of;
  const char* what;
};
inline constexpr std::array kSlots = {
    Slot{Part::weight_scale, &LayerParts::scale, "scales"},
    Slot{Part::global_scale, &LayerParts::global, "global scales"},
    Slot{Part::row_amax, &LayerParts::row_amax, "scales"},
    Slot{Part::product_scale, &LayerParts::product_scale, "scales"},
    Slot{Part::input_scale, &LayerParts::input_scale, "scales of its activations"},
    Slot{Part::bias, &LayerParts::bias, "biases"},
    Slot{Part::integer_bias, &LayerParts::integer_bias, "biases"},
    Slot{Part::shape, &LayerParts::shape, "shapes"},
    Slot{Part::layout, &LayerParts::layout, "layouts"},
};

/// Puts a tensor that stands beside the weight as `part` into its place. A second one of a kind becomes the problem,
/// one that has no place the stranger.
void take_part(const Tensor& tensor, Part part, LayerParts& parts);
/// What the tensor does to the layer's product is not known.
void note_stranger(const Tensor& tensor, LayerParts& parts);

/// The weight block that the config says, or else metadata. Throws Error config for malformed metadata.
std::optional<ScaleGrid> said_grid(const LayerParts& parts);

/// Codes, scales and biases that the file has in another form than the product takes them (bitsandbytes' SCB, static
/// int8 of msModelSlim, packed codes, four bits, plain casts): computed once, in F32. Throws Error.
void derive(const LayerParts& parts, LinearLayer& layer);

/// Whether the weight holds two codes of e2m1 in a byte: as the config says, or where I8 has scales of e8m0
/// (DeepSeek-V4's experts) and a config says how activations enter.
bool has_four_bits(const LayerParts& parts) noexcept;

/// The zero points of the weights, where any is not 0 and the tool subtracts them; nullptr where all are 0. Throws
/// Error unsupported for others, and for those of activations.
const Tensor* find_zero_points(const LayerParts& parts);

/// Puts them into the layer, whose weight, grid and activations are known. Throws Error: unsupported, shape,
/// not_found (a config says that there are some).
void take_zero_points(const LayerParts& parts, const Tensor* zero_points, LinearLayer& layer);

/// Values of fp8 as F32: a bias that was cast like the weights.
Tensor decoded(const Tensor& tensor);

/// Everything that is known of the layer; the first thing that is wrong with it becomes its problem.
LinearLayer build_layer(const LayerParts& parts, const QuantizationConfig& config, const OpenOptions& options);

struct LayerList {
  std::vector<LinearLayer> layers;
  std::vector<Unquantized> unquantized;
};

/// Sorts the tensors of `folder` into quantised layers and the rest. `stacked`: how the model type stores experts of
/// one tensor.
LayerList find_layers(const Folder& folder, const QuantizationConfig& config, const OpenOptions& options,
                      StackedForm stacked = StackedForm::unknown);

/// The layers of experts among `layers`, in the order of a reader. `routing`: of the config, where it has one.
std::vector<ExpertsLayer> find_experts(const Folder& folder, const std::vector<LinearLayer>& layers,
                                       const std::optional<Routing>& routing);

}  // namespace ironcl::checkpoint
