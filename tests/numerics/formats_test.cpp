// SPDX-License-Identifier: Apache-2.0
#include "backends/numerics/formats.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"
#include "backends/numerics/scale_grid.h"

namespace {

using namespace ironcl::numerics;

constexpr DType kAll[] = {DType::f32,  DType::f16, DType::bf16, DType::e4m3fn, DType::e5m2,
                          DType::e8m0, DType::i8,  DType::s32,  DType::f64,    DType::e2m1};

TEST(Formats, NamesAreReadBack) {
  for (const DType type : kAll) EXPECT_EQ(parse_dtype(name_of(type)), type) << name_of(type);
  EXPECT_EQ(parse_dtype("e4m3"), DType::e4m3fn);
  EXPECT_FALSE(parse_dtype("e4m3fnuz").has_value());
  EXPECT_FALSE(parse_dtype("").has_value());
}

TEST(Formats, ElementsOfFourBitsShareBytes) {
  EXPECT_EQ(bits_of(DType::e2m1), 4u);
  EXPECT_EQ(size_of(DType::e2m1), 1u);
  EXPECT_EQ(bytes_of(DType::e2m1, 0), 0);
  EXPECT_EQ(bytes_of(DType::e2m1, 6), 3);
  EXPECT_EQ(bytes_of(DType::e2m1, 7), 4) << "a byte that is begun counts";
  EXPECT_EQ(bytes_of(DType::bf16, std::uint64_t{7}), 14u);
  EXPECT_EQ(bytes_of(DType::none, 7), 0);
}

TEST(Formats, ValuesOutsideTheEnumerationAreNone) {
  const auto unknown = static_cast<DType>(77);
  EXPECT_EQ(size_of(unknown), 0u);
  EXPECT_EQ(name_of(unknown), "none");
  EXPECT_EQ(largest(unknown), 0);
}

TEST(Formats, LimitsAreThoseOfTheCodes) {
  EXPECT_EQ(largest(DType::f32), std::numeric_limits<float>::max());
  EXPECT_EQ(largest(DType::f64), std::numeric_limits<double>::max());
  EXPECT_EQ(largest(DType::f16), decode_f16(0x7bff));
  EXPECT_EQ(largest(DType::bf16), decode_bf16(0x7f7f));
  EXPECT_EQ(largest(DType::e4m3fn), decode_e4m3fn(0x7e));
  EXPECT_EQ(largest(DType::e5m2), decode_e5m2(0x7b));
  EXPECT_EQ(largest(DType::e8m0), decode_e8m0(0xfe));
  EXPECT_EQ(largest(DType::e2m1), decode_e2m1(0x7));
  EXPECT_EQ(smallest_subnormal(DType::e2m1), decode_e2m1(1));
  EXPECT_EQ(smallest_subnormal(DType::f32), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(smallest_subnormal(DType::f64), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(smallest_subnormal(DType::f16), decode_f16(1));
  EXPECT_EQ(smallest_subnormal(DType::bf16), decode_bf16(1));
  EXPECT_EQ(smallest_subnormal(DType::e4m3fn), decode_e4m3fn(1));
  EXPECT_EQ(smallest_subnormal(DType::e5m2), decode_e5m2(1));
  EXPECT_EQ(smallest_subnormal(DType::e8m0), decode_e8m0(0));
}

TEST(Formats, UnitRoundoffIsHalfTheStepAboveOne) {
  EXPECT_EQ(1 + 2 * unit_roundoff(DType::f16), decode_f16(0x3c01));
  EXPECT_EQ(1 + 2 * unit_roundoff(DType::bf16), decode_bf16(0x3f81));
  EXPECT_EQ(1 + 2 * unit_roundoff(DType::e4m3fn), decode_e4m3fn(0x39));
  EXPECT_EQ(1 + 2 * unit_roundoff(DType::e5m2), decode_e5m2(0x3d));
  EXPECT_EQ(1 + 2 * unit_roundoff(DType::e2m1), decode_e2m1(0x3));
  EXPECT_EQ(2 * unit_roundoff(DType::f32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(2 * unit_roundoff(DType::f64), std::numeric_limits<double>::epsilon());
}

TEST(Formats, EveryTypeIsInOneFamilyAtMost) {
  for (const DType type : kAll) EXPECT_FALSE(is_quantized(type) && is_float(type)) << name_of(type);
  EXPECT_TRUE(is_quantized(DType::i8));
  EXPECT_TRUE(is_float(DType::bf16));
  EXPECT_FALSE(is_float(DType::f64));
}

// --- Scale grids with their edges, the K group of two grids, and sizes that must not wrap.

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
