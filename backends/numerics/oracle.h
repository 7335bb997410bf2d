// SPDX-License-Identifier: Apache-2.0
// The f64 oracle: the product, and of its terms what the error bound needs. Plain loops that share no code with a
// backend.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/numerics/formats.h"
#include "backends/numerics/scale_grid.h"

namespace ironcl::numerics {

/// An operand of the product: a row-major matrix of any element type with its scales. Owns nothing.
struct Operand {
  DType dtype = DType::none;
  const void* data = nullptr;
  std::int64_t rows = 0;            ///< M of A, N of B.
  std::int64_t cols = 0;            ///< K.
  std::int64_t ld = 0;              ///< Elements from a row to the next.
  DType scale_dtype = DType::none;  ///< f32, f16, bf16 or e8m0; none: no scales, all 1.
  const void* scales = nullptr;     ///< [grid.scale_rows(rows), grid.scale_cols(cols)].
  ScaleGrid grid{};
  std::int64_t scale_ld = 0;  ///< Elements from a row of scales to the next.
};

/// What a kernel's arithmetic is worth; bounds.h has the error that each class may have. The values are those of
/// IRONCL_ACCURACY_* in ironcl/plugin.h.
enum class AccuracyClass : std::uint32_t { f32 = 0, tensor14 = 1 };

/// "f32" or "tensor14".
constexpr std::string_view name_of(AccuracyClass accuracy) noexcept {
  return accuracy == AccuracyClass::tensor14 ? "tensor14" : "f32";
}

/// The class with that name; empty where there is none.
constexpr std::optional<AccuracyClass> parse_accuracy(std::string_view name) noexcept {
  for (const AccuracyClass one : {AccuracyClass::f32, AccuracyClass::tensor14})
    if (name == name_of(one)) return one;
  return std::nullopt;
}

/// What the bound of an element depends on.
struct Sizes {
  double magnitude = 0;  ///< Sum over k of |A * sa * B * sb| (+ |bias|).
  double cut = 0;        ///< The most that sums in 14 bits may lose of them: docs/numerics.md, class tensor14.
};

/// What the oracle says of D [rows, cols], row-major and tight.
struct OracleResult {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> value;      ///< r: sum over k of A * sa * B * sb (+ bias), in f64.
  std::vector<double> magnitude;  ///< Sum over k of |A * sa * B * sb| (+ |bias|), in f64.
  std::vector<double> cut;        ///< Of Sizes; none where class tensor14 was not asked for, and then it is 0.

  Sizes sizes(std::size_t at) const noexcept { return {magnitude[at], cut.empty() ? 0 : cut[at]}; }
};

/// A [M, K] times B [N, K] transposed, plus bias [N] where `bias_dtype` is not none. NaN codes and NaN scales give
/// NaN. `weakest`: of the classes whose results will be compared with it; tensor14 takes about six times as long.
/// Splits the rows over `threads` threads (0: as many as the machine has); the result does not depend on it.
/// Throws std::invalid_argument where the operands' K differ or a leading dimension is too short.
OracleResult oracle(const Operand& a, const Operand& b, DType bias_dtype = DType::none, const void* bias = nullptr,
                    AccuracyClass weakest = AccuracyClass::f32, unsigned threads = 0);

/// The operand with its scales applied, [rows, cols] tight, in f64: exact but for f64 elements and rare 2^-53
/// roundings of wide elements times wide scales. Throws std::invalid_argument as oracle() does.
std::vector<double> decode_operand(const Operand& operand);

}  // namespace ironcl::numerics
