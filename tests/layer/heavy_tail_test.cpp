// SPDX-License-Identifier: Apache-2.0
// Made-up activations: the same from the same seed, and as heavy-tailed as they claim.
#include "host/layer/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/numerics/casts.h"

namespace {

using ironcl::layer::heavy_tailed_activations;

TEST(HeavyTail, RowsDoNotDependOnHowManyFollow) {
  const auto few = heavy_tailed_activations(3, 100, 7), many = heavy_tailed_activations(30, 100, 7);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(few, heavy_tailed_activations(3, 100, 8));
  EXPECT_TRUE(heavy_tailed_activations(0, 100, 7).empty());
}

TEST(HeavyTail, FollowsStudentsTWithFourDegreesAndOutlierColumns) {
  constexpr int kRows = 500, kCols = 2000;
  const auto bits = heavy_tailed_activations(kRows, kCols, 1);
  std::vector<int> beyond(kCols);  // of 4.604, which t with four degrees of freedom passes with probability 1 %
  for (int i = 0; i < kRows * kCols; ++i) {
    const float x = ironcl::numerics::decode_bf16(bits[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(std::isfinite(x));
    if (std::fabs(x) > 4.604f) ++beyond[static_cast<std::size_t>(i % kCols)];
  }
  // A plain column has 5 of 500 there, an outlier column (20 times as large) more than 400.
  const auto outliers = std::count_if(beyond.begin(), beyond.end(), [](int count) { return count > 250; });
  EXPECT_GT(outliers, 5);
  EXPECT_LT(outliers, 50);
  double plain = 0;
  for (const int count : beyond) plain += count > 250 ? 0 : count;
  EXPECT_NEAR(plain / (kRows * static_cast<double>(kCols - outliers)), 0.01, 0.001);
}

}  // namespace
