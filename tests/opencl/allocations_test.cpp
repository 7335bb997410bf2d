// SPDX-License-Identifier: Apache-2.0
// What a call takes from the host: allocations of the backend between enqueue and its return, and commands.
// Sanitizers have allocators of their own, and nothing is counted under them.
#include <cstdlib>
#include <new>

#include "backends/opencl/gemm.h"
#include "tests/opencl/harness.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IRONCL_COUNTS_ALLOCATIONS 0
#else
#define IRONCL_COUNTS_ALLOCATIONS 1
#endif

namespace {
thread_local int allocations = 0;
}  // namespace

#if IRONCL_COUNTS_ALLOCATIONS
// Not inline: gcc takes a malloc here for the memory of a new that free() does not fit.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size != 0 ? size : 1); memory != nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

TEST(OpenClAllocations, ACallMakesFew) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  if (IRONCL_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer's allocator";
  for (const auto& device : devices()) {
    Case c{4, 256, 512};
    c.a_source = DType::bf16;
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

}  // namespace
}  // namespace ironcl::opencl::testing
