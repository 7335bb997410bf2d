// SPDX-License-Identifier: Apache-2.0
// Group Ragged: sizes around every boundary, strides, offsets, and calls with fewer rows than planned.
#include <fmt/format.h>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

void add_sizes(Suite& suite, std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem p = base_problem();
  p.m = m, p.n = n, p.k = k;
  add_problem(suite, "Ragged", fmt::format("M{}N{}K{}", m, n, k), p, true);
}

/// One plan for 70 rows, called with these numbers of rows one after another: what an earlier call left behind must
/// not show in a later one.
void fewer_rows(Context& context, DType source, DType out) {
  Problem p = base_problem();
  p.m = 70, p.d = out;
  p.a_source = source;
  if (p.dynamic()) p.fill = fill_activations, p.exact = false;
  const Op plan = make_plan(context, p.desc());
  const ironcl_op_info info = info_of(context, plan.get());
  for (const std::int64_t rows : {70, 5, 64, 1, 0, 17, 70}) {
    Problem q = p;
    q.rows = rows;
    Context sub = context;
    sub.seed = context.seed + static_cast<std::uint64_t>(rows);
    Rig rig(sub, q);
    const Weights weights = make_weights(sub, q, rig.operands(), plan.get());
    ironcl_gemm_args args = rig.args();
    args.weights = weights.get();
    run(context, plan.get(), rig.queue(), &args);
    SCOPED_TRACE(fmt::format("a call with {} rows of a plan for {}", rows, p.m));
    rig.expect_right(rig.collect(rig.queue()));
  }
  EXPECT_GT(info.accumulation_length, 0);
}

}  // namespace

void add_ragged_tests(Suite& suite) {
  for (const std::int64_t m : {1, 2, 3, 7, 16, 17, 64, 127, 129}) add_sizes(suite, m, 136, 264);
  for (const std::int64_t n : {1, 3, 16, 17, 127, 128, 129, 192, 448, 576}) add_sizes(suite, 5, n, 264);
  for (const std::int64_t k : {1, 3, 17, 32, 127, 128, 129, 200, 448, 576}) add_sizes(suite, 5, 136, k);
  add_sizes(suite, 1, 1, 1);
  add_sizes(suite, 127, 129, 127);
  add_sizes(suite, 83, 448, 3884);

  Problem p = base_problem();
  p.a_pad = 24;
  add_problem(suite, "Ragged", "GapsBetweenRowsOfA", p, true);
  p.a_pad = 1;
  add_problem(suite, "Ragged", "OddLeadingDimensionOfA", p, true);
  p.a_pad = 0, p.b_pad = 13;
  add_problem(suite, "Ragged", "GapsBetweenRowsOfB", p, true);
  p.b_pad = 0, p.d_pad = 11;
  add_problem(suite, "Ragged", "GapsBetweenRowsOfD", p, true);
  p.d = DType::bf16, p.d_pad = 3;
  add_problem(suite, "Ragged", "GapsBetweenRowsOfDInBf16", p, true);
  p = base_problem();
  p.offsets = true;
  add_problem(suite, "Ragged", "SpansInsideLargerBuffers", p, true);
  p.a_source = DType::bf16, p.fill = fill_activations, p.exact = false, p.a_pad = 8, p.d_pad = 8;
  add_problem(suite, "Ragged", "QuantisedAWithGapsAndOffsets", p, true);

  suite.add("Ragged", "FewerRowsThanPlanned", Needs::gemm,
            [](Context& c) { fewer_rows(c, DType::none, DType::f32); });
  suite.add("Ragged", "FewerRowsThanPlannedQuantisedInThePlan", Needs::gemm,
            [](Context& c) { fewer_rows(c, DType::bf16, DType::bf16); });
  suite.add("Ragged", "NoRowsWriteNothing", Needs::gemm, [](Context& c) {
    Problem q = base_problem();
    q.rows = 0;
    Rig rig(c, q);
    EXPECT_TRUE(rig.call().bytes.empty());
    // Spans of rows may be absent.
    ironcl_gemm_args args = rig.args();
    args.a = args.a_scale = args.d = {};
    run(c, rig.plan(), rig.queue(), &args);
  });
  suite.add("Ragged", "APlanOfNoRows", Needs::gemm, [](Context& c) {
    Problem q = base_problem();
    q.m = 0;
    Rig rig(c, q);
    EXPECT_TRUE(rig.call().bytes.empty());
  });
}

}  // namespace ironcl::conformance
