// SPDX-License-Identifier: Apache-2.0
// One linear layer out of its parts: what fits together, which block, which activations. Next door: layers.h (finds
// the parts of every layer).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/checkpoint/folder.h"
#include "host/checkpoint/model.h"

namespace ironcl::checkpoint {

/// A tensor, or a slice of one, and its file.
struct Placed {
  Tensor tensor;
  const SafetensorsFile* file = nullptr;
};

/// What was found of a layer. Slices of stacked tensors are cut already.
struct LayerParts {
  std::string name;
  std::string expected_scale;   ///< The full name that a missing scale should have.
  std::string scale_elsewhere;  ///< The file of the same model that has it, where an index says so.
  std::string expected_input_scale;
  Placed weight;
  std::optional<Placed> scale, input_scale, bias;
  /// Of tools that write something else than the scale itself (derived.h): bitsandbytes' SCB and weight_format,
  /// msModelSlim's deq_scale and quant_bias, compressed-tensors' weight_shape.
  std::optional<Placed> row_amax, layout, product_scale, integer_bias, shape;
  std::vector<Placed> zero_points;
  std::optional<std::int64_t> expert;
  /// `scale` is of a matrix of that many equal parts, one above the other, of which this weight is one.
  std::int64_t part = 0, parts = 1;
  bool packed = false;      ///< The weight is compressed-tensors' weight_packed of 8 bits.
  bool transposed = false;  ///< Weight and scale lie as [K, N]; their shapes here are [N, K] all the same.
  const QuantizationGroup* group = nullptr;  ///< Of the config or of the layer's writer; nullptr: nobody says.
  std::optional<Error> problem;              ///< Found while the parts were gathered.
  std::optional<Error> stranger;             ///< A tensor beside the weight that is not known; said last.
  std::string why_not_cast;                  ///< Of fp8 without a scale: why that is no plain cast (plain_cast.h).
};

/// The weight block that config or metadata says, with where it says so. Throws Error config for malformed metadata.
std::optional<ScaleGrid> said_grid(const LayerParts& parts, BlockSource& source);

/// Everything that is known of the layer; the first thing that is wrong with it becomes its problem.
LinearLayer build_layer(const LayerParts& parts, const QuantizationConfig& config, const OpenOptions& options);

}  // namespace ironcl::checkpoint
