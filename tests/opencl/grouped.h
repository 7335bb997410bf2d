// SPDX-License-Identifier: Apache-2.0
// What the tests of grouped problems share: a case with its counts, data whose rows that nobody may read are NaN, a
// run on a D full of canaries, the verdict of the oracle matrix by matrix.
#pragma once

#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {

struct Grouped {
  std::vector<std::int32_t> counts = {};  ///< As the device gets them: not to be trusted. One for each matrix.
  std::int64_t m = 0;                     ///< Rows of all matrices; where masked, of each.
  std::int64_t n = 1, k = 1;
  bool masked = false;
  std::int64_t a_rows = 0;  ///< Not 0: rows are gathered from so many.
  backend::DType a_source = backend::DType::none;
  backend::DType a = backend::DType::e4m3fn, b = backend::DType::e4m3fn, d = backend::DType::f32;
  backend::DType bias = backend::DType::none;
  backend::DType a_scale = backend::DType::f32, b_scale = backend::DType::f32;
  numerics::ScaleGrid a_grid{1, 128}, b_grid{128, 128};
  std::int64_t lda = 0, ldd = 0;
  backend::Options options = {};
  std::uint32_t seed = 1;
  backend::AccuracyClass weakest = backend::AccuracyClass::f32;
  bool repeatable = false;

  std::int64_t matrices() const { return static_cast<std::int64_t>(counts.size()); }
  /// The weakest class that the problem allows: `weakest`, or that of the variant that the options name.
  backend::AccuracyClass allowed() const;
  std::int64_t rows() const { return masked ? matrices() * m : m; }  ///< Of D.
  std::int64_t rows_in_memory() const { return a_rows != 0 ? a_rows : rows(); }
  backend::GemmDesc desc() const;
  std::string line() const;
  /// The first row and the rows of each matrix, by the rules of plugin.h.
  std::vector<std::pair<std::int64_t, std::int64_t>> spans() const;
};

struct GroupedData {
  Data operands;
  std::vector<std::int32_t> index;  ///< Of a gathered A.
};
GroupedData make_data(const Grouped& g);

/// D as the device left it: the bytes of each row that a matrix has, tight; and the verdict.
struct GroupedOutcome {
  std::vector<std::vector<std::uint8_t>> rows;  ///< Empty where no matrix has the row.
  bool canaries = true;
  double worst = 0;  ///< Error over bound.
  std::string wrong;
  backend::GemmInfo info;
  std::vector<std::uint8_t> a_quantized, a_quantized_scale;
};
GroupedOutcome run(backend::Device& device, const Grouped& g, const GroupedData& data);

/// Runs on every device that takes the case and expects D to be right; returns how many ran.
int check(const Grouped& g);

/// Runs the case twice by the variant that its options name first, and expects D to be right: `m` rows of all
/// matrices gathered from 17, then masked with room for `capacity` rows of each.
void expect_right_in_both_layouts(backend::Device& device, Grouped g, std::int64_t m, std::int64_t capacity);

/// How many devices have the local memory that gemm_panel takes at least: more than 32 KiB.
int devices_with_room_for_a_panel();

/// Options that name a variant and tiles that build quickly.
std::vector<backend::Options> grouped_variants();

}  // namespace ironcl::opencl::testing
