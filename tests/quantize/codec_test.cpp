// SPDX-License-Identifier: Apache-2.0
// Rows into codes and scales and back: the rules of codec.h, and the edges that docs/quantize.md promises.
#include "host/quantize/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"

namespace ironcl::quantize {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

struct Matrix {
  std::vector<std::byte> codes, scales;
  std::vector<float> back;
  std::uint8_t code(std::size_t i) const { return std::to_integer<std::uint8_t>(codes[i]); }
};

Scheme scheme_of(const std::string& name, const std::string& type = {}, const std::string& scale_type = {}) {
  return make_format({.scheme = name, .type = type, .scale_type = scale_type}).scheme;
}

/// In and out again; `amax` as a caller finds it.
Matrix round_trip(const Scheme& scheme, const std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
  float amax = 0;
  for (const float value : x) amax = std::isnan(value) || std::isnan(amax) ? kNaN : std::max(amax, std::abs(value));
  Matrix made;
  made.codes.resize(static_cast<std::size_t>(rows * numerics::bytes_of(scheme.code, cols)));
  made.scales.resize(static_cast<std::size_t>(scheme.grid.scale_rows(rows) * scheme.grid.scale_cols(cols)) *
                     numerics::size_of(scheme.scale));
  made.back.resize(x.size());
  encode(scheme, x, rows, cols, amax, {made.codes, made.scales});
  decode(scheme, made.codes, made.scales, rows, cols, global_scale(scheme, amax), made.back);
  return made;
}

std::vector<float> heavy(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::student_t_distribution<float> t(4);
  std::vector<float> x(count);
  for (float& value : x) value = t(random);
  return x;
}

float scale_at(const Scheme& scheme, const Matrix& made, std::int64_t i) {
  return static_cast<float>(numerics::load_as_f64(scheme.scale, made.scales.data(), i));
}

/// One scale, one code: the product of a stripe of the whole and of its parts is the same.
TEST(QuantizeCodec, GivesTheBytesOfTheQuantiserOfActivations) {
  constexpr std::int64_t rows = 70, cols = 150;  // partial blocks both ways
  const std::vector<float> x = heavy(rows * cols);
  for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    for (const ScaleGrid grid : {ScaleGrid{32, 32}, ScaleGrid{1, 0}, ScaleGrid{0, 0}, ScaleGrid{128, 128}}) {
      const Scheme scheme{.code = type, .grid = grid, .scale = DType::f32};
      const Matrix made = round_trip(scheme, x, rows, cols);
      std::vector<std::uint8_t> codes(x.size());
      std::vector<float> scales(made.scales.size() / 4);
      numerics::quantize(DType::f32, x.data(), rows, cols, cols, type, grid, {}, codes, scales);
      EXPECT_EQ(std::memcmp(codes.data(), made.codes.data(), codes.size()), 0);
      EXPECT_EQ(std::memcmp(scales.data(), made.scales.data(), made.scales.size()), 0);
    }
  }
}

TEST(QuantizeCodec, DividesByTheScaleAsItIsStored) {
  std::vector<float> x = heavy(4096);
  x[0] = 30;  // 30 / 448 is none of bf16
  const Scheme scheme = scheme_of("channel", "", "bf16");
  const Matrix made = round_trip(scheme, x, 1, 4096);
  const float exact = 30.0f / 448, stored = numerics::decode_bf16(numerics::encode_bf16(exact));
  EXPECT_EQ(scale_at(scheme, made, 0), stored);
  int other = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(made.code(i), numerics::quantize_one(x[i], stored, DType::e4m3fn));
    other += made.code(i) != numerics::quantize_one(x[i], exact, DType::e4m3fn) ? 1 : 0;
  }
  EXPECT_GT(other, 10);
}

TEST(QuantizeCodec, Mxfp8ScalesNeverSaturate) {
  for (const float top : {448.0f, std::nextafter(448.0f, 500.0f), 449.0f, 464.0f, 1.0f, 0.875f, 0.876f}) {
    std::vector<float> x(32, 0.0f);
    x[3] = top;
    const Scheme scheme = scheme_of("mxfp8");
    const Matrix made = round_trip(scheme, x, 1, 32);
    EXPECT_LE(top / scale_at(scheme, made, 0), 448) << top;
    EXPECT_GT(top / scale_at(scheme, made, 0), 223) << top;
  }
}

TEST(QuantizeCodec, Mxfp4TakesTheNextPowerFromSevenFourthsOn) {
  const Scheme scheme = scheme_of("mxfp4");
  for (const auto& [top, scale] :
       {std::pair{4.0f, 1.0f}, {6.99f, 1.0f}, {7.0f, 2.0f}, {1.0f, 0.25f}, {0.0f, 0x1p-127f}}) {
    std::vector<float> x(32, 0.0f);
    x[0] = top;
    EXPECT_EQ(scale_at(scheme, round_trip(scheme, x, 1, 32), 0), scale) << top;
  }
}

TEST(QuantizeCodec, PacksTheFirstOfTwoFourBitCodesInTheLowerHalf) {
  std::vector<float> x(32, 0.0f);
  x[0] = 0.5f, x[1] = 1.0f, x[2] = -6.0f, x[3] = 4.0f;
  const Matrix made = round_trip(scheme_of("mxfp4"), x, 1, 32);
  EXPECT_EQ(made.code(0), 0x21);
  EXPECT_EQ(made.code(1), 0x6f);
  EXPECT_EQ(made.back, x);
}

TEST(QuantizeCodec, Nvfp4GivesTheLargestGroupTheLargestScale) {
  std::vector<float> x = heavy(4 * 32);
  x[17] = 30;
  for (const char* dialect : {"compressed-tensors", "modelopt"}) {
    const Scheme scheme = make_format({.scheme = "nvfp4", .dialect = dialect}).scheme;
    const Matrix made = round_trip(scheme, x, 4, 32);
    EXPECT_EQ(scale_at(scheme, made, 1), 448);
    EXPECT_NEAR(made.back[17], 30, 1e-5);
    const float global = global_scale(scheme, 30);
    EXPECT_NEAR(scheme.global_divides ? 1 / global : global, 30.0 / 2688, 1e-8);
  }
}

struct Edge {
  const char* what;
  float value;
};

TEST(QuantizeCodec, ZerosComeBackAsZerosUnderAFiniteScale) {
  for (const char* name : {"block", "channel", "tensor", "mxfp8", "mxfp4", "nvfp4"}) {
    const Scheme scheme = scheme_of(name);
    std::vector<float> x(64, 0.0f);
    x[1] = -0.0f;
    const Matrix made = round_trip(scheme, x, 1, 64);
    EXPECT_GT(scale_at(scheme, made, 0), 0) << name;
    EXPECT_TRUE(std::isfinite(scale_at(scheme, made, 0))) << name;
    EXPECT_EQ(made.back, x) << name;
  }
}

TEST(QuantizeCodec, ANonFiniteValueSpoilsItsGroupAloneAndVisibly) {
  for (const float bad : {kInfinity, -kInfinity, kNaN}) {
    for (const char* name : {"block", "channel", "mxfp8", "mxfp4"}) {
      const Scheme scheme = scheme_of(name);
      const std::int64_t cols = std::string(name) == "block" ? 256 : 64;
      std::vector<float> x(static_cast<std::size_t>(2 * cols), 1.0f);
      x[5] = bad;
      const Matrix made = round_trip(scheme, x, 2, cols);
      EXPECT_TRUE(std::isnan(scale_at(scheme, made, 0))) << name << bad;
      EXPECT_TRUE(std::isnan(made.back[0])) << name << bad;
      EXPECT_NEAR(made.back.back(), 1, 0.07) << name << bad;  // of another row, or of another block
    }
  }
}

TEST(QuantizeCodec, ValuesOf448And464AreWhatTheirScaleMakesOfThem) {
  // As the largest of a group each is code 448; under the scale 1 of a larger neighbour's group, 464 is none.
  for (const float top : {448.0f, 464.0f}) {
    const Matrix made = round_trip(scheme_of("channel"), {top, 1.0f}, 1, 2);
    EXPECT_EQ(made.code(0), 0x7e) << top;
    EXPECT_NEAR(made.back[0], top, top * 1e-6) << top;
  }
  const Matrix made = round_trip(scheme_of("mxfp8"), std::vector<float>(32, 464.0f), 1, 32);
  EXPECT_EQ(made.back[0], 448);  // 232 by a scale of 2: a tie, to the even code
}

TEST(QuantizeCodec, SubnormalValuesAreKeptAsFarAsTheScaleReaches) {
  const Scheme scheme = scheme_of("channel");
  std::vector<float> x = {0x1p-130f, 0x1p-149f};
  EXPECT_EQ(round_trip(scheme, x, 1, 2).back, (std::vector<float>{0, 0}));  // below 1e-10 / 448 / 2^10
  x = {1e-10f, 1e-13f};
  const Matrix made = round_trip(scheme, x, 1, 2);
  EXPECT_NEAR(made.back[0], 1e-10f, 1e-16f);
  EXPECT_NEAR(made.back[1], 1e-13f, 1e-13f / 8);
}

TEST(QuantizeCodec, OneElementAndNoneAtAll) {
  EXPECT_NEAR(round_trip(scheme_of("block"), {-3.0f}, 1, 1).back[0], -3, 1e-6);
  EXPECT_TRUE(round_trip(scheme_of("block"), {}, 0, 5).scales.empty());
}

TEST(QuantizeCodec, LossesAddUp) {
  Loss loss, other;
  loss.add(std::vector<float>{4, 1, -2, kInfinity}, std::vector<float>{1, 0, -2, 1});
  other.add(std::vector<float>{8}, std::vector<float>{8});
  other.add(loss);
  EXPECT_EQ(other.largest_error, 3);
  EXPECT_EQ(other.mean_error(), 1);
  EXPECT_EQ(other.zeroed_share(), 0.25);
  EXPECT_EQ(other.nonfinite, 1);
  EXPECT_NEAR(other.snr_db(), 10 * std::log10(85 / 10.0), 1e-12);
  Loss lost;
  lost.add(std::vector<float>{kInfinity}, std::vector<float>{1});
  EXPECT_TRUE(std::isnan(lost.snr_db())) << "nothing is left of it";
}

TEST(QuantizeCodec, FinerGridsLoseLessOfHeavyTails) {
  constexpr std::int64_t rows = 256, cols = 512;
  std::vector<float> x = heavy(rows * cols, 3);
  for (std::size_t i = 0; i < x.size(); i += 1013) x[i] *= 200;
  const auto noise = [&](const Scheme& scheme) {
    const Matrix made = round_trip(scheme, x, rows, cols);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(made.back[i] - x[i], 2);
    return sum;
  };
  // int8 has one step over the whole range, so that a coarse scale costs most.
  const double tensor = noise({DType::i8, {0, 0}, DType::f32}), channel = noise({DType::i8, {1, 0}, DType::f32}),
               block = noise({DType::i8, {1, 128}, DType::f32});
  EXPECT_GT(tensor, 2 * channel);
  EXPECT_GT(channel, 2 * block);
}

}  // namespace
}  // namespace ironcl::quantize
