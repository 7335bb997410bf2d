// SPDX-License-Identifier: Apache-2.0
// The casts against a search for the nearest value (nearest.h), against the compiler's half type, and round trips.
#include "backends/numerics/casts.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/numerics/nearest.h"

namespace {

using namespace ironcl::numerics;
using ironcl::test::NearestTable;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class Code>
void expect_nearest(const NearestTable& table, Code (*encode)(float, Overflow), int random) {
  for (const Overflow overflow : {Overflow::plain, Overflow::saturate}) {
    int wrong = 0;
    for (const float value : ironcl::test::hard_values(table, random)) {
      const std::uint32_t got = encode(value, overflow);
      const std::uint32_t want = table(value, overflow);
      if (got != want && wrong++ == 0) {
        ADD_FAILURE() << std::hexfloat << value << (overflow == Overflow::saturate ? " saturating" : "") << " gives "
                      << std::hex << got << ", expected " << want;
      }
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Casts, E4m3fnIsTheNearestValueInBothOverflowForms) {
  expect_nearest<std::uint8_t>(ironcl::test::nearest_e4m3fn(), encode_e4m3fn, 200000);
}
TEST(Casts, E5m2IsTheNearestValueInBothOverflowForms) {
  expect_nearest<std::uint8_t>(ironcl::test::nearest_e5m2(), encode_e5m2, 200000);
}
TEST(Casts, F16IsTheNearestValueInBothOverflowForms) {
  expect_nearest<std::uint16_t>(ironcl::test::nearest_f16(), encode_f16, 200000);
}
TEST(Casts, Bf16IsTheNearestValueInBothOverflowForms) {
  expect_nearest<std::uint16_t>(ironcl::test::nearest_bf16(), encode_bf16, 200000);
}

TEST(Casts, E2m1HasTheValuesOfOcpAndIsTheNearestOfThem) {
  constexpr std::array<float, 8> kValues{0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (std::uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(decode_e2m1(code), kValues[code]);
    EXPECT_EQ(decode_e2m1(code | 8), -kValues[code]);
    EXPECT_TRUE(std::signbit(decode_e2m1(code | 8)));
    EXPECT_EQ(encode_e2m1(kValues[code]), code);
    EXPECT_EQ(encode_e2m1(-kValues[code]), code | 8);
    if (code == 7) continue;
    const float middle = (kValues[code] + kValues[code + 1u]) / 2;
    EXPECT_EQ(encode_e2m1(middle), code % 2 == 0 ? code : code + 1) << middle << " is a tie";
    EXPECT_EQ(encode_e2m1(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(encode_e2m1(std::nextafter(middle, 10.0f)), code + 1);
  }
  EXPECT_EQ(encode_e2m1(kInfinity), 7);
  EXPECT_EQ(encode_e2m1(-1e30f), 15);
  EXPECT_EQ(encode_e2m1(kNaN), 0);
}

TEST(Casts, ElementsOfFourBitsAreTheHalvesOfBytesTheLowerFirst) {
  const std::array<float, 3> values{1.5f, -6, 0.5f};
  std::array<std::uint8_t, 3> bytes{0xee, 0xee, 0xee};
  encode(DType::e2m1, values, bytes.data());
  EXPECT_EQ(bytes, (std::array<std::uint8_t, 3>{0xf3, 0x01, 0xee}));
  std::array<double, 2> back{};
  decode(DType::e2m1, bytes.data(), 1, back);
  EXPECT_EQ(back, (std::array<double, 2>{-6, 0.5}));
  std::array<float, 3> all{};
  decode(DType::e2m1, bytes.data(), std::span<float>(all));
  EXPECT_EQ(all, values);
  EXPECT_EQ(load_as_f64(DType::e2m1, bytes.data(), 2), 0.5);
}

TEST(Casts, E4m3fnTurnsIntoNaNPast464AndOnlyThere) {
  EXPECT_EQ(encode_e4m3fn(464.0f), 0x7e);
  EXPECT_EQ(encode_e4m3fn(std::nextafter(464.0f, kInfinity)), 0x7f);
  EXPECT_EQ(encode_e4m3fn(-std::nextafter(464.0f, kInfinity)), 0xff);
  EXPECT_EQ(encode_e4m3fn(kInfinity), 0x7f);
  EXPECT_EQ(encode_e4m3fn(-kInfinity), 0xff);
}

TEST(Casts, SaturationTakesInfinitiesToTheLargestValueAndKeepsNaN) {
  EXPECT_EQ(encode_e4m3fn(kInfinity, Overflow::saturate), 0x7e);
  EXPECT_EQ(encode_e4m3fn(-kInfinity, Overflow::saturate), 0xfe);
  EXPECT_EQ(encode_e5m2(kInfinity, Overflow::saturate), 0x7b);
  EXPECT_EQ(encode_f16(-kInfinity, Overflow::saturate), 0xfbff);
  EXPECT_EQ(encode_bf16(kInfinity, Overflow::saturate), 0x7f7f);
  EXPECT_TRUE(std::isnan(decode_e4m3fn(encode_e4m3fn(kNaN, Overflow::saturate))));
  EXPECT_TRUE(std::isnan(decode_e5m2(encode_e5m2(kNaN, Overflow::saturate))));
  EXPECT_TRUE(std::isnan(decode_f16(encode_f16(kNaN, Overflow::saturate))));
  EXPECT_TRUE(std::isnan(decode_bf16(encode_bf16(kNaN, Overflow::saturate))));
}

TEST(Casts, NaNWithAnyPayloadStaysNaNAndKeepsItsSign) {
  // Payloads in the lowest bits are those that rounding would carry into an infinity, or drop.
  for (const std::uint32_t payload : {0x1u, 0x7fffu, 0xffffu, 0x3fffffu, 0x400000u, 0x7fffffu}) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const auto value = std::bit_cast<float>(sign | 0x7f800000u | payload);
      const std::array<float, 4> back = {decode_bf16(encode_bf16(value)), decode_f16(encode_f16(value)),
                                         decode_e4m3fn(encode_e4m3fn(value)), decode_e5m2(encode_e5m2(value))};
      for (const float got : back) {
        EXPECT_TRUE(std::isnan(got)) << std::hex << payload;
        EXPECT_EQ(std::signbit(got), sign != 0) << std::hex << payload;
      }
    }
  }
}

TEST(Casts, EveryF16AndBf16PatternSurvivesTheRoundTrip) {
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    if (std::isnan(decode_f16(bits))) {
      EXPECT_TRUE(std::isnan(decode_f16(encode_f16(decode_f16(bits))))) << std::hex << pattern;
    } else {
      EXPECT_EQ(encode_f16(decode_f16(bits)), bits) << std::hex << pattern;
    }
    if (std::isnan(decode_bf16(bits))) {
      EXPECT_TRUE(std::isnan(decode_bf16(encode_bf16(decode_bf16(bits))))) << std::hex << pattern;
    } else {
      EXPECT_EQ(encode_bf16(decode_bf16(bits)), bits) << std::hex << pattern;
    }
  }
}

TEST(Casts, EveryFp8CodeSurvivesTheRoundTrip) {
  for (int pattern = 0; pattern < 256; ++pattern) {
    const auto code = static_cast<std::uint8_t>(pattern);
    if (!std::isnan(decode_e4m3fn(code))) {
      EXPECT_EQ(encode_e4m3fn(decode_e4m3fn(code)), code);
    }
    if (!std::isnan(decode_e5m2(code))) {
      EXPECT_EQ(encode_e5m2(decode_e5m2(code)), code);
    }
    if (code != 0xff) {
      EXPECT_EQ(encode_e8m0(decode_e8m0(code)), code);
    }
  }
}

TEST(Casts, E8m0TakesThePowerOfTwoAtOrAbove) {
  EXPECT_EQ(encode_e8m0(1.0f), 127);
  EXPECT_EQ(encode_e8m0(std::nextafter(1.0f, 2.0f)), 128);
  EXPECT_EQ(encode_e8m0(std::nextafter(1.0f, 0.0f)), 127);
  EXPECT_EQ(encode_e8m0(0x1p-127f), 0);
  EXPECT_EQ(encode_e8m0(std::nextafter(0x1p-127f, 1.0f)), 1);
  EXPECT_EQ(encode_e8m0(0x1p-149f), 0);
  EXPECT_EQ(encode_e8m0(0.0f), 0);
  EXPECT_EQ(encode_e8m0(-0.0f), 0);
  EXPECT_EQ(encode_e8m0(0x1p127f), 254);
}

TEST(Casts, E8m0GivesNaNForWhatNoPowerOfTwoCovers) {
  for (const float value : {kNaN, -1.0f, -kInfinity, kInfinity, std::nextafter(0x1p127f, kInfinity)}) {
    EXPECT_EQ(encode_e8m0(value), 0xff) << value;
  }
}

#if defined(__FLT16_MANT_DIG__)
__extension__ using Half = _Float16;

int halves_that_differ(std::uint64_t step) {
  int wrong = 0;
  for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += step) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    if (std::isnan(value)) continue;
    const auto want = std::bit_cast<std::uint16_t>(static_cast<Half>(value));
    if (encode_f16(value) != want && wrong++ == 0) ADD_FAILURE() << std::hexfloat << value;
  }
  return wrong;
}

TEST(Casts, F16AgreesWithTheCompilersHalf) {
  EXPECT_EQ(halves_that_differ(4093), 0);  // A prime: all exponents, mantissas spread.
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const auto want = static_cast<float>(std::bit_cast<Half>(bits));
    const float got = decode_f16(bits);
    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << std::hex << pattern;
  }
}
TEST(HeavyCasts, F16AgreesWithTheCompilersHalfForFortyMillionFloats) { EXPECT_EQ(halves_that_differ(101), 0); }
#endif

TEST(Casts, ArraysAgreeWithSingleValuesAtUnalignedAddresses) {
  const std::array<float, 5> values = {1.5f, -0.3f, 448.0f, 1e-3f, 70000.0f};
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3fn, DType::e5m2}) {
    std::array<unsigned char, 24> bytes{};
    encode(type, values, bytes.data() + 1, Overflow::saturate);
    std::array<float, 5> f32{};
    std::array<double, 5> f64{};
    decode(type, bytes.data() + 1, std::span<float>(f32));
    decode(type, bytes.data() + 1, std::span<double>(f64));
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(f64[i], load_as_f64(type, bytes.data() + 1, static_cast<std::int64_t>(i))) << name_of(type);
      EXPECT_EQ(f64[i], f32[i]) << name_of(type);
      const double error = std::fabs(f64[i] - std::min<double>(values[i], largest(type)));
      EXPECT_LE(error, unit_roundoff(type) * std::fabs(values[i]) + smallest_subnormal(type) / 2) << name_of(type);
    }
  }
}

TEST(Casts, IntegersDecodeToThemselves) {
  const std::array<std::int8_t, 3> bytes = {-128, -1, 127};
  const std::array<std::int32_t, 3> words = {std::numeric_limits<std::int32_t>::min(), -1, 2147483647};
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(load_as_f64(DType::i8, bytes.data(), i), bytes[static_cast<std::size_t>(i)]);
    EXPECT_EQ(load_as_f64(DType::s32, words.data(), i), words[static_cast<std::size_t>(i)]);
  }
}

}  // namespace
