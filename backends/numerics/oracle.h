// SPDX-License-Identifier: Apache-2.0
// The f64 oracle: the product and the sum of magnitudes that the error bound needs. Plain loops that share no code
// with a backend.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/numerics/matrix_view.h"

namespace ironcl::numerics {

/// What the oracle says of D [rows, cols], row-major and tight.
struct OracleResult {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> value;      ///< r: sum over k of A * sa * B * sb (+ bias), in f64.
  std::vector<double> magnitude;  ///< Sum over k of |A * sa * B * sb| (+ |bias|), in f64.
};

/// A [M, K] times B [N, K] transposed, plus bias [N] where `bias_dtype` is not none. NaN codes and NaN scales give
/// NaN. Splits the rows over `threads` threads (0: as many as the machine has); the result does not depend on it.
/// Throws std::invalid_argument where the operands' K differ or a leading dimension is too short.
OracleResult oracle(const Operand& a, const Operand& b, DType bias_dtype = DType::none, const void* bias = nullptr,
                    unsigned threads = 0);

/// The operand with its scales applied, [rows, cols] tight, in f64: exact but for f64 elements and rare 2^-53
/// roundings of wide elements times wide scales. Throws std::invalid_argument as oracle() does.
std::vector<double> decode_operand(const Operand& operand);

}  // namespace ironcl::numerics
