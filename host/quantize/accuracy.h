// SPDX-License-Identifier: Apache-2.0
// What ways of quantising cost, side by side: of a matrix of weights, and of its product with activations.
#pragma once

#include "host/quantize/codec.h"
#include "host/quantize/scheme.h"

namespace ironcl::quantize {

/// Weights quantised so, and activations as they usually go with them: tokens per channel, 1xB to blocks of BxB,
/// groups as wide to groups.
struct Method {
  std::string name;  ///< "e4m3 128x128", "nvfp4"
  Scheme weights, activations;
};

/// Per tensor, per channel, in groups of 1x128 and in blocks of 32 to 512, of e4m3, e5m2 and int8; powers of two as
/// scales; MX; NVFP4.
const std::vector<Method>& methods();

struct Accuracy {
  const Method* method = nullptr;
  Loss weights;
  /// Σ(y' - y)^2 / Σy^2 of the product: the weights quantised; the activations too.
  double output = 0, output_both = 0;
  std::int64_t code_bytes = 0, scale_bytes = 0;
};

/// Every method that K allows on w [n, k] with activations x [m, k], both tight. Of the product, `rows` rows of w,
/// evenly spread, are computed, in f64.
std::vector<Accuracy> measure(std::span<const float> w, std::int64_t n, std::int64_t k, std::span<const float> x,
                              std::int64_t m, std::int64_t rows = 256);

}  // namespace ironcl::quantize
