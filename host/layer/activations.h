// SPDX-License-Identifier: Apache-2.0
// A, ready for a layer: values that the caller has, codes with their scales, or made up. Next door:
// activation_files.h (out of files), layer_problem.h (how they enter a product).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/checkpoint/model.h"
#include "host/layer/layer_problem.h"

namespace ironcl::layer {

/// A [m, k], tight, as a device gets it. Nothing of it has been quantised, unless the caller gave codes or the
/// layer's scale is fixed: what the plan quantises is left to it (quantize_a says what it must arrive at).
struct Activations {
  std::int64_t m = 0, k = 0;
  std::string origin;             ///< For people: "x of layer.safetensors", "made up, seed 1".
  ActivationRule rule;            ///< How it enters the product.
  std::vector<std::byte> data;    ///< [m, k] of rule.source, or of rule.dtype where that is none.
  std::vector<std::byte> scales;  ///< Given with the codes, or fixed; empty where the plan makes them.
};

/// Values [m, k] of type `x` (f32, f16, bf16), tight. A layer with a fixed scale gets codes of it.
/// Throws std::invalid_argument where `values` is not as large as that or `x` is another type; activation_rule's.
Activations activations_of_values(const checkpoint::LinearLayer& layer, numerics::DType x, std::int64_t m,
                                  std::vector<std::byte> values, std::string origin,
                                  std::optional<numerics::ScaleGrid> x_block = std::nullopt);

/// The problem of `layer` with `a`.
report::Problem problem_of(const checkpoint::LinearLayer& layer, const Activations& a, numerics::DType out,
                           numerics::AccuracyClass weakest);

/// The operands of that problem, borrowed from both.
Operands operands_of(const Activations& a, const LayerWeights& weights) noexcept;

}  // namespace ironcl::layer
