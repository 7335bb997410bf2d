// SPDX-License-Identifier: Apache-2.0
// What a product is: shape, types, scale grids, groups. The one description in C++, on both sides of the C ABI: the
// host makes and prints it (host/report/problem.h), the adapter fills it from an ironcl_gemm_desc, backends run it.
// What a kernel needs to know beside it (K groups, padded sizes) is the backend's own. Next door: interface.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/numerics/bounds.h"
#include "backends/numerics/experts.h"
#include "backends/numerics/formats.h"
#include "backends/numerics/quantize.h"
#include "backends/numerics/scale_grid.h"

namespace ironcl {

/// The scales of an operand, as ironcl_scale_desc. dtype none: it has none.
struct Scales {
  numerics::DType dtype = numerics::DType::none;
  numerics::ScaleGrid grid;
  std::int64_t ld = 0;  ///< Elements; 0: tight. In a backend the adapter has replaced 0.
  bool global = false;  ///< One more factor for the whole operand, f32.

  friend bool operator==(const Scales&, const Scales&) = default;
};

enum class Grouping : std::uint32_t { none = 0, contiguous = 1, masked = 2 };

/// Settings of a backend's own, such as {"variant", "gemm_panel"}; unknown keys are invalid_argument.
using Options = std::vector<std::pair<std::string, std::string>>;

/// D [m, n] = A [m, k] times B [n, k] transposed, block scaled; the meaning of every field is that of
/// ironcl_gemm_desc (host/include/ironcl/fields.h pairs them).
struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldd = 0;  ///< Elements; 0: tight. In a backend the adapter has replaced 0 by k and n.
  numerics::DType a_source = numerics::DType::none;  ///< none: A comes as `a`; else the type that is quantised.
  numerics::DType a = numerics::DType::none, b = numerics::DType::none, d = numerics::DType::none;
  numerics::DType bias = numerics::DType::none;
  Scales a_scale, b_scale, d_scale;
  numerics::Quantizer a_quantizer, d_quantizer;
  Grouping grouping = Grouping::none;
  std::int64_t matrices = 0;  ///< Matrices of B, one per expert; 0 where grouping is none.
  std::int64_t a_rows = 0;    ///< 0: A has m rows. Else the most rows of a flat A that is gathered through a_index.
  numerics::AccuracyClass weakest_accuracy = numerics::AccuracyClass::f32;
  bool repeatable = false;
  Options options{};
  numerics::Activation activation = numerics::Activation::none;
  float activation_limit = 0;  ///< 0: nothing is clamped.

  /// Rows of B, and elements of a matrix's bias.
  std::int64_t b_rows() const noexcept { return activation == numerics::Activation::none ? n : 2 * n; }

  friend bool operator==(const Problem&, const Problem&) = default;
};

}  // namespace ironcl
