// SPDX-License-Identifier: Apache-2.0
// Group Output, second part (rounding of float outputs is in groups_codes.cpp): a D that leaves the plan quantised,
// with its own scales, and plans that may use a weaker accuracy class. A device may refuse both, with a reason.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/numerics/casts.h"
#include "tests/activated.h"
#include "tests/conformance/suite/groups.h"
#include "tests/conformance/suite/parts.h"
#include "tests/quantized_output.h"

namespace ironcl::conformance {
namespace {

struct QuantisedD {
  DType code = DType::e4m3fn;  ///< Of an activated D also a float.
  Scale scale{DType::f32, 1, 128, 0};
  numerics::Quantizer quantizer{};
  DType bias = DType::none;
  std::int64_t pad = 0;  ///< Elements between the rows of D.
  numerics::Activation activation = numerics::Activation::none;
  float limit = 0;
};

void quantised_output(Context& c, const QuantisedD& q) {
  Problem p = base_problem();
  const bool activates = q.activation != numerics::Activation::none, quantised = numerics::is_quantized(q.code);
  // Halves in whole runs, which a kernel may want gates and ups to lie in.
  p.rows = 21, p.n = activates ? 320 : 300, p.k = 400, p.fill = fill_heavy_tailed, p.exact = false;
  p.bias = q.bias;
  Rig rig(c, p);  // Its plan is one that other tests have; the plan in question is for fewer rows.
  ironcl_gemm_desc desc = p.desc();
  desc.m = p.rows;
  desc.n = activates ? p.n / 2 : p.n, desc.ldd = desc.n + q.pad;
  desc.activation = static_cast<std::uint32_t>(q.activation), desc.activation_limit = q.limit;
  const numerics::ScaleGrid grid = q.scale.grid();
  const std::int64_t scale_rows = grid.scale_rows(p.rows), scale_cols = grid.scale_cols(desc.n);
  const std::int64_t scale_ld = scale_cols + q.scale.pad;
  desc.d_dtype = static_cast<ironcl_dtype>(q.code);
  if (quantised) {
    desc.d_scale.dtype = static_cast<ironcl_dtype>(q.scale.dtype);
    desc.d_scale.group_rows = static_cast<std::uint32_t>(q.scale.rows);
    desc.d_scale.group_cols = static_cast<std::uint32_t>(q.scale.cols);
    desc.d_scale.ld = scale_ld;
    desc.d_quantizer.scale_rounding = static_cast<std::uint32_t>(q.quantizer.rounding);
    desc.d_quantizer.scales = q.quantizer.given ? IRONCL_SCALES_GIVEN : IRONCL_SCALES_MADE;
  }
  const Op plan = make_plan(c, desc);
  const ironcl_op_info info = info_of(c, plan.get());
  const std::size_t scale_bytes = numerics::size_of(q.scale.dtype);
  const std::size_t size = numerics::size_of(q.code);
  const Part d = part(c, rig.queue(), extent(p.rows, desc.ldd, desc.n, size));
  // Such that a part of D saturates.
  const std::vector<float> given(static_cast<std::size_t>(scale_rows * scale_cols), 0x1p-8f);
  std::vector<std::byte> given_bytes(given.size() * scale_bytes);
  numerics::encode(q.scale.dtype, given, given_bytes.data());
  const Part scales =
      q.quantizer.given
          ? part(c, rig.queue(), spread(q.scale.dtype, given_bytes, scale_rows, scale_cols, scale_ld, 0))
          : part(c, rig.queue(), extent(scale_rows, scale_ld, scale_cols, scale_bytes));
  ironcl_gemm_args args = rig.args();
  const Weights weights = make_weights(c, p, rig.operands(), plan.get());
  args.weights = weights.get(), args.d = d.span();
  if (quantised) args.d_scale = scales.span();
  run(c, plan.get(), rig.queue(), &args);

  const auto elements = collect(c, rig.queue(), d, p.rows, desc.n, desc.ldd, size, "D");
  std::vector<double> values(static_cast<std::size_t>(p.rows * desc.n));
  numerics::decode(q.code, elements.data(), std::span<double>(values));
  // Of what is rounded to the type of D, or quantised in f32.
  numerics::BoundTerms terms = bound_terms(p, info);
  terms.out = quantised || activates ? DType::f32 : q.code;
  numerics::Bounded want = bounded(rig.expected().oracle, terms);
  if (activates) want = testing::activated(q.activation, q.limit, want, quantised ? DType::f32 : q.code);
  std::vector<float> got_scales = given;
  if (quantised && !q.quantizer.given) {
    const auto bytes = collect(c, rig.queue(), scales, scale_rows, scale_cols, scale_ld, scale_bytes, "d_scale");
    numerics::decode(q.scale.dtype, bytes.data(), std::span<float>(got_scales));
  }
  const numerics::Comparison verdict =
      quantised ? compare_quantized(values, q.code, got_scales, grid, q.quantizer, want, q.scale.dtype)
                : compare(values, want);
  EXPECT_TRUE(verdict.pass) << fmt::format(
      "{} of {} elements of a D in {} with {}x{} scales are out of bounds, the "
      "worst is [{}, {}]: {} for {}",
      verdict.out_of_bounds, values.size(), numerics::name_of(q.code), grid.group_rows, grid.group_cols,
      verdict.worst_row, verdict.worst_col, verdict.worst_got, verdict.worst_want);
}

void quantised_output_is_described_whole(Context& c) {
  make_plan(c, base_problem().desc());
  const auto refused = [&](const char* what, const char* word, auto change) {
    ironcl_gemm_desc desc = base_problem().desc();
    desc.d_dtype = IRONCL_F8_E4M3FN;
    desc.d_scale = {IRONCL_F32, 1, 128, 0, 0, 0, 0};
    change(desc);
    expect_refused(c, &desc, IRONCL_INVALID_ARGUMENT, word, what);
  };
  using Desc = ironcl_gemm_desc;
  refused("an fp8 D without scales", "d_scale", [](Desc& d) { d.d_scale = {}; });
  refused("a float D with scales", "d_scale", [](Desc& d) { d.d_dtype = IRONCL_F32; });
  refused("scales of D in bf16", "d_scale", [](Desc& d) { d.d_scale.dtype = IRONCL_BF16; });
  refused("an ld of d_scale that is too short", "d_scale", [](Desc& d) { d.n = 1000, d.d_scale.ld = 1; });
}

/// A caller who allows the weaker class gets a result within the bound of the class that the plan says it has, and a
/// caller who does not never gets it.
void weaker_class_only_where_allowed(Context& c) {
  for (const std::uint32_t allowed : {IRONCL_ACCURACY_F32, IRONCL_ACCURACY_TENSOR14}) {
    Problem p = base_problem();
    // The bound of class tensor14 is no worst case for codes with tails that no quantiser leaves (docs/numerics.md).
    if (allowed == IRONCL_ACCURACY_F32) p.fill = fill_heavy_tailed, p.exact = false;
    p.weakest_accuracy = allowed;
    Rig rig(c, p);
    const ironcl_gemm_desc desc = p.desc();
    auto support = sized<ironcl_support>();
    Error error;
    require(c.table.supports(c.device, &desc, &support, &error), error, "supports");
    EXPECT_LE(rig.info().accuracy_class, allowed) << "a plan of a weaker class than was allowed";
    EXPECT_EQ(support.accuracy_class, rig.info().accuracy_class)
        << "supports() and op_info name different classes where class " << allowed << " is allowed";
    rig.expect_right(rig.call());
  }
}

}  // namespace

void add_output_tests(Suite& suite) {
  const auto add = [&suite](const std::string& name, const QuantisedD& q) {
    suite.add(
        "Output", name, Needs::gemm, [q](Context& c) { quantised_output(c, q); }, false);
  };
  constexpr numerics::Quantizer kPowers{.rounding = numerics::ScaleRounding::power_of_two};
  add("QuantisedToE4m3fn", {});
  add("QuantisedToE5m2", {.code = DType::e5m2});
  add("QuantisedPerToken", {.scale = {DType::f32, 1, 0, 0}});
  add("QuantisedInBlocks", {.scale = {DType::f32, 128, 128, 0}});
  add("QuantisedWithPowerOfTwoScales", {.scale = {DType::f32, 1, 64, 2}, .quantizer = kPowers});
  add("QuantisedWithScalesOfE8m0", {.scale = {DType::e8m0, 1, 32, 0}, .bias = DType::bf16, .pad = 5});
  add("QuantisedByAGivenScale", {.scale = {DType::f32, 0, 0, 0}, .quantizer = {.given = true}, .pad = 1});
  constexpr numerics::Activation kSilu = numerics::Activation::silu, kOai = numerics::Activation::swiglu_oai;
  add("Activated", {.code = DType::bf16, .bias = DType::f32, .pad = 3, .activation = kOai, .limit = 7});
  add("ActivatedAndQuantised", {.scale = {DType::f32, 1, 64, 0}, .activation = kSilu});
  suite.add("Output", "AQuantisedDIsDescribedWhole", Needs::gemm, quantised_output_is_described_whole);
  suite.add("Output", "AWeakerClassOnlyWhereAllowed", Needs::gemm, weaker_class_only_where_allowed);
}

}  // namespace ironcl::conformance
