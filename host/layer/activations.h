// SPDX-License-Identifier: Apache-2.0
// A, ready for a layer: the caller's, random, or out of files ("FILE:TENSOR", "FILE:VALUES,SCALES"), as expected
// outputs are. Next door: layer_problem.h (how A enters a product).
#pragma once

#include "host/layer/layer_problem.h"

namespace ironcl::layer {

/// A [m, k] without gaps, as a device gets it: quantised only where the caller gave codes.
struct Activations {
  std::string origin;             ///< As printed: "x of layer.safetensors", "random, seed 1".
  report::Problem problem;        ///< The layer's with this A; D's type and the class are ProblemChoices'.
  std::vector<std::byte> data;    ///< [m, k] of problem.a_source, or of problem.a where that is none.
  std::vector<std::byte> scales;  ///< Given with the codes, or fixed; empty where the plan makes them.
};

/// Values [choices.m, k] of type choices.x, tight. Throws as describe().
Activations activations_of_values(const checkpoint::LinearLayer& layer, const ProblemChoices& choices,
                                  std::vector<std::byte> values, std::string origin);

/// The operands of that problem, borrowed from both.
Operands operands_of(const Activations& a, const LayerWeights& weights) noexcept;

/// Where A comes from; at most one of input and input_q is set.
struct ActivationSource {
  std::string input;                           ///< "FILE:TENSOR", unquantised.
  std::string input_q;                         ///< "FILE:VALUES,SCALES", quantised.
  std::optional<numerics::DType> x_dtype;      ///< f32, f16, bf16: unquantised values are rounded to it first.
  std::optional<numerics::ScaleGrid> x_block;  ///< Scale grid of A; overrides what files say.
  std::optional<std::int64_t> m;               ///< Rows to use; all, or 16 random ones, where it is not set.
  std::uint64_t seed = 1;                      ///< Seed of random activations.
  bool weight_only = false;                    ///< Activations stay unquantised, whatever the layer says.

  bool made_up() const noexcept { return input.empty() && input_q.empty(); }
};

/// Reads or makes the activations of `layer`. Unless x_dtype says otherwise, f64 becomes f32, and types of 8 bits
/// bf16. The block of given scales comes from x_block, else from the file (x_group), else from the layer. Throws
/// checkpoint::Error: bad file, tensor, shape, type.
Activations load_activations(const ActivationSource& source, const checkpoint::LinearLayer& layer);

/// An output of another program, of shape [m, n].
struct Expectation {
  std::string tensor;
  numerics::DType dtype = numerics::DType::none;
  std::vector<double> values;
};

/// Reads "FILE:TENSOR" as an output of shape [m, n]. Throws checkpoint::Error.
Expectation load_expectation(const std::string& ref, std::int64_t m, std::int64_t n);

}  // namespace ironcl::layer
