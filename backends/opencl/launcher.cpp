// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/launcher.h"

#include "backends/opencl/objects.h"

namespace ironcl::opencl {

using backend::Error;
using backend::Status;
using numerics::Size;

Launcher::Launcher(std::shared_ptr<Context> context, const std::shared_ptr<backend::Queue>& queue,
                   const std::vector<std::shared_ptr<backend::Event>>& wait, bool wants_event)
    : context_(std::move(context)), queue_(&own(queue)), native_(&queue_->native()), events_(wants_event) {
  for (const auto& event : wait) after(own(event, "an event of the wait list"));
  events_ = events_ || queue_->commands_may_fail();
}

Launcher::~Launcher() {
  if (under_way_) quietly([&] { native_->finish(); });  // What it failed at is not what the caller is told.
}

void Launcher::after(const std::shared_ptr<Event>& event) {
  causes_.push_back(event);
  wait_.push_back(native_for(*context_, *event));
  events_ = true;  // It tells who failed first.
}

void Launcher::launch(const cl::Kernel& kernel, std::int64_t width, std::int64_t height, std::int64_t items,
                      bool others_depend) {
  const auto local = static_cast<std::size_t>(items);
  const cl::NDRange global =
      dry_ ? cl::NDRange(local, 1)
           : cl::NDRange(static_cast<std::size_t>(width) * local, static_cast<std::size_t>(height));
  events_ = events_ || others_depend;
  // What the command leaves behind has its place before the command is queued: then nothing may fail.
  if (launched_.empty()) launched_.reserve(4);  // As many as most plans have kernels.
  if (events_) launched_.emplace_back();
  if (others_depend) needed_.reserve(needed_.size() + 1);
  std::vector<cl::Event> next = needed_;
  if (others_depend) next.emplace_back();
  try {
    native_->enqueueNDRangeKernel(kernel, cl::NullRange, global, cl::NDRange(local, 1),
                                  wait_.empty() ? nullptr : &wait_, events_ ? &launched_.back() : nullptr);
  } catch (...) {
    if (events_) launched_.pop_back();
    throw;
  }
  under_way_ = !dry_;
  if (!dry_) ++context_->launches;
  if (others_depend) {
    next.back() = launched_.back();
    needed_.push_back(launched_.back());
  }
  wait_ = std::move(next);
}

std::shared_ptr<Event> Launcher::done() {
  if (!events_) {
    under_way_ = false;
    queue_->flush();
    return nullptr;
  }
  if (launched_.empty()) {
    launched_.emplace_back();  // A command that does nothing, in its turn and after those of the wait list.
    native_->enqueueMarkerWithWaitList(wait_.empty() ? nullptr : &wait_, &launched_.back());
  }
  under_way_ = false;  // Where record() throws, all have ended.
  return queue_->record(std::move(launched_), std::move(causes_));
}

void Exclusive::begin(Launcher& call) const {
  // Calls of one queue are in order anyway.
  if (queue_() == nullptr || queue_() == (*call.native_)()) return;
  if (last_ != nullptr) {
    if (!last_->done()) call.after(last_);
    return;
  }
  // A marker in the other queue stands for the call that has no event.
  cl::Event marker;
  queue_.enqueueMarkerWithWaitList(nullptr, &marker);
  queue_.flush();
  call.wait_.push_back(std::move(marker));
  call.events_ = true;
}

std::shared_ptr<Event> Exclusive::end(Launcher& call) {
  std::shared_ptr<Event> event = call.done();
  last_ = keeps_event_ ? event : nullptr;
  queue_ = *call.native_;
  return event;
}

Memory Launcher::memory(const backend::Span& span) const {
  return span ? Memory{&own(span.buffer).memory(), span.offset} : absent();
}

Memory Launcher::absent() const { return {&context_->null_buffer, 0}; }

void expect_countable(const char* what, Size count) {
  if (count > kLargestSize)
    throw Error(Status::unsupported, "{} {}; here they are at most {}", count.value(), what, kLargestSize);
}

void expect_fits(const Features& features, const char* what, Size bytes) {
  if (bytes.bytes() > features.max_buffer_bytes) {
    throw Error(Status::unsupported, "{} takes {} bytes, a buffer of {} has at most {}", what, bytes.bytes(),
                features.name, features.max_buffer_bytes);
  }
}

}  // namespace ironcl::opencl
