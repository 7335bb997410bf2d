// SPDX-License-Identifier: Apache-2.0
// Group Dynamic: the plan quantises A. Codes and scales are those of numerics::quantize bit for bit, and the product
// is that of the same codes given from outside.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <tuple>

#include "backends/numerics/casts.h"
#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

Problem from(DType source, Fill fill) {
  Problem p = base_problem();
  p.m = 24;
  p.a_source = source, p.fill = fill, p.exact = false;
  return p;
}

void codes_and_product(Context& c, const Problem& p) {
  Rig rig(c, p, RigOptions{.keep_quantized = true});
  const Output output = rig.call();
  rig.expect_quantized_right();
  rig.expect_right(output);
  // Asking for the codes must not change the product.
  Rig plain(c, p, rig.operands());
  EXPECT_EQ(plain.call().bytes, output.bytes)
      << "D differs where a_quantized is not asked for   [" << p.line() << "]";
}

void equals_static_path(Context& c) {
  Problem p = from(DType::bf16, fill_activations);
  Rig dynamic(c, p, RigOptions{.keep_quantized = true});
  const Output got = dynamic.call();

  Problem q = p;
  q.a_source = DType::none;
  Operands operands = dynamic.operands();
  operands.a = dynamic.quantized_codes();
  operands.a_scale = dynamic.quantized_scales();
  Rig given(c, q, operands);
  const Output want = given.call();
  given.expect_right(want);
  const bool same_kernel = std::strcmp(dynamic.info().variant, given.info().variant) == 0 &&
                           std::strcmp(dynamic.info().tuning, given.info().tuning) == 0;
  if (same_kernel) {
    EXPECT_EQ(got.bytes, want.bytes) << "the same codes through the same kernel (" << given.info().variant
                                     << ") give other bits";
  } else {
    given.expect_right(got);
  }
}

/// Static scales, which the caller gives: some so small that values and infinities saturate.
void fill_given(const Problem& p, Random& random, Operands& o) {
  fill_hard_activations(p, random, o);
  for (std::size_t at = 0; at < o.a_scale.size(); at += sizeof(float)) {
    const auto scale = static_cast<float>(std::ldexp(1 + random.between(0, 7) / 8.0, random.between(-9, 1)));
    std::memcpy(o.a_scale.data() + at, &scale, sizeof scale);
  }
  // Under the first scale what is the largest code, what a plain cast would still round to it, and what is beyond.
  constexpr float kFirst = 0.25f, kInfinity = std::numeric_limits<float>::infinity();
  std::memcpy(o.a_scale.data(), &kFirst, sizeof kFirst);
  const float edges[] = {448, -448, 464, -464, 480, kInfinity, -kInfinity, 0.0009765625f, -0.0f};
  for (std::size_t i = 0; i < std::size(edges); ++i) {
    const float value = edges[i] * kFirst;
    numerics::encode(p.a_source, {&value, 1}, o.a.data() + i * numerics::size_of(p.a_source),
                     numerics::Overflow::plain);
  }
}

void given_scales(Context& c, std::int64_t rows, std::int64_t cols) {
  Problem p = from(DType::bf16, fill_given);
  p.a_scale = {DType::f32, rows, cols, 0};
  p.quantizer.given = true;
  Rig rig(c, p);
  rig.expect_right(rig.call());
}

Problem with_grid(std::int64_t rows, std::int64_t cols, std::int64_t block) {
  Problem p = from(DType::bf16, fill_hard_activations);
  p.a_scale = {DType::f32, rows, cols, 0};
  p.b_scale = {DType::f32, block, block, 0};
  const std::int64_t width = std::max<std::int64_t>(cols, block);
  p.k = width + width / 2 + 9, p.m = rows > 1 ? rows + 8 : 24;
  return p;
}

void one_quantised_span_is_refused(Context& c) {
  Rig rig(c, from(DType::bf16, fill_activations), RigOptions{.keep_quantized = true});
  ironcl_gemm_args args = rig.args();
  args.a_quantized_scale = {};
  Error error;
  ironcl_event event = nullptr;
  EXPECT_EQ(rig.enqueue_raw(rig.queue(), args, &event, error), IRONCL_INVALID_ARGUMENT) << error.message;
  EXPECT_EQ(event, nullptr);
}

}  // namespace

void add_dynamic_tests(Suite& suite) {
  const auto add = [&suite](const std::string& name, const Problem& p, bool floor) {
    suite.add(
        "Dynamic", name, Needs::gemm, [p](Context& c) { codes_and_product(c, p); }, floor);
  };
  for (const auto source : {DType::f32, DType::f16, DType::bf16}) {
    add(fmt::format("HardValuesFrom{}", numerics::name_of(source)), from(source, fill_hard_activations), true);
    add(fmt::format("OrdinaryValuesFrom{}", numerics::name_of(source)), from(source, fill_activations), true);
  }
  add("Groups256", with_grid(1, 256, 256), true);
  add("Groups512", with_grid(1, 512, 512), true);
  add("Groups64", with_grid(1, 64, 64), false);
  add("PerToken", with_grid(1, 0, 128), false);
  add("PerTensor", with_grid(0, 0, 128), false);
  add("Blocks128", with_grid(128, 128, 128), false);
  add("Blocks256", with_grid(256, 256, 256), false);

  Problem p = from(DType::f32, fill_hard_activations);
  p.quantizer.rounding = numerics::ScaleRounding::power_of_two;
  add("PowerOfTwoScales", p, false);
  p.quantizer.rounding = numerics::ScaleRounding::exact;
  p.quantizer.amax_floor = 1e-4f;
  add("AFloorOfOneTenThousandth", p, true);
  p.quantizer.amax_floor = 1e-38f;  // scales of 2e-41: subnormal
  add("SubnormalScales", p, false);
  p = from(DType::f32, fill_hard_activations);
  p.a = DType::e5m2;
  add("ToE5m2", p, false);
  p.a = p.b = DType::i8;
  add("ToInt8", p, false);

  suite.add("Dynamic", "EqualsTheStaticPathOnTheSameCodes", Needs::gemm, equals_static_path);
  for (const auto& [name, rows, cols] : {std::tuple{"AStaticScale", 0, 0}, {"StaticScalesOfTokenGroups", 1, 128}})
    suite.add(
        "Dynamic", name, Needs::gemm, [rows = rows, cols = cols](Context& c) { given_scales(c, rows, cols); }, false);
  suite.add("Dynamic", "OneOfTheTwoQuantisedSpansIsRefused", Needs::gemm, one_quantised_span_is_refused);
}

}  // namespace ironcl::conformance
