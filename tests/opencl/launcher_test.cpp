// SPDX-License-Identifier: Apache-2.0
// The launcher by itself: which commands have events, what a call that ends early leaves behind. Next door:
// objects_test.cpp (queues and events), allocations_test.cpp (memory that is refused).
#include "backends/opencl/launcher.h"

#include "backends/opencl/device.h"
#include "backends/opencl/objects.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

/// A kernel that stores its number, and the place where it does.
struct Store {
  explicit Store(backend::Device& device)
      : context(dynamic_cast<Device&>(device).context()),
        queue(device.create_queue()),
        memory(context->context, CL_MEM_READ_WRITE, std::size_t{4}),
        kernel(context->builder->build_text("store", "__kernel void store(__global int* x, int v) { x[0] = v; }", {}),
               "store") {
    kernel.setArg(0, memory);
  }
  void launch(Launcher& call, int value, bool others_depend = false) {
    kernel.setArg(1, cl_int{value});
    call.launch(kernel, 1, 1, 1, others_depend);
  }
  int stored() {
    queue->finish();
    int value = 0;
    dynamic_cast<Queue&>(*queue).native().enqueueReadBuffer(memory, CL_TRUE, 0, 4, &value);
    return value;
  }
  ContextPtr context;
  std::shared_ptr<backend::Queue> queue;
  cl::Buffer memory;
  cl::Kernel kernel;
};

using OpenClLauncher = OnDevices;

TEST_F(OpenClLauncher, MakesNoEventThatNobodyWants) {
  for (const auto& device : devices()) {
    Store store(*device);
    Launcher unwanted(store.context, store.queue, {}, false);
    store.launch(unwanted, 1);
    EXPECT_EQ(unwanted.done(), nullptr) << device->props().name;
    EXPECT_EQ(store.stored(), 1);
    Launcher nothing(store.context, store.queue, {}, false);
    EXPECT_EQ(nothing.done(), nullptr);
    Launcher wanted(store.context, store.queue, {}, true);
    store.launch(wanted, 2);
    const auto event = wanted.done();
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->wait(kForEver), backend::Status::ok);
  }
}

/// Launches of calls are counted, and not those of a plan that is being made.
TEST_F(OpenClLauncher, CountsLaunches) {
  for (const auto& device : devices()) {
    const auto so_far = [&] { return std::stol(device->query("launches", nullptr)); };
    Store store(*device);
    const long before = so_far();
    Launcher dry(store.context, dynamic_cast<Queue&>(*store.queue).native());
    store.launch(dry, 1);
    EXPECT_EQ(so_far(), before) << device->props().name;
    Launcher call(store.context, store.queue, {}, false);
    store.launch(call, 2);
    store.launch(call, 3);
    call.done();
    EXPECT_EQ(so_far(), before + 2) << device->props().name;
    EXPECT_EQ(store.stored(), 3);
  }
}

TEST_F(OpenClLauncher, MakesEventsWhereSomethingDependsOnThem) {
  for (const auto& device : devices()) {
    Store store(*device);
    Launcher first(store.context, store.queue, {}, true);
    store.launch(first, 1);
    const std::shared_ptr<backend::Event> cause = first.done();
    Launcher after(store.context, store.queue, {cause}, false);
    store.launch(after, 2);
    EXPECT_NE(after.done(), nullptr) << "who failed first is asked of it";
    store.queue->finish();
    Launcher inside(store.context, store.queue, {}, false);
    store.launch(inside, 3);
    store.launch(inside, 4, true);
    store.launch(inside, 5);
    EXPECT_NE(inside.done(), nullptr);
    EXPECT_EQ(store.stored(), 5);
  }
}

TEST_F(OpenClLauncher, OfACallThatEndsEarlyNothingRunsOn) {
  for (const auto& device : devices()) {
    for (const bool wants_event : {false, true}) {
      Store store(*device);
      {
        Launcher thrown(store.context, store.queue, {}, wants_event);
        store.launch(thrown, 7);
      }
      int value = 0;
      const cl::CommandQueue other(store.context->context, store.context->device);
      other.enqueueReadBuffer(store.memory, CL_TRUE, 0, 4, &value);
      EXPECT_EQ(value, 7) << device->props().name;
    }
  }
}

TEST_F(OpenClLauncher, MemoryOfItsOwnIsForOneCallAfterTheOther) {
  for (const auto& device : devices()) {
    const ContextPtr& context = dynamic_cast<Device&>(*device).context();
    cl::Kernel kernel(context->builder->build_text("fold",
                                                   "__kernel void fold(__global volatile uint* x, uint v) {"
                                                   "  const uint before = x[0];"
                                                   "  for (uint i = 0; i < 100000; ++i) x[1] += i;"
                                                   "  x[0] = 3 * before + v; }",
                                                   {}),
                      "fold");
    const cl_uint zeros[2] = {};
    const cl::Buffer memory(context->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros,
                            const_cast<cl_uint*>(zeros));
    kernel.setArg(0, memory);
    const std::shared_ptr<backend::Queue> queues[] = {device->create_queue(), device->create_queue()};
    Exclusive use;
    cl_uint expected = 0, got = 0;
    for (cl_uint i = 1; i <= 32; ++i) {
      // On either queue twice, with an event and without one.
      Launcher call(context, queues[i / 2 % 2], {}, i % 3 == 0);
      use.begin(call);
      kernel.setArg(1, i);
      call.launch(kernel, 1, 1, 1);
      use.end(call);
      expected = 3 * expected + i;
    }
    for (const auto& queue : queues) queue->finish();
    dynamic_cast<Queue&>(*queues[0]).native().enqueueReadBuffer(memory, CL_TRUE, 0, sizeof got, &got);
    EXPECT_EQ(got, expected) << device->props().name;
  }
}

// A gate holds back the first call; the second one is on another queue. Each has a buffer of its own, because some
// drivers keep commands of one buffer in order themselves.
TEST_F(OpenClLauncher, MemoryOfItsOwnHoldsBackTheNextCall) {
  for (const auto& device : devices()) {
    Store first(*device), second(*device);
    for (const bool has_event : {false, true}) {
      cl::UserEvent gate(first.context->context);
      const std::vector<cl::Event> held{gate};
      dynamic_cast<Queue&>(*first.queue).native().enqueueBarrierWithWaitList(&held);
      Exclusive use;
      Launcher before(first.context, first.queue, {}, has_event), after(second.context, second.queue, {}, true);
      use.begin(before);
      first.launch(before, 1);
      use.end(before);
      use.begin(after);
      second.launch(after, 2);
      const auto event = use.end(after);
      EXPECT_EQ(event->wait(std::chrono::milliseconds(100)), backend::Status::timeout) << device->props().name;
      gate.setStatus(CL_COMPLETE);
      EXPECT_EQ(event->wait(kForEver), backend::Status::ok) << device->props().name;
    }
  }
}

TEST_F(OpenClLauncher, PlansMakeNoEventThatNobodyWants) {
  for (const auto& device : devices()) {
    Case c{.m = 5, .n = 40, .k = 256, .a_source = backend::DType::f32};
    Ready ready(*device, c);
    ready.args.wants_event = false;
    EXPECT_EQ(ready.plan->enqueue(ready.queue, ready.args), nullptr) << device->props().name;
    ready.queue->finish();
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
