// SPDX-License-Identifier: Apache-2.0
// Group Sequence: calls that are recorded once and submitted by one call give the bits of the calls, keep what they
// name, wait and end as a whole, and are checked when they are recorded.
#include "tests/conformance/suite/groups.h"
#include "tests/conformance/suite/rig.h"

namespace ironcl::conformance {
namespace {

ironcl_sequence_desc described(const std::vector<ironcl_op>& ops, const std::vector<const void*>& args) {
  auto desc = sized<ironcl_sequence_desc>();
  desc.count = static_cast<std::uint32_t>(ops.size());
  desc.ops = ops.data(), desc.args = args.data();
  return desc;
}

/// Two products of which the second multiplies what the first has made.
struct Two {
  explicit Two(Context& c) : first(c, problem(21, 200, 300)), second(c, problem(21, 90, 200)), to(second.args()) {
    to.a = first.d_span();
  }
  static Problem problem(std::int64_t m, std::int64_t n, std::int64_t k) {
    Problem p = base_problem();
    p.m = m, p.n = n, p.k = k;
    p.a_source = DType::f32, p.fill = fill_activations, p.exact = false;
    return p;
  }
  void reset() { first.reset(), second.reset(); }

  Rig first, second;
  ironcl_gemm_args to;
};

struct Recorded : Two {
  explicit Recorded(Context& c)
      : Two(c), from(first.args()), ops{first.plan(), second.plan()}, args{&from, &to}, desc(described(ops, args)) {}
  ironcl_gemm_args from;
  std::vector<ironcl_op> ops;
  std::vector<const void*> args;
  ironcl_sequence_desc desc;
};

void gives_the_bits_of_its_calls(Context& c) {
  Recorded two(c);
  run(c, two.first.plan(), two.first.queue(), &two.from);
  run(c, two.second.plan(), two.first.queue(), &two.to);
  const Output want = two.second.collect(two.first.queue());
  const Op sequence = make_op(c, &two.desc);
  const std::vector<ironcl_op> whole = {sequence.get()};
  const auto args = sized<ironcl_sequence_args>();
  const std::vector<const void*> of_whole = {&args};
  const ironcl_sequence_desc nested = described(whole, of_whole);
  const Op outer = make_op(c, &nested);
  EXPECT_EQ(info_of(c, sequence.get()).kind, +IRONCL_OP_SEQUENCE);
  // What the calls name may go: the sequence has its share.
  two.first.destroy_plan(), two.second.destroy_plan();
  two.first.destroy_weights(), two.second.destroy_weights();
  for (const ironcl_op op : {sequence.get(), outer.get(), sequence.get()}) {
    two.reset();
    run(c, op, two.first.queue(), &args);
    EXPECT_EQ(two.second.collect(two.first.queue()).bytes, want.bytes);
  }
}

void waits_as_a_whole(Context& c) {
  Recorded two(c);
  Rig before(c, Two::problem(21, 300, 20000));
  const Output made = before.call();
  two.from.a = before.d_span();
  run(c, two.first.plan(), two.first.queue(), &two.from);
  run(c, two.second.plan(), two.first.queue(), &two.to);
  const Output want = two.second.collect(two.first.queue());
  const Op sequence = make_op(c, &two.desc);
  for (int i = 0; i < 3; ++i) {
    before.reset(), two.reset();
    const Event event = before.enqueue(before.queue());
    const ironcl_event list[] = {event.get()};
    auto args = sized<ironcl_sequence_args>();
    args.wait = list, args.wait_count = 1;
    run(c, sequence.get(), two.first.queue(), &args);
    EXPECT_EQ(two.second.collect(two.first.queue()).bytes, want.bytes);
  }
}

void what_it_records_is_checked(Context& c) {
  Recorded two(c);
  constexpr std::uint32_t kTooMany = 65537;
  const Wrong<ironcl_sequence_desc> wrong[] = {
      {"count", kInvalid, [](ironcl_sequence_desc& d) { d.count = 0; }},
      {"count", kInvalid, [](ironcl_sequence_desc& d) { d.count = kTooMany; }},
      {"ops", kInvalid, [](ironcl_sequence_desc& d) { d.ops = nullptr; }},
      {"args", kInvalid, [](ironcl_sequence_desc& d) { d.args = nullptr; }},
      {"flags", kUnknown, [](ironcl_sequence_desc& d) { d.flags = 1; }},
  };
  expect_wrong(c, two.desc, wrong);
  const auto refused = [&](const char* word, auto&& change) {
    const ironcl_gemm_args good = two.to;
    const std::vector<ironcl_op> ops = two.ops;
    const std::vector<const void*> args = two.args;
    change();
    two.desc = described(two.ops, two.args);
    expect_refused(c, &two.desc, kInvalid, word);
    two.to = good, two.ops = ops, two.args = args;
  };
  const ironcl_event event = nullptr;
  refused("ops[1]", [&] { two.ops[1] = nullptr; });
  refused("args[1]", [&] { two.args[1] = nullptr; });
  refused("kind", [&] { two.to.kind = IRONCL_OP_ROUTE; });
  refused("m", [&] { two.to.m = 22; });
  refused("d", [&] { two.to.d = {}; });
  refused("wait", [&] { two.to.wait = &event, two.to.wait_count = 1; });
  const Event done = two.first.enqueue(two.first.queue());
  const ironcl_event list[] = {done.get()};
  refused("wait_count", [&] { two.to.wait = list, two.to.wait_count = 1; });
  wait(c, done.get(), "op_enqueue");
  two.desc = described(two.ops, two.args);
  const Op sequence = make_op(c, &two.desc);
  const Wrong<ironcl_sequence_args> calls[] = {
      {"kind", kInvalid, [](ironcl_sequence_args& a) { a.kind = IRONCL_OP_GEMM; }},
      {"wait", kInvalid, [](ironcl_sequence_args& a) { a.wait_count = 1; }},
  };
  expect_wrong_calls(c, sequence.get(), two.first.queue(), sized<ironcl_sequence_args>(), calls);
}

}  // namespace

void add_sequence_tests(Suite& suite) {
  suite.add("Sequence", "GivesTheBitsOfItsCallsAndKeepsWhatTheyName", Needs::gemm, gives_the_bits_of_its_calls,
            false);
  suite.add("Sequence", "WaitsAsAWhole", Needs::gemm, waits_as_a_whole, false);
  suite.add("Sequence", "WhatItRecordsIsChecked", Needs::gemm, what_it_records_is_checked, false);
}

}  // namespace ironcl::conformance
