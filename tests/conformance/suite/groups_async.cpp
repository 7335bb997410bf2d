// SPDX-License-Identifier: Apache-2.0
// Group Async: order between commands, events, and objects destroyed while work uses them. No test measures time.
#include <array>
#include <cstring>

#include "backends/numerics/casts.h"
#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

/// Large enough that a dependent command which does not wait comes too early on most devices.
Problem slow_problem() {
  Problem p = base_problem();
  p.m = 64, p.n = 384, p.k = 512;
  return p;
}

/// Reads D on `queue`, having told it to wait for `event`, and compares.
void read_after(Context& c, Rig& rig, ironcl_queue queue, ironcl_event event) {
  Error error;
  require(c.table.queue_wait(queue, event, &error), error, "queue_wait");
  rig.expect_right(rig.collect(queue));
}

void queue_waits_for_another(Context& c) {
  Rig rig(c, slow_problem());
  const Queue other = make_queue(c);
  for (int i = 0; i < 5; ++i) {
    rig.reset();
    const Event done = rig.enqueue(rig.queue());
    read_after(c, rig, other.get(), done.get());
  }
}

/// A second product reads the D of the first as its A, on another queue, ordered by the wait list alone.
void wait_list_orders(Context& c) {
  Problem first = slow_problem();
  Problem second = base_problem();
  second.m = first.m, second.k = first.n, second.n = 72;
  second.a_source = DType::f32, second.fill = fill_activations, second.exact = false;
  Rig one(c, first), two(c, second);
  const Output want_one = one.call();
  one.expect_right(want_one);
  // What the second product gives on the right input, computed on one queue.
  const auto chained = [&](ironcl_queue queue, std::span<const ironcl_event> wait_for) {
    ironcl_gemm_args args = two.args();
    args.a = one.d_span();
    args.wait = wait_for.data(), args.wait_count = static_cast<uint32_t>(wait_for.size());
    Error error;
    ironcl_event event = nullptr;
    require(two.enqueue_raw(queue, args, &event, error), error, "op_enqueue");
    return Event(c.table, event);
  };
  two.reset();
  wait(c, chained(one.queue(), {}).get(), "op_enqueue");
  const Output want = two.collect(two.queue());
  const Queue other = make_queue(c);
  for (int i = 0; i < 5; ++i) {
    one.reset(), two.reset();
    const Event produced = one.enqueue(one.queue());
    // The same event twice, and one that has long ended, do no harm.
    const std::array<ironcl_event, 2> events{produced.get(), produced.get()};
    const Event consumed = chained(other.get(), events);
    wait(c, consumed.get(), "op_enqueue with a wait list");
    const Output got = two.collect(other.get());
    ASSERT_EQ(got.bytes, want.bytes) << "the second product did not wait for the first";
  }
}

void commands_run_in_order(Context& c) {
  Rig rig(c, slow_problem());
  for (int i = 0; i < 5; ++i) {
    rig.reset();
    rig.enqueue(rig.queue());  // its event is destroyed at once
    rig.expect_right(rig.collect(rig.queue()));
  }
}

void finish_ends_everything(Context& c) {
  Rig rig(c, slow_problem());
  const Event event = rig.enqueue(rig.queue());
  Error error;
  require(c.table.queue_finish(rig.queue(), &error), error, "queue_finish");
  EXPECT_EQ(c.table.event_wait(event.get(), 0, &error), IRONCL_OK) << "an event is not complete after queue_finish";
  rig.expect_right(rig.collect(rig.queue()));
}

void timeout_zero_asks(Context& c) {
  Rig rig(c, slow_problem());
  const Event event = rig.enqueue(rig.queue());
  Error error;
  ironcl_status status = c.table.event_wait(event.get(), 0, &error);
  EXPECT_TRUE(status == IRONCL_OK || status == IRONCL_TIMEOUT) << status_name(status) << ": " << error.message;
  status = c.table.event_wait(event.get(), 1, &error);
  EXPECT_TRUE(status == IRONCL_OK || status == IRONCL_TIMEOUT) << status_name(status) << ": " << error.message;
  wait(c, event.get(), "op_enqueue");
  EXPECT_EQ(c.table.event_wait(event.get(), 0, &error), IRONCL_OK) << "an event that has ended answers OK again";
  rig.expect_right(rig.collect(rig.queue()));
}

void no_rows_keep_their_turn(Context& c) {
  Rig rig(c, slow_problem());
  rig.reset();
  rig.enqueue(rig.queue());
  ironcl_gemm_args args = rig.args();
  args.m = 0;
  Error error;
  ironcl_event event = nullptr;
  require(rig.enqueue_raw(rig.queue(), args, &event, error), error, "op_enqueue with no rows");
  const Event empty(c.table, event);
  wait(c, empty.get(), "op_enqueue with no rows");
  const Queue other = make_queue(c);
  rig.expect_right(rig.collect(other.get()));  // the call before it must have ended
}

enum Order { plan_first, buffers_first, queue_first, everything };

/// Destroys objects between the enqueueing and the end of the work that uses them.
void destroy_in_use(Context& c, Order order) {
  for (int i = 0; i < 4; ++i) {
    Rig rig(c, slow_problem());
    const auto& want = rig.expected().oracle;
    std::vector<std::byte> got(want.value.size() * 4);
    Event produced = rig.enqueue(rig.queue());
    Error error;
    ironcl_event event = nullptr;
    require(c.table.read(rig.queue(), rig.d_span(), got.data(), &event, &error), error, "read");
    const Event read(c.table, event);
    if (order == plan_first || order == everything) rig.destroy_plan(), rig.destroy_weights();
    if (order == everything) produced.reset();
    if (order == buffers_first || order == everything) rig.destroy_buffers();
    if (order == queue_first || order == everything) rig.destroy_queue();
    wait(c, read.get(), "read of what was destroyed");
    std::vector<double> values(want.value.size());
    numerics::decode(DType::f32, got.data(), std::span<double>(values));
    ASSERT_EQ(values, want.value) << "objects were destroyed while a call used them, and its result is wrong";
  }
}

void event_outlives_all(Context& c) {
  Event event;
  {
    Rig rig(c, base_problem());
    event = rig.enqueue(rig.queue());
  }
  wait(c, event.get(), "everything else was destroyed");
  Error error;
  EXPECT_EQ(c.table.event_wait(event.get(), 0, &error), IRONCL_OK);
}

void destroy_null(Context& c) {
  c.table.queue_destroy(nullptr);
  c.table.buffer_destroy(nullptr);
  c.table.weights_destroy(nullptr);
  c.table.op_destroy(nullptr);
  c.table.event_destroy(nullptr);
}

/// No call of plugin.h makes a command fail at will, so a plugin may offer a hook for this test.
void failure_reaches_dependants(Context& c) {
  Rig rig(c, base_problem());
  Error error;
  std::uint64_t size = 0;
  if (c.table.device_query(c.device, "testing.fail_next_gemm", nullptr, nullptr, 0, &size, &error) != IRONCL_OK) {
    throw NotApplicable("no call can be made to fail here: device_query(\"testing.fail_next_gemm\") is optional");
  }
  const Event failing = rig.enqueue(rig.queue());
  Error first;
  const ironcl_status status = c.table.event_wait(failing.get(), UINT64_MAX, &first);
  EXPECT_NE(status, IRONCL_OK) << "the hook had no effect";
  const Queue other = make_queue(c);
  const ironcl_event events[] = {failing.get()};
  const Event dependent = rig.enqueue(other.get(), events);
  Error second;
  EXPECT_EQ(c.table.event_wait(dependent.get(), UINT64_MAX, &second), status)
      << "a command that waited for a failed event must fail with its status; it says " << second.message;
}

void profile_is_sane(Context& c) {
  Rig rig(c, base_problem());
  const Event event = rig.enqueue(rig.queue());
  wait(c, event.get(), "op_enqueue");
  const ironcl_device_props props = props_of(c);
  auto profile = sized<ironcl_event_profile>();
  Error error;
  const ironcl_status status = c.table.event_profile(event.get(), &profile, &error);
  if ((props.caps & IRONCL_CAP_EVENT_PROFILING) == 0 && status == IRONCL_UNIMPLEMENTED) {
    throw NotApplicable("the device does not claim IRONCL_CAP_EVENT_PROFILING");
  }
  require(status, error, "event_profile");
  EXPECT_EQ(profile.time_kind,
            props.type == IRONCL_DEVICE_MODEL ? unsigned{IRONCL_TIME_MODELLED} : unsigned{IRONCL_TIME_MEASURED})
      << "a modelled time must never look like a measured one";
  EXPECT_LE(profile.queued_ns, profile.start_ns);
  EXPECT_LE(profile.start_ns, profile.end_ns);
}

}  // namespace

void add_async_tests(Suite& suite) {
  suite.add("Async", "QueueWaitsForAnotherQueue", Needs::gemm, queue_waits_for_another);
  suite.add("Async", "WaitListOrdersTwoQueues", Needs::gemm, wait_list_orders);
  suite.add("Async", "CommandsOfAQueueRunInOrder", Needs::gemm, commands_run_in_order);
  suite.add("Async", "FinishEndsEverything", Needs::gemm, finish_ends_everything);
  suite.add("Async", "ATimeoutOfZeroAsks", Needs::gemm, timeout_zero_asks);
  suite.add("Async", "ACallWithoutRowsKeepsItsTurn", Needs::gemm, no_rows_keep_their_turn);
  suite.add("Async", "PlanAndWeightsMayGoWhileInUse", Needs::gemm, [](Context& c) { destroy_in_use(c, plan_first); });
  suite.add("Async", "BuffersMayGoWhileInUse", Needs::gemm, [](Context& c) { destroy_in_use(c, buffers_first); });
  suite.add("Async", "QueueMayGoWhileInUse", Needs::gemm, [](Context& c) { destroy_in_use(c, queue_first); });
  suite.add("Async", "EverythingMayGoWhileInUse", Needs::gemm, [](Context& c) { destroy_in_use(c, everything); });
  suite.add("Async", "AnEventOutlivesEverything", Needs::gemm, event_outlives_all);
  suite.add("Async", "DestroyTakesNull", Needs::devices, destroy_null);
  suite.add("Async", "AFailureReachesDependants", Needs::gemm, failure_reaches_dependants);
  suite.add("Async", "ProfileIsSane", Needs::gemm, profile_is_sane);
}

}  // namespace ironcl::conformance
