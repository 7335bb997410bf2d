// SPDX-License-Identifier: Apache-2.0
// Group Memory: transfers, and that a call writes nothing but what it was given to write.
#include <algorithm>
#include <cstring>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

std::vector<std::byte> random_bytes(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.bits() >> 56);
  return bytes;
}

void round_trip(Context& c) {
  const Queue queue = make_queue(c);
  const auto bytes = random_bytes(c.seed, 10007);
  const Buffer buffer = make_buffer(c, bytes.size());
  upload(c, queue.get(), buffer.get(), 0, bytes);
  EXPECT_EQ(download(c, queue.get(), buffer.get(), 0, bytes.size()), bytes);
  // Odd offsets and sizes: the alignment of buffer_alignment is asked of op_enqueue only.
  const auto part = random_bytes(c.seed + 1, 333);
  upload(c, queue.get(), buffer.get(), 1001, part);
  auto want = bytes;
  std::copy(part.begin(), part.end(), want.begin() + 1001);
  EXPECT_EQ(download(c, queue.get(), buffer.get(), 0, bytes.size()), want);
  EXPECT_EQ(download(c, queue.get(), buffer.get(), 1001, 333), part);
}

void write_copies_before_return(Context& c) {
  const Queue queue = make_queue(c);
  auto bytes = random_bytes(c.seed, 1 << 20);
  const auto want = bytes;
  const Buffer buffer = make_buffer(c, bytes.size());
  Error error;
  require(c.table.write(queue.get(), {buffer.get(), 0, bytes.size()}, bytes.data(), IRONCL_HOST_COPIED_BEFORE_RETURN,
                        nullptr, &error),
          error, "write without an event");
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  EXPECT_EQ(download(c, queue.get(), buffer.get(), 0, want.size()), want);
}

void write_stable_until_event(Context& c) {
  const Queue queue = make_queue(c);
  auto bytes = random_bytes(c.seed, 1 << 18);
  const auto want = bytes;
  const Buffer buffer = make_buffer(c, bytes.size());
  Error error;
  ironcl_event event = nullptr;
  require(c.table.write(queue.get(), {buffer.get(), 0, bytes.size()}, bytes.data(), IRONCL_HOST_STABLE_UNTIL_EVENT,
                        &event, &error),
          error, "write");
  const Event owner(c.table, event);
  wait(c, event, "write");
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  EXPECT_EQ(download(c, queue.get(), buffer.get(), 0, want.size()), want);
}

void read_without_event(Context& c) {
  const Queue queue = make_queue(c);
  const auto bytes = random_bytes(c.seed, 4096);
  const Buffer buffer = make_buffer(c, bytes.size());
  upload(c, queue.get(), buffer.get(), 0, bytes);
  std::vector<std::byte> got(bytes.size());
  Error error;
  require(c.table.read(queue.get(), {buffer.get(), 0, got.size()}, got.data(), nullptr, &error), error, "read");
  require(c.table.queue_finish(queue.get(), &error), error, "queue_finish");
  EXPECT_EQ(got, bytes);
}

/// A call that nobody asks about runs in its turn, and its result is there when the queue is finished.
void call_without_event(Context& c) {
  Rig rig(c, base_problem());
  rig.reset();
  Error error;
  for (int i = 0; i < 2; ++i) require(rig.enqueue_raw(rig.queue(), rig.args(), nullptr, error), error, "op_enqueue");
  require(c.table.queue_finish(rig.queue(), &error), error, "queue_finish");
  rig.expect_right(rig.collect(rig.queue()));
}

void inputs_are_not_written(Context& c) {
  Rig rig(c, base_problem());
  rig.call();
  const ironcl_gemm_args args = rig.args();
  for (const auto& [span, want] :
       {std::pair(args.a, &rig.operands().a), std::pair(args.a_scale, &rig.operands().a_scale)}) {
    EXPECT_EQ(download(c, rig.queue(), span.buffer, span.offset, span.size), *want) << "an input changed";
  }
}

void workspace_of_the_caller(Context& c) {
  Problem p = base_problem();
  p.a_source = DType::bf16, p.fill = fill_activations, p.exact = false;
  Rig rig(c, p, RigOptions{.own_workspace = true});
  rig.expect_right(rig.call());  // checks the guards around the workspace
  if (rig.info().workspace_bytes == 0) throw NotApplicable("the plan needs no workspace");
  rig.expect_right(rig.call());
}

void d_is_overwritten_not_added_to(Context& c) {
  Rig rig(c, base_problem());
  const Output first = rig.call();
  const Event again = rig.enqueue(rig.queue());
  wait(c, again.get(), "op_enqueue");
  EXPECT_EQ(rig.collect(rig.queue()).bytes, first.bytes)
      << "a second call over the first one's D gives something else";
}

}  // namespace

void add_memory_tests(Suite& suite) {
  suite.add("Memory", "WhatIsWrittenIsRead", Needs::memory, round_trip);
  suite.add("Memory", "WriteCopiesBeforeItReturns", Needs::memory, write_copies_before_return);
  suite.add("Memory", "WriteFromStableMemory", Needs::memory, write_stable_until_event);
  suite.add("Memory", "ReadWithoutAnEventEndsAtFinish", Needs::memory, read_without_event);
  suite.add("Memory", "ACallWithoutAnEventEndsAtFinish", Needs::gemm, call_without_event);
  suite.add("Memory", "InputsAreNotWritten", Needs::gemm, inputs_are_not_written);
  suite.add("Memory", "WorkspaceOfTheCallerIsEnough", Needs::gemm, workspace_of_the_caller);
  suite.add("Memory", "DIsOverwrittenNotAddedTo", Needs::gemm, d_is_overwritten_not_added_to);
}

}  // namespace ironcl::conformance
