// SPDX-License-Identifier: Apache-2.0
// What a kernel sees of a problem, and why a device, a problem and a tuning may not go together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/interface.h"

namespace ironcl::opencl {

/// The most rows or columns: kernels count them in 32 bits, some past the end by a step.
inline constexpr std::int64_t kLargestSize = (std::int64_t{1} << 31) - 4096;

/// A value for each tunable, by name.
class Tuning : public std::map<std::string, int> {
 public:
  using std::map<std::string, int>::map;
  using std::map<std::string, int>::operator[];
  int& operator[](const char* name) { return (*this)[std::string(name)]; }
  /// Throws std::out_of_range for a name that is not there.
  std::int64_t operator[](const char* name) const { return at(name); }
};

std::string to_string(const Tuning& tuning);  ///< "tile_k=16,tile_m=64"

/// A problem, with what kernels and their prices derive of it.
struct Problem : backend::GemmDesc {
  Problem() = default;
  /// Throws invalid_argument for an invalid expected_rows.
  explicit Problem(const backend::GemmDesc& desc);
  /// Dense, rows tight, without scales.
  Problem(std::int64_t m, std::int64_t n, std::int64_t k, int k_group, backend::DType a, backend::DType b,
          backend::DType d);

  /// Of an A that the plan quantises by scales which the caller gives: what it comes in, else none, and its ld. For
  /// all that reads it, `a_source` is then none, and `lda` that of the codes.
  backend::DType given_source = backend::DType::none;
  std::int64_t given_ld = 0;
  /// The type of a D that is quantised or activated, else none; `d` is then f32, which kernels make before.
  backend::DType d_later = backend::DType::none;
  /// Of a D that is activated, how: `n` is then the columns of totals, which is the rows of B, and `activation` none,
  /// for all that multiplies.
  backend::Activation gate = backend::Activation::none;
  int k_group = 128;               ///< Divides the scale groups of both operands along k. G of the error bound.
  std::int64_t expected_rows = 0;  ///< Rows per matrix that has any, as the caller's option says; 0: unknown.
  /// Of what priced() makes of many contiguous matrices: rows of one, counting those without; else 0.
  double mean_rows_per_expert = 0;
  bool scheduled = false;  ///< From priced(): only the device will know the number of tiles.

  std::int64_t k_groups() const noexcept { return numerics::ceil_div(k, k_group); }
  bool grouped() const noexcept { return matrices != 0; }
  bool masked() const noexcept { return grouping == backend::Grouping::masked; }
  bool gathers() const noexcept { return a_rows != 0; }
  bool quantizes_d() const noexcept { return numerics::is_quantized(d_later); }
  bool gated() const noexcept { return gate != backend::Activation::none; }
  std::int64_t d_cols() const noexcept { return gated() ? n / 2 : n; }
  /// Whether cl/activate.cl makes the codes of a D that is activated and quantised.
  bool activates_to_codes() const noexcept {
    return gated() && quantizes_d() && !d_quantizer.given && d_scale.dtype == backend::DType::f32 &&
           d_scale.grid.group_rows == 1;
  }
  /// Columns that a scale of a quantised D is for, where a work-group which has so many of a row can make it; else 0.
  std::int64_t d_group() const noexcept;
  /// Columns of D that a scale of B is for; 0: all of them.
  std::int64_t b_scale_rows() const noexcept {
    return b_scale.dtype == backend::DType::none ? 0 : b_scale.grid.group_rows;
  }
  /// What selection sees of the problem: a grouped one of one matrix is the dense one. It takes that one's kernel
  /// with all tunables, from the same tables, so that D has the same bits. (Not a masked one whose caller expects
  /// other numbers of rows than its capacity.)
  Problem selected() const;
  /// The dense problem whose estimate stands for a grouped one: the rows that a matrix which has rows has
  /// on average, and the columns of all of those. Its matrices have unlike numbers of rows: mean_over_rows.
  Problem priced() const;
  /// The mean of cost(rows) over the matrices that have rows, where each row of the grouped problem has chosen its
  /// matrix by chance; of a problem that has no load, cost(m).
  template <class Cost>
  double mean_over_rows(Cost&& cost) const {
    double mean = 0;
    for (const auto& [rows, share] : likely_rows()) mean += share * cost(rows);
    return mean;
  }

 private:
  /// Numbers of rows with the share of the matrices that have about so many: Poisson's, without 0.
  std::vector<std::pair<std::int64_t, double>> likely_rows() const;
};

/// An option that describes the problem rather than choosing a kernel.
inline constexpr std::string_view kExpectedRows = "expected_rows";

/// The K group: the widest of 128, 64, 32, and of four-bit weights 16, that divides both operands' scale groups. 0
/// where there is none.
int k_group_of(const backend::GemmDesc& desc);

using backend::Refusal;

}  // namespace ironcl::opencl
