// SPDX-License-Identifier: Apache-2.0
// The verdict on a D that comes out quantised with scales of its own.
#include "tests/quantized_output.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"

namespace {

using namespace ironcl::numerics;

constexpr std::int64_t kRows = 6, kCols = 300;
constexpr ScaleGrid kGrid{1, 128};

struct Output {
  Bounded want;
  std::vector<double> codes;
  std::vector<float> scales;
  DType type = DType::e4m3fn;
  Quantizer quantizer;
  DType scale_type = DType::f32;

  Comparison compare() const { return compare_quantized(codes, type, scales, kGrid, quantizer, want, scale_type); }
};

// A reference, and the codes of an f32 result that is off by a part of what accumulation may add.
Output make(DType type, ScaleRounding rounding = ScaleRounding::exact, DType scale_type = DType::f32,
            float given = 0) {
  Output out;
  out.scale_type = scale_type;
  out.quantizer.given = given != 0;
  out.type = type;
  out.quantizer.rounding = rounding;
  out.want = {kRows, kCols, {}, {}};
  std::mt19937 generator(11);
  std::student_t_distribution<double> value(4);
  std::uniform_real_distribution<double> part(-0.9, 0.9);
  std::vector<float> d;
  for (std::int64_t i = 0; i < kRows * kCols; ++i) {
    out.want.value.push_back(value(generator));
    const BoundTerms terms{.k = 1024, .accumulation_length = 128};
    const Sizes sizes{20 + std::fabs(out.want.value.back())};
    out.want.bound.push_back(element_bound(terms, out.want.value.back(), sizes));
    const double error = part(generator) * accumulation_bound(terms, sizes);
    d.push_back(static_cast<float>(out.want.value.back() + error));
  }
  std::vector<std::uint8_t> codes(d.size());
  out.scales.resize(static_cast<std::size_t>(kGrid.scale_rows(kRows) * kGrid.scale_cols(kCols)));
  std::fill(out.scales.begin(), out.scales.end(), given);
  std::vector<std::byte> stored(out.scales.size() * size_of(scale_type));
  encode(scale_type, out.scales, stored.data());
  quantize(DType::f32, d.data(), kRows, kCols, kCols, kGrid, out.quantizer,
           {type, codes.data(), kCols, scale_type, stored.data(), kGrid.scale_cols(kCols)});
  decode(scale_type, stored.data(), std::span<float>(out.scales));
  out.codes.resize(d.size());
  decode(type, codes.data(), std::span<double>(out.codes));
  return out;
}

TEST(QuantisedOutput, ACorrectOneIsNeverRefused) {
  for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    for (const ScaleRounding rounding : {ScaleRounding::exact, ScaleRounding::power_of_two}) {
      const Comparison c = make(type, rounding).compare();
      EXPECT_TRUE(c.pass) << name_of(type) << " " << c.max_error_over_bound << " at " << c.worst_row << " "
                          << c.worst_col;
      EXPECT_GT(c.max_error_over_bound, 0.5) << name_of(type) << ": a bound this wide says little";
    }
  }
}

TEST(QuantisedOutput, AScaleOfE8m0IsTheOneThatTheQuantiserGives) {
  Output out = make(DType::e4m3fn, ScaleRounding::exact, DType::e8m0);
  EXPECT_TRUE(out.compare().pass) << "whatever the rounding says";
  out.scales[4] *= 2;
  EXPECT_EQ(out.compare().out_of_bounds, 128);
}

TEST(QuantisedOutput, UnderGivenScalesTheReferenceIsCutToWhatCodesReach) {
  Output out = make(DType::e4m3fn, ScaleRounding::exact, DType::f32, 0x1p-8f);
  const Comparison c = out.compare();
  EXPECT_TRUE(c.pass) << c.max_error_over_bound;
  EXPECT_GT(c.max_error_over_bound, 0.5);
  // Code 448 of 2^-8 is 1.75: some values saturate, and a lesser code of theirs is wrong.
  const auto saturated = std::find(out.codes.begin(), out.codes.end(), 448.0);
  ASSERT_NE(saturated, out.codes.end());
  *saturated = 384;
  EXPECT_EQ(out.compare().out_of_bounds, 1);
  *saturated = 448;
  out.want.value[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(out.compare().out_of_bounds, 1) << "a number for NaN";
  out.codes[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(out.compare().pass);
}

TEST(QuantisedOutput, AScaleOnePerMilleOffIsCaughtInItsWholeGroup) {
  Output out = make(DType::e4m3fn);
  out.scales[4] *= 1.001f;  // Row 1, columns 128 to 255.
  const Comparison c = out.compare();
  EXPECT_EQ(c.out_of_bounds, 128);
  EXPECT_EQ(c.first_row, 1);
  EXPECT_EQ(c.first_col, 128);
}

TEST(QuantisedOutput, ACodeTwoStepsOffIsCaught) {
  Output out = make(DType::e4m3fn);
  const std::uint8_t code = encode_e4m3fn(static_cast<float>(out.codes[700]));
  out.codes[700] = decode_e4m3fn(static_cast<std::uint8_t>(code ^ 2));
  const Comparison c = out.compare();
  EXPECT_EQ(c.out_of_bounds, 1);
  EXPECT_EQ(c.first_row, 2);
  EXPECT_EQ(c.first_col, 100);
}

TEST(QuantisedOutput, ANonFiniteReferenceNeedsANaNScale) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e39}) {
    Output out = make(DType::e4m3fn);
    out.want.value[0] = bad;
    EXPECT_EQ(out.compare().out_of_bounds, 128) << bad;
    out.scales[0] = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < 128; ++i) out.codes[i] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(out.compare().pass) << bad;
    out.codes[5] = 1;
    EXPECT_EQ(out.compare().out_of_bounds, 1) << "a plausible code under a NaN scale";
  }
}

TEST(QuantisedOutput, ANaNScaleOrCodeOfAFiniteGroupIsWrong) {
  Output out = make(DType::i8);
  out.scales[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(out.compare().out_of_bounds, 300 - 256);
  out = make(DType::e4m3fn);
  out.codes[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(out.compare().out_of_bounds, 1);
}

TEST(QuantisedOutput, AZeroGroupHasTheScaleOfTheFloor) {
  Output out = make(DType::e4m3fn);
  for (std::size_t i = 0; i < 128; ++i) out.want.value[i] = out.want.bound[i] = out.codes[i] = 0;
  out.scales[0] = 1e-10f / 448.0f;
  EXPECT_TRUE(out.compare().pass);
  out.scales[0] = 0;
  EXPECT_FALSE(out.compare().pass);
}

TEST(QuantisedOutput, RefusesSizesAndTypesThatDoNotFit) {
  Output out = make(DType::e4m3fn);
  out.scales.pop_back();
  EXPECT_THROW(out.compare(), std::invalid_argument);
  out = make(DType::e4m3fn);
  out.type = DType::f16;
  EXPECT_THROW(out.compare(), std::invalid_argument);
}

}  // namespace
