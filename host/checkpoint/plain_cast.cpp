// SPDX-License-Identifier: Apache-2.0
// Weights that were only cast to fp8.
#include "host/checkpoint/plain_cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "host/checkpoint/conventions.h"

namespace ironcl::checkpoint {
namespace {

/// Parameters of models that are called scales: of CLIP, of diffusion transformers, of residual branches.
constexpr std::array<std::string_view, 4> kOfModels = {"logit_scale", "scale_shift_table", "layer_scale", "ls_scale"};

/// "scale" alone is also what Flux calls the weight of a norm, which has no weight beside it.
bool is_of_model(const TensorIndex& index, std::string_view name, std::string_view leaf) {
  if (leaf == "scale") {
    const auto& beside = index.beside(name.substr(0, name.size() - leaf.size()));
    return std::none_of(beside.begin(), beside.end(),
                        [](const Member& member) { return member.part.part == Part::weight; });
  }
  return std::any_of(kOfModels.begin(), kOfModels.end(),
                     [leaf](std::string_view of) { return leaf.starts_with(of); });
}

}  // namespace

std::string why_not_cast(const TensorIndex& index, const QuantizationConfig& config) {
  const Folder& folder = index.folder();
  if (!config.method.empty()) return fmt::format("its folder says that it is quantised ({})", config.method);
  if (folder.partial) return "this file is one of several, and its scale may be in another";
  for (const SafetensorsFile& file : folder.files)
    if (file.metadata().contains("_quantization_metadata")) return "the file has a '_quantization_metadata'";
  for (const auto& [name, located] : folder.tensors) {
    const std::string_view leaf = std::string_view(name).substr(leaf_of(name));
    const PartName part = part_of(leaf);
    if ((speaks_of_scales(leaf) || part.part == Part::refused) && !is_of_model(index, name, leaf))
      return fmt::format("'{}' is there, and scales of other layers may be missing", name);
    if (is_integer_matrix(*located.tensor)) return fmt::format("'{}' is {}", name, located.tensor->dtype_name);
  }
  return {};
}

bool is_fp8(const Tensor& tensor) noexcept {
  return tensor.dtype_name.starts_with("F8_") && tensor.dtype != DType::e8m0;
}

}  // namespace ironcl::checkpoint
