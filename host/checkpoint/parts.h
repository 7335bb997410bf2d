// SPDX-License-Identifier: Apache-2.0
// What the tensors beside a weight mean, by the names that the tools of the field give them.
// Next door: conventions.h (ways of quantising that are not read), layers.h (puts a layer together from its parts).
#pragma once

#include <string_view>

namespace ironcl::checkpoint {

/// What a tensor `<layer>.<leaf>` is to its layer.
enum class Part {
  none,           ///< Not known here. Beside a weight of codes it refuses the layer.
  weight,         ///< The codes.
  packed_weight,  ///< compressed-tensors: codes + 128, four to an I32; read where the config says 8 bits.
  weight_scale,   ///< Multiplies the codes.
  row_amax,       ///< bitsandbytes' SCB: the largest magnitude of each row; its scale is SCB / 127.
  input_scale,    ///< The static scale of the activations: codes are RNE(x / scale).
  bias,           ///< Added to the product.
  zero_point,     ///< Of weight or activations; read only where it is 0.
  product_scale,  ///< msModelSlim's deq_scale: weight scale times activation scale.
  integer_bias,   ///< msModelSlim's quant_bias: added to the sum of products of codes.
  shape,          ///< The shape of a packed weight.
  layout,         ///< bitsandbytes' order of the codes; read only where it is 0, row-major.
  aside,          ///< Belongs to the layer and does not enter its product.
  refused,        ///< Of a convention that is not read (conventions.h): the layer cannot be used.
};

struct PartName {
  Part part = Part::none;
  bool known() const noexcept { return part != Part::none; }
  std::string_view why;  ///< For aside and refused: what the tensor is, to follow its name.
};

/// The part that `leaf` names: "weight_scale_inv", "input_scale", "comfy_quant", ... A closed list.
PartName part_of(std::string_view leaf) noexcept;

/// Whether a name speaks of scales or of quantisation, known or not.
bool speaks_of_scales(std::string_view name) noexcept;

}  // namespace ironcl::checkpoint
