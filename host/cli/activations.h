// SPDX-License-Identifier: Apache-2.0
// A, as a command line gives it: a tensor of a file, codes with scales of a file, or made up; and as the oracle needs
// it: quantised. Next door: heavy_tail.h (made up), layer_problem.h (the GEMM it goes into).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/numerics/matrix_view.h"
#include "host/checkpoint/model.h"
#include "host/report/problem.h"

namespace ironcl::cli {

/// Where A comes from; at most one of input and input_q is set.
struct ActivationSource {
  std::string input;                           ///< "FILE:TENSOR", unquantised.
  std::string input_q;                         ///< "FILE:VALUES,SCALES", quantised.
  std::optional<numerics::ScaleGrid> x_group;  ///< --x-group: overrides what files say.
  std::optional<std::int64_t> m;               ///< --m: rows to use.
  std::uint64_t seed = 1;                      ///< Of made-up activations.

  bool made_up() const noexcept { return input.empty() && input_q.empty(); }
};

/// A [m, k], tight, as a device gets it, with what the oracle multiplies.
struct Activations {
  std::int64_t m = 0, k = 0;
  std::string origin;                              ///< For people: "x of layer.safetensors", "made up, seed 1".
  numerics::DType source = numerics::DType::none;  ///< What `data` holds where the plan quantises it; else none.
  numerics::DType dtype = numerics::DType::none;   ///< What is multiplied.
  std::vector<std::byte> data;                     ///< [m, k] of `source`, or of `dtype` where source is none.
  report::Scales scale;                            ///< Of A as multiplied; dtype none: weight-only.
  std::vector<std::byte> scales;                   ///< Given with the codes; empty where the plan makes them.
  numerics::Quantizer quantizer;

  std::vector<std::uint8_t> codes;  ///< Where the plan quantises: what it must arrive at, bit for bit.
  std::vector<float> code_scales;   ///< Likewise.

  bool quantized_by_plan() const noexcept { return source != numerics::DType::none; }
  /// What the oracle multiplies: borrows from this.
  numerics::Operand operand() const;
};

/// Reads or makes the activations of `layer`. The scale grid comes from --x-group, else from the metadata of the file
/// (codes) or the layer (see checkpoint::LinearLayer), else from the shapes of codes and scales.
/// Throws checkpoint::Error (bad file, tensor, shape, type) and CommandError.
Activations load_activations(const ActivationSource& source, const checkpoint::LinearLayer& layer);

}  // namespace ironcl::cli
