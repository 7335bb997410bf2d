// SPDX-License-Identifier: Apache-2.0
// What tools write beside a layer about how it was quantised: torchao, ComfyUI, quanto, bitsandbytes. Next door:
// quantization_config.h (what config.json says).
#pragma once

#include <boost/json/object.hpp>

#include "host/checkpoint/quantization_config.h"
#include "host/checkpoint/tensor_index.h"

namespace ironcl::checkpoint {

/// Whether a tensor is ComfyUI's "scaled_fp8", which stands beside a model and has no weights: of two elements it
/// says that activations stay unquantised.
bool is_scaled_fp8_marker(std::string_view name) noexcept;

/// Files are parsed once, when the first of their layers asks. Views the index, which outlives it.
class LayerWriters {
 public:
  /// Reads quanto_qmap.json, where the folder has one. Throws Error: io, format, config.
  explicit LayerWriters(const TensorIndex& index);

  /// What the tensors under `prefix`, of which `weight` is the weight, and their file say; empty where they say
  /// nothing. Throws Error format or config where they say it in a malformed way.
  std::optional<QuantizationGroup> group_beside(std::string_view prefix, const Member& weight);

 private:
  std::optional<QuantizationGroup> comfy_of(const Tensor& weight, std::string_view layer, std::int64_t scales);

  const TensorIndex& index_;
  std::map<std::string, std::string, std::less<>> quanto_;
  /// ComfyUI's "_quantization_metadata" of each file: {"layers": {NAME: what comfy_quant says}} (QUANTIZATION.md of
  /// ComfyUI).
  std::map<const FileInfo*, boost::json::object> comfy_;
};

}  // namespace ironcl::checkpoint
