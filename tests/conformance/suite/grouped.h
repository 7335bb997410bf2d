// SPDX-License-Identifier: Apache-2.0
// A grouped problem on one device: many matrices, counts, rows that nobody has, perhaps a gathered A; made ready,
// called, and judged matrix by matrix as the dense problem that it is. Next door: rig.h (dense problems).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/suite/parts.h"

namespace ironcl::conformance {

/// `dense` has n, k, types, scales, pads and flags; its m is ignored.
struct GroupedProblem {
  Problem dense;
  std::uint32_t grouping = IRONCL_GROUPING_CONTIGUOUS;
  std::vector<std::int32_t> counts;  ///< As the device is given them, right or not; one for each matrix.
  std::int64_t m = 0;                ///< Rows of the plan; of each matrix where it is masked.
  std::int64_t called = -1;          ///< Rows of the call (contiguous); -1: m.
  std::int64_t a_rows = 0;           ///< Not 0: so many rows of A, gathered.
  bool wild_index = false;           ///< Some elements of a_index lie outside of A.
  Scale d_scale{DType::none, 0, 0, 0};
  bool spread_scales = true;  ///< Matrix g's scales (or values) times 2^(g mod 40 - 20).

  std::int64_t matrices() const { return static_cast<std::int64_t>(counts.size()); }
  bool masked() const { return grouping == IRONCL_GROUPING_MASKED; }
  std::int64_t call_rows() const { return called < 0 ? m : called; }
  std::int64_t rows() const { return masked() ? matrices() * m : call_rows(); }  ///< Of D.
  std::int64_t rows_of_a() const { return a_rows != 0 ? a_rows : rows(); }
  ironcl_gemm_desc desc() const;
  std::string line() const;
};

/// Counts that add up to the rows of the plan.
GroupedProblem contiguous(std::vector<std::int32_t> counts, std::int64_t tail = 0);
GroupedProblem masked(std::vector<std::int32_t> counts, std::int64_t capacity);

/// Operands of the whole problem, tight. Row r of D is row index[r] of A where it is gathered, else row r.
struct GroupedOperands {
  std::vector<std::byte> a, a_scale;
  std::vector<Operands> matrix;  ///< b, b_scale and bias of each.
  std::vector<std::int32_t> index;
};

class GroupedRig {
 public:
  /// Throws Unsupported where the plugin refuses the problem.
  GroupedRig(Context& context, const GroupedProblem& problem);
  GroupedRig(Context& context, const GroupedProblem& problem, GroupedOperands operands);

  /// Calls and waits. D, its scales and everything that may be written are as if never written before.
  void call();
  /// The pieces of call().
  void reset();
  Event enqueue(ironcl_queue queue, std::span<const ironcl_event> wait = {});
  ironcl_gemm_args args() const;
  /// Judges every row that a matrix has, and that nothing else of D was written.
  void expect_right();
  /// D's bytes of rows that a matrix has, in order of rows.
  std::vector<std::byte> used_bytes();

  const GroupedOperands& operands() const { return operands_; }
  const GroupedProblem& problem() const { return problem_; }
  ironcl_op plan() const { return plan_.get(); }
  ironcl_queue queue() const { return queue_.get(); }
  const Part& counts() const { return counts_; }
  /// First row and number of rows of each matrix.
  const std::vector<std::int64_t>& begin() const { return begin_; }
  const std::vector<std::int64_t>& used() const { return used_; }

 private:
  /// The dense problem of matrix g and its operands.
  Problem dense_of(std::size_t g) const;
  Operands operands_of(std::size_t g) const;
  Weights prepare();
  void expect_matrix(std::size_t g, const std::vector<std::byte>& d, const std::vector<std::byte>& d_scales);

  Context& context_;
  GroupedProblem problem_;
  GroupedOperands operands_;
  std::vector<std::int64_t> begin_, used_;
  Queue queue_;
  Op plan_;
  ironcl_op_info info_{};
  Weights weights_;
  Part a_, a_scale_, d_, d_scale_, bias_, counts_, index_;
};

/// Operands from the context's seed; rows of A that nobody uses and their scales are NaN.
GroupedOperands make_operands(const Context& context, const GroupedProblem& problem);

}  // namespace ironcl::conformance
