// SPDX-License-Identifier: Apache-2.0
// The steps between the products of a layer of experts: exact rules by hand, the rest against f64.
#include "backends/numerics/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "backends/numerics/casts.h"

namespace ironcl::numerics {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
using Ids = std::vector<std::int32_t>;
using Floats = std::vector<float>;

struct Chosen {
  Ids ids;
  Floats weights;
};

Chosen choice(const Routing& routing, const Floats& given, const Floats& bias = {}) {
  Chosen out{Ids(static_cast<std::size_t>(routing.top_k)), Floats(static_cast<std::size_t>(routing.top_k))};
  choose(routing, given, bias, out.ids, out.weights);
  return out;
}

TEST(Choose, TakesTheBestFirstAndTheSmallerIdOfATie) {
  const Routing routing{.experts = 6, .top_k = 4};
  const Chosen got = choice(routing, {0.1f, 0.3f, 0.2f, 0.3f, 0.2f, 0.05f});
  EXPECT_EQ(got.ids, (Ids{1, 3, 2, 4}));
  EXPECT_EQ(got.weights, (Floats{0.3f, 0.3f, 0.2f, 0.2f}));
}

TEST(Choose, BiasChangesWhoIsChosenButNoWeight) {
  const Routing routing{.experts = 4, .top_k = 2};
  const Chosen got = choice(routing, {0.5f, 0.25f, 0.125f, 0.75f}, {0, 0, 8, 0});
  EXPECT_EQ(got.ids, (Ids{2, 3}));
  EXPECT_EQ(got.weights, (Floats{0.125f, 0.75f}));
}

TEST(Choose, NormalisesThenScalesAndNeverDividesByZero) {
  const Routing routing{.experts = 3, .top_k = 2, .scale = 2.5f, .normalize = true};
  EXPECT_EQ(choice(routing, {0.75f, 0.25f, 0}).weights, (Floats{1.875f, 0.625f}));
  EXPECT_EQ(choice(routing, {0, 0, 0}).weights, (Floats{0, 0}));
}

TEST(Choose, StaysInTheBestGroups) {
  // The best expert alone makes group 0, two good ones make group 1 by the sum of two.
  const Floats given{0.9f, 0, 0.5f, 0.5f, 0.4f, 0.4f};
  Routing routing{.experts = 6, .top_k = 2, .expert_groups = 3, .top_groups = 1};
  EXPECT_EQ(choice(routing, given).ids, (Ids{0, 1}));
  routing.best_of_two = true;
  EXPECT_EQ(choice(routing, given).ids, (Ids{2, 3}));
  routing.top_groups = 2;
  EXPECT_EQ(choice(routing, given).ids, (Ids{0, 2}));
  EXPECT_EQ(choice(routing, given, {0, 0, 0, 0, 1, 1}).ids, (Ids{4, 5})) << "the bias decides on groups too";
  EXPECT_EQ(choice(routing, {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f}).ids, (Ids{0, 1})) << "ties between groups";
}

TEST(Choose, ANaNIsSmallerThanEverything) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Routing routing{.experts = 4, .top_k = 4};
  const Chosen got = choice(routing, {kNaN, -infinity, kNaN, 1});
  EXPECT_EQ(got.ids, (Ids{3, 1, 0, 2}));
  EXPECT_TRUE(std::isnan(got.weights[2]));
  const Routing groups{.experts = 4, .top_k = 1, .expert_groups = 2, .top_groups = 1, .best_of_two = true};
  EXPECT_EQ(choice(groups, {9, kNaN, 0.5f, 0.5f}).ids, (Ids{2})) << "a sum with a NaN";
}

TEST(Choose, RefusesWhatContradictsItself) {
  const auto refuses = [](const Routing& routing, std::size_t scores, std::size_t bias) {
    Ids ids(2);
    Floats weights(2);
    EXPECT_THROW(choose(routing, Floats(scores), Floats(bias), ids, weights), std::invalid_argument);
  };
  refuses({.experts = 5, .top_k = 2, .expert_groups = 2}, 5, 0);
  refuses({.experts = 4, .top_k = 2, .expert_groups = 4, .top_groups = 1}, 4, 0);
  refuses({.experts = 4, .top_k = 2, .expert_groups = 4, .top_groups = 2, .best_of_two = true}, 4, 0);
  refuses({.experts = 4, .top_k = 2}, 3, 0);
  refuses({.experts = 4, .top_k = 2}, 4, 3);
  refuses({.experts = 4, .top_k = 3}, 4, 0);
}

struct Sorted {
  Ids counts, tokens, rows;
};

Sorted sorted(const Ids& ids, std::int64_t top_k, const RowLayout& layout) {
  const auto rows = layout.capacity == 0 ? std::ssize(ids) : layout.local * layout.capacity;
  Sorted out{Ids(static_cast<std::size_t>(layout.local)), Ids(static_cast<std::size_t>(rows), -7), Ids(ids.size())};
  sort_by_expert(ids, top_k, layout, out.counts, out.tokens, out.rows);
  return out;
}

TEST(SortByExpert, KeepsTheOrderOfTokensWithinAnExpert) {
  const Sorted got = sorted({2, 0, 0, 1, 2, 0}, 2, {.first = 0, .local = 4});
  EXPECT_EQ(got.counts, (Ids{3, 1, 2, 0}));
  EXPECT_EQ(got.tokens, (Ids{0, 1, 2, 1, 0, 2}));
  EXPECT_EQ(got.rows, (Ids{4, 0, 1, 3, 5, 2}));
}

TEST(SortByExpert, LeavesOutExpertsThatAreElsewhereOrNobodys) {
  const Sorted got = sorted({2, -1, 0, 1, 2, 99}, 2, {.first = 1, .local = 2});
  EXPECT_EQ(got.counts, (Ids{1, 2}));
  EXPECT_EQ(got.tokens, (Ids{1, 0, 2, -7, -7, -7})) << "elements of no row are left alone";
  EXPECT_EQ(got.rows, (Ids{1, -1, -1, 0, 2, -1}));
}

TEST(SortByExpert, DropsRowsPastTheCapacity) {
  const Sorted got = sorted({1, 1, 1, 0}, 1, {.first = 0, .local = 2, .capacity = 2});
  EXPECT_EQ(got.counts, (Ids{1, 2}));
  EXPECT_EQ(got.tokens, (Ids{3, -7, 0, 1}));
  EXPECT_EQ(got.rows, (Ids{2, 3, -1, 0}));
}

TEST(SortByExpert, OfNoTokensCountsNone) {
  EXPECT_EQ(sorted({}, 2, {.first = 0, .local = 3}).counts, (Ids{0, 0, 0}));
}

TEST(SortByExpert, RefusesLengthsThatDoNotFit) {
  Ids ids(4), counts(2), tokens(4), rows(4), few(3);
  EXPECT_THROW(sort_by_expert(few, 2, {0, 2, 0}, counts, tokens, few), std::invalid_argument);
  EXPECT_THROW(sort_by_expert(ids, 2, {0, 3, 0}, counts, tokens, rows), std::invalid_argument);
  EXPECT_THROW(sort_by_expert(ids, 2, {0, 2, 0}, counts, few, rows), std::invalid_argument);
  EXPECT_THROW(sort_by_expert(ids, 2, {0, 2, 0}, counts, tokens, few), std::invalid_argument);
}

TEST(ClampCounts, TrustsNothing) {
  const Ids counts{2, -5, std::numeric_limits<std::int32_t>::max(), 3};
  std::array<std::int64_t, 4> begin{}, used{};
  clamp_counts(counts, 7, false, begin, used);
  EXPECT_EQ(used, (std::array<std::int64_t, 4>{2, 0, 5, 0}));
  EXPECT_EQ(begin, (std::array<std::int64_t, 4>{0, 2, 2, 7}));
  clamp_counts(counts, 7, true, begin, used);
  EXPECT_EQ(used, (std::array<std::int64_t, 4>{2, 0, 7, 3}));
  EXPECT_EQ(begin, (std::array<std::int64_t, 4>{0, 7, 14, 21}));
}

TEST(CombineToken, RoundsEachProductAndEachSumInOrder) {
  // The square of 1 + 2^-12 needs 25 bits: fused, the small part would survive the subtraction.
  const float a = 1 + 0x1p-12f;
  const Floats x{a, -(a * a)};
  Floats y(1);
  combine_token(Ids{1, 0}, Floats{1, a}, DType::f32, x.data(), 2, 1, y);
  EXPECT_EQ(y[0], 0.0f);
  // 2^24 + 1 - 2^24 is 0 in this order, 1 in the other.
  const Floats order{0x1p24f, 1, -0x1p24f};
  combine_token(Ids{0, 1, 2}, Floats{1, 1, 1}, DType::f32, order.data(), 3, 1, y);
  EXPECT_EQ(y[0], 0.0f);
  combine_token(Ids{0, 2, 1}, Floats{1, 1, 1}, DType::f32, order.data(), 3, 1, y);
  EXPECT_EQ(y[0], 1.0f);
}

TEST(CombineToken, SelectsAndNeverMultipliesByZero) {
  const std::array<std::uint16_t, 6> x{encode_bf16(kNaN), encode_bf16(kNaN), 0, encode_bf16(2), encode_bf16(3), 0};
  Floats y(2, kNaN);
  combine_token(Ids{-1, 1, 2, std::numeric_limits<std::int32_t>::min()}, Floats{kNaN, 0.5f, kNaN, 1}, DType::bf16,
                x.data(), 2, 3, y);
  EXPECT_EQ(y, (Floats{1, 1.5f}));
  combine_token(Ids{-1}, Floats{1}, DType::bf16, x.data(), 2, 3, y);
  EXPECT_EQ(y, (Floats{0, 0})) << "no expert at all";
  add_weighted(2, Floats{1, kNaN}, y);
  EXPECT_EQ(y[0], 2.0f);
  EXPECT_TRUE(std::isnan(y[1]));
}

TEST(Activate, ClampsBeforeAllElseAndKeepsNaN) {
  EXPECT_EQ(activate(Activation::silu, 100, 100, 10), activate(Activation::silu, 10, 10, 0));
  EXPECT_EQ(activate(Activation::silu, -100, -100, 10), activate(Activation::silu, -100, -10, 0))
      << "gate only above";
  EXPECT_TRUE(std::isnan(activate(Activation::silu, kNaN, 1, 7)));
  EXPECT_TRUE(std::isnan(activate(Activation::swiglu_oai, 1, kNaN, 7)));
  EXPECT_EQ(activate(Activation::swiglu_oai, 1, -1, 7), 0.0f) << "up + 1";
}

}  // namespace
}  // namespace ironcl::numerics
