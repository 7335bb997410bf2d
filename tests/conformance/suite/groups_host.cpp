// SPDX-License-Identifier: Apache-2.0
// Group Host: what a plugin does to the process that it lives in: memory of the host's that it is lent, memory that
// it keeps for itself, and a process that forks.
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "backends/numerics/casts.h"
#include "tests/conformance/suite/groups.h"

// Of a sanitizer's own malloc, of which mallinfo2 knows nothing; absent without one.
// NOLINTNEXTLINE(bugprone-reserved-identifier): so the sanitizers call it.
extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();

namespace ironcl::conformance {
namespace {

struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using HostMemory = std::unique_ptr<std::byte, Free>;

/// `size` bytes on a multiple of `alignment`.
HostMemory host_memory(std::uint64_t alignment, std::uint64_t size) {
  const std::uint64_t whole = std::max<std::uint64_t>(alignment, 64);
  return HostMemory(static_cast<std::byte*>(std::aligned_alloc(whole, (size + whole - 1) / whole * whole)));
}

ironcl_status import_memory(Context& c, void* memory, std::uint64_t size, Buffer* out, Error& error,
                            std::uint32_t kind = IRONCL_MEMORY_HOST_POINTER) {
  ironcl_native_memory native{};
  native.chain.struct_size = sizeof native;
  native.chain.type = IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED;
  native.kind = kind;
  native.handle = memory;
  auto desc = sized<ironcl_buffer_desc>();
  desc.size = size;
  desc.next = &native.chain;
  ironcl_buffer buffer = nullptr;
  const ironcl_status status = c.table.buffer_create(c.device, &desc, &buffer, &error);
  if (status == IRONCL_OK) *out = Buffer(c.table, buffer);
  return status;
}

/// Memory of the host's with the bytes of `span`, and the span of a buffer over it.
struct Lent {
  HostMemory memory;
  Buffer buffer;
  ironcl_span span{};
};

Lent lend(Context& c, ironcl_queue queue, const ironcl_span& span, std::uint64_t alignment) {
  Lent lent;
  if (span.buffer == nullptr) return lent;
  lent.memory = host_memory(alignment, span.size);
  const auto bytes = download(c, queue, span.buffer, span.offset, span.size);
  std::copy(bytes.begin(), bytes.end(), lent.memory.get());
  Error error;
  require(import_memory(c, lent.memory.get(), span.size, &lent.buffer, error), error,
          "buffer_create over host memory");
  lent.span = {lent.buffer.get(), 0, span.size};
  return lent;
}

void imported_memory_serves_as_every_operand(Context& c) {
  const ironcl_device_props props = props_of(c);
  if ((props.caps & IRONCL_CAP_IMPORT_HOST_POINTER) == 0) {
    const HostMemory memory = host_memory(props.buffer_alignment, 4096);
    Buffer buffer;
    Error error;
    const ironcl_status status = import_memory(c, memory.get(), 4096, &buffer, error);
    EXPECT_TRUE(status == IRONCL_UNSUPPORTED || status == IRONCL_UNIMPLEMENTED)
        << "the device does not claim IRONCL_CAP_IMPORT_HOST_POINTER, but answers " << status_name(status);
    return;
  }
  for (const bool dynamic : {false, true}) {
    Problem p = base_problem();
    p.bias = DType::f32;
    if (dynamic) p.a_source = DType::bf16, p.fill = fill_activations, p.exact = false;
    Rig rig(c, p, RigOptions{.own_workspace = true});
    rig.reset();
    ironcl_gemm_args args = rig.args();
    std::vector<Lent> lent;
    for (const auto span : {&ironcl_gemm_args::a, &ironcl_gemm_args::a_scale, &ironcl_gemm_args::bias,
                            &ironcl_gemm_args::workspace, &ironcl_gemm_args::d}) {
      lent.push_back(lend(c, rig.queue(), args.*span, props.buffer_alignment));
      args.*span = lent.back().span;
    }
    ironcl_event event = nullptr;
    Error error;
    require(rig.enqueue_raw(rig.queue(), args, &event, error), error, "op_enqueue on imported memory");
    const Event owner(c.table, event);
    wait(c, event, "op_enqueue on imported memory");
    Output out;
    if (props.type == IRONCL_DEVICE_CPU || props.type == IRONCL_DEVICE_MODEL)  // They compute where the memory is.
      out.bytes.assign(lent.back().memory.get(), lent.back().memory.get() + args.d.size);
    else
      out.bytes = download(c, rig.queue(), args.d.buffer, 0, args.d.size);
    out.values.resize(out.bytes.size() / numerics::size_of(p.d));
    numerics::decode(p.d, out.bytes.data(), std::span<double>(out.values));
    rig.expect_right(out);
    // What is written goes to the memory itself, which its owner frees after the buffer.
    const std::byte mark{0x5a};
    upload(c, rig.queue(), args.d.buffer, 3, std::span(&mark, 1));
    const auto back = download(c, rig.queue(), args.d.buffer, 3, 1);
    EXPECT_EQ(back[0], mark);
    lent.back().buffer.reset();
    EXPECT_EQ(lent.back().memory.get()[3], mark) << "the buffer is a copy of the memory that was imported";
  }
}

void misaligned_memory_is_refused(Context& c) {
  const ironcl_device_props props = props_of(c);
  if ((props.caps & IRONCL_CAP_IMPORT_HOST_POINTER) == 0) throw NotApplicable("the device imports no host memory");
  if (props.buffer_alignment == 1) throw NotApplicable("any address is on the device's alignment");
  const HostMemory memory = host_memory(props.buffer_alignment, 8192);
  for (const std::uint64_t past : {1, 4, 8, 16, 32}) {
    if (past % props.buffer_alignment == 0) continue;
    Buffer buffer;
    Error error;
    EXPECT_EQ(status_name(import_memory(c, memory.get() + past, 4096, &buffer, error)), "INVALID_ARGUMENT")
        << "host memory " << past << " bytes past a multiple of buffer_alignment " << props.buffer_alignment;
    EXPECT_TRUE(buffer || std::strstr(error.message, "native_memory") != nullptr) << error.message;
  }
}

void pinned_memory_carries_bytes_there_and_back(Context& c) {
  constexpr std::uint64_t kBytes = 5000;
  std::byte* host = nullptr;
  Buffer pinned;
  Error error;
  const ironcl_status status = import_memory(c, &host, kBytes, &pinned, error, IRONCL_MEMORY_PINNED_HOST);
  if (status == IRONCL_UNSUPPORTED || status == IRONCL_UNIMPLEMENTED)
    throw NotApplicable("the plugin has no pinned memory");
  require(status, error, "buffer_create of pinned memory");
  ASSERT_TRUE(host != nullptr);
  for (std::uint64_t i = 0; i < kBytes; ++i) host[i] = static_cast<std::byte>(i * 7);
  const Queue queue = make_queue(c);
  const Buffer buffer = make_buffer(c, kBytes);
  ironcl_event event = nullptr;
  require(c.table.write(queue.get(), {buffer.get(), 0, kBytes}, host, IRONCL_HOST_STABLE_UNTIL_EVENT, &event, &error),
          error, "write from pinned memory");
  const Event written(c.table, event);
  wait(c, event, "write from pinned memory");
  const std::vector<std::byte> want(host, host + kBytes);
  EXPECT_TRUE(download(c, queue.get(), buffer.get(), 0, kBytes) == want);
  std::fill_n(host, kBytes, std::byte{});
  require(c.table.read(queue.get(), {buffer.get(), 0, kBytes}, host, &event, &error), error, "read to pinned memory");
  const Event read(c.table, event);
  wait(c, event, "read to pinned memory");
  EXPECT_TRUE(std::equal(want.begin(), want.end(), host));
  EXPECT_EQ(status_name(c.table.read(queue.get(), {pinned.get(), 0, 4}, host, nullptr, &error)), "INVALID_ARGUMENT")
      << "pinned memory is the host's: commands cannot name it";
}

/// Bytes that malloc has handed out and not got back; a plugin shares the process's.
std::size_t bytes_in_use() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) return __sanitizer_get_current_allocated_bytes();
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void chains_of_calls_keep_nothing(Context& c) {
  Rig rig(c, base_problem());
  const Queue other = make_queue(c);
  Event last;
  const auto chain = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      ironcl_gemm_args args = rig.args();
      args.m = 0;
      const ironcl_event before = last.get();
      if (before != nullptr) args.wait = &before, args.wait_count = 1;
      ironcl_event event = nullptr;
      Error error;
      require(rig.enqueue_raw(i % 8 == 0 ? other.get() : rig.queue(), args, &event, error), error, "op_enqueue");
      last = Event(c.table, event);  // the one before is destroyed, in use or not
    }
    Error error;
    require(c.table.queue_finish(rig.queue(), &error), error, "queue_finish");
    require(c.table.queue_finish(other.get(), &error), error, "queue_finish");
  };
  chain(200);
  const std::size_t before = bytes_in_use();
  chain(1000);
  const std::size_t after = bytes_in_use();
  ASSERT_LT(after, before + 100'000) << "1000 calls without rows, each waiting for the one before, keep "
                                     << (after - before) << " bytes after queue_finish";
  wait(c, last.get(), "the last of a chain");
}

/// What the child of a fork found; its exit status.
enum Child { told = 0, served = 1, wrong = 2 };

Child call_in_child(Context& c, Rig& rig, std::span<const std::byte> want) {
  int refused = 0, done = 0;
  Error error;
  const auto call = [&](ironcl_status status) { ++(status == IRONCL_UNAVAILABLE ? refused : done); };
  ironcl_event event = nullptr;
  call(rig.enqueue_raw(rig.queue(), rig.args(), &event, error));
  if (event != nullptr) call(c.table.event_wait(event, UINT64_MAX, &error));
  std::vector<std::byte> got(want.size());
  ironcl_event read = nullptr;
  call(c.table.read(rig.queue(), rig.d_span(), got.data(), &read, &error));
  if (read != nullptr) call(c.table.event_wait(read, UINT64_MAX, &error));
  call(c.table.queue_finish(rig.queue(), &error));
  rig.destroy_plan(), rig.destroy_weights(), rig.destroy_buffers(), rig.destroy_queue();
  c.table.unload();
  if (done == 0) return told;
  const bool right = refused == 0 && std::equal(got.begin(), got.end(), want.begin());
  return right ? served : wrong;
}

void a_forked_child_is_told_or_served(Context& c) {
  Rig rig(c, base_problem());
  const Output want = rig.call();
  const pid_t child = fork();
  if (child < 0) throw NotApplicable("this process may not fork");
  if (child == 0) _exit(call_in_child(c, rig, want.bytes));
  // Ten seconds, counted in turns that this process got itself: where a machine is busy, or stops both for a while, a
  // clock would call a child hung that only waits for its turn.
  int status = 0;
  for (int turns = 0; waitpid(child, &status, WNOHANG) == 0; ++turns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (turns < 2000) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ADD_FAILURE() << "a forked child that uses the plugin hangs; it must get UNAVAILABLE, or what it asks for";
    return;
  }
  EXPECT_TRUE(WIFEXITED(status)) << "a forked child that uses the plugin ended by signal " << WTERMSIG(status);
  if (WIFEXITED(status)) {
    EXPECT_LT(WEXITSTATUS(status), wrong) << "a forked child got neither UNAVAILABLE everywhere nor the right result";
  }
  const Output again = rig.call();
  EXPECT_EQ(again.bytes, want.bytes) << "what the child did shows in the parent";
}

}  // namespace

void add_host_tests(Suite& suite) {
  suite.add("Host", "ImportedMemoryServesAsEveryOperand", Needs::gemm, imported_memory_serves_as_every_operand);
  suite.add("Host", "MisalignedMemoryIsRefused", Needs::memory, misaligned_memory_is_refused);
  suite.add("Host", "PinnedMemoryCarriesBytesThereAndBack", Needs::memory,
            pinned_memory_carries_bytes_there_and_back);
  suite.add("Host", "ChainsOfCallsKeepNothing", Needs::gemm, chains_of_calls_keep_nothing);
  suite.add("Host", "AForkedChildIsToldOrServed", Needs::gemm, a_forked_child_is_told_or_served);
}

}  // namespace ironcl::conformance
