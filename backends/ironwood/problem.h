// SPDX-License-Identifier: Apache-2.0
// A GEMM description in the words of the kernels, and which descriptions they take. Next door: plan.h (blocks for
// it). The glossary of the TPU code: batch is m, n_out is n, n_in is k; a block (B, O, I) is rows, columns and depth
// of a step.
#pragma once

#include "backends/interface.h"

namespace ironcl::ironwood {

/// Far beyond any HBM here, and keeps every later product inside 64 bits.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

using backend::Refusal;

/// Which published kernel a problem is for, by the scales of the weights.
enum class Family {
  block,        ///< Q x Q blocks: fp8_quantized_matmul_2d.
  per_channel,  ///< One scale over K for a row of B, for several rows or for all: quantized_matmul (1D).
  sub_channel,  ///< Groups along K, each with a scale for a row of B or for several: the blockwise kernel.
};
std::string_view name_of(Family family) noexcept;

/// A problem, with what the kernels derive of it: D [m, n] = X [m, k] times W [n, k] transposed, where X is A and W
/// is B; of a grouped problem each row with one of several W.
struct Problem : backend::GemmDesc {
  Problem() = default;
  explicit Problem(const backend::GemmDesc& desc) : backend::GemmDesc(desc) {}

  /// The type of a D that is quantised or activated in a pass of its own, else none; `d` is then f32.
  numerics::DType d_later = numerics::DType::none;
  /// Of a D that is activated: `n` is then the rows of W, and `activation` none, for all that multiplies.
  backend::Activation gate = backend::Activation::none;
  Family family = Family::block;
  std::int64_t q = 0;      ///< Q of Family::block, the group of Family::sub_channel, else 0.
  std::int64_t group = 0;  ///< The K group of the mathematics: the run of k in which no scale changes; at most k.

  bool grouped() const noexcept { return grouping != backend::Grouping::none; }
  /// Rows of X and D as the kernel counts them; a masked problem has m for each matrix.
  std::int64_t rows() const noexcept { return grouping == backend::Grouping::masked ? matrices * m : m; }

  std::int64_t d_cols() const noexcept { return gate == backend::Activation::none ? n : n / 2; }

  /// X is quantised to `a` in the kernel.
  bool quantizes_x() const noexcept { return a_source != numerics::DType::none; }
  /// As X lies in HBM: e4m3fn, e5m2, i8, or f32, f16, bf16.
  numerics::DType x() const noexcept { return quantizes_x() ? a_source : a; }
  /// As W lies in HBM: quantised, e2m1 as PreparedWeights holds it, or f32, f16, bf16.
  numerics::DType w() const noexcept { return b == numerics::DType::e2m1 ? numerics::DType::e4m3fn : b; }
  /// X has scales: the caller's, or those that quantising makes.
  bool scaled_x() const noexcept { return a_scale.dtype != numerics::DType::none; }
  bool scaled_w() const noexcept { return b_scale.dtype != numerics::DType::none; }
};

/// Reads a description. Returns the reason where no kernel here takes it, and leaves *problem unspecified then.
std::optional<Refusal> read_problem(const backend::GemmDesc& desc, Problem* problem);

/// What the weights alone must be. The same rules as read_problem's.
std::optional<Refusal> check_weights(numerics::DType dtype, const backend::ScaleDesc& scale, std::int64_t n,
                                     std::int64_t k, std::int64_t matrices);

}  // namespace ironcl::ironwood
