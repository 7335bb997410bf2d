// SPDX-License-Identifier: Apache-2.0
// The quantiser against a definition written once more in f64, over grids, types, sources and hard groups.
#include "backends/numerics/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "backends/numerics/casts.h"
#include "tests/errors.h"
#include "tests/numerics/nearest.h"

namespace {

using namespace ironcl::numerics;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Quantized {
  std::vector<std::uint8_t> q;
  std::vector<float> scales;
};

Quantized quantized(const std::vector<float>& x, std::int64_t rows, std::int64_t cols, DType type, ScaleGrid grid,
                    const Quantizer& quantizer = {}) {
  Quantized out;
  out.q.assign(x.size(), 0xaa);
  out.scales.assign(static_cast<std::size_t>(grid.scale_rows(rows) * grid.scale_cols(cols)), -1);
  quantize(DType::f32, x.data(), rows, cols, cols, type, grid, quantizer, out.q, out.scales);
  return out;
}

// A quotient of two f32 rounded to f64 and then to f32 is the correctly rounded one: 53 >= 2 * 24 + 2 bits.
float divide(float a, float b) { return static_cast<float>(static_cast<double>(a) / static_cast<double>(b)); }

float expected_scale(float amax, DType type, const Quantizer& quantizer) {
  const float s = divide(std::max(amax, quantizer.amax_floor), static_cast<float>(largest(type)));
  if (quantizer.rounding == ScaleRounding::exact) return s;
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(s), &exponent);
  return static_cast<float>(std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent));
}

std::uint8_t expected_code(float x, float s, DType type) {
  const float quotient = divide(x, s);
  if (type == DType::e4m3fn)
    return static_cast<std::uint8_t>(ironcl::test::nearest_e4m3fn()(quotient, Overflow::saturate));
  if (type == DType::e5m2)
    return static_cast<std::uint8_t>(ironcl::test::nearest_e5m2()(quotient, Overflow::saturate));
  double down = std::floor(static_cast<double>(quotient));
  const double rest = static_cast<double>(quotient) - down;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(down, 2) != 0)) down += 1;
  return static_cast<std::uint8_t>(static_cast<std::int8_t>(std::clamp(down, -127.0, 127.0)));
}

// Heavy-tailed values over many magnitudes, as trained tensors have; the seed is fixed.
std::vector<float> sample(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::student_t_distribution<float> value(4);
  std::uniform_int_distribution<int> exponent(-20, 10);
  std::vector<float> x(count);
  for (float& each : x) each = std::ldexp(value(generator), exponent(generator) / 4);
  return x;
}

struct GridCase {
  std::int64_t rows, cols;
  ScaleGrid grid;
};
const GridCase kGridCases[] = {
    {3, 256, {1, 128}}, {5, 300, {1, 128}}, {130, 140, {128, 128}}, {9, 1000, {1, 0}},      {20, 70, {0, 0}},
    {33, 65, {32, 64}}, {40, 33, {0, 32}},  {1, 1, {512, 512}},     {600, 520, {512, 512}}, {7, 100, {256, 256}}};

TEST(Quantiser, ScalesOfE8m0ArePowersOfTwoFrom2ToMinus127OnAndGapsStay) {
  constexpr std::int64_t kRows = 3, kCols = 70, kLd = 75, kScaleLd = 4;
  std::vector<float> x = sample(kRows * kCols, 5);
  std::fill_n(x.begin(), 32, 0.0f);
  x[1] = 0x1p-130f;
  x[kCols] = kNaN;
  const Quantizer floorless{.amax_floor = 0, .rounding = ScaleRounding::power_of_two};
  const Quantized want = quantized(x, kRows, kCols, DType::e4m3fn, {1, 32}, floorless);
  std::vector<std::uint8_t> codes(kRows * kLd, 0xaa), scales(kRows * kScaleLd, 0xbb);
  quantize(DType::f32, x.data(), kRows, kCols, kCols, {1, 32}, {.amax_floor = 0},
           {DType::e4m3fn, codes.data(), kLd, DType::e8m0, scales.data(), kScaleLd});
  EXPECT_EQ(codes[1], encode_e4m3fn(0.125f)) << "under 2^-127, not what an f32 could be";
  codes[1] = want.q[1];
  for (std::int64_t i = 0; i < kRows * kLd; ++i) {
    const auto at = static_cast<std::size_t>(i / kLd * kCols + i % kLd);
    ASSERT_EQ(int{codes[static_cast<std::size_t>(i)]}, i % kLd < kCols ? int{want.q[at]} : 0xaa) << i;
  }
  for (std::int64_t i = 0; i < kRows * kScaleLd; ++i) {
    const int got = scales[static_cast<std::size_t>(i)];
    if (i % kScaleLd == 3) {
      ASSERT_EQ(got, 0xbb);
    } else if (i == 0) {
      EXPECT_EQ(got, 0) << "of a magnitude that only an f32 scale is small enough for";
    } else {
      const float scale = want.scales[static_cast<std::size_t>(i / kScaleLd * 3 + i % kScaleLd)];
      EXPECT_EQ(got, std::isnan(scale) ? 0xff : std::ilogb(scale) + 127) << i;
    }
  }
}

TEST(Quantiser, UnderAGivenScaleAnInfinitySaturatesAndTheScaleStays) {
  const std::vector<float> x = {1, -3000, kInfinity, -kInfinity, kNaN, 0.3f};
  std::vector<float> scale = {0.5f};
  std::vector<std::uint8_t> codes(x.size());
  const QuantizedMatrix to{DType::e4m3fn, codes.data(), 3, DType::f32, scale.data(), 1};
  quantize(DType::f32, x.data(), 2, 3, 3, {0, 0}, {.given = true}, to);
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{encode_e4m3fn(2), 0xfe, 0x7e, 0xfe, 0x7f, encode_e4m3fn(0.6f)}));
  EXPECT_EQ(scale[0], 0.5f);
  EXPECT_THROW(quantize(DType::f32, x.data(), 2, 3, 3, {0, 0}, {},
                        {DType::e4m3fn, codes.data(), 2, DType::f32, scale.data(), 1}),
               std::invalid_argument);
  EXPECT_THROW(quantize(DType::f32, x.data(), 2, 3, 3, {0, 0}, {},
                        {DType::e4m3fn, codes.data(), 3, DType::f16, scale.data(), 1}),
               std::invalid_argument);
}

TEST(Quantiser, AgreesWithItsDefinitionForEveryGridAndType) {
  unsigned seed = 1;
  for (const GridCase& each : kGridCases) {
    const std::int64_t rows = each.rows, cols = each.cols;
    const ScaleGrid grid = each.grid;
    for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
      for (const ScaleRounding rounding : {ScaleRounding::exact, ScaleRounding::power_of_two}) {
        SCOPED_TRACE(testing::Message() << rows << "x" << cols << " group " << grid.group_rows << "x"
                                        << grid.group_cols << " " << name_of(type) << " rounding "
                                        << static_cast<int>(rounding) << " seed " << seed);
        const std::vector<float> x = sample(static_cast<std::size_t>(rows * cols), seed++);
        const Quantizer quantizer{.rounding = rounding};
        const Quantized got = quantized(x, rows, cols, type, grid, quantizer);

        std::vector<float> amax(got.scales.size(), 0.0f);
        const auto scale_of_element = [grid, width = grid.scale_cols(cols)](std::int64_t row, std::int64_t col) {
          return static_cast<std::size_t>(grid.row_of(row) * width + grid.col_of(col));
        };
        for (std::int64_t i = 0; i < rows * cols; ++i) {
          float& top = amax[scale_of_element(i / cols, i % cols)];
          top = std::max(top, std::fabs(x[static_cast<std::size_t>(i)]));
        }
        for (std::size_t i = 0; i < amax.size(); ++i) {
          ASSERT_EQ(got.scales[i], expected_scale(amax[i], type, quantizer)) << "scale " << i;
        }
        for (std::int64_t i = 0; i < rows * cols; ++i) {
          const float s = got.scales[scale_of_element(i / cols, i % cols)];
          const float value = x[static_cast<std::size_t>(i)];
          ASSERT_EQ(int{got.q[static_cast<std::size_t>(i)]}, int{expected_code(value, s, type)})
              << "element " << i << " = " << value << " under " << s;
        }
      }
    }
  }
}

TEST(Quantiser, GivesTheLargestCodeToTheLargestValueOfAGroup) {
  const std::vector<float> x = sample(std::size_t{64} * 128, 99);
  const Quantized got = quantized(x, 64, 128, DType::e4m3fn, {1, 128});
  for (std::size_t row = 0; row < 64; ++row) {
    int top = 0;
    for (std::size_t col = 0; col < 128; ++col) top = std::max(top, got.q[row * 128 + col] & 0x7f);
    EXPECT_EQ(top, 0x7e) << "row " << row;
  }
}

TEST(Quantiser, DividesAndDoesNotMultiplyByTheReciprocal) {
  // Values exist where the two differ by a code; the codes must be those of the division.
  const std::vector<float> x = sample(std::size_t{1} << 20, 7);
  const float s = expected_scale(*std::max_element(x.begin(), x.end()), DType::e4m3fn, {});
  const float reciprocal = 1 / s;
  int differing = 0;
  for (const float value : x) {
    const std::uint8_t divided = quantize_one(value, s, DType::e4m3fn);
    ASSERT_EQ(divided, expected_code(value, s, DType::e4m3fn)) << value;
    differing += divided != encode_e4m3fn(value * reciprocal, Overflow::saturate) ? 1 : 0;
  }
  // Ties are the place to differ; random data seldom hits one, so look at ties too.
  for (int tie = 0; tie < 126; ++tie) {
    const float middle =
        (decode_e4m3fn(static_cast<std::uint8_t>(tie)) + decode_e4m3fn(static_cast<std::uint8_t>(tie + 1))) / 2;
    for (int step = 0; step < 1000; ++step) {
      const float scale = 0.001f + 1e-5f * static_cast<float>(step);
      const float value = middle * scale;
      const std::uint8_t divided = quantize_one(value, scale, DType::e4m3fn);
      ASSERT_EQ(divided, expected_code(value, scale, DType::e4m3fn)) << value << " under " << scale;
      differing += divided != encode_e4m3fn(value * (1 / scale), Overflow::saturate) ? 1 : 0;
    }
  }
  EXPECT_GT(differing, 0) << "the test sees no difference between division and reciprocal";
}

/// By the casts of single values.
std::uint8_t code_by_cast(float x, float scale, DType type) {
  const float quotient = x == 0 && scale == 0 ? x : x / scale;
  if (std::isnan(quotient)) return type == DType::e4m3fn ? 0x7f : type == DType::e5m2 ? 0x7e : 0;
  if (type == DType::i8) return expected_code(quotient, 1, type);
  std::uint8_t code = 0;
  encode(type, std::span(&quotient, 1), &code, Overflow::saturate);
  return code;
}

TEST(Quantiser, ARunHasTheCodesOfItsValuesOneByOne) {
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits) {
    x.push_back(decode_f16(static_cast<std::uint16_t>(bits)));
    x.push_back(std::bit_cast<float>(bits << 16 | 0x8001));
  }
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::uint8_t> codes(x.size());
  for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8, DType::e2m1}) {
    for (const float scale : {1.0f, 3.0f, 0.0123f, 0x1p-140f, 0x1p100f, 0.0f, infinity, nan}) {
      quantize_run(type, x, scale, codes.data());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(codes[i], code_by_cast(x[i], scale, type)) << name_of(type) << ": " << x[i] << " / " << scale;
    }
  }
  x = {1.0f, -nan, -2.0f, infinity};
  EXPECT_GT(largest_magnitude_bits(x), std::bit_cast<std::uint32_t>(infinity));
  EXPECT_EQ(largest_magnitude_bits(std::span(x).first(1), 0x40000000u), 0x40000000u);
}

TEST(Quantiser, GivesZerosForAnAllZeroGroup) {
  std::vector<float> x(256, 0.0f);
  x[3] = -0.0f;
  x[200] = 1;
  const Quantized got = quantized(x, 1, 256, DType::e4m3fn, {1, 128});
  EXPECT_EQ(got.scales[0], 1e-10f / 448.0f);
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(got.q[i] & 0x7f, 0) << i;
  EXPECT_EQ(got.q[3], 0x80) << "the sign of zero is kept";
  EXPECT_EQ(got.q[200], 0x7e);
}

TEST(Quantiser, GivesZerosForAnAllZeroGroupWithoutAFloorToo) {
  for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    const Quantized got = quantized(std::vector<float>(128, 0.0f), 1, 128, type, {1, 128}, {.amax_floor = 0});
    EXPECT_EQ(got.scales[0], 0.0f);
    for (const std::uint8_t code : got.q) EXPECT_EQ(code, 0);
  }
}

TEST(Quantiser, AppliesTheFloorToTheLargestMagnitude) {
  const std::vector<float> x(128, 1e-6f);
  EXPECT_EQ(quantized(x, 1, 128, DType::e4m3fn, {1, 128}, {.amax_floor = 1e-4f}).scales[0], 1e-4f / 448.0f);
  EXPECT_EQ(quantized(x, 1, 128, DType::e4m3fn, {1, 128}, {.amax_floor = 1e-10f}).scales[0], 1e-6f / 448.0f);
}

TEST(Quantiser, GivesNaNToEveryMemberOfAGroupWithANonFiniteValue) {
  for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity}) {
    for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
      std::vector<float> x(32, 1.0f);
      x[9] = bad;  // Row 1: the group of rows 0 and 1, columns 0 to 3.
      const Quantized got = quantized(x, 4, 8, type, {2, 4});
      const std::uint8_t nan_code = type == DType::e4m3fn ? 0x7f : type == DType::e5m2 ? 0x7e : 0;
      ASSERT_EQ(got.scales.size(), 4u);
      EXPECT_TRUE(std::isnan(got.scales[0]));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got.scales[0]), 0x7fc00000u) << "one NaN pattern on every device";
      for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(std::isfinite(got.scales[i])) << i;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool in_group = i / 8 < 2 && i % 8 < 4;
        if (in_group) {
          EXPECT_EQ(int{got.q[i]}, int{nan_code}) << name_of(type) << " element " << i;
        } else {
          EXPECT_NE(int{got.q[i]}, int{nan_code}) << name_of(type) << " element " << i;
        }
      }
    }
  }
}

TEST(Quantiser, RoundsPowerOfTwoScalesUpAlsoWhereTheyAreSubnormal) {
  const Quantizer quantizer{.amax_floor = 0, .rounding = ScaleRounding::power_of_two};
  EXPECT_EQ(scale_of(448, DType::e4m3fn, quantizer), 1.0f);
  EXPECT_EQ(scale_of(std::nextafter(448.0f, 500.0f), DType::e4m3fn, quantizer), 2.0f);
  EXPECT_EQ(scale_of(448 * 0x1p-149f, DType::e4m3fn, quantizer), 0x1p-149f);
  EXPECT_EQ(scale_of(448 * 3 * 0x1p-149f, DType::e4m3fn, quantizer), 4 * 0x1p-149f);
  EXPECT_EQ(scale_of(448 * 0x1p-127f, DType::e4m3fn, quantizer), 0x1p-127f);
  EXPECT_EQ(scale_of(448 * 0x1.8p-127f, DType::e4m3fn, quantizer), 0x1p-126f);
  EXPECT_EQ(scale_of(std::numeric_limits<float>::max(), DType::e4m3fn, quantizer), 0x1p120f);
}

TEST(Quantiser, SaturatesWhereASubnormalScaleIsTooCoarse) {
  // 500 steps of 2^-149 over 448 round to a scale of one step: the quotient 500 has no e4m3fn code.
  const float x = 500 * 0x1p-149f;
  const float s = scale_of(x, DType::e4m3fn, {.amax_floor = 0});
  EXPECT_EQ(s, 0x1p-149f);
  EXPECT_EQ(quantize_one(x, s, DType::e4m3fn), 0x7e);
  EXPECT_EQ(quantize_one(-x, s, DType::e4m3fn), 0xfe);
}

TEST(Quantiser, ReadsHalfAndBf16SourcesWithALeadingDimension) {
  const std::int64_t rows = 5, cols = 40, ld = 47;
  for (const DType source : {DType::f32, DType::f16, DType::bf16}) {
    const std::vector<float> x = sample(static_cast<std::size_t>(rows * ld), 5);
    std::vector<unsigned char> bytes(x.size() * size_of(source));
    encode(source, x, bytes.data());
    std::vector<float> rounded(x.size());
    decode(source, bytes.data(), std::span<float>(rounded));

    std::vector<float> tight;
    for (std::int64_t row = 0; row < rows; ++row) {
      tight.insert(tight.end(), rounded.begin() + row * ld, rounded.begin() + row * ld + cols);
    }
    const Quantized want = quantized(tight, rows, cols, DType::e4m3fn, {2, 32});
    Quantized got{std::vector<std::uint8_t>(want.q.size()), std::vector<float>(want.scales.size())};
    quantize(source, bytes.data(), rows, cols, ld, DType::e4m3fn, {2, 32}, {}, got.q, got.scales);
    EXPECT_EQ(got.q, want.q) << name_of(source);
    EXPECT_EQ(got.scales, want.scales) << name_of(source);
  }
}

TEST(Quantiser, TakesEmptyMatrices) {
  EXPECT_NO_THROW(quantized({}, 0, 128, DType::e4m3fn, {1, 128}));
  EXPECT_NO_THROW(quantized({}, 4, 0, DType::e4m3fn, {0, 0}));
}

TEST(Quantiser, RefusesWhatItCannotDoAndSaysWhy) {
  std::vector<float> x(12), scales(12);
  std::vector<std::uint8_t> q(12);
  const auto message = [&](std::int64_t rows, std::int64_t cols, std::int64_t ld, DType type, ScaleGrid grid,
                           std::size_t codes, std::size_t scale_count, Quantizer quantizer = {}) {
    return ironcl::error_of<std::invalid_argument>([&] {
      quantize(DType::f32, x.data(), rows, cols, ld, type, grid, quantizer, std::span(q).first(codes),
               std::span(scales).first(scale_count));
    });
  };
  EXPECT_EQ(message(3, 4, 4, DType::e4m3fn, {1, 4}, 12, 3), "");
  EXPECT_NE(message(3, 4, 3, DType::e4m3fn, {1, 4}, 12, 3).find("leading dimension is 3"), std::string::npos);
  EXPECT_NE(message(3, 4, 4, DType::f16, {1, 4}, 12, 3).find("the type is f16"), std::string::npos);
  EXPECT_NE(message(3, 4, 4, DType::e4m3fn, {-1, 4}, 12, 3).find("groups of -1 x 4"), std::string::npos);
  EXPECT_NE(message(3, 4, 4, DType::e4m3fn, {1, 4}, 11, 3).find("room for 11 codes"), std::string::npos);
  EXPECT_NE(message(3, 4, 4, DType::e4m3fn, {1, 4}, 12, 2).find("room for 2 scales"), std::string::npos);
  EXPECT_NE(message(-3, 4, 4, DType::e4m3fn, {1, 4}, 12, 3).find("-3 x 4"), std::string::npos);
  EXPECT_NE(message(3, 4, 4, DType::e4m3fn, {1, 4}, 12, 3, {.amax_floor = -1}).find("amax_floor"), std::string::npos);
  EXPECT_NE(message(3, 4, 4, DType::e4m3fn, {1, 4}, 12, 3, {.amax_floor = kNaN}).find("amax_floor"),
            std::string::npos);
  EXPECT_THROW(quantize(DType::i8, x.data(), 1, 4, 4, DType::e4m3fn, {1, 4}, {}, q, scales), std::invalid_argument);
  EXPECT_THROW(quantize(DType::f32, x.data(), 1, 4, 4, DType::e2m1, {1, 4}, {}, q, scales), std::invalid_argument)
      << "codes that share bytes";
  EXPECT_THROW(quantize(DType::f32, x.data(), std::int64_t{1} << 40, std::int64_t{1} << 40, std::int64_t{1} << 40,
                        DType::e4m3fn, {1, 128}, {}, q, scales),
               std::overflow_error);
}

}  // namespace
