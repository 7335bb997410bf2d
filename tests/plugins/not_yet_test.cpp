// SPDX-License-Identifier: Apache-2.0
// What a description may say and no backend computes yet is refused, and nothing else is.
#include "backends/not_yet.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "backends/numerics/oracle.h"

namespace ironcl::backend {
namespace {

Problem plain() {
  Problem problem;
  problem.m = 4, problem.n = 256, problem.k = 256;
  problem.a = problem.b = DType::e4m3fn, problem.d = DType::f32;
  problem.a_scale = {DType::f32, {1, 128}};
  problem.b_scale = {DType::f32, {128, 128}};
  return problem;
}

TEST(NotYet, RefusesEachWithItsReasonAndNothingElse) {
  EXPECT_FALSE(not_yet(plain()));
  const std::pair<const char*, std::function<void(Problem&)>> all[] = {
      {"a has scales of e4m3fn", [](Problem& p) { p.a_scale.dtype = DType::e4m3fn; }},
      {"a has a global scale", [](Problem& p) { p.a_scale.global = true; }},
      {"d has a global scale",
       [](Problem& p) {
         p.d_scale = {DType::f32, {1, 128}, 0, true};
       }},
      {"b begins inside a block of its scales (5 rows", [](Problem& p) { p.b_scale.grid.row_origin = 5; }},
      {"a begins inside a block of its scales (0 rows and 3", [](Problem& p) { p.a_scale.grid.col_origin = 3; }},
      {"a is e2m1", [](Problem& p) { p.a = DType::e2m1; }},
      {"d is e2m1", [](Problem& p) { p.d = DType::e2m1; }},
  };
  for (const auto& [text, change] : all) {
    Problem problem = plain();
    change(problem);
    const std::optional<Refusal> refusal = not_yet(problem);
    ASSERT_TRUE(refusal) << text;
    EXPECT_EQ(refusal->text.find(text), 0u) << text << ": " << refusal->text;
    EXPECT_EQ(refusal->reason,
              problem.a == DType::e2m1 || problem.d == DType::e2m1 ? Reason::dtype : Reason::scale_layout)
        << text;
  }
  Problem four_bits = plain();
  four_bits.b = DType::e2m1;
  four_bits.b_scale = {DType::e4m3fn, {1, 16}, 0, true};
  EXPECT_FALSE(not_yet(four_bits)) << "weights of e2m1 are for the backend to judge";
}

TEST(NotYet, AQuantiserThrowsUnsupported) {
  EXPECT_NO_THROW(refuse_not_yet(DType::e4m3fn, plain().a_scale, "x"));
  for (const DType code : {DType::e2m1, DType::e4m3fn}) {
    Scales scale = plain().a_scale;
    scale.global = code != DType::e2m1;
    try {
      refuse_not_yet(code, scale, "x");
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::unsupported);
      EXPECT_EQ(std::string(error.what()).find("x "), 0u);
    }
  }
}

TEST(ScaleGridOrigin, AShardThatBeginsInsideABlockHasTheScalesOfItsRows) {
  const numerics::ScaleGrid grid{128, 64, 100, 32};
  EXPECT_EQ(grid.scale_rows(28), 1);
  EXPECT_EQ(grid.scale_rows(29), 2);
  EXPECT_EQ(grid.scale_rows(0), 0);
  EXPECT_EQ(grid.scale_cols(64), 2);
  EXPECT_EQ(grid.row_of(27), 0);
  EXPECT_EQ(grid.row_of(28), 1);
  EXPECT_EQ(grid.col_of(31), 0);
  EXPECT_EQ(grid.col_of(32), 1);
  EXPECT_EQ(grid.resolved(7, 7), grid);
}

TEST(ScaleGridOrigin, TheOracleReadsASliceAsItReadsTheWhole) {
  std::vector<std::uint8_t> codes(8 * 8);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(0x30 + i % 16);
  const std::array<float, 4> scales{1, 2, 3, 4};
  const numerics::Operand whole{DType::e4m3fn, codes.data(), 8, 8, 8, DType::f32, scales.data(), {4, 4}, 2};
  const numerics::Operand slice{
      DType::e4m3fn, codes.data() + 3 * 8 + 2, 5, 6, 8, DType::f32, scales.data(), {4, 4, 3, 2}, 2};
  const std::vector<double> all = numerics::decode_operand(whole), part = numerics::decode_operand(slice);
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t col = 0; col < 6; ++col) EXPECT_EQ(part[row * 6 + col], all[(row + 3) * 8 + col + 2]);
  }
}

}  // namespace
}  // namespace ironcl::backend
