// SPDX-License-Identifier: Apache-2.0
// Buffers, events and queues. OpenCL itself keeps memory and kernels alive that an enqueued command uses.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <vector>

#include "backends/opencl/context.h"

namespace ironcl::opencl {

class Buffer final : public backend::Buffer {
 public:
  Buffer(ContextPtr context, std::uint64_t size);
  /// Wraps host memory of `size` bytes, which outlives the buffer and every command on it.
  Buffer(ContextPtr context, void* host, std::uint64_t size);
  /// Wraps a cl_mem of the same context: a buffer that kernels may read and write, of at least `size` bytes. Its
  /// reference count is left as it was in the end.
  Buffer(ContextPtr context, cl_mem memory, std::uint64_t size);
  std::uint64_t size() const noexcept override { return size_; }
  const cl::Buffer& memory() const noexcept { return memory_; }

 private:
  ContextPtr context_;
  std::uint64_t size_ = 0;
  cl::Buffer memory_;
};

/// Throws out_of_device_memory where one buffer of the device cannot hold `bytes`; `what` names it.
void expect_room(const Features& features, std::string_view what, std::uint64_t bytes);

/// Host memory that stays mapped. Commands cannot name it.
class PinnedHost final : public backend::Buffer {
 public:
  PinnedHost(ContextPtr context, std::uint64_t size, void*& host);
  ~PinnedHost() override;
  std::uint64_t size() const noexcept override { return 0; }

 private:
  ContextPtr context_;
  cl::CommandQueue queue_;
  cl::Buffer memory_;
  void* host_ = nullptr;
};

/// One or several commands of a queue, in its order. Calls that wait for one another make chains as long as
/// a program runs: an event lets go of what it waited for once it is known to have ended, and neither asking nor
/// destroying a chain recurses.
class Event final : public backend::Event {
 public:
  /// At least one command. Fails, if at all, before it takes anything of `commands`.
  Event(ContextPtr context, std::vector<cl::Event>&& commands, std::vector<std::shared_ptr<Event>> causes);
  ~Event() override;
  backend::Status wait(std::chrono::nanoseconds timeout) override;
  backend::Profile profile() override;
  /// Kernels in the order of their launch.
  const std::vector<cl::Event>& commands() const noexcept { return commands_; }
  /// The last command.
  const cl::Event& native() const noexcept { return commands_.back(); }
  const ContextPtr& context() const noexcept { return context_; }
  /// True once it ended, successfully or not.
  bool done() const;
  /// Of an event that has ended: forgets what it waited for. Returns its failure, a failed cause's own before ours;
  /// null where it succeeded.
  std::shared_ptr<const backend::Error> settle();

 private:
  using Causes = std::list<std::shared_ptr<Event>>;
  /// One step of settle(): the next cause to settle first, or null when this event is settled. What is let go of goes
  /// to `gone`.
  std::shared_ptr<Event> settle_next(Causes& gone);
  void throw_if_failed();

  ContextPtr context_;
  std::atomic<bool> settled_{false};  ///< It has ended, failure_ is final, causes_ is empty.
  std::mutex mutex_;                  ///< Guards the two below.
  Causes causes_;                     ///< What it waited for, so long as that may still fail.
  std::shared_ptr<const backend::Error> failure_;
  std::vector<cl::Event> commands_;
};

class Queue final : public backend::Queue {
 public:
  explicit Queue(ContextPtr context);
  ~Queue() override;
  void finish() override;
  void wait_for(const std::shared_ptr<backend::Event>& event) override;
  std::shared_ptr<backend::Event> write(const backend::Span& dst, const void* src,
                                        backend::HostSemantics semantics) override;
  std::shared_ptr<backend::Event> read(const backend::Span& src, void* dst) override;

  const cl::CommandQueue& native() const noexcept { return queue_; }
  const ContextPtr& context() const noexcept { return context_; }
  /// The event of commands just enqueued; they are flushed. `causes` are the events that they were told to wait for.
  /// Where there is no memory for it, they have ended when that is thrown.
  std::shared_ptr<Event> record(std::vector<cl::Event> commands, std::vector<std::shared_ptr<Event>> causes);
  /// Starts commands just enqueued whose events were not requested.
  void flush();
  /// Whether commands of this queue wait for others that may fail: they need events, to say who failed first. PoCL
  /// 3.1 ends the process where a command fails whose event has been released.
  bool commands_may_fail() const noexcept { return !pending_.empty() || !waiting_.empty(); }

 private:
  /// Drops from pending_ what succeeded, and settles the commands at the head of waiting_ that have ended.
  void tidy();

  ContextPtr context_;
  cl::CommandQueue queue_;
  std::vector<std::shared_ptr<Event>> pending_;  ///< wait_for's events that have not succeeded.
  /// Commands that waited for an event, and those behind them, until they are seen to end.
  std::deque<std::shared_ptr<Event>> waiting_;
};

// The backend's own object behind an interface pointer. The adapter has checked that it is of the device; an event of
// another backend throws invalid_argument, with `what` to name it.
inline Buffer& own(const std::shared_ptr<backend::Buffer>& buffer) { return static_cast<Buffer&>(*buffer); }
inline Queue& own(const std::shared_ptr<backend::Queue>& queue) { return static_cast<Queue&>(*queue); }
/// An event of `context` that ends when and as `event` does.
cl::Event native_for(const Context& context, const Event& event);
std::shared_ptr<Event> own(const std::shared_ptr<backend::Event>& event, const char* what);

}  // namespace ironcl::opencl
