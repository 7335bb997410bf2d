// SPDX-License-Identifier: Apache-2.0
// The bound's figures, and what a comparison says of NaN, infinities, overflow, zeros, empty results and averages.
#include "backends/numerics/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace {

using namespace ironcl::numerics;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Bounded result(std::int64_t rows, std::int64_t cols, std::vector<double> value, std::vector<double> magnitude,
               const BoundTerms& terms) {
  return bounded(
      {.rows = rows, .cols = cols, .value = std::move(value), .magnitude = std::move(magnitude), .cut = {}}, terms);
}

// The comparison of one element.
Comparison one(double got, double value, double magnitude, const BoundTerms& terms) {
  return compare(std::vector<double>{got}, result(1, 1, {value}, {magnitude}, terms));
}

constexpr BoundTerms kF32{.out = DType::f32, .k = 1024, .accumulation_length = 128};
constexpr BoundTerms kF16{.out = DType::f16, .k = 1024, .accumulation_length = 128};
constexpr BoundTerms kBf16{.out = DType::bf16, .k = 1024, .accumulation_length = 128};

TEST(Bound, HasTheTermsOfTheFormula) {
  // G = 128, K / G = 56 groups of 7168.
  EXPECT_DOUBLE_EQ(element_bound({.out = DType::f32, .k = 7168, .accumulation_length = 128}, 3, {100}),
                   0x1p-24 * 3 + (128 + 56 + 3) * 0x1p-24 * 100 + 0x1p-150);
  EXPECT_DOUBLE_EQ(element_bound({.out = DType::bf16, .k = 7168, .accumulation_length = 512}, -3, {100}),
                   0x1p-8 * 3 + (512 + 14 + 3) * 0x1p-24 * 100 + 0x1p-134);
  EXPECT_DOUBLE_EQ(
      element_bound({.out = DType::f16, .accuracy = AccuracyClass::tensor14, .k = 256, .accumulation_length = 128}, 3,
                    {.magnitude = 100, .cut = 7}),
      0x1p-11 * 3 + (128 + 2 + 3) * 0x1p-24 * 100 + 7 + 0x1p-25);
  EXPECT_DOUBLE_EQ(
      element_bound({.out = DType::f16, .k = 256, .accumulation_length = 128}, 3, {.magnitude = 100, .cut = 7}),
      0x1p-11 * 3 + (128 + 2 + 3) * 0x1p-24 * 100 + 0x1p-25)
      << "class f32 is allowed none of it";
}

TEST(Bound, TakesZeroAndTooLongAccumulationAsTheWholeOfK) {
  const BoundTerms whole{.out = DType::f32, .k = 1000, .accumulation_length = 1000};
  for (const std::int64_t length : {std::int64_t{0}, std::int64_t{1000}, std::int64_t{4096}}) {
    EXPECT_EQ(element_bound({.out = DType::f32, .k = 1000, .accumulation_length = length}, 1, {10}),
              element_bound(whole, 1, {10}));
  }
}

TEST(Bound, CountsAPartialGroup) {
  EXPECT_DOUBLE_EQ(element_bound({.out = DType::f64, .k = 129, .accumulation_length = 128}, 0, {1}),
                   (128 + 2 + 3) * 0x1p-24);
}

TEST(Bound, IsFiniteForAnEmptyK) {
  EXPECT_DOUBLE_EQ(element_bound({.out = DType::f32, .k = 0}, 1, {1}), 0x1p-24 + 3 * 0x1p-24 + 0x1p-150);
}

TEST(AccuracyClassNames, AreReadBack) {
  for (const AccuracyClass accuracy : {AccuracyClass::f32, AccuracyClass::tensor14})
    EXPECT_EQ(parse_accuracy(name_of(accuracy)), accuracy);
  EXPECT_FALSE(parse_accuracy("f16").has_value());
}

TEST(Comparison, PassesAtTheBoundAndFailsBeyondIt) {
  for (const BoundTerms& terms : {kF32, kF16, kBf16}) {
    const double bound = element_bound(terms, 1, {10});
    EXPECT_TRUE(one(1 + 0.999 * bound, 1, 10, terms).pass);
    EXPECT_TRUE(one(1 - 0.999 * bound, 1, 10, terms).pass);
    const Comparison beyond = one(1 + 1.001 * bound, 1, 10, terms);
    EXPECT_FALSE(beyond.pass);
    EXPECT_NEAR(beyond.max_error_over_bound, 1.001, 1e-9);
    EXPECT_EQ(beyond.out_of_bounds, 1);
  }
}

TEST(Comparison, NamesTheWorstAndTheFirstElementOutOfBounds) {
  const Bounded want = result(2, 3, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, kF32);
  const Comparison got = compare(std::vector<double>{1, 1, 1.1, 1, 1.5, 1}, want);
  EXPECT_FALSE(got.pass);
  EXPECT_EQ(got.out_of_bounds, 2);
  EXPECT_EQ(got.first_row, 0);
  EXPECT_EQ(got.first_col, 2);
  EXPECT_EQ(got.worst_row, 1);
  EXPECT_EQ(got.worst_col, 1);
  EXPECT_EQ(got.worst_got, 1.5);
  EXPECT_EQ(got.worst_want, 1);
}

TEST(Comparison, PointsAtTheFirstElementWhereAllAreExact) {
  const Comparison got = compare(std::vector<double>{2, 3}, result(1, 2, {2, 3}, {2, 3}, kF32));
  EXPECT_TRUE(got.pass);
  EXPECT_EQ(got.max_error_over_bound, 0);
  EXPECT_EQ(got.worst_row, 0);
  EXPECT_EQ(got.worst_col, 0);
  EXPECT_EQ(got.worst_want, 2);
  EXPECT_EQ(got.first_row, -1);
}

TEST(Comparison, NaNIsRightOnlyWhereTheOracleSaysNaN) {
  for (const BoundTerms& terms : {kF32, kF16, kBf16}) {
    EXPECT_TRUE(one(kNaN, kNaN, kNaN, terms).pass);
    for (const double wrong : {0.0, 1.0, kInfinity}) EXPECT_FALSE(one(wrong, kNaN, kNaN, terms).pass);
    for (const double want : {0.0, 1.0, kInfinity, 1e39})
      EXPECT_FALSE(one(kNaN, want, std::fabs(want), terms).pass) << want;
  }
  EXPECT_EQ(one(kNaN, 1, 1, kF32).max_error_over_bound, kInfinity);
}

TEST(Comparison, AnInfinityOfTheOracleMustComeWithItsSign) {
  EXPECT_TRUE(one(kInfinity, kInfinity, kInfinity, kF32).pass);
  EXPECT_TRUE(one(-kInfinity, -kInfinity, kInfinity, kF32).pass);
  EXPECT_FALSE(one(-kInfinity, kInfinity, kInfinity, kF32).pass);
  EXPECT_FALSE(one(3e38, kInfinity, kInfinity, kF32).pass);
}

TEST(Comparison, AnInfinityIsRightWhereTheReferenceOverflowsTheOutputType) {
  EXPECT_TRUE(one(kInfinity, 70000, 70000, kF16).pass);
  EXPECT_TRUE(one(-kInfinity, -70000, 70000, kF16).pass);
  EXPECT_FALSE(one(-kInfinity, 70000, 70000, kF16).pass) << "the other sign";
  EXPECT_FALSE(one(65504, 70000, 70000, kF16).pass) << "saturated";
  EXPECT_FALSE(one(kInfinity, 60000, 60000, kF16).pass) << "too early";
  EXPECT_FALSE(one(kInfinity, 70000, 70000, kF32).pass) << "f32 holds it";
  EXPECT_TRUE(one(kInfinity, 4e38, 4e38, kBf16).pass);
  EXPECT_TRUE(one(kInfinity, 4e38, 4e38, kF32).pass);
}

TEST(Comparison, BothAreRightNearTheOverflowThreshold) {
  // 65520 is the first value that f16 rounds to infinity; what accumulation may add decides on which side a result
  // is.
  const double slack = element_bound(kF16, 0, {1e5}) - 0x1p-25;
  for (const double value : {65520 - 0.9 * slack, 65520.0, 65520 + 0.9 * slack}) {
    EXPECT_TRUE(one(kInfinity, value, 1e5, kF16).pass) << value;
    EXPECT_TRUE(one(65504, value, 1e5, kF16).pass) << value;
  }
  EXPECT_FALSE(one(kInfinity, 65520 - 1.1 * slack, 1e5, kF16).pass);
  EXPECT_FALSE(one(65504, 65520 + 1.1 * slack, 1e5, kF16).pass);
}

TEST(Comparison, AllowsHalfTheSmallestSubnormalAndNoMore) {
  EXPECT_TRUE(one(0, 0x1p-25, 0, kF16).pass);
  EXPECT_TRUE(one(0x1p-24, 0x1p-25, 0, kF16).pass);
  EXPECT_FALSE(one(0x1p-24, 0, 0, kF16).pass);
  EXPECT_FALSE(one(0x1p-149, 0, 0, kF32).pass);
  EXPECT_TRUE(one(0.0, -0.0, 0, kF32).pass) << "the sign of zero is not judged";
}

TEST(Comparison, TakesAZeroErrorUnderAZeroBoundAsRight) {
  const BoundTerms exact{.out = DType::f64, .k = 128};
  EXPECT_TRUE(one(0, 0, 0, exact).pass);
  EXPECT_EQ(one(0, 0, 0, exact).max_error_over_bound, 0);
  EXPECT_EQ(one(1e-300, 0, 0, exact).max_error_over_bound, kInfinity);
}

TEST(Comparison, AnEmptyResultPassesAndPointsNowhere) {
  const Comparison got = compare(std::vector<double>{}, result(0, 5, {}, {}, kF32));
  EXPECT_TRUE(got.pass);
  EXPECT_EQ(got.worst_row, -1);
  EXPECT_EQ(got.worst_col, -1);
  EXPECT_EQ(got.first_row, -1);
  EXPECT_EQ(got.nmse, 0);
}

TEST(Comparison, RefusesResultsOfAnotherSize) {
  EXPECT_THROW(compare(std::vector<double>{1, 2}, result(1, 1, {1}, {1}, kF32)), std::invalid_argument);
  EXPECT_THROW(result(1, 1, {1}, {}, kF32), std::invalid_argument);
}

TEST(Comparison, ReportsTheAveragesThatOthersUse) {
  const std::vector<double> got = {1, 2, 3, 5}, want = {1, 2, 4, 4};
  const Comparison c = compare(got, result(2, 2, want, {1, 2, 4, 4}, kF32));
  EXPECT_DOUBLE_EQ(c.nmse, 2.0 / 37);
  EXPECT_NEAR(c.calc_diff, 1 - 2 * (1 + 4 + 12 + 20.0) / (39 + 37), 1e-15);
  EXPECT_DOUBLE_EQ(c.mean_rel, 2.0 / 11);
}

TEST(Comparison, AveragesLeaveNonFiniteElementsOut) {
  const Comparison c =
      compare(std::vector<double>{1, kNaN, kInfinity, 2}, result(2, 2, {1, kNaN, 1, 2}, {1, kNaN, 1, 2}, kF32));
  EXPECT_EQ(c.nmse, 0);
  EXPECT_EQ(c.calc_diff, 0);
  EXPECT_EQ(c.mean_rel, 0);
  EXPECT_FALSE(c.pass) << "the infinity is wrong all the same";
}

TEST(Comparison, TwoResultsMayDifferByTheSumOfTheirBounds) {
  const double sum = element_bound(kBf16, 1, {10}) + element_bound(kF32, 1, {10});
  const auto two = [&](double got, double other) {
    return compare(std::vector<double>{got}, result(1, 1, {1}, {10}, kBf16), std::vector<double>{other},
                   result(1, 1, {1}, {10}, kF32));
  };
  EXPECT_TRUE(two(1 + 0.99 * sum, 1).pass);
  EXPECT_FALSE(two(1 + 1.01 * sum, 1).pass);
  EXPECT_EQ(two(1.25, 1).worst_want, 1);
}

TEST(Comparison, TwoResultsAreJudgedOneByOneWhereOneIsNotFinite) {
  const auto two = [](double got, double other, double value) {
    return compare(std::vector<double>{got}, result(1, 1, {value}, {std::fabs(value)}, kF16),
                   std::vector<double>{other}, result(1, 1, {value}, {std::fabs(value)}, kF32))
        .pass;
  };
  EXPECT_TRUE(two(kNaN, kNaN, kNaN));
  EXPECT_FALSE(two(kNaN, 1, kNaN));
  EXPECT_FALSE(two(kNaN, kNaN, 1)) << "agreeing on a wrong NaN";
  EXPECT_FALSE(two(1, 1, kNaN)) << "agreeing on a wrong number";
  EXPECT_TRUE(two(kInfinity, 70000, 70000)) << "f16 overflows, f32 does not";
  EXPECT_FALSE(two(kInfinity, kInfinity, 70000));
  EXPECT_FALSE(two(kInfinity, 1, 1));
}

}  // namespace
