// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint by the module that they stand beside, and what they mean there by their names. Next
// door: conventions.h (ways of quantising that are not read), layer_builder.h (layers out of their parts).
#pragma once

#include <unordered_map>

#include "host/checkpoint/folder.h"

namespace ironcl::checkpoint {

/// What a tensor `<layer>.<leaf>` is to its layer.
enum class Part {
  none,           ///< Not known here. Beside a weight of codes it refuses the layer.
  weight,         ///< The codes.
  packed_weight,  ///< compressed-tensors: codes + 128, four to an I32, or two of e2m1 to a byte, as the config says.
  weight_scale,   ///< Multiplies the codes.
  global_scale,   ///< NVFP4's factor of all scales; compressed-tensors' weight_global_scale divides.
  row_amax,       ///< bitsandbytes' SCB: the largest magnitude of each row; its scale is SCB / 127.
  input_scale,    ///< The static scale of the activations: codes are RNE(x / scale).
  bias,           ///< Added to the product.
  zero_point,     ///< Zero point of weights or activations, which must be 0.
  product_scale,  ///< msModelSlim's deq_scale: weight scale times activation scale.
  integer_bias,   ///< msModelSlim's quant_bias: added to the sum of products of codes.
  shape,          ///< The shape of a packed weight.
  layout,         ///< bitsandbytes' order of the codes; read only where it is 0, row-major.
  aside,          ///< Belongs to the layer and does not enter its product.
  refused,        ///< Part of a convention that is not read (conventions.h): the layer cannot be used.
};

struct PartName {
  Part part = Part::none;
  std::string_view why;  ///< For aside and refused: what the tensor is, to follow its name.
};

/// The part that `leaf` names: "weight_scale_inv", "input_scale", "comfy_quant", ... A closed list.
PartName part_of(std::string_view leaf) noexcept;

/// Whether a name speaks of scales or of quantisation, known or not.
bool speaks_of_scales(std::string_view name) noexcept;

/// A tensor `<prefix><leaf>`; the prefix is a module with its dot, or empty.
struct Member {
  std::string_view leaf;
  const Tensor* tensor = nullptr;
  PartName part;
};

/// Built in one pass over the names; a look-up costs what it finds. Views names of the folder, which must outlive it.
class TensorIndex {
 public:
  explicit TensorIndex(const Folder& folder);

  /// The tensors beside each other under `prefix`, sorted by name; under the empty one only those of known names.
  const std::vector<Member>& beside(std::string_view prefix) const;
  /// All prefixes, each once.
  const std::vector<std::string_view>& prefixes() const noexcept { return prefixes_; }
  const Folder& folder() const noexcept { return *folder_; }

 private:
  const Folder* folder_;
  std::unordered_map<std::string_view, std::vector<Member>> by_prefix_;
  std::vector<std::string_view> prefixes_;
};

/// Splits a tensor's name into prefix and leaf: at its last dot, except that what follows "weight." stays with it
/// ("weight._data" of quanto, "weight.absmax" of bitsandbytes).
std::size_t leaf_of(std::string_view name) noexcept;

/// "model.layers.0.mlp.gate" of "model.layers.0.mlp.gate."; "weight" of the empty prefix.
std::string layer_name(std::string_view prefix);

}  // namespace ironcl::checkpoint
