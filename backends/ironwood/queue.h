// SPDX-License-Identifier: Apache-2.0
// Queues and events. A command runs inside the call that enqueues it; its event is complete when the call returns and
// holds its outcome and its time on the modelled clock.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

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
  /// throws, or with the failure of an event waited for. Without `wants_event` there is no event.
  std::shared_ptr<backend::Event> run(const std::vector<std::shared_ptr<backend::Event>>& wait,
                                      const std::function<double()>& command, bool wants_event = true);

 private:
  double clock_ns_ = 0;                   // modelled time of the device as this queue sees it
  std::optional<backend::Error> failed_;  // of an event that all later commands wait for
};

}  // namespace ironcl::ironwood
