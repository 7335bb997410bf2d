// SPDX-License-Identifier: Apache-2.0
// The right answer for some rows of a list's result, and whether a result agrees with it. Next door: oracle.h,
// judge.h (every row, several devices).
#pragma once

#include "host/layer/operands.h"
#include "host/layer/oracle.h"

namespace ironcl::layer {

/// The oracle of some rows of the result D; shared by all candidates of a search. One thread at a time.
struct Expected {
  std::vector<std::int64_t> rows;  ///< Rows of D, ascending.
  Graph list;                      ///< The operations of those rows.
  std::shared_ptr<Oracle> oracle;
};

/// The findings of a check.
struct Check {
  bool pass = false;
  numerics::Comparison comparison;  ///< Over the expected rows; worst_row and first_row are rows of D.
  std::int64_t rows_checked = 0;
  std::int64_t unwritten = 0;  ///< Elements, of all of D, that still held the poison.
  std::string why;             ///< Empty where it passed; else a sentence.
};

/// Rows spread evenly over [0, m), first and last included; all of them where m <= most.
std::vector<std::int64_t> sample_rows(std::int64_t m, std::int64_t most);

/// The oracle of at most `most_rows` rows. Quantises A first where the plan would. B of the operands
/// outlives it.
Expected expect(const report::Problem& problem, const Operands& operands, std::int64_t most_rows);

/// The same of a list whose result has a row per token, and which has its rows in the order of tokens.
Expected expect(Oracle oracle, Graph list, std::int64_t most_rows);

/// Some rows of a value as numbers, scales of single rows applied.
std::vector<double> decoded(const Value& value, std::span<const std::byte> bytes, std::span<const std::byte> scales,
                            const std::vector<std::int64_t>& rows);

/// Compares a result, tight, with what is expected of those plans; a quantised one with its scales of single rows.
Check check(const Expected& expected, std::span<const std::byte> d, std::int64_t unwritten,
            const std::vector<PlanInfo>& plans, std::span<const std::byte> d_scales = {});

}  // namespace ironcl::layer
