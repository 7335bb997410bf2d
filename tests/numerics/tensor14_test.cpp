// SPDX-License-Identifier: Apache-2.0
// The bound of class tensor14: sums as such hardware makes them are within it whatever the data, and faults are not.
// Next door: faults_test.cpp (class f32).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/oracle_tile.h"
#include "backends/numerics/quantize.h"
#include "tests/numerics/fourteen_bits.h"

namespace {

using namespace ironcl::numerics;
using ironcl::testing::FourteenBits;
using ironcl::testing::Fp8Product;
using ironcl::testing::sum_in_fourteen_bits;

constexpr std::int64_t kM = 20, kN = 32, kGroup = 128;

enum class Values {
  normal,
  columns_of_twenty,
  heavy_tails,
  one_huge_column,
  one_sign,
  cancelling,
  all_codes,
  subnormal
};
constexpr std::array kValues = {Values::normal,          Values::columns_of_twenty, Values::heavy_tails,
                                Values::one_huge_column, Values::one_sign,          Values::cancelling,
                                Values::all_codes,       Values::subnormal};

const char* name_of_values(Values values) {
  constexpr const char* kNames[] = {
      "normal",      "some columns times 20",        "heavy tails", "a column times 300",
      "of one sign", "32 k that the next 32 cancel", "all codes",   "subnormal codes by all codes"};
  return kNames[static_cast<std::size_t>(values)];
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Codes [rows, K] with a scale for every 128 of k.
struct Matrix {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::int64_t rows, k;

  Operand operand() const {
    return {.dtype = DType::e4m3fn,
            .data = codes.data(),
            .rows = rows,
            .cols = k,
            .ld = k,
            .scale_dtype = DType::f32,
            .scales = scales.data(),
            .grid = {1, kGroup},
            .scale_ld = ceil_div(k, kGroup)};
  }
};

Matrix made(std::int64_t rows, std::int64_t k, Values values, bool activations, std::mt19937& random) {
  Matrix m{{}, {}, rows, k};
  m.codes.resize(at(rows * k));
  m.scales.resize(at(rows * ceil_div(k, kGroup)));
  if (values == Values::all_codes || values == Values::subnormal) {
    for (auto& code : m.codes) do
        code = static_cast<std::uint8_t>(random());
      while ((code & 0x7f) == 0x7f);
    if (activations && values == Values::subnormal)
      for (auto& code : m.codes) code &= 0x87;
    for (float& scale : m.scales) scale = 0.5f + static_cast<float>(random() % 1024) / 1024;
    return m;
  }
  std::normal_distribution<float> normal;
  std::student_t_distribution<float> heavy(2);
  const std::int64_t huge = static_cast<std::int64_t>(random()) % k;
  std::vector<float> x(m.codes.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t column = static_cast<std::int64_t>(i) % k;
    x[i] = values == Values::heavy_tails ? heavy(random) : normal(random);
    if (values == Values::one_sign || values == Values::cancelling) x[i] = std::fabs(x[i]);
    if (activations && values == Values::cancelling)
      x[i] = column % kGroup < 32 ? 1 + 0.1f * x[i] : column % kGroup < 64 ? -1 - 0.1f * x[i] : 0.004f * x[i];
    if (activations && values == Values::columns_of_twenty && column % 61 == 7) x[i] *= 20;
    if (activations && values == Values::one_huge_column && column == huge) x[i] *= 300;
  }
  quantize(DType::f32, x.data(), rows, k, k, DType::e4m3fn, {1, kGroup}, {}, m.codes, m.scales);
  return m;
}

constexpr auto kAsTheyCome = detail::kOrdersOfRuns[0];

/// D as the hardware makes it: sums of 128 products in 14 bits, scaled and added in f32.
std::vector<double> product(const Matrix& a, const Matrix& b, const std::array<int, 16>& order = kAsTheyCome,
                            const FourteenBits& unit = {}) {
  std::vector<double> d;
  std::vector<Fp8Product> products;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (std::int64_t col = 0; col < b.rows; ++col) {
      float total = 0;
      for (std::int64_t first = 0; first < a.k; first += kGroup) {
        const std::int64_t length = std::min(kGroup, a.k - first);
        products.clear();
        for (std::int64_t i = 0; i < kGroup; ++i) {
          const std::int64_t k = order[at(i / 8)] * 8 + i % 8;
          products.push_back(k >= length ? Fp8Product{}
                                         : Fp8Product::of(DType::e4m3fn, a.codes[at(row * a.k + first + k)],
                                                          DType::e4m3fn, b.codes[at(col * b.k + first + k)]));
        }
        const std::int64_t groups = ceil_div(a.k, kGroup), g = first / kGroup;
        total = std::fma(a.scales[at(row * groups + g)] * b.scales[at(col * groups + g)],
                         static_cast<float>(sum_in_fourteen_bits(products, unit)), total);
      }
      d.push_back(static_cast<double>(total));
    }
  }
  return d;
}

BoundTerms terms(std::int64_t k, DType out = DType::f32) {
  return {.out = out, .accuracy = AccuracyClass::tensor14, .k = k, .accumulation_length = kGroup};
}

OracleResult expected(const Matrix& a, const Matrix& b) {
  return oracle(a.operand(), b.operand(), DType::none, nullptr, AccuracyClass::tensor14);
}

TEST(Tensor14, WhatTheHardwareMakesIsWithinTheBoundForAnyData) {
  double most = 0;
  std::int64_t beyond_a_share_of_the_sum = 0;
  for (const std::int64_t k : {std::int64_t{128}, std::int64_t{256}, std::int64_t{448}, std::int64_t{4096}}) {
    for (const Values values : kValues) {
      double worst = 0;
      for (unsigned seed = 1; seed <= (k == 4096 ? 1u : 3u); ++seed) {
        std::mt19937 random(seed * 1000 + static_cast<unsigned>(k));
        const Matrix a = made(kM, k, values, true, random), b = made(kN, k, values, false, random);
        const OracleResult want = expected(a, b);
        for (const auto& order : detail::kOrdersOfRuns) {
          const std::vector<double> d = product(a, b, order);
          const Comparison c = compare(d, bounded(want, terms(k)));
          ASSERT_TRUE(c.pass) << name_of_values(values) << ", K = " << k << ", seed " << seed << ", order "
                              << order[1] << ": " << c.max_error_over_bound;
          worst = std::max(worst, c.max_error_over_bound);
          // The bound that was there before, a share of the sum of magnitudes: (G/32 + 1) 2^-13 of it.
          for (std::size_t i = 0; i < d.size(); ++i)
            beyond_a_share_of_the_sum += std::fabs(d[i] - want.value[i]) > 5 * 0x1p-13 * want.magnitude[i] ? 1 : 0;
        }
      }
      most = std::max(most, worst);
      std::cout << name_of_values(values) << ", K = " << k << ": " << worst << " of the bound\n";
    }
  }
  EXPECT_GT(beyond_a_share_of_the_sum, 0) << "these data do not try what a share of the sum would get wrong";
  EXPECT_GT(most, 0.1) << "the bound is far wider than what is ever lost";
  std::cout << beyond_a_share_of_the_sum << " elements lost more than 5 * 2^-13 of the sum of magnitudes\n";
}

TEST(Tensor14, SmallerStepsAreWithinTheBoundToo) {
  for (const Values values : kValues) {
    std::mt19937 random(7);
    const Matrix a = made(kM, 256, values, true, random), b = made(kN, 256, values, false, random);
    const Comparison c = compare(product(a, b, kAsTheyCome, {.step = 16}), bounded(expected(a, b), terms(256)));
    EXPECT_TRUE(c.pass) << name_of_values(values) << ": " << c.max_error_over_bound;
  }
}

TEST(Tensor14, FewerBitsAreCaught) {
  for (const Values values : kValues) {
    std::mt19937 random(8);
    const Matrix a = made(kM, 256, values, true, random), b = made(kN, 256, values, false, random);
    const Comparison c = compare(product(a, b, kAsTheyCome, {.bits = 7}), bounded(expected(a, b), terms(256)));
    EXPECT_FALSE(c.pass) << name_of_values(values) << ": " << c.max_error_over_bound;
  }
}

TEST(Tensor14, ClassF32RefusesIt) {
  std::mt19937 random(9);
  const Matrix a = made(kM, 256, Values::normal, true, random), b = made(kN, 256, Values::normal, false, random);
  BoundTerms f32 = terms(256);
  f32.accuracy = AccuracyClass::f32;
  EXPECT_FALSE(compare(product(a, b), bounded(expected(a, b), f32)).pass);
  // An oracle that was not asked for the class allows nothing for it.
  EXPECT_FALSE(compare(product(a, b), bounded(oracle(a.operand(), b.operand()), terms(256))).pass);
}

/// Elements beyond the bound when the hardware was given `bent` in place of a, among those of row 17.
std::int64_t caught(const Matrix& a, const Matrix& bent, const Matrix& b, DType out) {
  const OracleResult want = expected(a, b);
  std::vector<double> d = product(bent, b);
  for (double& x : d)
    x = out == DType::bf16 ? static_cast<double>(decode_bf16(encode_bf16(static_cast<float>(x)))) : x;
  const Comparison c = compare(d, bounded(want, terms(a.k, out)));
  for (std::size_t i = 0; i < d.size(); ++i) {
    if (static_cast<std::int64_t>(i) / kN == 17) continue;
    EXPECT_LE(std::fabs(d[i] - want.value[i]), element_bound(terms(a.k, out), want.value[i], want.sizes(i)));
  }
  return c.out_of_bounds;
}

TEST(Tensor14, FaultsAreCaught) {
  for (const std::int64_t k : {std::int64_t{256}, std::int64_t{1024}, std::int64_t{7168}}) {
    for (const Values values : {Values::normal, Values::columns_of_twenty}) {
      std::mt19937 random(static_cast<unsigned>(k));
      const Matrix a = made(kM, k, values, true, random), b = made(kN, k, values, false, random);
      const std::int64_t groups = k / kGroup;
      Matrix lost = a, neighbour = a, off = a, dropped = a, code = a, block = a;
      lost.scales[at(17 * groups)] = 1;
      neighbour.scales[at(17 * groups)] = 1.5f * a.scales[at(17 * groups + 1)];
      off.scales[at(17 * groups)] *= 1.05f;
      // Of one group the largest code, and any.
      const auto first = a.codes.begin() + 17 * k;
      const auto largest = std::max_element(first, first + kGroup,
                                            [](std::uint8_t x, std::uint8_t y) { return (x & 0x7f) < (y & 0x7f); });
      dropped.codes[at(largest - a.codes.begin())] = 0;
      code.codes[at(largest - a.codes.begin())] ^= 0x80;
      for (std::int64_t i = 0; i < 32; ++i) block.codes[at(17 * k + 32 + i)] = 0;  // An instruction left out.
      for (const DType out : {DType::f32, DType::bf16}) {
        const auto share = [&](const Matrix& bent) { return static_cast<double>(caught(a, bent, b, out)) / kN; };
        const double shares[] = {share(lost),    share(neighbour), share(off),
                                 share(dropped), share(code),      share(block)};
        std::cout << name_of_values(values) << ", K = " << k << ", " << name_of(out)
                  << ": caught of a row: scale lost " << shares[0] << ", another's times 1.5 " << shares[1]
                  << ", 5 % off " << shares[2] << ", largest code left out " << shares[3] << ", its sign wrong "
                  << shares[4] << ", an instruction left out " << shares[5] << "\n";
        EXPECT_GT(shares[0], 0.75);
        // What less does to one group of many is often less than what all of them may lose.
        for (const int fault : {1, 3, 4, 5}) {
          if (k == 256) {
            EXPECT_GT(shares[fault], 0.5) << fault;
          }
          if (k == 1024 && (fault == 3 || fault == 4)) {
            EXPECT_GT(shares[fault], 0.3) << fault;
          }
        }
      }
    }
  }
}

}  // namespace
