// SPDX-License-Identifier: Apache-2.0
// Groups Exact and Random: the same shapes once with numbers that leave no room for rounding, once with hard ones.
#include <fmt/format.h>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

constexpr std::int64_t kBlocks[] = {128, 256, 512};
constexpr DType kOutputs[] = {DType::f32, DType::f16, DType::bf16};

Problem blocks(std::int64_t block, DType out, Fill fill, bool exact) {
  Problem p = base_problem();
  p.a_scale.cols = block;
  p.b_scale = {DType::f32, block, block, 0};
  p.d = out;
  p.n = 2 * block + 40, p.k = 2 * block + 72;
  p.fill = fill, p.exact = exact;
  return p;
}

/// A new pair of types and blocks makes some devices compile a kernel: in the normal run f16 and f32 come with blocks
/// of 128, and bf16 with all.
bool rare(std::int64_t block, DType type) { return block != 128 && type != DType::bf16; }

Problem dynamic(Problem p, DType source) {
  p.a_source = source;
  p.exact = false;
  p.fill = fill_activations;
  return p;
}

Problem weight_only(Problem p, DType type) {
  p.a = type;
  p.a_scale = {DType::none, 0, 0, 0};
  return p;
}

Problem unquantised(Problem p, DType type) {
  p.a = p.b = type;
  p.a_scale = p.b_scale = {DType::none, 0, 0, 0};
  return p;
}

/// Codes less their zero points: whole numbers that bf16 holds, with the codes' scales.
Problem less_zero_points(Problem p) {
  p.a = p.b = DType::bf16;
  p.a_scale = {DType::none, 0, 0, 0};
  return p;
}

Problem of_types(Problem p, DType a, DType b) {
  p.a = a, p.b = b;
  return p;
}

/// A long k, where the order of additions matters; f16 outputs would overflow.
Problem long_k(DType out) {
  Problem p = base_problem();
  p.m = 9, p.n = 130, p.k = 7168;
  p.d = out;
  p.fill = fill_heavy_tailed, p.exact = false;
  return p;
}

}  // namespace

Problem base_problem() {
  Problem p;
  p.m = 33, p.n = 296, p.k = 328;
  p.fill = fill_exact;
  return p;
}

void add_exact_tests(Suite& suite) {
  for (const auto block : kBlocks) {
    for (const auto out : kOutputs) {
      add_problem(suite, "Exact", fmt::format("Blocks{}In{}", block, numerics::name_of(out)),
                  blocks(block, out, fill_exact, true), true, rare(block, out));
    }
  }
  add_problem(suite, "Exact", "ScalesOfAOverManyBinades", blocks(128, DType::f32, fill_exact_wide_a, true), true);
  add_problem(suite, "Exact", "ScalesOfBOverManyBinades", blocks(128, DType::f32, fill_exact_wide_b, true), true);
  Problem biased = base_problem();
  biased.bias = DType::f32;
  add_problem(suite, "Exact", "BiasInF32", biased, false);
  biased.bias = DType::bf16, biased.d = DType::bf16;
  add_problem(suite, "Exact", "BiasInBf16", biased, false);
  Problem p = base_problem();
  for (const auto type : kOutputs) {
    add_problem(suite, "Exact", fmt::format("WeightOnly{}", numerics::name_of(type)), weight_only(p, type), false);
  }
  for (const auto type : kOutputs) {
    add_problem(suite, "Exact", fmt::format("Unquantised{}", numerics::name_of(type)), unquantised(p, type), false);
  }
  add_problem(suite, "Exact", "Bf16WeightsWithScales", less_zero_points(p), false);
  add_problem(suite, "Exact", "E5m2Weights", of_types(p, DType::e4m3fn, DType::e5m2), false);
  add_problem(suite, "Exact", "E5m2Both", of_types(p, DType::e5m2, DType::e5m2), false);
  add_problem(suite, "Exact", "Int8Both", of_types(p, DType::i8, DType::i8), false);
}

void add_random_tests(Suite& suite) {
  for (const auto block : kBlocks) {
    for (const auto out : kOutputs) {
      add_problem(suite, "Random", fmt::format("Blocks{}In{}", block, numerics::name_of(out)),
                  blocks(block, out, fill_heavy_tailed, false), true, rare(block, out));
    }
  }
  for (const auto source : kOutputs) {
    for (const auto block : kBlocks) {
      const DType out = source == DType::f32 ? DType::f32 : DType::bf16;
      add_problem(suite, "Random", fmt::format("QuantisedFrom{}Blocks{}", numerics::name_of(source), block),
                  dynamic(blocks(block, out, nullptr, false), source), true, rare(block, source));
    }
  }
  add_problem(suite, "Random", "LongKInF32", long_k(DType::f32), true);
  add_problem(suite, "Random", "LongKInBf16", long_k(DType::bf16), true);
  Problem one = long_k(DType::f32);
  one.m = 1, one.n = 515, one.k = 2056;
  add_problem(suite, "Random", "OneRow", one, true);
  Problem p = base_problem();
  p.fill = fill_heavy_tailed, p.exact = false;
  add_problem(suite, "Random", "WeightOnlyBf16", weight_only(p, DType::bf16), false);
  add_problem(suite, "Random", "WeightOnlyF32", weight_only(p, DType::f32), false);
  add_problem(suite, "Random", "UnquantisedBf16", unquantised(p, DType::bf16), false);
  add_problem(suite, "Random", "UnquantisedF32", unquantised(p, DType::f32), false);
  add_problem(suite, "Random", "E5m2Both", of_types(p, DType::e5m2, DType::e5m2), false);
  add_problem(suite, "Random", "Int8Both", of_types(p, DType::i8, DType::i8), false);
  Problem large = p;
  large.m = 256, large.n = 1100, large.k = 4200;
  add_problem(suite, "Random", "LargeInF32", large, true, true);
  large.d = DType::bf16;
  add_problem(suite, "Random", "LargeInBf16", large, true, true);
  large.m = 1000, large.n = 576, large.k = 7168;
  add_problem(suite, "Random", "LargeShardOf576Columns", dynamic(large, DType::bf16), true, true);
}

}  // namespace ironcl::conformance
