// SPDX-License-Identifier: Apache-2.0
// A launch whose work-groups stay and wait for one another (cl/meeting.cl), in place of calls of a sequence: its
// trial, and its turn among others of the device. Next door: fused_experts.cpp, fused_products.cpp.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backends/opencl/objects.h"

namespace ironcl::opencl {

class PersistentLaunch : public backend::Operation<backend::SequenceArgs> {
 public:
  /// `calls`: those that it stands for, whose memory it keeps. `doing`: for messages.
  PersistentLaunch(ContextPtr context, const char* doing, std::vector<backend::RecordedCall> calls)
      : context_(std::move(context)), doing_(doing), calls_(std::move(calls)) {}

  /// Whether the device runs all work-groups at once: launches the kernel with nothing to do. The counters are zero
  /// afterwards, and the kernel has its arguments.
  bool meets() {
    const cl::CommandQueue queue(context_->context, context_->device);
    std::vector<cl_uint> counters(meetings_ + 2);
    const std::size_t bytes = 4 * counters.size();
    const auto items = static_cast<std::size_t>(items_);
    bind_size(true, kWaitsOfTrial);
    queue.enqueueWriteBuffer(workspace_, CL_TRUE, 0, bytes, counters.data());
    queue.enqueueNDRangeKernel(kernel_, cl::NullRange, cl::NDRange(static_cast<std::size_t>(groups_) * items),
                               cl::NDRange(items));
    queue.enqueueReadBuffer(workspace_, CL_TRUE, 0, bytes, counters.data());
    const bool met = std::all_of(counters.begin(), counters.begin() + tried_,
                                 [&](cl_uint come) { return come == static_cast<cl_uint>(groups_); }) &&
                     counters.back() == 0;
    std::fill(counters.begin(), counters.end(), 0);
    queue.enqueueWriteBuffer(workspace_, CL_TRUE, 0, bytes, counters.data());
    bind_size(false, kWaits);
    return met;
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::SequenceArgs& args) override {
    return guarded(doing_, [&]() -> std::shared_ptr<backend::Event> {
      Launcher call(context_, queue, args.wait, args.wants_event);
      const std::scoped_lock lock(context_->persistent.mutex);
      context_->persistent.launches.begin(call);
      call.launch(kernel_, groups_, 1, items_);
      return context_->persistent.launches.end(call);
    });
  }

 protected:
  static constexpr cl_int kWaits = 1 << 24, kWaitsOfTrial = 1 << 16;  ///< Some 0.5 us each.
  /// Binds how much there is to do, or that there is nothing, and how often work-groups look for the others.
  virtual void bind_size(bool nothing, cl_int waits) = 0;

  ContextPtr context_;
  cl::Kernel kernel_;
  cl::Buffer workspace_;      ///< Begins with counters: of meetings, of who has left, of who gave up.
  std::size_t meetings_ = 0;  ///< Of a launch, at most,
  std::ptrdiff_t tried_ = 0;  ///< and those of a launch with nothing to do.
  std::int64_t groups_ = 0, items_ = 0;

 private:
  const char* doing_;
  std::vector<backend::RecordedCall> calls_;
};

}  // namespace ironcl::opencl
