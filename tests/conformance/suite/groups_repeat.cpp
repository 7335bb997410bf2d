// SPDX-License-Identifier: Apache-2.0
// Group Repeat: the same bits from the same input, over calls, queues, plans and threads, where that is promised:
// always under IRONCL_GEMM_REPEATABLE, and without the flag on devices with IRONCL_CAP_BITWISE_REPEATABLE.
#include <thread>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

Problem problem(std::uint32_t flags) {
  Problem p = base_problem();
  p.m = 20, p.n = 150, p.k = 1100;
  p.a_source = DType::f32, p.fill = fill_activations, p.exact = false;
  p.flags = flags;
  return p;
}

void expect_same(const Output& got, const Output& want, const char* which) {
  if (got.bytes == want.bytes) return;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < got.values.size(); ++i) differ += got.values[i] != want.values[i] ? 1u : 0u;
  ADD_FAILURE() << which << " gave other bits in " << differ << " of " << got.values.size() << " elements";
}

void twenty_calls(Context& c, std::uint32_t flags) {
  Rig rig(c, problem(flags));
  const Output first = rig.call();
  rig.expect_right(first);
  for (int i = 1; i < 20; ++i) expect_same(rig.call(), first, "a later call");
}

void two_queues(Context& c) {
  Rig rig(c, problem(IRONCL_GEMM_REPEATABLE));
  const Output first = rig.call();
  const Queue other = make_queue(c);
  rig.reset();
  const Event event = rig.enqueue(other.get());
  wait(c, event.get(), "op_enqueue on another queue");
  expect_same(rig.collect(other.get()), first, "another queue");
}

void two_plans(Context& c) {
  Rig one(c, problem(IRONCL_GEMM_REPEATABLE)), two(c, problem(IRONCL_GEMM_REPEATABLE));
  const Output first = one.call();
  expect_same(two.call(), first, "another plan of the same description");
}

void two_threads(Context& c) {
  const Problem p = problem(IRONCL_GEMM_REPEATABLE);
  Rig one(c, p), two(c, p);
  const Output want = one.call();
  std::vector<Output> results[2];
  std::string thrown[2];
  const auto work = [&](Rig& rig, int index) {
    try {
      for (int i = 0; i < 6; ++i) results[index].push_back(rig.call());
    } catch (const std::exception& e) {
      thrown[index] = e.what();
    }
  };
  std::thread first(work, std::ref(one), 0), second(work, std::ref(two), 1);
  first.join();
  second.join();
  for (int t = 0; t < 2; ++t) {
    EXPECT_EQ(thrown[t], "") << "in a thread";
    for (const auto& result : results[t]) expect_same(result, want, "a call while another thread calls");
  }
}

void claimed_by_the_device(Context& c) {
  if ((props_of(c).caps & IRONCL_CAP_BITWISE_REPEATABLE) == 0) {
    throw NotApplicable("the device does not claim IRONCL_CAP_BITWISE_REPEATABLE");
  }
  twenty_calls(c, 0);
}

}  // namespace

void add_repeat_tests(Suite& suite) {
  const auto add = [&suite](const char* name, bool floor, std::function<void(Context&)> body) {
    suite.add("Repeat", name, Needs::gemm, std::move(body), floor);
  };
  add("TwentyCalls", false, [](Context& c) { twenty_calls(c, IRONCL_GEMM_REPEATABLE); });
  add("TwoQueues", false, two_queues);
  add("TwoPlans", false, two_plans);
  add("TwoThreads", false, two_threads);
  add("TwentyCallsWhereTheDeviceClaimsIt", true, claimed_by_the_device);
}

}  // namespace ironcl::conformance
