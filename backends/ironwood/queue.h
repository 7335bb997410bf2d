// SPDX-License-Identifier: Apache-2.0
// Queues and events. A command runs inside the call that enqueues it; its event is complete when the call returns and
// holds its outcome and its time on the modelled clock.
#pragma once

#include <functional>

#include "backends/interface.h"

namespace ironcl::ironwood {

class DoneEvent final : public backend::Event {
 public:
  explicit DoneEvent(const backend::Profile& profile) : profile_(profile) {}
  explicit DoneEvent(backend::Error failure) : failure_(std::move(failure)) {}

  backend::Status wait(std::chrono::nanoseconds timeout) override;
  backend::Profile profile() override;

 private:
  backend::Profile profile_;
  std::optional<backend::Error> failure_;
};

class ModelQueue final : public backend::Queue {
 public:
  void finish() override {}
  void wait_for(const std::shared_ptr<backend::Event>& event) override;
  std::shared_ptr<backend::Event> write(const backend::Span& dst, const void* src,
                                        backend::HostSemantics semantics) override;
  std::shared_ptr<backend::Event> read(const backend::Span& src, void* dst) override;

  /// Runs `command`, which returns its modelled nanoseconds, after `wait`. The event fails with what `command`
  /// throws, or with the failure of an event waited for. Without `wants_event` there is no event, and that is thrown.
  std::shared_ptr<backend::Event> run(const std::vector<std::shared_ptr<backend::Event>>& wait,
                                      const std::function<double()>& command, bool wants_event = true);

 private:
  /// Waits for an event, which may be null, and moves the clock to its end. Throws the event's failure.
  void join(const std::shared_ptr<backend::Event>& event);

  double clock_ns_ = 0;                   // modelled time of the device as this queue sees it
  std::optional<backend::Error> failed_;  // of an event that all later commands wait for
};

/// What is enqueued: `run` works on the arguments of a call and returns its modelled nanoseconds.
template <class Args, class Base = backend::Operation<Args>>
class Command : public Base {
 public:
  explicit Command(std::function<double(const Args&)> run) : run_(std::move(run)) {}
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue, const Args& args) override {
    return dynamic_cast<ModelQueue&>(*queue).run(
        args.wait, [&] { return run_(args); }, args.wants_event);
  }

 private:
  std::function<double(const Args&)> run_;
};

}  // namespace ironcl::ironwood
