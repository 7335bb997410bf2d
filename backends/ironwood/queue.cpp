// SPDX-License-Identifier: Apache-2.0
// In-order queues that run their commands at once.
#include "backends/ironwood/queue.h"

#include <cmath>
#include <cstring>

#include "backends/ironwood/memory.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::Event;
using backend::Profile;
using backend::Status;

Status DoneEvent::wait(std::chrono::nanoseconds /*timeout*/) {
  if (failure_) throw Error(*failure_);
  return Status::ok;
}

Profile DoneEvent::profile() {
  wait({});
  return profile_;
}

void ModelQueue::join(const std::shared_ptr<Event>& event) {
  if (event == nullptr) return;
  event->wait(std::chrono::nanoseconds::max());
  const Profile profile = event->profile();
  if (profile.kind == backend::TimeKind::modelled)
    clock_ns_ = std::max(clock_ns_, static_cast<double>(profile.end_ns));
}

void ModelQueue::wait_for(const std::shared_ptr<Event>& event) {
  try {
    join(event);
  } catch (const Error& error) {
    failed_ = error;
  }
}

std::shared_ptr<Event> ModelQueue::run(const std::vector<std::shared_ptr<Event>>& wait,
                                       const std::function<double()>& command, bool wants_event) {
  const auto fail = [wants_event](const Error& error) {
    if (!wants_event) throw Error(error);  // Nothing else would tell, and a sequence would go on.
    return std::make_shared<DoneEvent>(error);
  };
  if (failed_) return fail(*failed_);
  Profile profile{.kind = backend::TimeKind::modelled};
  profile.queued_ns = static_cast<std::uint64_t>(std::llround(clock_ns_));
  try {
    for (const auto& event : wait) join(event);
    profile.start_ns = static_cast<std::uint64_t>(std::llround(clock_ns_));
    clock_ns_ += command();
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail(Error(Status::out_of_host_memory, "ironwood: no host memory to run the command"));
  } catch (const std::exception& error) {
    return fail(Error(Status::internal, std::string("ironwood: ") + error.what()));
  }
  profile.end_ns = static_cast<std::uint64_t>(std::llround(clock_ns_));
  return wants_event ? std::make_shared<DoneEvent>(profile) : nullptr;
}

// The link between host and HBM is not modelled: host copies take no modelled time.
std::shared_ptr<Event> ModelQueue::write(const backend::Span& dst, const void* src,
                                         backend::HostSemantics /*semantics*/) {
  return run({}, [&] {
    std::memcpy(address_of(dst), src, dst.size);
    return 0.0;
  });
}

std::shared_ptr<Event> ModelQueue::read(const backend::Span& src, void* dst) {
  return run({}, [&] {
    std::memcpy(dst, address_of(src), src.size);
    return 0.0;
  });
}

}  // namespace ironcl::ironwood
