// SPDX-License-Identifier: Apache-2.0
// Every entry of tests/data/casts.safetensors: what ml_dtypes 0.6.0 makes of all bf16 and f16 bit patterns and of
// hard f32 values. Its casts do not saturate, and any NaN code stands for NaN.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "backends/numerics/casts.h"
#include "tests/numerics/safetensors_file.h"

namespace {

using namespace ironcl::numerics;
using ironcl::test::SafetensorsFile;

const SafetensorsFile& golden() {
  static const SafetensorsFile file(ironcl::test::repository_data("casts.safetensors"));
  return file;
}

bool same_code(std::uint8_t got, std::uint8_t want, float (*decode)(std::uint8_t)) {
  return got == want || (std::isnan(decode(got)) && std::isnan(decode(want)));
}

// Casts each source value and compares with the golden byte; reports the first difference and the number of them.
template <class Source>
void expect_golden(const std::string& table, const std::vector<Source>& source, float (*to_f32)(Source),
                   std::uint8_t (*encode)(float, Overflow), float (*decode)(std::uint8_t)) {
  const auto want = golden()[table].as<std::uint8_t>();
  ASSERT_EQ(want.size(), source.size());
  int wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const float value = to_f32(source[i]);
    const std::uint8_t got = encode(value, Overflow::plain);
    if (!same_code(got, want[i], decode) && wrong++ == 0) {
      ADD_FAILURE() << table << " entry " << i << ": " << value << " gives " << int{got} << ", expected "
                    << int{want[i]};
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << want.size() << " entries of " << table;
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}
float same(float value) { return value; }

TEST(CastsGolden, Bf16ToE4m3fnForAllPatterns) {
  expect_golden<std::uint16_t>("bf16_e4m3fn", all_patterns(), decode_bf16, encode_e4m3fn, decode_e4m3fn);
}
TEST(CastsGolden, Bf16ToE5m2ForAllPatterns) {
  expect_golden<std::uint16_t>("bf16_e5m2", all_patterns(), decode_bf16, encode_e5m2, decode_e5m2);
}
TEST(CastsGolden, F16ToE4m3fnForAllPatterns) {
  expect_golden<std::uint16_t>("f16_e4m3fn", all_patterns(), decode_f16, encode_e4m3fn, decode_e4m3fn);
}
TEST(CastsGolden, F16ToE5m2ForAllPatterns) {
  expect_golden<std::uint16_t>("f16_e5m2", all_patterns(), decode_f16, encode_e5m2, decode_e5m2);
}
TEST(CastsGolden, HardF32ValuesToE4m3fn) {
  expect_golden<float>("f32_e4m3fn", golden()["f32"].as<float>(), same, encode_e4m3fn, decode_e4m3fn);
}
TEST(CastsGolden, HardF32ValuesToE5m2) {
  expect_golden<float>("f32_e5m2", golden()["f32"].as<float>(), same, encode_e5m2, decode_e5m2);
}

void expect_decoding(const std::string& table, float (*decode)(std::uint8_t)) {
  const auto want = golden()[table].as<float>();
  ASSERT_EQ(want.size(), 256u);
  for (int code = 0; code < 256; ++code) {
    const float got = decode(static_cast<std::uint8_t>(code));
    const float expected = want[static_cast<std::size_t>(code)];
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << table << " code " << code << " gives " << got;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected))
          << table << " code " << code;
    }
  }
}

TEST(CastsGolden, DecodesEveryE4m3fnCode) { expect_decoding("decode_e4m3fn", decode_e4m3fn); }
TEST(CastsGolden, DecodesEveryE5m2Code) { expect_decoding("decode_e5m2", decode_e5m2); }
TEST(CastsGolden, DecodesEveryE8m0Code) { expect_decoding("decode_e8m0", decode_e8m0); }

}  // namespace
