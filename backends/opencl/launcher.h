// SPDX-License-Identifier: Apache-2.0
// How the commands of a call are enqueued: what they wait for, their launches, and the one event that stands for
// all of them. Next door: step.h (the operands of a call of steps), objects.h (queues and events).
#pragma once

#include <memory>
#include <vector>

#include "backends/numerics/checked.h"
#include "backends/opencl/api.h"
#include "backends/opencl/probe.h"

namespace ironcl::opencl {

struct Context;
class Event;
class Queue;

/// Where an operand of a call begins. Owns nothing: caller, plan and weights keep their buffers through the call.
/// Counting references takes a lock of the driver each time, which its threads may hold for the commands before.
struct Memory {
  const cl::Buffer* buffer = nullptr;  ///< Null: the call does not bring it.
  std::uint64_t at = 0;                ///< Bytes.
};

/// The commands of one call, in order. Where the call ends without done(), because something was thrown, those that
/// were launched have ended when the launcher is gone: nothing runs behind an error.
class Launcher {
 public:
  /// Throws invalid_argument for an event of another backend. Without `wants_event` commands get events of OpenCL
  /// only where something depends on them.
  Launcher(std::shared_ptr<Context> context, const std::shared_ptr<backend::Queue>& queue,
           const std::vector<std::shared_ptr<backend::Event>>& wait, bool wants_event);
  /// A dry call: each launch is one work-group, which sees no rows, so that drivers that compile at the first launch
  /// do it. `queue` outlives the call.
  Launcher(std::shared_ptr<Context> context, const cl::CommandQueue& queue)
      : context_(std::move(context)), native_(&queue), dry_(true) {}
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  bool dry() const noexcept { return dry_; }
  /// The first command also waits for this event.
  void after(const std::shared_ptr<Event>& event);
  /// Enqueues width x height work-groups of `items` work-items. `others_depend`: every later command of the call
  /// waits for this one. Order alone does not keep a queue from going on after a command that failed; this does,
  /// where what it was to leave leads to places in memory.
  void launch(const cl::Kernel& kernel, std::int64_t width, std::int64_t height, std::int64_t items,
              bool others_depend = false);
  /// The event of all that was launched; of nothing, one that ends in its turn. Null where the caller wants none and
  /// nothing else needs it.
  std::shared_ptr<Event> done();

  /// Where `span` begins; absent(), where there is none.
  Memory memory(const backend::Span& span) const;
  /// The memory that is bound for an absent operand.
  Memory absent() const;

 private:
  friend class Exclusive;
  std::shared_ptr<Context> context_;
  Queue* queue_ = nullptr;  ///< Null in a dry call.
  const cl::CommandQueue* native_;
  bool dry_ = false;
  bool events_ = false;     ///< Commands have events.
  bool under_way_ = false;  ///< Something was launched, and done() was not called.
  std::vector<std::shared_ptr<Event>> causes_;
  std::vector<cl::Event> wait_;      ///< For the next command only: the queue is in order.
  std::vector<cl::Event> needed_;    ///< What each command from here on waits for.
  std::vector<cl::Event> launched_;  ///< A later command may end well although one before it failed.
};

/// Memory of an operation's own, which its calls use one after another, on whatever queues they are. A call that has
/// ended, well or badly, is not waited for: its failure is not the next one's.
class Exclusive {
 public:
  /// Without `keeps_event` a marker stands for the last call on another queue: for an owner that events keep alive.
  explicit Exclusive(bool keeps_event = true) : keeps_event_(keeps_event) {}
  /// Makes the commands of `call` follow those of the last call.
  void begin(Launcher& call) const;
  /// What call.done() answers; `call` is the last one from here on.
  std::shared_ptr<Event> end(Launcher& call);

 private:
  cl::CommandQueue queue_;       ///< Queue of the last call.
  std::shared_ptr<Event> last_;  ///< Null where it has none.
  bool keeps_event_;
};

/// Throws unsupported where there are more than kLargestSize of `what`.
void expect_countable(const char* what, numerics::Size count);

/// Throws unsupported where a buffer of the device cannot hold `bytes`; `what` names them.
void expect_fits(const Features& features, const char* what, numerics::Size bytes);

}  // namespace ironcl::opencl
