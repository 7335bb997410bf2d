// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/objects.h"

#include <iterator>
#include <thread>

namespace ironcl::opencl {

using backend::Error;
using backend::Status;

void expect_room(const Features& f, std::string_view what, std::uint64_t bytes) {
  if (bytes > f.max_buffer_bytes) {
    throw Error(Status::out_of_device_memory, "{} of {} bytes: {} takes at most {} in one buffer", what, bytes,
                f.name, f.max_buffer_bytes);
  }
}

Buffer::Buffer(ContextPtr context, std::uint64_t size) : context_(std::move(context)), size_(size) {
  const Features& f = context_->features;
  expect_room(f, "a buffer", size);
  memory_ = guarded("a buffer of " + std::to_string(size) + " bytes on " + f.name, [&] {
    return cl::Buffer(context_->context, CL_MEM_READ_WRITE, std::max<std::uint64_t>(size, 1));
  });
}

Buffer::Buffer(ContextPtr context, void* host, std::uint64_t size) : context_(std::move(context)), size_(size) {
  memory_ = guarded("wrapping " + std::to_string(size) + " bytes of host memory", [&] {
    return cl::Buffer(context_->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size, host);
  });
}

Buffer::Buffer(ContextPtr context, cl_mem memory, std::uint64_t size) : context_(std::move(context)), size_(size) {
  guarded("wrapping a cl_mem", [&] {
    const cl::Buffer wrapped(memory, true);
    if (wrapped.getInfo<CL_MEM_CONTEXT>()() != context_->context())
      throw Error(Status::invalid_argument, "the cl_mem belongs to another OpenCL context than this device's");
    if (wrapped.getInfo<CL_MEM_TYPE>() != CL_MEM_OBJECT_BUFFER)
      throw Error(Status::invalid_argument, "the cl_mem is not a buffer; images and pipes cannot be imported");
    constexpr cl_mem_flags kNotBoth = CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
    const cl_mem_flags flags = wrapped.getInfo<CL_MEM_FLAGS>();
    if ((flags & kNotBoth) != 0) {
      throw Error(Status::invalid_argument,
                  "the cl_mem lets kernels only read, or only write; create it with CL_MEM_READ_WRITE");
    }
    if ((flags & CL_MEM_USE_HOST_PTR) != 0) {
      const auto address = reinterpret_cast<std::uintptr_t>(wrapped.getInfo<CL_MEM_HOST_PTR>());
      if (address % context_->features.alignment != 0) {
        throw Error(Status::invalid_argument,
                    "the cl_mem lies over host memory that is not on a multiple of {} bytes",
                    context_->features.alignment);
      }
    }
    if (wrapped.getInfo<CL_MEM_SIZE>() < size) {
      throw Error(Status::invalid_argument, "the cl_mem has {} bytes, the buffer asks for {}",
                  wrapped.getInfo<CL_MEM_SIZE>(), size);
    }
    memory_ = wrapped;
  });
}

PinnedHost::PinnedHost(ContextPtr context, std::uint64_t size, void*& host) : context_(std::move(context)) {
  guarded(fmt::format("{} bytes of pinned host memory", size), [&] {
    queue_ = cl::CommandQueue(context_->context, context_->device);
    memory_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size);
    host = host_ = queue_.enqueueMapBuffer(memory_, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size);
  });
}

PinnedHost::~PinnedHost() {
  quietly([&] {
    queue_.enqueueUnmapMemObject(memory_, host_);
    queue_.finish();
  });
}

Event::Event(ContextPtr context, std::vector<cl::Event>&& commands, std::vector<std::shared_ptr<Event>> causes)
    : context_(std::move(context)),
      causes_(std::make_move_iterator(causes.begin()), std::make_move_iterator(causes.end())),
      commands_(std::move(commands)) {}

Event::~Event() {
  // The events that die with this one hand their causes to the one list that is being emptied, so that a long chain
  // dies in a loop. Splicing allocates nothing.
  static thread_local Causes* dying = nullptr;
  if (dying != nullptr) {
    dying->splice(dying->end(), causes_);
    return;
  }
  Causes mine;
  mine.splice(mine.end(), causes_);
  dying = &mine;
  while (!mine.empty()) {
    const std::shared_ptr<Event> cause = std::move(mine.front());
    mine.pop_front();
  }
  dying = nullptr;
}

bool Event::done() const {
  return settled_ || guarded("asking an event",
                             [&] { return native().getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>() <= CL_COMPLETE; });
}

std::shared_ptr<Event> Event::settle_next(Causes& gone) {
  const std::lock_guard lock(mutex_);
  while (!causes_.empty()) {
    const std::shared_ptr<Event>& cause = causes_.front();
    if (!cause->settled_ && cause->done()) return cause;
    // A cause that has not ended although we have is one that a driver did not wait for: it is not why we failed.
    if (cause->settled_ && failure_ == nullptr) {
      const std::lock_guard cause_lock(cause->mutex_);
      failure_ = cause->failure_;
    }
    gone.splice(gone.end(), causes_, causes_.begin());
  }
  if (settled_) return nullptr;
  // The last command may have ended well although one before it failed.
  for (const cl::Event& command : commands_) {
    if (failure_ != nullptr) break;
    const cl_int status = command.getInfo<CL_EVENT_COMMAND_EXECUTION_STATUS>();
    if (status >= 0) continue;
    failure_ = std::make_shared<const Error>(
        status_of(status), status,
        fmt::format("a command on {} failed with {} ({})", context_->features.name, error_name(status), status));
  }
  settled_ = true;
  return nullptr;
}

std::shared_ptr<const Error> Event::settle() {
  Causes gone;  // dies last, outside every lock
  if (!settled_) {
    std::vector<std::shared_ptr<Event>> open;  // from this event (which is not in it) down to the one being settled
    for (;;) {
      Event& event = open.empty() ? *this : *open.back();
      if (auto cause = event.settle_next(gone)) {
        open.push_back(std::move(cause));
      } else if (open.empty()) {
        break;
      } else {
        gone.push_back(std::move(open.back()));
        open.pop_back();
      }
    }
  }
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Event::throw_if_failed() {
  if (const auto failure = settle()) throw Error(*failure);
}

Status Event::wait(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  return guarded("waiting for an event", [&] {
    if (timeout == std::chrono::nanoseconds::max()) {
      try {
        native().wait();
      } catch (const cl::Error&) {
        throw_if_failed();
        throw;
      }
    } else {
      // OpenCL has no wait with a limit: ask again and again, at first at once, then less and less often.
      const Clock::time_point start = Clock::now();
      std::chrono::nanoseconds pause{0};
      while (!done()) {
        const std::chrono::nanoseconds spent = Clock::now() - start;
        if (spent >= timeout) return Status::timeout;
        if (spent > std::chrono::microseconds(50)) {
          pause =
              std::min<std::chrono::nanoseconds>(pause + std::chrono::microseconds(10), std::chrono::milliseconds(1));
          std::this_thread::sleep_for(std::min(pause, timeout - spent));
        } else {
          std::this_thread::yield();
        }
      }
    }
    throw_if_failed();
    return Status::ok;
  });
}

backend::Profile Event::profile() {
  if (!done()) {
    throw Error(Status::invalid_argument,
                "the command has not ended; wait for its event before asking for its times");
  }
  if (!context_->config.profiling) {
    throw Error(
        Status::unimplemented,
        "queues of this device take no times: the backend was made with profiling=0; make it with profiling=1");
  }
  return guarded("reading an event's times", [&] {
    throw_if_failed();
    return backend::Profile{backend::TimeKind::measured,
                            commands_.front().getProfilingInfo<CL_PROFILING_COMMAND_QUEUED>(),
                            commands_.front().getProfilingInfo<CL_PROFILING_COMMAND_START>(),
                            native().getProfilingInfo<CL_PROFILING_COMMAND_END>()};
  });
}

Queue::Queue(ContextPtr context) : context_(std::move(context)) {
  const cl_command_queue_properties times = context_->config.profiling ? CL_QUEUE_PROFILING_ENABLE : 0;
  queue_ = guarded("a queue on " + context_->features.name,
                   [&] { return cl::CommandQueue(context_->context, context_->device, times); });
}

Queue::~Queue() {
  quietly([&] { queue_.flush(); });  // Commands that are still under way keep what they need.
}

void Queue::finish() {
  guarded("finishing a queue", [&] { queue_.finish(); });
  tidy();
}

void Queue::tidy() {
  // A question that the driver does not answer, or for which there is no memory, is asked again with the next
  // command.
  try {
    // By swaps, so that all are still there, whole, where one of the questions throws.
    auto kept = pending_.begin();
    for (auto& event : pending_)
      if (!event->done() || event->settle() != nullptr) std::swap(*kept++, event);
    pending_.erase(kept, pending_.end());
    for (; !waiting_.empty() && waiting_.front()->done(); waiting_.pop_front()) waiting_.front()->settle();
  } catch (const cl::Error&) {
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
}

void Queue::wait_for(const std::shared_ptr<backend::Event>& event) {
  const auto ours = own(event, "the event to wait for");
  tidy();
  pending_.push_back(ours);
  cl::Event barrier;
  try {
    guarded("waiting in a queue", [&] {
      const std::vector<cl::Event> list{native_for(*context_, *ours)};
      queue_.enqueueBarrierWithWaitList(&list, &barrier);
    });
  } catch (...) {
    pending_.pop_back();
    throw;
  }
  try {
    waiting_.push_back(std::make_shared<Event>(context_, std::vector<cl::Event>{std::move(barrier)},
                                               std::vector<std::shared_ptr<Event>>{ours}));
  } catch (const std::bad_alloc&) {  // It is queued, and uses nothing of the caller's: nobody need hear of it.
  }
}

void Queue::flush() {
  // The commands are accepted: what fails from here on shows when their event is waited for. To say now that the call
  // failed would be wrong, and a caller that frees its memory upon that would find it written to.
  quietly([&] { queue_.flush(); });
  tidy();
}

std::shared_ptr<Event> Queue::record(std::vector<cl::Event> commands, std::vector<std::shared_ptr<Event>> causes) {
  flush();
  std::shared_ptr<Event> event;
  try {
    causes.insert(causes.end(), pending_.begin(), pending_.end());
    const bool may_fail = !causes.empty() || !waiting_.empty();  // pending_ is among the causes.
    event = std::make_shared<Event>(context_, std::move(commands), std::move(causes));
    if (may_fail) waiting_.push_back(event);
  } catch (...) {
    // Nothing is to run once the error is thrown. The command may well fail itself.
    quietly([&] { (event != nullptr ? event->native() : commands.back()).wait(); });
    throw;
  }
  return event;
}

std::shared_ptr<backend::Event> Queue::write(const backend::Span& dst, const void* src,
                                             backend::HostSemantics semantics) {
  return guarded("writing " + std::to_string(dst.size) + " bytes", [&]() -> std::shared_ptr<backend::Event> {
    std::vector<cl::Event> command(1);
    const cl_bool blocking = semantics == backend::HostSemantics::copied_before_return ? CL_TRUE : CL_FALSE;
    queue_.enqueueWriteBuffer(own(dst.buffer).memory(), blocking, dst.offset, dst.size, src, nullptr, command.data());
    return record(std::move(command), {});
  });
}

std::shared_ptr<backend::Event> Queue::read(const backend::Span& src, void* dst) {
  return guarded("reading " + std::to_string(src.size) + " bytes", [&]() -> std::shared_ptr<backend::Event> {
    std::vector<cl::Event> command(1);
    queue_.enqueueReadBuffer(own(src.buffer).memory(), CL_FALSE, src.offset, src.size, dst, nullptr, command.data());
    return record(std::move(command), {});
  });
}

cl::Event native_for(const Context& context, const Event& event) {
  if (event.context().get() == &context) return event.native();
  // Another device's context: a user event of ours is set when the foreign one ends.
  auto bridge = std::make_unique<cl::UserEvent>(context.context);
  cl::Event result = *bridge;
  cl::Event foreign = event.native();
  foreign.setCallback(
      CL_COMPLETE,
      [](cl_event, cl_int status, void* data) {
        const std::unique_ptr<cl::UserEvent> ours(static_cast<cl::UserEvent*>(data));
        quietly([&] { ours->setStatus(status < 0 ? status : CL_COMPLETE); });
      },
      bridge.get());
  (void)bridge.release();  // The callback's now.
  return result;
}

std::shared_ptr<Event> own(const std::shared_ptr<backend::Event>& event, const char* what) {
  auto ours = std::dynamic_pointer_cast<Event>(event);
  if (ours == nullptr) throw Error(Status::invalid_argument, std::string(what) + " is not one of the opencl backend");
  return ours;
}

}  // namespace ironcl::opencl
