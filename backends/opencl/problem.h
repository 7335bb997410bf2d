// SPDX-License-Identifier: Apache-2.0
// What a kernel sees of a problem, and why a device, a problem and a tuning may not go together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/interface.h"

namespace ironcl::opencl {

/// The most rows or columns: kernels count them in 32 bits, some past the end by a step.
inline constexpr std::int64_t kLargestSize = (std::int64_t{1} << 31) - 4096;

/// A value for each tunable, by name.
using Tuning = std::map<std::string, int>;

std::string to_string(const Tuning& tuning);  ///< "tile_k=16,tile_m=64"

/// Shape, types and K group of a GEMM.
struct Problem {
  std::int64_t m = 0, n = 0, k = 0;  ///< m of a grouped problem: rows of all matrices; where masked, of each.
  int k_group = 128;                 ///< Divides the scale groups of both operands along k. G of the error bound.
  backend::DType a = backend::DType::none, b = backend::DType::none, d = backend::DType::none;
  std::int64_t b_scale_rows = 0;                   ///< Columns of D that a scale of B is for; 0: all of them.
  backend::DType a_source = backend::DType::none;  ///< What A comes as where the plan quantises it.
  std::int64_t matrices = 0;                       ///< Of B, in a grouped problem; else 0.
  bool masked = false;                             ///< Grouped: each matrix has m rows of A and D to itself.
  bool gathers = false;                            ///< Rows of A are found through an index.
  bool repeatable = false;                         ///< A row's bits must not depend on the other rows of the problem.
  std::int64_t expected_rows = 0;  ///< Of a matrix that has any, as the caller's option says; 0: not said.
  double mean_rows_per_expert =
      0;  ///< Of what priced() makes of many contiguous matrices: rows of one, counting those without; else 0.
  bool scheduled = false;  ///< Of what priced() makes: how many tiles there are is only known on the device.

  std::int64_t k_groups() const noexcept { return numerics::ceil_div(k, k_group); }
  bool grouped() const noexcept { return matrices != 0; }
  /// What selection sees of the problem: a grouped one of one matrix is the dense one. It takes that one's kernel
  /// with all tunables, from the same tables, so that D has the same bits. (Not a masked one whose caller expects
  /// other numbers of rows than its capacity.)
  Problem selected() const;
  /// What selection prices instead of a grouped problem: one product with the rows that a matrix which has rows has
  /// on average, and the columns of all of those. Its matrices have unlike numbers of rows: mean_over_rows.
  Problem priced() const;
  /// The mean of cost(rows) over the matrices that have rows, where each row of the grouped problem has chosen its
  /// matrix by chance; of a problem that has no load, cost(m).
  template <class Cost>
  double mean_over_rows(Cost&& cost) const;

 private:
  struct Likely {
    std::int64_t rows;
    double share;
  };
  /// Numbers of rows with the share of the matrices that have about so many: Poisson's, without 0.
  std::vector<Likely> likely_rows() const;
};

template <class Cost>
double Problem::mean_over_rows(Cost&& cost) const {
  double mean = 0;
  for (const Likely& likely : likely_rows()) mean += likely.share * cost(likely.rows);
  return mean;
}

/// Why something cannot run here.
struct Refusal {
  backend::Reason reason = backend::Reason::none;
  std::string text;
};

}  // namespace ironcl::opencl
