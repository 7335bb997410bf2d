// SPDX-License-Identifier: Apache-2.0
// What the bound is for: correct f32 accumulation in any usual order is never refused, and small faults are caught
// where averages over the whole result do not see them. 64 x 256 outputs, normal data, e4m3fn, scales 1 x G and G x
// G.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <vector>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"

namespace {

using namespace ironcl::numerics;

constexpr std::int64_t kM = 64, kN = 256;

enum class Order { serial, fused, pairwise };

struct Case {
  std::int64_t k, group;
};
void PrintTo(const Case& c, std::ostream* out) { *out << "K=" << c.k << " G=" << c.group; }

float round_to(DType type, float value) {
  return type == DType::f16    ? decode_f16(encode_f16(value))
         : type == DType::bf16 ? decode_bf16(encode_bf16(value))
                               : value;
}

// A problem, its oracle and the f32 sums of its groups; the scales come in at the end, where a test can bend them.
class Layer {
 public:
  explicit Layer(const Case& c) : c_(c), groups_(ceil_div(c.k, c.group)) {
    std::mt19937 generator(static_cast<unsigned>(c.k * 1000 + c.group));
    std::normal_distribution<float> normal;
    const auto quantised = [&](std::int64_t rows, ScaleGrid grid, std::vector<std::uint8_t>& codes,
                               std::vector<float>& scales) {
      std::vector<float> x(static_cast<std::size_t>(rows * c.k));
      for (float& value : x) value = normal(generator);
      codes.resize(x.size());
      scales.resize(static_cast<std::size_t>(grid.scale_rows(rows) * grid.scale_cols(c.k)));
      quantize(DType::f32, x.data(), rows, c.k, c.k, DType::e4m3fn, grid, {}, codes, scales);
    };
    quantised(kM, {1, c.group}, a_, scale_a);
    quantised(kN, {c.group, c.group}, b_, scale_b);
    want = oracle(operand(a_, scale_a, kM, {1, c.group}), operand(b_, scale_b, kN, {c.group, c.group}));
    sum_groups();
  }

  /// D in f32 from the group sums of an order and the scales given, rounded to `out`.
  std::vector<double> result(DType out, Order order, const std::vector<float>& sa,
                             const std::vector<float>& sb) const {
    const auto& sums = order == Order::pairwise ? pairwise_ : serial_;
    std::vector<double> d(static_cast<std::size_t>(kM * kN));
    for (std::int64_t m = 0; m < kM; ++m) {
      for (std::int64_t n = 0; n < kN; ++n) {
        float total = 0;
        for (std::int64_t g = 0; g < groups_; ++g) {
          const float scale = sa[index(m, g)] * sb[index(n / c_.group, g)];
          const float sum = sums[static_cast<std::size_t>((g * kM + m) * kN + n)];
          total = order == Order::fused ? std::fma(scale, sum, total) : total + scale * sum;
        }
        d[static_cast<std::size_t>(m * kN + n)] = round_to(out, total);
      }
    }
    return d;
  }
  std::vector<double> correct(DType out, Order order) const { return result(out, order, scale_a, scale_b); }

  std::size_t index(std::int64_t row, std::int64_t group) const {
    return static_cast<std::size_t>(row * groups_ + group);
  }
  std::int64_t groups() const { return groups_; }
  Bounded bounds(DType out) const { return bounded(want, {.out = out, .k = c_.k, .accumulation_length = c_.group}); }

  std::vector<float> scale_a, scale_b;
  OracleResult want;

 private:
  Operand operand(const std::vector<std::uint8_t>& codes, const std::vector<float>& scales, std::int64_t rows,
                  ScaleGrid grid) const {
    return {.dtype = DType::e4m3fn,
            .data = codes.data(),
            .rows = rows,
            .cols = c_.k,
            .ld = c_.k,
            .scale_dtype = DType::f32,
            .scales = scales.data(),
            .grid = grid,
            .scale_ld = groups_};
  }

  // Products of two e4m3 values are exact in f32, so a fused multiply-add gives the serial sum.
  void sum_groups() {
    serial_.resize(static_cast<std::size_t>(groups_ * kM * kN));
    pairwise_.resize(serial_.size());
    std::vector<float> a(a_.size()), b(b_.size());
    decode(DType::e4m3fn, a_.data(), std::span<float>(a));
    decode(DType::e4m3fn, b_.data(), std::span<float>(b));
    for (std::int64_t m = 0; m < kM; ++m) {
      for (std::int64_t n = 0; n < kN; ++n) {
        for (std::int64_t g = 0; g < groups_; ++g) {
          const std::int64_t begin = g * c_.group, end = std::min(c_.k, begin + c_.group);
          const float* left = a.data() + m * c_.k;
          const float* right = b.data() + n * c_.k;
          float serial = 0;
          for (std::int64_t k = begin; k < end; ++k) serial += left[k] * right[k];
          const auto at = static_cast<std::size_t>((g * kM + m) * kN + n);
          serial_[at] = serial;
          pairwise_[at] = pairwise(left + begin, right + begin, end - begin);
        }
      }
    }
  }

  static float pairwise(const float* a, const float* b, std::int64_t count) {
    if (count == 1) return a[0] * b[0];
    const std::int64_t half = count / 2;
    return pairwise(a, b, half) + pairwise(a + half, b + half, count - half);
  }

  Case c_;
  std::int64_t groups_;
  std::vector<std::uint8_t> a_, b_;
  std::vector<float> serial_, pairwise_;
};

class Faults : public testing::TestWithParam<Case> {
 protected:
  static constexpr DType kOutputs[] = {DType::f32, DType::f16, DType::bf16};

  static const Layer& layer() {
    static std::map<std::pair<std::int64_t, std::int64_t>, Layer> layers;
    const Case& c = GetParam();
    return layers.try_emplace({c.k, c.group}, c).first->second;
  }

  // Fails unless most of the `hit` elements are out of bounds; prints what the averages would have said.
  static void expect_caught(const char* fault, DType out, const std::vector<double>& got, std::int64_t hit) {
    const Comparison c = compare(got, layer().bounds(out));
    std::cout << fault << " " << testing::PrintToString(GetParam()) << " " << name_of(out) << ": " << c.out_of_bounds
              << " of " << hit << " out of bounds, nmse " << c.nmse << ", calc_diff " << c.calc_diff << ", mean_rel "
              << c.mean_rel << "\n";
    EXPECT_FALSE(c.pass) << fault << " " << name_of(out);
    EXPECT_GT(2 * c.out_of_bounds, hit) << fault << " " << name_of(out);
    EXPECT_LE(c.out_of_bounds, hit) << fault << " " << name_of(out) << ": elements that the fault does not touch";
  }
};

// Those that need a second group, or are faint only among several.
class FaultsOfManyGroups : public Faults {};

TEST_P(Faults, CorrectAccumulationIsNeverRefused) {
  for (const DType out : kOutputs) {
    for (const Order order : {Order::serial, Order::fused, Order::pairwise}) {
      const Comparison c = compare(layer().correct(out, order), layer().bounds(out));
      const char* name = order == Order::serial ? "serial" : order == Order::fused ? "fused" : "pairwise";
      std::cout << "correct " << testing::PrintToString(GetParam()) << " " << name_of(out) << " " << name
                << ": error over bound " << c.max_error_over_bound << ", nmse " << c.nmse << ", calc_diff "
                << c.calc_diff << ", mean_rel " << c.mean_rel << "\n";
      EXPECT_TRUE(c.pass) << name_of(out) << " " << name << " row " << c.worst_row << " column " << c.worst_col
                          << ": " << c.worst_got << ", expected " << c.worst_want;
    }
  }
}

TEST_P(Faults, TwoCorrectOrdersAgreeWithinTheSumOfTheirBounds) {
  for (const DType out : kOutputs) {
    const Comparison c = compare(layer().correct(out, Order::serial), layer().bounds(out),
                                 layer().correct(DType::f32, Order::pairwise), layer().bounds(DType::f32));
    EXPECT_TRUE(c.pass) << name_of(out) << " " << c.max_error_over_bound;
  }
}

TEST_P(Faults, OneScaleOfAFivePercentOffIsCaught) {
  for (const DType out : kOutputs) {
    std::vector<float> sa = layer().scale_a;
    sa[layer().index(17, layer().groups() / 2)] *= 1.05f;
    expect_caught("A scale 5% off", out, layer().result(out, Order::serial, sa, layer().scale_b), kN);
  }
}

TEST_P(Faults, OneScaleBlockOfBFivePercentOffIsCaught) {
  for (const DType out : kOutputs) {
    std::vector<float> sb = layer().scale_b;
    sb[layer().index(0, layer().groups() / 2)] *= 1.05f;
    expect_caught("B scale block 5% off", out, layer().result(out, Order::serial, layer().scale_a, sb),
                  kM * std::min(kN, GetParam().group));
  }
}

TEST_P(FaultsOfManyGroups, AScaleOfTheNeighbouringBlockIsCaught) {
  for (const DType out : kOutputs) {
    std::vector<float> sa = layer().scale_a;
    sa[layer().index(17, 0)] = sa[layer().index(17, 1)];
    expect_caught("A scale of the neighbour", out, layer().result(out, Order::serial, sa, layer().scale_b), kN);
  }
}

TEST_P(Faults, ScalesShiftedByOneRowAreCaught) {
  for (const DType out : kOutputs) {
    std::vector<float> sa = layer().scale_a;
    std::rotate(sa.begin(), sa.begin() + layer().groups(), sa.end());
    expect_caught("A scales shifted", out, layer().result(out, Order::serial, sa, layer().scale_b), kM * kN);
  }
}

TEST_P(Faults, AnyElementLeftZeroIsCaught) {
  for (const DType out : kOutputs) {
    std::vector<double> got = layer().correct(out, Order::serial);
    // One at a time: an element is within its bound of zero only where the true value nearly is.
    std::int64_t caught = 0;
    const Bounded bounds = layer().bounds(out);
    for (std::size_t i = 0; i < got.size(); ++i) caught += std::fabs(bounds.value[i]) > bounds.bound[i] ? 1 : 0;
    EXPECT_GT(static_cast<double>(caught), 0.99 * static_cast<double>(got.size())) << name_of(out);
    got[300] = 0;
    expect_caught("one element zero", out, got, 1);
  }
}

TEST_P(FaultsOfManyGroups, AveragesDoNotSeeOneWrongScale) {
  std::vector<float> sa = layer().scale_a;
  sa[layer().index(17, 0)] *= 1.05f;
  const Comparison c =
      compare(layer().result(DType::bf16, Order::serial, sa, layer().scale_b), layer().bounds(DType::bf16));
  EXPECT_LT(c.nmse, 5e-4);
  EXPECT_LT(c.calc_diff, 1e-3);
  EXPECT_FALSE(c.pass);
}

const Case kOneGroup[] = {{128, 128}, {128, 512}};
const Case kManyGroups[] = {{1024, 128}, {7168, 128}, {1024, 512}, {7168, 512}};
INSTANTIATE_TEST_SUITE_P(OneGroup, Faults, testing::ValuesIn(kOneGroup));
INSTANTIATE_TEST_SUITE_P(ManyGroups, Faults, testing::ValuesIn(kManyGroups));
INSTANTIATE_TEST_SUITE_P(ManyGroups, FaultsOfManyGroups, testing::ValuesIn(kManyGroups));

}  // namespace
