// SPDX-License-Identifier: Apache-2.0
// Scale grids with their edges, the K group of two grids, and sizes that must not wrap.
#include "backends/numerics/scale_grid.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "backends/numerics/checked.h"

namespace {

using namespace ironcl::numerics;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(ScaleGrid, CeilDividesBothDimensions) {
  const ScaleGrid grid{128, 128};
  EXPECT_EQ(grid.scale_rows(576), 5);
  EXPECT_EQ(grid.scale_cols(512), 4);
  EXPECT_EQ(grid.scale_rows(1), 1);
  EXPECT_EQ(grid.scale_cols(129), 2);
}

TEST(ScaleGrid, AZeroGroupSpansTheDimension) {
  const ScaleGrid per_token{1, 0}, per_tensor{0, 0};
  EXPECT_EQ(per_token.scale_rows(7), 7);
  EXPECT_EQ(per_token.scale_cols(7168), 1);
  EXPECT_EQ(per_token.col_of(7167), 0);
  EXPECT_EQ(per_token.row_of(6), 6);
  EXPECT_EQ(per_tensor.scale_rows(7), 1);
  EXPECT_EQ(per_tensor.row_of(6), 0);
  EXPECT_EQ(per_tensor.resolved(7, 9), (ScaleGrid{7, 9}));
}

TEST(ScaleGrid, AnEmptyDimensionHasNoScales) {
  for (const std::int64_t group : {0, 1, 128}) {
    const ScaleGrid grid{group, group};
    EXPECT_EQ(grid.scale_rows(0), 0) << group;
    EXPECT_EQ(grid.scale_cols(0), 0) << group;
  }
  EXPECT_EQ((ScaleGrid{0, 0}.resolved(0, 0)), (ScaleGrid{1, 1}));
}

TEST(ScaleGrid, EveryElementHasAScaleInsideTheGrid) {
  for (const std::int64_t group : {0, 1, 3, 32, 128, 512}) {
    for (const std::int64_t size : {1, 2, 31, 127, 128, 129, 576}) {
      const ScaleGrid grid{group, group};
      EXPECT_EQ(grid.row_of(0), 0);
      EXPECT_EQ(grid.row_of(size - 1), grid.scale_rows(size) - 1) << group << " " << size;
      EXPECT_EQ(grid.col_of(size - 1), grid.scale_cols(size) - 1) << group << " " << size;
    }
  }
}

TEST(CommonGroup, IsTheWidthInWhichNoScaleChanges) {
  EXPECT_EQ(common_group(128, 128, 7168), 128);
  EXPECT_EQ(common_group(128, 512, 7168), 128);
  EXPECT_EQ(common_group(32, 128, 7168), 32);
  EXPECT_EQ(common_group(128, 96, 7168), 32);
}

TEST(CommonGroup, AWholeDimensionDoesNotCutTheOther) {
  EXPECT_EQ(common_group(128, 0, 1000), 128);  // Not gcd(128, 1000) = 8.
  EXPECT_EQ(common_group(0, 128, 1000), 128);
  EXPECT_EQ(common_group(512, 128, 500), 128);  // 512 covers all 500.
  EXPECT_EQ(common_group(0, 0, 1000), 1000);
  EXPECT_EQ(common_group(512, 512, 100), 100);
}

TEST(CommonGroup, IsNeverZero) {
  EXPECT_EQ(common_group(0, 0, 0), 1);
  EXPECT_EQ(common_group(128, 128, 0), 1);
}

TEST(CheckedSizes, CeilDivisionDoesNotWrapAtTheTop) {
  EXPECT_EQ(ceil_div(kMax, 2), kMax / 2 + 1);
  EXPECT_EQ(ceil_div(kMax, kMax), 1);
  EXPECT_EQ(ceil_div(0, 128), 0);
}

TEST(CheckedSizes, ProductsAndSumsThrowInsteadOfWrapping) {
  EXPECT_EQ(checked_mul(std::int64_t{1} << 31, std::int64_t{1} << 31), std::int64_t{1} << 62);
  EXPECT_THROW(checked_mul(std::int64_t{1} << 32, std::int64_t{1} << 31), std::overflow_error);
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_THROW(checked_add(kMax, 1), std::overflow_error);
}

}  // namespace
