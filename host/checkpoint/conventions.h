// SPDX-License-Identifier: Apache-2.0
// Ways of quantising that are recognised by a layer's tensors and not read: a row each, with what would help.
// Next door: tensor_index.h (what is read), quantization_config.h (those that config.json names).
#pragma once

#include "host/checkpoint/quantization_config.h"
#include "host/checkpoint/tensor_index.h"

namespace ironcl::checkpoint {

/// A convention that was recognised: the tensor that gives it away, and what to say of it, to follow its name.
struct Recognised {
  const Member* member = nullptr;
  std::string_view why;
};

/// The first convention whose tensors are among those that stand beside each other.
std::optional<Recognised> recognise(const std::vector<Member>& members);

/// Codes of integers beside scales, or alone under the name of a weight: quantised by a tool that is not known here.
std::optional<Recognised> unclaimed_codes(const std::vector<Member>& members);

/// What a leaf says that alone gives a convention away; empty where it gives none away.
std::string_view refused_leaf(std::string_view leaf) noexcept;

/// What is wrong with taking a module of that name for a product with one matrix; empty where nothing is known to be.
std::string_view why_no_product(std::string_view layer) noexcept;

/// Whether a tensor's elements can only be codes: integers in two dimensions or more.
bool is_integer_matrix(const Tensor& tensor) noexcept;

/// Why fp8 weights without scales are not taken for plain casts: a scale may have been lost. Empty where they are.
std::string why_not_cast(const TensorIndex& index, const QuantizationConfig& config);

}  // namespace ironcl::checkpoint
