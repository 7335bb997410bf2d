// SPDX-License-Identifier: Apache-2.0
// Queues, events, buffers, weights and plans as objects: order, waiting, failing, dying in any order. Next door:
// limits_test.cpp (what is refused before there is an object).
#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "backends/opencl/device.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/objects.h"
#include "tests/errors.h"
#include "tests/opencl/one_launch.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;
using backend::HostSemantics;
using backend::Status;
using std::chrono::milliseconds;

using OpenClObjects = OnDevices;

/// A problem whose plan has a workspace on every device: the variant reads what a kernel before it quantised. Left to
/// the rule of thumb, some devices take one that quantises for itself.
Case with_workspace() {
  Case c{.m = 24, .n = 200, .k = 640, .a_source = DType::f32};
  c.options = {{"variant", "gemm_stream"}, {"floats", "0"}};
  return c;
}

/// A problem whose work-groups stay and count what they have taken, in memory of the plan's own, on any device.
Case with_counter() {
  Case c{.m = 3, .n = 500, .k = 640, .a_source = DType::bf16};
  c.options = {{"variant", "gemm_stream"}, {"floats", "1"}, {"tile_m", "4"}, {"block_m", "1"}, {"split_k", "1"}};
  return c;
}

/// Any problem: one for all, since drivers take long for a program.
Case any_problem() { return {4, 64, 256}; }

std::vector<float> d_of(const Ready& ready, backend::Queue& from) {
  std::vector<float> out(static_cast<std::size_t>(ready.c.m * ready.c.n));
  from.read(ready.args.d, out.data())->wait(kForEver);
  return out;
}

/// An event of the backend that ends when the test says so.
struct Gate {
  cl::UserEvent user;
  std::shared_ptr<Event> event;
  explicit Gate(backend::Device& device) {
    const auto& context = dynamic_cast<Device&>(device).context();
    user = cl::UserEvent(context->context);
    event = std::make_shared<Event>(context, std::vector<cl::Event>{user}, std::vector<std::shared_ptr<Event>>{});
  }
};

TEST_F(OpenClObjects, ACommandThatWaitedForAFailedEventFailsWithItsStatus) {
  for (const auto& device : devices()) {
    Ready ready(*device, any_problem());
    Gate gate(*device);
    ready.args.wait = {gate.event};
    const auto event = ready.plan->enqueue(ready.queue, ready.args);
    gate.user.setStatus(CL_OUT_OF_RESOURCES);
    expect_error<backend::Error>(Status::out_of_device_memory, "CL_OUT_OF_RESOURCES", [&] { event->wait(kForEver); });
    expect_error<backend::Error>(Status::out_of_device_memory, "CL_OUT_OF_RESOURCES",
                                 [&] { event->wait(milliseconds(5)); });
  }
}

TEST_F(OpenClObjects, QueuesWaitForOneAnother) {
  for (const auto& device : devices()) {
    Ready ready(*device, any_problem());
    Gate gate(*device);
    ready.args.wait = {gate.event};
    const auto event = ready.plan->enqueue(ready.queue, ready.args);
    const auto other = device->create_queue();
    other->wait_for(event);
    std::vector<float> got(static_cast<std::size_t>(ready.c.m * ready.c.n));
    const auto read = other->read(ready.args.d, got.data());
    EXPECT_EQ(read->wait(milliseconds(10)), Status::timeout);
    gate.user.setStatus(CL_COMPLETE);
    EXPECT_EQ(read->wait(kForEver), Status::ok);
    EXPECT_EQ(got, d_of(ready, *other));
    EXPECT_TRUE(std::none_of(got.begin(), got.end(), [](float v) { return v != v; }));
  }
}

TEST_F(OpenClObjects, CommandsThatFailMayHaveLostTheirEvents) {
  // As where a host asks for none. PoCL 3.1 ends the process where nobody else holds them.
  for (const auto& device : devices()) {
    for (const bool by_queue : {true, false}) {
      Ready ready(*device, with_workspace());
      Gate gate(*device);
      if (by_queue) ready.queue->wait_for(gate.event);
      if (!by_queue) ready.args.wait = {gate.event};
      (void)ready.plan->enqueue(ready.queue, ready.args);
      ready.args.wait.clear();
      (void)ready.plan->enqueue(ready.queue, ready.args);
      std::vector<float> d(static_cast<std::size_t>(ready.c.m * ready.c.n));
      (void)ready.queue->read(ready.args.d, d.data());
      gate.user.setStatus(CL_OUT_OF_RESOURCES);
      try {
        ready.queue->finish();
      } catch (const backend::Error&) {  // A driver may say so here, too.
      }
    }
  }
}

TEST_F(OpenClObjects, DevicesWaitForOneAnother) {
  // The same devices once more are others to a driver: each has a context of its own.
  const auto made = make({});
  for (std::size_t i = 0; i < made.devices.size(); ++i) {
    for (const bool by_queue : {true, false}) {
      backend::Device &first = *made.devices[i], &second = *devices()[i];
      Ready ready(second, any_problem());
      const std::vector<std::uint8_t> byte(1, 7);
      const backend::Span one{first.create_buffer(1), 0, 1};
      Gate gate(first);
      const auto queue = first.create_queue();
      queue->wait_for(gate.event);
      const auto written = queue->write(one, byte.data(), HostSemantics::stable_until_event);
      if (by_queue) ready.queue->wait_for(written);
      if (!by_queue) ready.args.wait = {written};
      const auto event = ready.plan->enqueue(ready.queue, ready.args);
      EXPECT_EQ(event->wait(milliseconds(20)), Status::timeout);
      gate.user.setStatus(CL_COMPLETE);
      EXPECT_EQ(event->wait(kForEver), Status::ok);
    }
  }
}

TEST_F(OpenClObjects, EveryCallOfWorkGroupsThatCountIsWhole) {
  for (const auto& device : devices()) {
    Ready ready(*device, with_counter());
    const Outcome right = run(*device, ready.c, ready.data);
    expect_right(right, ready.c, device->props().name);
    const auto second = device->create_queue();
    const std::vector<float> nothing(static_cast<std::size_t>(ready.c.m * ready.c.n), -77.0f);
    std::vector<float> want;
    for (int i = 0; i < 12; ++i) {
      const auto& queue = i % 3 == 0 ? second : ready.queue;
      queue->write(ready.args.d, nothing.data(), backend::HostSemantics::stable_until_event)->wait(kForEver);
      ready.args.m = i % 4 == 3 ? 2 : 3;
      ready.plan->enqueue(queue, ready.args)->wait(kForEver);
      const std::vector<float> got = d_of(ready, *queue);
      if (want.empty()) want = got;
      const auto rows = static_cast<std::ptrdiff_t>(ready.args.m * ready.c.n);
      EXPECT_TRUE(std::equal(got.begin(), got.begin() + rows, want.begin())) << "call " << i;
      EXPECT_EQ(std::count(got.begin(), got.end(), -77.0f), static_cast<std::ptrdiff_t>(got.size()) - rows) << i;
    }
  }
}

/// Expects that `second` waits for `first`, which a gate holds back: both use memory of their plan's own.
void expect_one_after_the_other(Gate& gate, backend::Event& first, backend::Event& second, const char* what) {
  EXPECT_EQ(second.wait(milliseconds(100)), Status::timeout) << what;
  gate.user.setStatus(CL_COMPLETE);
  EXPECT_EQ(first.wait(kForEver), Status::ok) << what;
  EXPECT_EQ(second.wait(kForEver), Status::ok) << what;
}

TEST_F(OpenClObjects, CallsThatShareAWorkspaceOrACounterWaitForOneAnotherEveryTime) {
  for (const auto& device : devices()) {
    Ready with_memory(*device, with_workspace()), that_counts(*device, with_counter());
    const auto other_queue = device->create_queue();
    for (int round = 0; round < 8; ++round) {
      Ready& ready = round < 4 ? with_memory : that_counts;
      Gate gate(*device);
      backend::GemmArgs held = ready.args;
      held.wait = {gate.event};
      if (round == 7) {  // The counter is not in it.
        const std::uint64_t bytes = std::max<std::uint64_t>(256, ready.plan->info().workspace_bytes);
        ready.args.workspace = held.workspace = {device->create_buffer(bytes), 0, bytes};
      }
      const auto& from = round % 2 == 0 ? ready.queue : other_queue;
      const auto& to = round % 2 == 0 ? other_queue : ready.queue;
      const auto first = ready.plan->enqueue(from, held);
      const auto second = ready.plan->enqueue(to, ready.args);
      expect_one_after_the_other(gate, *first, *second, "two queues that both live");
    }
  }
}

TEST_F(OpenClObjects, AQueueAtTheAddressOfADestroyedOneIsAnotherQueue) {
  for (const auto& device : devices()) {
    Ready ready(*device, with_workspace());
    for (int round = 0; round < 8; ++round) {
      Gate gate(*device);
      backend::GemmArgs held = ready.args;
      held.wait = {gate.event};
      auto doomed = device->create_queue();
      const auto first = ready.plan->enqueue(doomed, held);
      const void* const address = doomed.get();
      doomed.reset();  // Legal with a call under way.
      std::vector<std::shared_ptr<backend::Queue>> queues;
      do {
        queues.push_back(device->create_queue());
      } while (queues.back().get() != address && queues.size() < 32);
      const auto second = ready.plan->enqueue(queues.back(), ready.args);
      expect_one_after_the_other(gate, *first, *second, "the second queue may lie where the first one lay");
    }
  }
}

TEST_F(OpenClObjects, AFailedCallDoesNotFailThoseAfterIt) {
  for (const auto& device : devices()) {
    Ready ready(*device, with_workspace());
    Gate gate(*device);
    backend::GemmArgs doomed = ready.args;
    doomed.wait = {gate.event};
    const auto failed = ready.plan->enqueue(ready.queue, doomed);
    gate.user.setStatus(CL_OUT_OF_RESOURCES);
    expect_error<backend::Error>(Status::out_of_device_memory, "CL_OUT_OF_RESOURCES",
                                 [&] { failed->wait(kForEver); });
    const auto other = device->create_queue();
    EXPECT_EQ(ready.plan->enqueue(other, ready.args)->wait(kForEver), Status::ok);
  }
}

TEST_F(OpenClObjects, AWorkspaceIsAllocatedOnlyForCallsThatBringNone) {
  auto made = make({});
  for (const auto& device : made.devices) {
    Ready ready(*device, with_workspace());
    const std::uint64_t bytes = ready.plan->info().workspace_bytes;
    ASSERT_GT(bytes, 1000u);
    backend::GemmArgs with_one = ready.args;
    with_one.workspace = {device->create_buffer(bytes), 0, bytes};
    dynamic_cast<Device&>(*device).context()->features.max_buffer_bytes = 1000;  // No more such buffers from now on.
    EXPECT_EQ(ready.plan->enqueue(ready.queue, with_one)->wait(kForEver), Status::ok);
    expect_error<backend::Error>(Status::out_of_device_memory, "in one buffer",
                                 [&] { ready.plan->enqueue(ready.queue, ready.args); });
  }
}

TEST_F(OpenClObjects, ACallExpectsNothingOfItsWorkspace) {
  // Neither zeros at first, nor what a call of other rows has left there: what counts starts anew.
  int ran = 0;
  for (const auto& device : devices()) {
    for (const Variant& variant : variants()) {
      for (const DType source : {DType::none, DType::bf16}) {
        Case c{.m = 70, .n = 200, .k = 640, .a_source = source, .options = {{"variant", variant.name}}};
        c.weakest = variant.accuracy;
        if (device->supports(c.desc()).reason != backend::Reason::none) continue;
        Ready ready(*device, c);
        const std::uint64_t bytes = ready.plan->info().workspace_bytes;
        if (bytes == 0) continue;
        ready.args.workspace = {device->create_buffer(bytes), 0, bytes};
        const auto fill = [&](const backend::Span& span) {
          const std::vector<std::uint8_t> garbage(span.size, 0xff);
          ready.queue->write(span, garbage.data(), HostSemantics::copied_before_return);
        };
        fill(ready.args.workspace);
        for (const std::int64_t m : {70, 20, 70}) {
          Ready fresh(*device, c);
          fresh.args.m = ready.args.m = m;
          fresh.plan->enqueue(fresh.queue, fresh.args)->wait(kForEver);
          fill(ready.args.d);
          ready.plan->enqueue(ready.queue, ready.args)->wait(kForEver);
          const std::vector<float> want = d_of(fresh, *fresh.queue), got = d_of(ready, *ready.queue);
          EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)), 0) << variant.name << " " << m;
        }
        ++ran;
      }
    }
  }
  if (ran == 0) GTEST_SKIP() << "no kernel here has a workspace";
}

TEST_F(OpenClObjects, EveryCallOnTilesTakesAllItsBlocks) {
  for (const auto& device : devices()) {
    const Case c{.m = 70, .n = 200, .k = 640, .options = {{"variant", "gemm_amx"}}};
    if (device->supports(c.desc()).reason != backend::Reason::none) continue;
    expect_calls_do_not_see_each_other(*device, c);  // Blocks are counted in the workspace.
    return;
  }
  GTEST_SKIP() << "no processor with tiles that work";
}

TEST_F(OpenClObjects, WeightsInAnotherFormAreRefusedWithWhatToDo) {
  for (const auto& device : devices()) {
    Case c{.m = 6, .n = 100, .k = 300, .options = {{"variant", "gemm_tiled"}}};
    Case other = c;
    other.options = {{"variant", "gemm_panel"}};
    if (device->supports(c.desc()).reason != backend::Reason::none ||
        device->supports(other.desc()).reason != backend::Reason::none)
      continue;
    Ready ready(*device, c);
    ready.args.weights = device->prepare_weights(weights_desc(c, ready.data, device->create_gemm(other.desc())));
    const std::uint64_t bytes = ready.args.weights->device_bytes();
    expect_error<backend::Error>(Status::invalid_argument, "prepare them with this plan",
                                 [&] { ready.plan->enqueue(ready.queue, ready.args); });
    EXPECT_EQ(ready.args.weights->device_bytes(), bytes) << "a call made another copy of the weights";
    ready.args.weights = device->prepare_weights(weights_desc(c, ready.data, ready.plan));
    EXPECT_EQ(ready.plan->enqueue(ready.queue, ready.args)->wait(kForEver), Status::ok);
  }
}

TEST_F(OpenClObjects, EverythingMayBeDroppedWhileWorkUsesIt) {
  for (const auto& device : devices()) {
    for (int round = 0; round < 3; ++round) {
      Gate gate(*device);
      std::shared_ptr<backend::Event> event;
      std::shared_ptr<backend::Buffer> d;
      std::vector<float> want;
      {
        Ready ready(*device, with_workspace());
        ready.plan->enqueue(ready.queue, ready.args)->wait(kForEver);
        want = d_of(ready, *ready.queue);
        ready.args.d.buffer = d = device->create_buffer(ready.args.d.size);
        ready.args.wait = {gate.event};
        event = ready.plan->enqueue(ready.queue, ready.args);
      }  // Plan, queue, weights and buffers go while the command waits.
      gate.user.setStatus(CL_COMPLETE);
      EXPECT_EQ(event->wait(kForEver), Status::ok);
      std::vector<float> got(want.size());
      device->create_queue()->read({d, 0, got.size() * 4}, got.data())->wait(kForEver);
      EXPECT_EQ(got, want);
    }
  }
}

/// Bytes that malloc has handed out and not got back, of all threads.
std::size_t bytes_in_use() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(OpenClObjects, CallsThatWaitForOneAnotherKeepNothingOnceTheirQueueIsFinished) {
  for (const auto& device : devices()) {
    Ready ready(*device, any_problem());
    std::shared_ptr<backend::Event> last;
    const auto calls = [&](int count) {
      for (int i = 0; i < count; ++i) {
        ready.args.wait.clear();
        if (last != nullptr) ready.args.wait.push_back(last);
        last = ready.plan->enqueue(ready.queue, ready.args);
        ready.args.wait.clear();
        if (i % 100 == 99) ready.queue->finish();
      }
    };
    calls(500);
    const std::weak_ptr<backend::Event> first = last;
    const std::size_t before = bytes_in_use();
    calls(4000);
    EXPECT_TRUE(first.expired()) << "an event that ended 4000 calls ago is still held";
    // 800 bytes a call would be 3.2 MB.
    EXPECT_LT(bytes_in_use(), before + 200'000) << "4000 calls that waited for one another keep memory";

    // The same without a call's own wait list: the queue waits.
    const auto other = device->create_queue();
    std::weak_ptr<backend::Event> early = last;
    for (int i = 0; i < 500; ++i) {
      const auto& queue = i % 2 == 0 ? ready.queue : other;
      if (last != nullptr) queue->wait_for(last);
      last = ready.plan->enqueue(queue, ready.args);
    }
    ready.queue->finish();
    other->finish();
    ready.plan.reset();
    EXPECT_TRUE(early.expired()) << "a queue holds an event that it waited for long ago";
  }
}

/// `length` events, each waiting for the one before, the first for `gate`. Only the last is held by the caller.
std::shared_ptr<Event> chain_of(Gate& gate, int length) {
  std::shared_ptr<Event> last = gate.event;
  for (int i = 0; i < length; ++i) {
    last = std::make_shared<Event>(gate.event->context(), std::vector<cl::Event>{gate.user},
                                   std::vector<std::shared_ptr<Event>>{last, last});
  }
  return last;
}

constexpr int kLongChain = 200'000;

TEST_F(OpenClObjects, ALongChainOfEventsIsWaitedForWithoutRecursion) {
  for (const auto& device : devices()) {
    Gate good(*device), bad(*device);
    auto last = chain_of(good, kLongChain);
    EXPECT_EQ(last->wait(milliseconds(0)), Status::timeout);
    good.user.setStatus(CL_COMPLETE);
    EXPECT_EQ(last->wait(kForEver), Status::ok);

    // Its end knows how the first one failed, and no longer holds it.
    last = chain_of(bad, kLongChain);
    const std::weak_ptr<Event> first = bad.event;
    bad.user.setStatus(CL_OUT_OF_RESOURCES);
    bad.event.reset();
    expect_error<backend::Error>(Status::out_of_device_memory, "CL_OUT_OF_RESOURCES", [&] { last->wait(kForEver); });
    EXPECT_TRUE(first.expired());
    expect_error<backend::Error>(Status::out_of_device_memory, "CL_OUT_OF_RESOURCES", [&] { last->profile(); });
  }
}

TEST_F(OpenClObjects, ALongChainOfEventsDiesWithoutRecursion) {
  for (const auto& device : devices()) {
    Gate gate(*device);
    auto last = chain_of(gate, kLongChain);
    const std::weak_ptr<Event> first = gate.event;
    gate.event.reset();
    last.reset();  // nothing has ended, and nobody waits
    EXPECT_TRUE(first.expired());
    gate.user.setStatus(CL_COMPLETE);
  }
}

TEST_F(OpenClObjects, NoRowsWaitForTheirWaitList) {
  for (const auto& device : devices()) {
    Ready ready(*device, any_problem());
    Gate gate(*device), bad(*device);
    ready.args.m = 0;
    ready.args.wait = {gate.event};
    const auto event = ready.plan->enqueue(ready.queue, ready.args);
    EXPECT_EQ(event->wait(milliseconds(20)), Status::timeout) << "a call without rows did not wait";
    gate.user.setStatus(CL_COMPLETE);
    EXPECT_EQ(event->wait(kForEver), Status::ok);
    ready.args.wait = {bad.event};
    const auto failed = ready.plan->enqueue(ready.queue, ready.args);
    bad.user.setStatus(CL_OUT_OF_RESOURCES);
    expect_error<backend::Error>(Status::out_of_device_memory, "CL_OUT_OF_RESOURCES",
                                 [&] { failed->wait(kForEver); });
  }
}

TEST_F(OpenClObjects, QueuesTakeTimesUnlessTheBackendIsToldNotTo) {
  for (const bool profiling : {true, false}) {
    Config config{.profiling = profiling};
    const auto made = make(config);
    ASSERT_FALSE(made.devices.empty());
    for (const auto& device : made.devices) {
      EXPECT_EQ(device->props().event_profiling, profiling);
      const auto queue = device->create_queue();
      const auto properties = dynamic_cast<Queue&>(*queue).native().getInfo<CL_QUEUE_PROPERTIES>();
      EXPECT_EQ((properties & CL_QUEUE_PROFILING_ENABLE) != 0, profiling);
      const std::vector<std::uint8_t> bytes(64, 7);
      const backend::Span span{device->create_buffer(64), 0, 64};
      const auto event = queue->write(span, bytes.data(), backend::HostSemantics::copied_before_return);
      ASSERT_EQ(event->wait(std::chrono::nanoseconds::max()), backend::Status::ok);
      if (profiling) {
        EXPECT_GE(event->profile().end_ns, event->profile().start_ns);
        continue;
      }
      expect_error<backend::Error>(Status::unimplemented, "profiling=1", [&] { event->profile(); });
    }
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
