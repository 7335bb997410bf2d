// SPDX-License-Identifier: Apache-2.0
// What a call takes from the host: allocations of the backend between enqueue and its return, and commands; and what
// a call leaves behind to which one of them is refused. Sanitizers have allocators of their own, and nothing is
// counted under them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "backends/opencl/device.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/objects.h"
#include "tests/opencl/harness.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IRONCL_COUNTS_ALLOCATIONS 0
#else
#define IRONCL_COUNTS_ALLOCATIONS 1
#endif

namespace {
thread_local int allocations = 0;
thread_local int refused = 0;  // Of those to come, the one that is refused, once: 1 is the next; 0: none is.
}  // namespace

#if IRONCL_COUNTS_ALLOCATIONS
// Not inline: gcc takes a malloc here for the memory of a new that free() does not fit.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (refused > 0 && --refused == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(size != 0 ? size : 1); memory != nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

using OpenClAllocations = OnDevices;

TEST_F(OpenClAllocations, ACallMakesFew) {
  if (IRONCL_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer's allocator";
  for (const auto& device : devices()) {
    Case c{.m = 4, .n = 256, .k = 512, .a_source = DType::bf16};
    const Data data = make_data(c);
    const backend::GemmDesc desc = c.desc();
    const auto plan = device->create_gemm(desc);
    const auto queue = device->create_queue();
    const auto span = [&](std::uint64_t bytes) { return backend::Span{device->create_buffer(bytes), 0, bytes}; };
    backend::GemmArgs args;
    args.m = c.m;
    args.weights = device->prepare_weights(weights_desc(c, data, plan));
    args.a = span(data.a.size());
    args.d = span(static_cast<std::uint64_t>(c.m * c.n * 4));
    (void)queue->write(args.a, data.a.data(), backend::HostSemantics::copied_before_return);
    plan->enqueue(queue, args)->wait(std::chrono::nanoseconds::max());  // The first one makes the workspace.
    const auto once = [&] {
      const int before = allocations;
      const auto event = plan->enqueue(queue, args);
      const int made = allocations - before;
      event->wait(std::chrono::nanoseconds::max());
      return made;
    };
    // The list of its commands and its event; a driver's own are not counted.
    EXPECT_LE(once(), 2) << device->props().name;
    EXPECT_LE(once(), 2) << device->props().name << ": a queue keeps nothing of calls that have ended";
  }
}

/// Host memory that a device computes in, as it lies.
class SharedMemory {
 public:
  SharedMemory(backend::Device& device, std::size_t bytes)
      : bytes_(bytes), memory_(static_cast<std::uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))) {
    span_ = {device.import_buffer(backend::Device::Memory::host_pointer, memory_, bytes), 0, bytes};
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    span_ = {};
    std::free(memory_);
  }
  const backend::Span& span() const { return span_; }
  void poison() { std::memset(memory_, 0xff, bytes_); }
  std::vector<std::uint8_t> now() const { return {memory_, memory_ + bytes_}; }

 private:
  std::size_t bytes_;
  std::uint8_t* memory_;
  backend::Span span_;
};

/// Refuses `call` its first allocation, then its second, until it asks for no more; where it fails over that, expects
/// that what `seen` gives is the same before and after `finish`. Returns how often it failed.
template <class Before, class Call, class Seen, class Finish>
int expect_nothing_runs_where_memory_is_short(const Before& before, const Call& call, const Seen& seen,
                                              const Finish& finish) {
  int failed = 0;
  for (int which = 1;; ++which) {
    before();
    bool ended = true;
    refused = which;
    try {
      call();
    } catch (const std::bad_alloc&) {
      ended = false;
    }
    const bool asked_for_fewer = std::exchange(refused, 0) != 0;
    const auto at_once = seen();
    finish();
    if (asked_for_fewer) return failed;
    if (ended) continue;
    EXPECT_TRUE(at_once == seen()) << "something still ran after allocation " << which << " was refused";
    ++failed;
  }
}

std::vector<std::pair<std::shared_ptr<backend::Device>, Case>> every_device_with(const std::vector<Case>& cases) {
  std::vector<std::pair<std::shared_ptr<backend::Device>, Case>> all;
  for (const auto& device : devices())
    for (const Case& c : cases) all.emplace_back(device, c);
  return all;
}

TEST_F(OpenClAllocations, ACallThatIsRefusedMemoryLeavesNothingRunning) {
  if (IRONCL_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer's allocator";
  Case c{.m = 64, .n = 2048, .k = 2048, .a_source = DType::bf16};
  // Five commands: codes for the caller, codes, tiles, parts of k, their sums.
  Case of_five = c;
  of_five.a_grid = {128, 128};
  of_five.n = 8192;
  of_five.options = {{"variant", "gemm_stream"}, {"floats", "0"}, {"split_k", "16"}};
  int ran = 0;
  for (const auto& [device, problem] : every_device_with({c, of_five})) {
    if (!device->props().import_host_pointer) continue;
    SharedMemory d(*device, static_cast<std::size_t>(problem.m * problem.n * 4));
    Ready ready(*device, problem);
    ready.args.d = d.span();
    if (!problem.options.empty()) {
      const auto codes = static_cast<std::uint64_t>(c.m * c.k);
      ready.args.a_quantized = {device->create_buffer(codes), 0, codes};
      ready.args.a_quantized_scale = {device->create_buffer(codes), 0, codes};
    }
    ready.plan->enqueue(ready.queue, ready.args)->wait(std::chrono::nanoseconds::max());
    const auto second = device->create_queue();
    const std::vector<std::uint8_t> byte(1, 7);
    const backend::Span one{device->create_buffer(1), 0, 1};
    // The queue is to wait for a command that waited for another; nobody has been told that both have ended.
    const auto before = [&, &device = device] {
      d.poison();
      const auto& context = dynamic_cast<Device&>(*device).context();
      cl::UserEvent user(context->context);
      second->wait_for(
          std::make_shared<Event>(context, std::vector<cl::Event>{user}, std::vector<std::shared_ptr<Event>>{}));
      ready.queue->wait_for(second->write(one, byte.data(), backend::HostSemantics::stable_until_event));
      user.setStatus(CL_COMPLETE);
      dynamic_cast<Queue&>(*ready.queue).native().finish();
    };
    EXPECT_GE(expect_nothing_runs_where_memory_is_short(
                  before, [&] { ready.plan->enqueue(ready.queue, ready.args); }, [&] { return d.now(); },
                  [&] { ready.queue->finish(); }),
              2)
        << device->props().name;
    ++ran;
  }
  if (ran == 0) GTEST_SKIP() << "no device computes in the host's memory";
}

TEST_F(OpenClAllocations, DevicesAreFoundAgainAfterMemoryWasShort) {
  if (IRONCL_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer's allocator";
  std::size_t all = 0;
  for (int which = 1; all == 0; which += 7) {
    const auto backend = make_backend({}, nullptr);
    refused = which;
    try {
      (void)backend->devices();
    } catch (const std::bad_alloc&) {
    }
    const bool was_refused = std::exchange(refused, 0) == 0;
    const std::size_t found = backend->devices().size();
    if (!was_refused) all = found;
    EXPECT_EQ(found, make_backend({}, nullptr)->devices().size()) << "after allocation " << which;
  }
}

TEST_F(OpenClAllocations, AQueueThatIsRefusedMemoryKeepsTheEventsThatItWaitsFor) {
  if (IRONCL_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer's allocator";
  for (const auto& device : devices()) {
    const auto& context = dynamic_cast<Device&>(*device).context();
    const std::vector<std::uint8_t> byte(1, 7);
    const backend::Span one{device->create_buffer(1), 0, 1};
    bool all_were_refused = false;
    for (int which = 1; !all_were_refused; ++which) {
      // The first has ended, the second has not, the third has ended after one that nobody has asked about.
      cl::UserEvent first(context->context), second(context->context), before_third(context->context);
      const auto event_of = [&](const cl::UserEvent& user) {
        return std::make_shared<Event>(context, std::vector<cl::Event>{user}, std::vector<std::shared_ptr<Event>>{});
      };
      const auto queue = device->create_queue(), other = device->create_queue();
      other->wait_for(event_of(before_third));
      const auto third = other->write(one, byte.data(), backend::HostSemantics::stable_until_event);
      queue->wait_for(event_of(first));
      queue->wait_for(event_of(second));
      queue->wait_for(third);
      first.setStatus(CL_COMPLETE);
      before_third.setStatus(CL_COMPLETE);
      dynamic_cast<Queue&>(*other).native().finish();
      const auto ended = event_of(first);
      refused = which;
      try {
        queue->wait_for(ended);
      } catch (const std::bad_alloc&) {
      }
      all_were_refused = std::exchange(refused, 0) != 0;
      second.setStatus(CL_COMPLETE);
      queue->finish();
      const auto last = queue->write(one, byte.data(), backend::HostSemantics::copied_before_return);
      EXPECT_EQ(last->wait(std::chrono::nanoseconds::max()), backend::Status::ok);
    }
  }
}

TEST_F(OpenClAllocations, AStepThatIsRefusedMemoryLeavesNothingRunning) {
  if (IRONCL_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer's allocator";
  int ran = 0;
  for (const auto& device : devices()) {
    if (!device->props().import_host_pointer) continue;
    backend::ActivateDesc desc;
    desc.rows = 2048;
    desc.cols = desc.gate_ld = desc.up_ld = desc.y_ld = 1024;
    desc.x = desc.y = DType::f32;
    const auto bytes = static_cast<std::uint64_t>(desc.rows * desc.cols * 4);
    SharedMemory y(*device, bytes);
    const std::vector<std::uint8_t> zeros(bytes);
    const auto queue = device->create_queue();
    const auto activate = device->create_activate(desc);
    backend::ActivateArgs args;
    args.rows = desc.rows;
    args.gate = args.up = {device->create_buffer(bytes), 0, bytes};
    queue->write(args.gate, zeros.data(), backend::HostSemantics::copied_before_return);
    args.y = y.span();
    EXPECT_GE(expect_nothing_runs_where_memory_is_short([&] { y.poison(); }, [&] { activate->enqueue(queue, args); },
                                                        [&] { return y.now(); }, [&] { queue->finish(); }),
              2)
        << device->props().name;
    ++ran;
  }
  if (ran == 0) GTEST_SKIP() << "no device computes in the host's memory";
}

TEST_F(OpenClAllocations, AReadThatIsRefusedMemoryLeavesNothingRunning) {
  if (IRONCL_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer's allocator";
  for (const auto& device : devices()) {
    const std::size_t size = std::size_t{64} << 20;
    const backend::Span span{device->create_buffer(size), 0, size};
    const auto queue = device->create_queue();
    std::vector<std::uint8_t> bytes(size, 1);
    queue->write(span, bytes.data(), backend::HostSemantics::copied_before_return);
    EXPECT_GE(expect_nothing_runs_where_memory_is_short(
                  [&] { std::fill(bytes.begin(), bytes.end(), std::uint8_t{9}); },
                  [&] { queue->read(span, bytes.data()); }, [&] { return bytes.back(); }, [&] { queue->finish(); }),
              2)
        << device->props().name;
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
