// SPDX-License-Identifier: Apache-2.0
// A GEMM description in the words of the kernels, and which descriptions they take. Next door: plan.h (blocks for
// it). The glossary of the TPU code: batch is m, n_out is n, n_in is k; a block (B, O, I) is rows, columns and depth
// of a step.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "backends/interface.h"

namespace ironcl::ironwood {

/// Far beyond any HBM here, and keeps every later product inside 64 bits.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

/// Why something is not run: the answer of supports().
struct Refusal {
  backend::Reason reason = backend::Reason::none;
  std::string text;

  Refusal(backend::Reason why, std::string what) : reason(why), text(std::move(what)) {}
  template <class Arg, class... Args>
  Refusal(backend::Reason why, fmt::format_string<Arg, Args...> what, Arg&& arg, Args&&... args)
      : Refusal(why, fmt::format(what, std::forward<Arg>(arg), std::forward<Args>(args)...)) {}
};

/// Which published kernel a problem is for, by the scales of the weights.
enum class Family {
  block,        ///< Q x Q blocks: fp8_quantized_matmul_2d.
  per_channel,  ///< One scale over K for a row of B, for several rows or for all: quantized_matmul (1D).
  sub_channel,  ///< Groups along K, each with a scale for a row of B or for several: the blockwise kernel.
};
std::string_view name_of(Family family) noexcept;

/// D [m, n] = X [m, k] times W [n, k] transposed; of a grouped problem each row with one of several W.
struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t ldx = 0, ldd = 0;                   ///< Elements.
  numerics::DType x = numerics::DType::none;       ///< As X lies in HBM: e4m3fn, e5m2, i8, or f32, f16, bf16.
  numerics::DType w = numerics::DType::e4m3fn;     ///< As W lies in HBM: quantised, or f32, f16, bf16.
  bool quantize_x = false;                         ///< X is quantised to `code` in the kernel.
  numerics::DType code = numerics::DType::e4m3fn;  ///< What X is quantised to.
  bool scaled_x = false;                           ///< X has scales: the caller's, or those that quantising makes.
  numerics::DType d = numerics::DType::none;       ///< As the kernel stores D; f32 where it is quantised afterwards.
  numerics::DType d_code = numerics::DType::none;  ///< What D is quantised to; none: it is not.
  backend::ScaleDesc d_scale;                      ///< Of a quantised D.
  numerics::Quantizer d_quantizer;
  numerics::DType bias = numerics::DType::none;
  numerics::DType x_scale = numerics::DType::none, w_scale = numerics::DType::none;  ///< As the caller stores them.
  numerics::ScaleGrid x_grid, w_grid;  ///< As described: 0 spans the dimension; {0, 0} where there are no scales.
  std::int64_t x_scale_ld = 0, w_scale_ld = 0;
  numerics::Quantizer quantizer;
  Family family = Family::block;
  std::int64_t q = 0;      ///< Q of Family::block, the group of Family::sub_channel, else 0.
  std::int64_t group = 0;  ///< The K group of the mathematics: the run of k in which no scale changes; at most k.
  backend::Grouping grouping = backend::Grouping::none;
  std::int64_t matrices = 0;  ///< Of W in a grouped problem, else 0. A masked one has m rows for each of them.
  std::int64_t x_rows = 0;    ///< Where X is gathered through an index: the most rows that it has. Else 0.

  bool grouped() const noexcept { return grouping != backend::Grouping::none; }
  /// Rows of X and D as the kernel counts them.
  std::int64_t rows() const noexcept { return grouping == backend::Grouping::masked ? matrices * m : m; }

  /// What the MXU multiplies on the left.
  numerics::DType multiplied() const noexcept { return quantize_x ? code : x; }
};

/// Reads a description. Returns the reason where no kernel here takes it, and leaves *problem unspecified then.
std::optional<Refusal> read_problem(const backend::GemmDesc& desc, Problem* problem);

/// What the weights alone must be. The same rules as read_problem's.
std::optional<Refusal> check_weights(numerics::DType dtype, const backend::ScaleDesc& scale, std::int64_t n,
                                     std::int64_t k, std::int64_t matrices);

}  // namespace ironcl::ironwood
