// SPDX-License-Identifier: Apache-2.0
// What tools write beside a layer about how it was quantised: torchao in the file's metadata, ComfyUI in a tensor of
// JSON or in the file's metadata, quanto in quanto_qmap.json, bitsandbytes by its SCB. Next door:
// quantization_config.h (what config.json says).
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>

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

/// ComfyUI's "_quantization_metadata" of each file: {"layers": {NAME: what comfy_quant says}} (QUANTIZATION.md of
/// ComfyUI). A file is parsed once, when the first of its layers asks.
class ComfyMetadata {
 public:
  /// What `file` says of `layer`, whose name may have a prefix more than the file's ("model.diffusion_model."). Empty
  /// where the file has no such metadata. Where it has and does not name the layer, the group says why the layer is
  /// not read: its scales could be of any layout. Throws Error format or config where the metadata is malformed.
  /// `scales`: how many the layer's weight has.
  std::optional<QuantizationGroup> group_of(const SafetensorsFile& file, std::string_view layer, std::int64_t scales);

 private:
  std::map<const SafetensorsFile*, boost::json::object> layers_;
};

/// Whether a tensor is ComfyUI's "scaled_fp8", which stands beside a model and has no weights: of two elements it
/// says that activations stay unquantised.
bool is_scaled_fp8_marker(std::string_view name) noexcept;

/// What the tensors under `prefix`, of which `weight` is the weight, and their file say; empty where they say
/// nothing. Throws Error format or config where they say it in a malformed way.
std::optional<QuantizationGroup> group_beside(const TensorIndex& index, std::string_view prefix, const Member& weight,
                                              const QuantoMap& quanto, ComfyMetadata& comfy);

}  // namespace ironcl::checkpoint
