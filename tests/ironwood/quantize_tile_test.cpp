// SPDX-License-Identifier: Apache-2.0
// The quantiser of a tile in VMEM against numerics::quantize.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/ironwood/quantize_tile.h"
#include "backends/numerics/quantize.h"
#include "tests/ironwood/harness.h"

namespace ironcl::ironwood::testing {
namespace {

TEST(IronwoodQuantiser, AgreesWithTheReferenceOnEveryPatternClass) {
  std::mt19937_64 random(7);
  std::vector<float> x;
  for (int i = 0; i < 400'000; ++i) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  // Around every code, tie and limit.
  for (std::uint32_t bits = 0x3a000000; bits < 0x44000000; bits += 0x8000) {
    for (const std::uint32_t nudge : {bits - 1, bits, bits + 1}) {
      x.push_back(std::bit_cast<float>(nudge));
      x.push_back(-std::bit_cast<float>(nudge));
    }
  }
  std::vector<std::uint8_t> codes(x.size());
  for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    for (const float scale : {1.0f, 0.3f, 1e-30f, 1e-42f, 1e30f, std::numeric_limits<float>::quiet_NaN()}) {
      quantize_run(type, x, scale, codes.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint8_t want = numerics::quantize_one(x[i], scale, type);
        const bool both_nan = type == DType::e4m3fn && (codes[i] & 0x7f) == 0x7f && (want & 0x7f) == 0x7f;
        ASSERT_TRUE(codes[i] == want || both_nan)
            << numerics::name_of(type) << " of x " << std::hexfloat << x[i] << " scale " << scale << ": "
            << int{codes[i]} << ", want " << int{want};
      }
    }
  }
}

TEST(IronwoodQuantiser, MakesTheScalesOfEveryGrid) {
  std::mt19937_64 random(8);
  std::normal_distribution<float> normal;
  const std::int64_t rows = 131, cols = 300;
  std::vector<float> x(static_cast<std::size_t>(rows * cols));
  for (float& value : x) value = normal(random);
  std::fill(x.begin(), x.begin() + 128, 0.0f);
  x[5 * 300 + 299] = std::numeric_limits<float>::infinity();
  for (const numerics::ScaleGrid grid :
       {numerics::ScaleGrid{1, 128}, {128, 128}, {1, 0}, {0, 0}, {256, 256}, {1, 32}, {64, 64}}) {
    for (const auto rounding : {numerics::ScaleRounding::exact, numerics::ScaleRounding::power_of_two}) {
      const numerics::Quantizer quantizer{.rounding = rounding};
      for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
        std::vector<std::uint8_t> q(x.size());
        const std::int64_t scale_cols = grid.scale_cols(cols);
        std::vector<float> want(static_cast<std::size_t>(grid.scale_rows(rows) * scale_cols)), got(want.size());
        numerics::quantize(DType::f32, x.data(), rows, cols, cols, type, grid, quantizer, q, want);
        make_scales(DType::f32, x.data(), rows, cols, cols, type, grid, quantizer, got.data(), scale_cols, 1);
        for (std::size_t i = 0; i < want.size(); ++i) {
          ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ironcl::ironwood::testing
