// SPDX-License-Identifier: Apache-2.0
// The oracle of a layer of experts: against transformers' own blocks and its bound against a computation
// in f32.
#include "host/layer/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "tests/layer/experts_support.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

class OfTransformers : public testing::TestWithParam<const char*> {};

/// The block's own arithmetic: same experts, same weights, and y to the precision of its f32 weights.
TEST_P(OfTransformers, RoutingAndResultAreTheBlocks) {
  const Example example(GetParam(), false);
  const ExpertsForm& form = example.source->form();
  const Graph graph = graph_of(form, {.tokens = example.input.tokens});
  ExpertsInput by_itself = example.input;
  by_itself.routed.reset();
  const RoutedTokens routed =
      routed_of(graph, oracle_of(*example.source, by_itself).evaluate(graph, {}, graph.find("ids")));
  const std::int64_t top_k = form.routing.top_k;
  for (std::int64_t t = 0; t < example.input.tokens; ++t) {
    std::map<std::int32_t, float> got, want;
    for (std::int64_t j = 0; j < top_k; ++j) {
      const auto slot = static_cast<std::size_t>(t * top_k + j);
      got[routed.ids[slot]] = routed.weights[slot];
      want[example.input.routed->ids[slot]] = example.input.routed->weights[slot];
    }
    ASSERT_EQ(got.size(), static_cast<std::size_t>(top_k));
    for (const auto& [id, weight] : want) {
      ASSERT_TRUE(got.contains(id)) << "token " << t << " misses expert " << id;
      EXPECT_NEAR(got[id], weight, 4e-7 * std::fabs(weight)) << "token " << t << ", expert " << id;
    }
  }
  const Evaluated oracle = example.oracle();
  ASSERT_EQ(oracle.y().value.size(), example.y.size());
  double largest = 0, worst = 0;
  for (const double value : example.y) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < example.y.size(); ++i) {
    worst = std::max(worst, std::fabs(oracle.y().value[i] - example.y[i]));
    EXPECT_LE(std::fabs(oracle.y().value[i] - example.y[i]), oracle.y().bound[i]) << i;
  }
  EXPECT_LT(worst, 1e-6 * largest);
}
INSTANTIATE_TEST_SUITE_P(Experts, OfTransformers,
                         testing::Values("deepseek-v3", "qwen3-moe", "mixtral", "qwen3-5-stacked",
                                         "qwen3-vl-transposed", "gpt-oss"),
                         [](const auto& at) {
                           std::string name = at.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// A product in f32: K group by K group, as a device does it.
std::vector<float> product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t rows,
                           std::int64_t cols, std::int64_t k) {
  std::vector<float> d;
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t n = 0; n < cols; ++n) {
      float total = 0;
      for (std::int64_t from = 0; from < k; from += 128) {
        float sum = 0;
        for (std::int64_t i = from; i < std::min(from + 128, k); ++i)
          sum += static_cast<float>(a[static_cast<std::size_t>(m * k + i)] * b[static_cast<std::size_t>(n * k + i)]);
        total += sum;
      }
      d.push_back(total);
    }
  }
  return d;
}

std::vector<double> decode(const MatrixForm& form, StackedMatrices matrix) {
  return numerics::decode_operand(operand_of(form, matrix));
}

std::vector<double> requantize(const ExpertsActivations& form, const std::vector<float>& h, std::int64_t rows,
                               std::int64_t cols) {
  std::vector<std::uint8_t> codes(h.size());
  std::vector<float> scales(static_cast<std::size_t>(rows * form.grid.scale_cols(cols)));
  numerics::quantize(DType::f32, h.data(), rows, cols, cols, form.code, form.grid, form.quantizer, codes, scales);
  std::vector<double> values(h.size());
  numerics::decode(form.code, reinterpret_cast<const std::byte*>(codes.data()), std::span<double>(values));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t col = 0; col < cols; ++col)
      values[static_cast<std::size_t>(row * cols + col)] *= static_cast<double>(
          scales[static_cast<std::size_t>(row * form.grid.scale_cols(cols) + form.grid.col_of(col))]);
  return values;
}

/// The whole layer in f32, by plain loops: what a right device would give. Gate and up are stored apart in it.
std::vector<double> in_f32(const ExpertsSource& source, const ExpertsInput& input) {
  const ExpertsForm& form = source.form();
  const std::int64_t hidden = form.hidden;
  std::vector<float> x(static_cast<std::size_t>(input.tokens * hidden));
  numerics::decode(input.x_dtype, input.x.data(), std::span<float>(x));
  const std::vector<double> rows = requantize(form.x, x, input.tokens, hidden);
  const auto mlp = [&](bool shared, std::int64_t expert, std::int64_t token) {
    const GatedForm& gated = shared ? *form.shared : form.experts;
    const std::vector<double> row(rows.begin() + static_cast<std::ptrdiff_t>(token * hidden),
                                  rows.begin() + static_cast<std::ptrdiff_t>((token + 1) * hidden));
    const auto gate =
        product(row, decode(gated.gate, source.matrix(shared, Projection::gate, expert)), 1, gated.width, hidden);
    const auto up =
        product(row, decode(gated.gate, source.matrix(shared, Projection::up, expert)), 1, gated.width, hidden);
    std::vector<float> h;
    for (std::size_t i = 0; i < gate.size(); ++i) h.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
    return product(requantize(form.between, h, 1, gated.width),
                   decode(gated.down, source.matrix(shared, Projection::down, expert)), 1, hidden, gated.width);
  };
  std::vector<double> y;
  for (std::int64_t t = 0; t < input.tokens; ++t) {
    std::vector<float> sum(static_cast<std::size_t>(hidden), 0.0f);
    for (std::int64_t j = 0; j < form.routing.top_k; ++j) {
      const auto slot = static_cast<std::size_t>(t * form.routing.top_k + j);
      const std::vector<float> row = mlp(false, input.routed->ids[slot], t);
      for (std::size_t i = 0; i < row.size(); ++i) sum[i] += input.routed->weights[slot] * row[i];
    }
    if (form.shared) {
      const std::vector<float> row = mlp(true, 0, t);
      for (std::size_t i = 0; i < row.size(); ++i) sum[i] += row[i];
    }
    y.insert(y.end(), sum.begin(), sum.end());
  }
  return y;
}

TEST(ExpertsBound, HoldsARightResultInF32) {
  for (const char* name : {"deepseek-v3", "qwen3-moe"}) {
    const Example example(name, true);
    const Evaluated oracle = example.oracle();
    const numerics::Comparison comparison = compare(in_f32(*example.source, example.input), oracle.y());
    EXPECT_TRUE(comparison.pass) << name << ": " << comparison.max_error_over_bound;
    std::printf("  %s: %.3g of the bound, NMSE %.3g\n", name, comparison.max_error_over_bound, comparison.nmse);
  }
}

/// A bound that lets everything through is none: half a code's step is far outside of it nearly everywhere.
TEST(ExpertsBound, IsFarBelowTheStepOfACode) {
  const Example example("qwen3-moe", true);
  const Evaluated oracle = example.oracle();
  std::size_t tight = 0, all = 0;
  const Bounded& h = oracle.at("activation");
  for (std::size_t i = 0; i < h.value.size(); ++i) {
    ++all;
    tight += h.bound[i] < 0x1p-6 * std::fabs(h.value[i]) ? 1u : 0u;
  }
  EXPECT_GT(static_cast<double>(tight), 0.9 * static_cast<double>(all));
}

TEST(ExpertsBound, CatchesOneScaleFivePerCentOff) {
  const Example example("deepseek-v3", true);
  const Evaluated oracle = example.oracle();
  for (const Projection matrix : {Projection::gate, Projection::up, Projection::down}) {
    const WrongScale wrong(*example.source, example.input.routed->ids[0], matrix, 0, 0, 1.05f);
    const numerics::Comparison comparison = compare(in_f32(wrong, example.input), oracle.y());
    EXPECT_FALSE(comparison.pass) << name_of(matrix);
    EXPECT_GT(comparison.max_error_over_bound, 10) << name_of(matrix);
  }
}

TEST(ExpertsBound, NaNIsRightOnlyWhereTheOracleHasIt) {
  Example example("qwen3-moe", true);
  const std::uint16_t nan = 0x7fc0;
  std::memcpy(example.input.x.data() + 2 * 96 * 2, &nan, sizeof nan);  // token 2
  const Evaluated oracle = example.oracle();
  std::vector<double> got = in_f32(*example.source, example.input);
  EXPECT_TRUE(compare(got, oracle.y()).pass);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i / 96 == 2) << i;
  got[0] = std::nan("");
  EXPECT_FALSE(compare(got, oracle.y()).pass);
  got = in_f32(*example.source, example.input);
  got[2 * 96] = 0;
  EXPECT_FALSE(compare(got, oracle.y()).pass) << "a number where NaN belongs";
}

TEST(ExpertsBound, AnInfinityIsRightOnlyWhereTheTypeHasNoNumber) {
  Example example("qwen3-moe", true);
  const auto y = [&example] { return evaluate(*example.source, example.input, DType::f16).y(); };
  std::vector<double> sizes = y().value;
  for (double& value : sizes) value = std::fabs(value);
  std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2), sizes.end());
  for (float& weight : example.input.routed->weights) weight *= static_cast<float>(70000 / sizes[sizes.size() / 2]);
  const Bounded want = y();
  std::vector<double> got = in_f32(*example.source, example.input);
  for (double& value : got) {
    const std::uint16_t code = numerics::encode_f16(static_cast<float>(value));
    numerics::decode(DType::f16, reinterpret_cast<const std::byte*>(&code), std::span<double>(&value, 1));
  }
  const auto infinite = std::find_if(got.begin(), got.end(), [](double value) { return std::isinf(value); });
  const auto finite = std::find_if(got.begin(), got.end(), [](double value) { return std::fabs(value) < 60000; });
  ASSERT_TRUE(infinite != got.end() && finite != got.end());
  EXPECT_TRUE(compare(got, want).pass) << "more than f16 has is an infinity";
  EXPECT_TRUE(compare(got, want, got, want).pass);
  const std::vector<double> right = got;
  *infinite = -*infinite;
  EXPECT_FALSE(compare(got, want).pass) << "the other infinity";
  EXPECT_FALSE(compare(got, want, right, want).pass);
  got = right;
  got[static_cast<std::size_t>(finite - got.begin())] =
      std::copysign(HUGE_VAL, right[static_cast<std::size_t>(finite - got.begin())]);
  EXPECT_FALSE(compare(got, want).pass) << "an infinity where f16 has a number";
  EXPECT_FALSE(compare(right, want, got, want).pass);
}

/// Every expert that nobody chose gets a token, once, and no call has more tokens than the first.
TEST(Unchosen, GetATokenEach) {
  Example example("deepseek-v3", true);
  ExpertsInput& input = example.input;
  input.tokens = 2;
  input.x.resize(2 * 160 * 2);
  RoutedTokens routed{{3, 3, -1, 7}, {1, 1, 1, 1}};
  const ExpertsForm& form = example.source->form();
  EXPECT_EQ(unchosen_experts(form, routed).size(), 6u);
  const std::vector<ExpertsInput> all = inputs_of_the_unchosen(form, input, routed);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].routed->ids, (std::vector<std::int32_t>{0, 1, 2, 4}));
  EXPECT_EQ(all[1].routed->ids, (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(all[0].tokens, 2);
  EXPECT_EQ(all[0].x, input.x);
  EXPECT_EQ(all[1].tokens, 1);
  EXPECT_EQ(all[1].x.size(), 160u * 2);
  // A row of zeros would show nothing, nor would one with a NaN.
  std::fill_n(input.x.begin(), 160 * 2, std::byte{0});
  for (const ExpertsInput& one : inputs_of_the_unchosen(form, input, routed))
    for (std::int64_t t = 0; t < one.tokens; ++t)
      EXPECT_TRUE(std::equal(input.x.begin() + 320, input.x.end(), one.x.begin() + 320 * t));
  std::fill_n(input.x.begin() + 320, 2, std::byte{0xff});
  EXPECT_TRUE(inputs_of_the_unchosen(form, input, routed).empty());
  routed.ids = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_TRUE(unchosen_experts(form, routed).empty());
}

}  // namespace
}  // namespace ironcl::layer
