// SPDX-License-Identifier: Apache-2.0
// Group Codes (every code of every 8-bit type decodes rightly, as A and as B) and group Output (rounding, overflow,
// NaN).
#include <fmt/format.h>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

struct Kind {
  DType a, b;
  const char* name;
  bool floor, heavy;
};

}  // namespace

void add_code_tests(Suite& suite) {
  for (const auto& kind :
       {Kind{DType::e4m3fn, DType::e4m3fn, "E4m3", true, false}, Kind{DType::e5m2, DType::e5m2, "E5m2", false, false},
        Kind{DType::e5m2, DType::e4m3fn, "E5m2ByE4m3", false, true}}) {
    Problem p = base_problem();
    p.a = kind.a, p.b = kind.b;
    p.m = p.n = 256, p.k = 200;
    p.fill = fill_all_code_pairs;
    add_problem(suite, "Codes", fmt::format("{}ProductOfEveryPair", kind.name), p, kind.floor, kind.heavy);
    p.k = 300, p.fill = fill_all_codes_of_a;
    add_problem(suite, "Codes", fmt::format("{}EveryCodeOfA", kind.name), p, kind.floor, kind.heavy);
    p.m = 5, p.n = 256, p.fill = fill_all_codes_of_b;
    add_problem(suite, "Codes", fmt::format("{}EveryCodeOfB", kind.name), p, kind.floor, kind.heavy);
    p.m = 1;
    add_problem(suite, "Codes", fmt::format("{}EveryCodeOfBForOneRow", kind.name), p, kind.floor, kind.heavy);
  }
  Problem weight_only = base_problem();
  weight_only.a = DType::bf16, weight_only.a_scale = {DType::none, 0, 0, 0};
  weight_only.m = 5, weight_only.n = 256, weight_only.k = 300, weight_only.fill = fill_all_codes_of_b;
  add_problem(suite, "Codes", "E4m3EveryCodeOfBWeightOnly", weight_only, false);

  // Four bits: MXFP4 (a power of two per 32), and NVFP4 (e4m3fn per 16 and a global factor), whose scales with
  // e4m3fn's few bits are no powers of two.
  for (const DType a : {DType::bf16, DType::e4m3fn}) {
    const std::string by = a == DType::bf16 ? "ByBf16" : "ByE4m3";
    Problem four = base_problem();
    four.a = a, four.b = DType::e2m1;
    if (a == DType::bf16) four.a_scale = {DType::none, 0, 0, 0};
    four.m = 5, four.k = 336;
    four.b_scale = {DType::e8m0, 1, 32, 0};
    add_problem(suite, "Codes", "Mxfp4" + by, four, false);
    four.b_scale = {DType::e4m3fn, 1, 16, 1}, four.b_pad = 2, four.b_global = 0.3f;
    four.fill = fill_heavy_tailed, four.exact = false;
    add_problem(suite, "Codes", "Nvfp4" + by, four, false);
    four.m = 1;
    add_problem(suite, "Codes", "Nvfp4" + by + "ForOneRow", four, false, true);
  }

  for (const auto out : {DType::f32, DType::f16, DType::bf16}) {
    Problem p = base_problem();
    p.d = out;
    p.fill = fill_nan_scales;
    add_problem(suite, "Output", fmt::format("NanScalesGiveNanThereOnlyIn{}", numerics::name_of(out)), p, true);
    p.k = 100, p.fill = fill_overflow;
    add_problem(suite, "Output", fmt::format("OverflowGivesInfinityIn{}", numerics::name_of(out)), p, true);
  }
  Problem p = base_problem();
  p.d = DType::f16;
  p.fill = fill_f16_subnormals;
  add_problem(suite, "Output", "SubnormalsOfF16AreRounded", p, true);
}

}  // namespace ironcl::conformance
