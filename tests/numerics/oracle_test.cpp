// SPDX-License-Identifier: Apache-2.0
// The oracle against three plain loops, over types, grids, ragged shapes, threads, and non-finite values.
#include "backends/numerics/oracle.h"
#include "backends/numerics/oracle_tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "backends/numerics/casts.h"
#include "tests/errors.h"

namespace {

using namespace ironcl::numerics;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An operand with its data.
struct Matrix {
  std::vector<unsigned char> bytes, scale_bytes;
  Operand operand;
};

// Random finite codes and scales of the types asked for, with `pad` elements between rows.
Matrix make(std::int64_t rows, std::int64_t cols, DType type, DType scale_type, ScaleGrid grid, unsigned seed,
            std::int64_t pad = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Matrix m;
  const std::int64_t ld = cols + pad;
  m.bytes.resize(static_cast<std::size_t>(rows * ld * size_of(type)));
  if (type == DType::i8) {
    for (auto& byte : m.bytes) byte = static_cast<unsigned char>(generator());
  } else {
    std::vector<float> values(static_cast<std::size_t>(rows * ld));
    for (float& value : values) value = 20 * normal(generator);
    encode(type, values, m.bytes.data(), Overflow::saturate);
  }
  m.operand = {.dtype = type,
               .data = m.bytes.data(),
               .rows = rows,
               .cols = cols,
               .ld = ld,
               .scale_dtype = scale_type,
               .grid = grid};
  if (scale_type != DType::none) {
    m.operand.scale_ld = grid.scale_cols(cols) + (pad != 0 ? 3 : 0);
    std::vector<float> scales(static_cast<std::size_t>(grid.scale_rows(rows) * m.operand.scale_ld));
    for (float& scale : scales)
      scale = std::ldexp(1 + std::fabs(normal(generator)), static_cast<int>(generator() % 13) - 6);
    m.scale_bytes.resize(scales.size() * size_of(scale_type));
    encode(scale_type, scales, m.scale_bytes.data());
    m.operand.scales = m.scale_bytes.data();
  }
  return m;
}

double scale_of(const Operand& operand, std::int64_t row, std::int64_t col) {
  if (operand.scale_dtype == DType::none) return 1;
  const std::int64_t group_rows = operand.grid.group_rows == 0 ? operand.rows : operand.grid.group_rows;
  const std::int64_t group_cols = operand.grid.group_cols == 0 ? operand.cols : operand.grid.group_cols;
  return load_as_f64(operand.scale_dtype, operand.scales, row / group_rows * operand.scale_ld + col / group_cols);
}

double element(const Operand& operand, std::int64_t row, std::int64_t col) {
  return load_as_f64(operand.dtype, operand.data, row * operand.ld + col) * scale_of(operand, row, col);
}

void expect_three_loops(const Operand& a, const Operand& b, const OracleResult& got) {
  ASSERT_EQ(got.rows, a.rows);
  ASSERT_EQ(got.cols, b.rows);
  for (std::int64_t m = 0; m < a.rows; ++m) {
    for (std::int64_t n = 0; n < b.rows; ++n) {
      double value = 0, magnitude = 0;
      for (std::int64_t k = 0; k < a.cols; ++k) {
        const double product = element(a, m, k) * element(b, n, k);
        value += product;
        magnitude += std::fabs(product);
      }
      const auto at = static_cast<std::size_t>(m * b.rows + n);
      const double slack = (static_cast<double>(a.cols) + 8) * 0x1p-52 * magnitude;
      ASSERT_LE(std::fabs(got.value[at] - value), slack) << "m " << m << " n " << n;
      ASSERT_LE(std::fabs(got.magnitude[at] - magnitude), slack) << "m " << m << " n " << n;
    }
  }
}

struct Shape {
  std::int64_t m, n, k;
};

TEST(Oracle, AgreesWithThreeLoopsForRaggedShapesAndGrids) {
  const Shape shapes[] = {{1, 1, 1},      {3, 5, 7},      {6, 8, 128},  {7, 9, 129},
                          {17, 130, 300}, {97, 129, 257}, {2, 600, 520}};
  const std::pair<ScaleGrid, ScaleGrid> grids[] = {{{1, 128}, {128, 128}},   {{1, 0}, {1, 0}},
                                                   {{0, 0}, {0, 0}},         {{1, 64}, {128, 96}},
                                                   {{256, 256}, {256, 256}}, {{1, 32}, {16, 0}}};
  unsigned seed = 100;
  for (const auto& [m, n, k] : shapes) {
    for (const auto& [grid_a, grid_b] : grids) {
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " seed " << seed);
      const Matrix a = make(m, k, DType::e4m3fn, DType::f32, grid_a, seed++, 2);
      const Matrix b = make(n, k, DType::e4m3fn, DType::f32, grid_b, seed++, 5);
      expect_three_loops(a.operand, b.operand, oracle(a.operand, b.operand));
    }
  }
}

TEST(Oracle, TakesEveryElementAndScaleType) {
  unsigned seed = 300;
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3fn, DType::e5m2, DType::i8}) {
    for (const DType scale_type : {DType::none, DType::f32, DType::f16, DType::bf16, DType::e8m0}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " scales " << name_of(scale_type) << " seed " << seed);
      const Matrix a = make(9, 150, type, scale_type, {1, 64}, seed++);
      const Matrix b = make(11, 150, DType::e5m2, scale_type, {8, 32}, seed++);
      expect_three_loops(a.operand, b.operand, oracle(a.operand, b.operand));
    }
  }
}

// By the definition of docs/numerics.md, of products of one element and of one stretch of k: `sizes` as if no code
// were subnormal, and the order of their runs of eight.
double cut_of(const std::vector<double>& products, const std::vector<double>& sizes,
              const std::array<int, 16>& order) {
  double cut = 0, before = 0;
  for (std::size_t instruction = 0; instruction < 4; ++instruction) {
    std::vector<std::size_t> taken;
    for (std::size_t run = 4 * instruction; run < 4 * instruction + 4; ++run)
      for (std::size_t k = 8 * static_cast<std::size_t>(order[run]); k < 8 * static_cast<std::size_t>(order[run]) + 8;
           ++k)
        if (k < products.size()) taken.push_back(k);
    double sum = 0, largest = std::fabs(before) + cut, terms = 2;
    for (const std::size_t k : taken) sum += products[k], largest = std::max(largest, sizes[k]);
    largest = std::max({largest, std::fabs(sum), std::fabs(before + sum) + cut});
    for (const std::size_t k : taken) terms += sizes[k] != 0 && sizes[k] < 0x1.08p-6 * largest ? 1 : 0;
    cut += terms * 0x1.08p-13 * largest;
    before += sum;
  }
  return cut;
}

TEST(Oracle, SaysWhatFourteenBitsMayLose) {
  // Groups, and what kernels then add up before they promote it.
  for (const auto& [group, stretch] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {128, 128}, {512, 128}, {256, 128}, {192, 64}, {96, 32}, {64, 64}}) {
    Matrix a = make(13, 300, DType::e4m3fn, DType::e8m0, {1, group}, 1);
    for (std::size_t k = 0; k < 300; ++k) a.bytes[k] = static_cast<unsigned char>(1 + k % 7);  // All subnormal.
    const Matrix b = make(21, 300, DType::e5m2, DType::e8m0, {8, 0}, 2);
    const OracleResult got = oracle(a.operand, b.operand, DType::none, nullptr, AccuracyClass::tensor14);
    ASSERT_EQ(got.cut.size(), std::size_t{13 * 21});
    for (std::int64_t m = 0; m < 13; ++m) {
      for (std::int64_t n = 0; n < 21; ++n) {
        double cut = 0;
        for (std::int64_t first = 0; first < 300; first += stretch) {
          std::vector<double> products, sizes;
          for (std::int64_t k = first; k < std::min<std::int64_t>(first + stretch, 300); ++k) {
            const double x = element(a.operand, m, k), y = element(b.operand, n, k);
            const double least_x = 0x1p-6 * scale_of(a.operand, m, k), least_y = 0x1p-14 * scale_of(b.operand, n, k);
            products.push_back(x * y);
            sizes.push_back(x * y == 0 ? 0 : std::max(std::fabs(x), least_x) * std::max(std::fabs(y), least_y));
          }
          double most = 0;
          for (const auto& order : detail::kOrdersOfRuns) most = std::max(most, cut_of(products, sizes, order));
          cut += most;
        }
        ASSERT_NEAR(got.cut[static_cast<std::size_t>(m * 21 + n)], cut, 1e-9 * cut) << "m " << m << " n " << n;
      }
    }
    EXPECT_TRUE(oracle(a.operand, b.operand).cut.empty()) << "it was not asked for";
  }
}

TEST(Oracle, DoesNotDependOnTheNumberOfThreads) {
  const Matrix a = make(201, 300, DType::e4m3fn, DType::f32, {1, 128}, 1);
  const Matrix b = make(333, 300, DType::e4m3fn, DType::f32, {128, 128}, 2);
  const OracleResult one = oracle(a.operand, b.operand, DType::none, nullptr, AccuracyClass::tensor14, 1);
  for (const unsigned threads : {0u, 2u, 3u, 16u}) {
    const OracleResult more = oracle(a.operand, b.operand, DType::none, nullptr, AccuracyClass::tensor14, threads);
    EXPECT_EQ(one.value, more.value) << threads;
    EXPECT_EQ(one.cut, more.cut) << threads;
    EXPECT_EQ(one.magnitude, more.magnitude) << threads;
  }
}

TEST(Oracle, AddsTheBiasToValueAndItsMagnitudeToMagnitude) {
  const Matrix a = make(3, 40, DType::e4m3fn, DType::none, {}, 1);
  const Matrix b = make(4, 40, DType::e4m3fn, DType::none, {}, 2);
  const OracleResult plain = oracle(a.operand, b.operand);
  const std::vector<float> bias = {0.5f, -3.0f, 100.0f, 0.0f};
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<unsigned char> bytes(bias.size() * size_of(type));
    encode(type, bias, bytes.data());
    const OracleResult got = oracle(a.operand, b.operand, type, bytes.data());
    for (std::size_t i = 0; i < got.value.size(); ++i) {
      EXPECT_EQ(got.value[i], plain.value[i] + static_cast<double>(bias[i % 4]));
      EXPECT_EQ(got.magnitude[i], plain.magnitude[i] + std::fabs(static_cast<double>(bias[i % 4])));
    }
  }
}

TEST(Oracle, CountsANegativeScaleByItsSizeInTheMagnitude) {
  const Matrix a = make(2, 40, DType::e4m3fn, DType::f32, {1, 0}, 1);
  const Matrix b = make(3, 40, DType::e4m3fn, DType::f32, {1, 0}, 2);
  const std::vector<float> negative = {-1.0f, -1.0f};
  Operand one = a.operand, minus = a.operand;
  const std::vector<float> positive = {1.0f, 1.0f};
  one.scales = positive.data();
  minus.scales = negative.data();
  const OracleResult with = oracle(one, b.operand), without = oracle(minus, b.operand);
  for (std::size_t i = 0; i < with.value.size(); ++i) EXPECT_EQ(without.value[i], -with.value[i]);
  EXPECT_EQ(without.magnitude, with.magnitude);
  EXPECT_GT(*std::min_element(with.magnitude.begin(), with.magnitude.end()), 0);
}

TEST(Oracle, GivesZerosWhereKIsZeroAndNothingWhereDIsEmpty) {
  const Matrix a = make(2, 0, DType::e4m3fn, DType::f32, {1, 128}, 1);
  const Matrix b = make(3, 0, DType::e4m3fn, DType::f32, {128, 128}, 2);
  EXPECT_EQ(oracle(a.operand, b.operand).value, std::vector<double>(6, 0.0));
  const std::vector<float> bias = {1, 2, 3};
  EXPECT_EQ(oracle(a.operand, b.operand, DType::f32, bias.data()).value, (std::vector<double>{1, 2, 3, 1, 2, 3}));
  const Matrix none = make(0, 128, DType::e4m3fn, DType::f32, {1, 128}, 1);
  const Matrix some = make(3, 128, DType::e4m3fn, DType::f32, {128, 128}, 2);
  EXPECT_TRUE(oracle(none.operand, some.operand).value.empty());
  EXPECT_EQ(oracle(some.operand, none.operand).rows, 3);
}

// One row times one row, f32 elements without scales or with one a group of two.
OracleResult dot(std::vector<float> a, std::vector<float> b, const std::vector<float>& scales = {}) {
  const auto k = static_cast<std::int64_t>(a.size());
  Operand left{.dtype = DType::f32, .data = a.data(), .rows = 1, .cols = k, .ld = k};
  const Operand right{.dtype = DType::f32, .data = b.data(), .rows = 1, .cols = k, .ld = k};
  if (!scales.empty()) {
    left.scale_dtype = DType::f32;
    left.scales = scales.data();
    left.grid = {1, 2};
    left.scale_ld = static_cast<std::int64_t>(scales.size());
  }
  return oracle(left, right);
}

TEST(Oracle, SpreadsNaNFromElementsAndScales) {
  const auto nan = static_cast<float>(kNaN);
  EXPECT_TRUE(std::isnan(dot({1, nan}, {1, 0}).value[0]));
  EXPECT_TRUE(std::isnan(dot({1, nan}, {1, 0}).magnitude[0]));
  EXPECT_TRUE(std::isnan(dot({1, 1, 0, 0}, {1, 1, 1, 1}, {1, nan}).value[0]));
  EXPECT_TRUE(std::isnan(dot({1, 1, 0, 0}, {1, 1, 1, 1}, {1, nan}).magnitude[0]));
}

TEST(Oracle, TreatsInfinitiesAsIeeeDoes) {
  const auto inf = static_cast<float>(kInfinity);
  EXPECT_EQ(dot({1, inf}, {1, 2}).value[0], kInfinity);
  EXPECT_EQ(dot({1, -inf}, {1, 2}).value[0], -kInfinity);
  EXPECT_TRUE(std::isnan(dot({1, inf}, {1, 0}).value[0])) << "infinity times zero";
  EXPECT_TRUE(std::isnan(dot({inf, -inf}, {1, 1}).value[0])) << "infinity minus infinity";
  EXPECT_EQ(dot({1, 1, 1, 1}, {1, 1, 1, 1}, {1, inf}).value[0], kInfinity);
}

TEST(Oracle, PutsANaNWhereItBelongsAndNowhereElse) {
  Matrix a = make(13, 200, DType::e4m3fn, DType::f32, {1, 128}, 1);
  const Matrix b = make(21, 200, DType::e4m3fn, DType::f32, {128, 128}, 2);
  a.bytes[6 * 200 + 150] = 0x7f;
  const OracleResult got = oracle(a.operand, b.operand);
  for (std::int64_t m = 0; m < 13; ++m) {
    for (std::int64_t n = 0; n < 21; ++n) {
      EXPECT_EQ(std::isnan(got.value[static_cast<std::size_t>(m * 21 + n)]), m == 6) << m << " " << n;
    }
  }
}

TEST(Oracle, RefusesOperandsThatDoNotFitAndNamesThem) {
  const Matrix a = make(2, 128, DType::e4m3fn, DType::f32, {1, 64}, 1);
  const Matrix b = make(3, 128, DType::e4m3fn, DType::f32, {1, 64}, 2);
  const auto message = [&](auto change) {
    Operand left = a.operand, right = b.operand;
    change(left, right);
    return ironcl::error_of<std::invalid_argument>([&] { oracle(left, right); });
  };
  EXPECT_EQ(message([](Operand&, Operand&) {}), "");
  EXPECT_NE(message([](Operand& l, Operand&) { l.cols = 127; }).find("k = 127, b has k = 128"), std::string::npos);
  EXPECT_NE(message([](Operand&, Operand& r) { r.ld = 100; }).find("operand b: the leading dimension is 100"),
            std::string::npos);
  EXPECT_NE(
      message([](Operand& l, Operand&) { l.scale_ld = 1; }).find("operand a: the leading dimension of the scales"),
      std::string::npos);
  EXPECT_NE(message([](Operand& l, Operand&) { l.dtype = DType::none; }).find("no element type"), std::string::npos);
  EXPECT_NE(message([](Operand& l, Operand&) { l.scales = nullptr; }).find("no scales"), std::string::npos);
  EXPECT_NE(message([](Operand& l, Operand&) { l.rows = -1; }).find("-1 x 128"), std::string::npos);
  EXPECT_THROW(oracle(a.operand, b.operand, DType::f32, nullptr), std::invalid_argument);
}

TEST(Oracle, DecodesAnOperandWithItsScales) {
  const Matrix a = make(5, 70, DType::e4m3fn, DType::bf16, {2, 32}, 4, 3);
  const std::vector<double> values = decode_operand(a.operand);
  ASSERT_EQ(values.size(), 350u);
  for (std::int64_t i = 0; i < 350; ++i)
    EXPECT_EQ(values[static_cast<std::size_t>(i)], element(a.operand, i / 70, i % 70));
}

}  // namespace
