// SPDX-License-Identifier: Apache-2.0
// Activations and expected outputs out of files, by reference: "FILE:TENSOR", "FILE:VALUES,SCALES".
// Next door: activations.h (values that are in memory already).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/checkpoint/model.h"
#include "host/layer/activations.h"

namespace ironcl::layer {

/// Where A comes from; at most one of input and input_q is set.
struct ActivationSource {
  std::string input;                           ///< "FILE:TENSOR", unquantised.
  std::string input_q;                         ///< "FILE:VALUES,SCALES", quantised.
  std::optional<numerics::DType> x_dtype;      ///< f32, f16, bf16: unquantised values are rounded to it first.
  std::optional<numerics::ScaleGrid> x_block;  ///< Of the scales of A: overrides what files say.
  std::optional<std::int64_t> m;               ///< Rows to use; all, or 16 made-up ones, where it is not set.
  std::uint64_t seed = 1;                      ///< Of made-up activations.
  bool weight_only = false;                    ///< Activations stay unquantised, whatever the layer says.

  bool made_up() const noexcept { return input.empty() && input_q.empty(); }
};

/// Reads or makes the activations of `layer`. Unquantised values of f64 become f32, those of e4m3fn, e5m2 and i8 bf16
/// (exactly), unless x_dtype says otherwise. The block of given scales comes from x_block, else from the metadata of
/// the file (x_group), else from the layer, else from the shapes of codes and scales.
/// Throws checkpoint::Error: bad file, tensor, shape, type.
Activations load_activations(const ActivationSource& source, const checkpoint::LinearLayer& layer);

/// An output that somebody else computed, of shape [m, n].
struct Expectation {
  std::string tensor;
  numerics::DType dtype = numerics::DType::none;
  std::vector<double> values;
};

/// Reads "FILE:TENSOR" as an output of shape [m, n]. Throws checkpoint::Error.
Expectation load_expectation(const std::string& ref, std::int64_t m, std::int64_t n);

}  // namespace ironcl::layer
