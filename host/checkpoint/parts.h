// SPDX-License-Identifier: Apache-2.0
// What the tensors beside a weight mean, by the names that the tools of the field give them.
// Next door: layers.h (puts a layer together from its parts).
#pragma once

#include <string_view>

namespace ironcl::checkpoint {

/// What a tensor `<layer>.<leaf>` is to its layer.
enum class Part {
  none,          ///< No part of a linear layer that is known here, and no name that speaks of quantisation.
  weight,        ///< The codes.
  weight_scale,  ///< Multiplies the codes.
  input_scale,   ///< The static scale of the activations: codes are RNE(x / scale).
  bias,          ///< Added to the product.
  zero_point,    ///< Of the weight: subtracted from the codes; read only where it is 0.
  aside,         ///< Belongs to the layer and does not enter its product.
  refused,       ///< Changes the product in a way that is not computed here: the layer cannot be used.
  foreign,       ///< A weight, or a sign of one, in a form that is not read: packed, of fewer bits, ...
};

struct PartName {
  Part part = Part::none;
  bool known = false;    ///< The name itself is known, and not guessed from its words.
  std::string_view why;  ///< For aside, refused and foreign: what the tensor is, to follow its name.
};

/// The part that `leaf` names: "weight_scale_inv", "input_scale", "comfy_quant", ... A name that is not known and
/// speaks of scales or of quantisation is refused: what it does to the product is not known.
PartName part_of(std::string_view leaf) noexcept;

}  // namespace ironcl::checkpoint
