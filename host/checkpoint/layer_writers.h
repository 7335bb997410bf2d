// SPDX-License-Identifier: Apache-2.0
// What tools write beside a layer about how it was quantised: torchao in the file's metadata, ComfyUI in a tensor of
// JSON, quanto in quanto_qmap.json. Next door: quantization_config.h (what config.json says).
#pragma once

#include <optional>

#include "host/checkpoint/quantization_config.h"
#include "host/checkpoint/tensor_index.h"

namespace ironcl::checkpoint {

/// quanto_qmap.json: for each layer the types of its weight and activations.
class QuantoMap {
 public:
  QuantoMap() = default;
  /// Throws Error: io, format, config.
  explicit QuantoMap(const std::filesystem::path& file);
  /// "none", "qfloat8_e4m3fn", ...; empty where the map does not name the layer.
  std::string activations_of(std::string_view layer) const;
  bool empty() const noexcept { return activations_.empty(); }

 private:
  std::map<std::string, std::string, std::less<>> activations_;
};

/// What the tensors under `prefix`, of which `weight` is the weight, and their file say; empty where they say
/// nothing. Throws Error format or config where they say it in a malformed way.
std::optional<QuantizationGroup> group_beside(const TensorIndex& index, std::string_view prefix, const Member& weight,
                                              const QuantoMap& quanto);

}  // namespace ironcl::checkpoint
