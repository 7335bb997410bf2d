// SPDX-License-Identifier: Apache-2.0
// Group Weights: prepared once, exported bit for bit, used by any plan that they fit.
#include <fmt/format.h>

#include <cstring>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

/// Every bit pattern, NaN payloads and padding included: what comes back must be what went in.
void fill_any_bits(const Problem&, Random& random, Operands& o) {
  for (auto* bytes : {&o.b, &o.b_scale}) {
    for (auto& byte : *bytes) byte = static_cast<std::byte>(random.bits() >> 56);
  }
}

void export_round_trip(Context& c, Problem p, bool for_plan) {
  Operands operands = make_operands(p);
  Random random(c.seed);
  fill_any_bits(p, random, operands);
  Op plan = make_plan(c, p.desc());
  const Weights weights = make_weights(c, p, operands, for_plan ? plan.get() : nullptr);
  auto info = sized<ironcl_weights_info>();
  Error error;
  require(c.table.weights_info(weights.get(), &info, &error), error, "weights_info");
  EXPECT_EQ(info.data_bytes, operands.b.size());
  EXPECT_EQ(info.scale_bytes, operands.b_scale.size());
  EXPECT_GE(info.device_bytes, operands.b.size())
      << "a lossless packing of random bytes is not smaller than they are";
  EXPECT_NE(strnlen(info.form, sizeof info.form), 0u) << "the form has no name";
  EXPECT_LT(strnlen(info.form, sizeof info.form), sizeof info.form) << "the form's name is not terminated";
  if (const ironcl_op_info of_plan = info_of(c, plan.get()); for_plan && of_plan.form[0] != '\0') {
    EXPECT_STREQ(of_plan.form, info.form)
        << "weights are prepared in another form than their plan says that it reads";
  }

  constexpr std::size_t kAround = 64;
  std::vector<std::byte> data(operands.b.size() + kAround, std::byte{0xc3});
  std::vector<std::byte> scales(operands.b_scale.size() + kAround, std::byte{0xc3});
  plan.reset();  // the weights must not need it
  require(c.table.weights_export(weights.get(), data.data(), operands.b.size(), scales.data(),
                                 operands.b_scale.size(), &error),
          error, "weights_export");
  const auto compare = [&p](const std::vector<std::byte>& got, const std::vector<std::byte>& want, const char* what) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::byte expected = i < want.size() ? want[i] : std::byte{0xc3};
      if (got[i] == expected) continue;
      ADD_FAILURE() << fmt::format("byte {} of the exported {} is {:#04x}, expected {:#04x} ({} bytes in all)   [{}]",
                                   i, what, static_cast<unsigned>(got[i]), static_cast<unsigned>(expected),
                                   want.size(), p.line());
      return;
    }
  };
  compare(data, operands.b, "values");
  compare(scales, operands.b_scale, "scales");
}

Problem padded() {
  Problem p = base_problem();
  p.b_pad = 9, p.b_scale.pad = 2;
  return p;
}

void small_export_is_refused(Context& c) {
  Rig rig(c, base_problem());
  std::vector<std::byte> data(rig.operands().b.size()), scales(rig.operands().b_scale.size());
  Error error;
  EXPECT_EQ(c.table.weights_export(rig.weights(), data.data(), data.size() - 1, scales.data(), scales.size(), &error),
            IRONCL_INVALID_ARGUMENT)
      << error.message;
  EXPECT_EQ(c.table.weights_export(rig.weights(), data.data(), data.size(), scales.data(), scales.size() - 1, &error),
            IRONCL_INVALID_ARGUMENT)
      << error.message;
  EXPECT_EQ(c.table.weights_export(rig.weights(), nullptr, data.size(), scales.data(), scales.size(), &error),
            IRONCL_INVALID_ARGUMENT)
      << error.message;
}

ironcl_weights_info info_of(Context& c, ironcl_weights weights) {
  auto info = sized<ironcl_weights_info>();
  Error error;
  require(c.table.weights_info(weights, &info, &error), error, "weights_info");
  return info;
}

/// Calls a plan with weights in the device's usual layout. A plan that reads another one may refuse them; then it is
/// right with its own.
void expect_usual_weights(Context& c, const Problem& p, const Operands& operands, ironcl_weights usual) {
  Rig rig(c, p, operands);
  rig.reset();
  ironcl_gemm_args args = rig.args();
  args.weights = usual;
  Error error;
  ironcl_event event = nullptr;
  const ironcl_status status = rig.enqueue_raw(rig.queue(), args, &event, error);
  const std::string has = info_of(c, usual).form, reads = info_of(c, rig.weights()).form;
  if (status == IRONCL_INVALID_ARGUMENT && has != reads) {
    rig.expect_right(rig.call());
    return;
  }
  require(status, error,
          fmt::format("op_enqueue with weights of form {}, where the plan reads {}", has, reads).c_str());
  const Event owner(c.table, event);
  wait(c, event, "op_enqueue");
  rig.expect_right(rig.collect(rig.queue()));
}

void one_set_for_many_plans(Context& c) {
  const Problem p = base_problem();
  const Rig source(c, p, RigOptions{.weights_for_plan = false});
  for (const std::int64_t m : {1, 70}) {
    for (const auto out : {DType::f32, DType::bf16}) {
      Problem q = p;
      q.m = m, q.d = out;
      Operands operands = make_operands(q);
      Random random(c.seed + static_cast<std::uint64_t>(m));
      fill_exact(q, random, operands);
      operands.b = source.operands().b, operands.b_scale = source.operands().b_scale;
      expect_usual_weights(c, q, operands, source.weights());
    }
  }
}

}  // namespace

void add_weights_tests(Suite& suite) {
  suite.add("Weights", "ExportIsBitExact", Needs::gemm,
            [](Context& c) { export_round_trip(c, base_problem(), false); });
  suite.add("Weights", "ExportOfAPlansLayoutIsBitExact", Needs::gemm,
            [](Context& c) { export_round_trip(c, base_problem(), true); });
  suite.add("Weights", "ExportOfPaddedRowsIsTight", Needs::gemm,
            [](Context& c) { export_round_trip(c, padded(), true); });
  suite.add("Weights", "ExportIntoTooLittleIsRefused", Needs::gemm, small_export_is_refused);
  suite.add("Weights", "OneSetServesManyPlans", Needs::gemm, one_set_for_many_plans);
  suite.add("Weights", "UsualLayoutIsRight", Needs::gemm, [](Context& c) {
    const Rig source(c, base_problem(), RigOptions{.weights_for_plan = false});
    expect_usual_weights(c, base_problem(), source.operands(), source.weights());
  });
}

}  // namespace ironcl::conformance
