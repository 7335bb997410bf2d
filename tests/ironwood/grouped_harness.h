// SPDX-License-Identifier: Apache-2.0
// One grouped problem with seeded operands, run on the model through the backend interface and checked matrix by
// matrix against the oracle. Next door: harness.h (problems with one pair of matrices).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/interface.h"
#include "tests/ironwood/harness.h"

namespace ironcl::ironwood::testing {

/// `one` describes X, W and D; one.m is the problem's m: of all rows together, or of each matrix of a masked problem.
struct GroupedCase {
  Case one;
  backend::Grouping grouping = backend::Grouping::contiguous;
  std::vector<std::int32_t> counts = {};   ///< As the device finds them, one a matrix; they may be nonsense.
  std::vector<std::int32_t> a_index = {};  ///< Not empty: X has `x_rows` rows and is gathered.
  std::int64_t x_rows = 0;

  std::int64_t matrices() const { return static_cast<std::int64_t>(counts.size()); }
  std::int64_t rows() const { return grouping == backend::Grouping::masked ? one.m * matrices() : one.m; }
};

std::string print(const GroupedCase& c);
backend::GemmDesc desc_of(const GroupedCase& c);

/// Operands: X [x_rows or rows()], W and its scales one matrix after another, a bias for each.
Data make_data(const GroupedCase& c);

/// Runs the case and returns all of D, [rows(), n] tight.
std::vector<std::byte> run(const GroupedCase& c, const Data& data);

/// Whether each row of D is one that a matrix multiplies, by the rules of the interface alone; the matrix, or -1.
std::vector<std::int64_t> matrix_of_rows(const GroupedCase& c);

/// Runs the case and expects: rows of matrices within the oracle's bound, all others untouched.
void expect_right(const GroupedCase& c, const Data& data);
void expect_right(const GroupedCase& c);

}  // namespace ironcl::ironwood::testing
