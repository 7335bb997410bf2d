// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/command.h"

namespace ironcl::opencl {

using backend::Error;
using backend::Status;
using numerics::Size;

Command::Command(const ContextPtr& context, const std::shared_ptr<backend::Queue>& queue,
                 const std::vector<std::shared_ptr<backend::Event>>& wait)
    : context_(context), queue_(&own(queue, *context)) {
  for (const auto& event : wait) after(own(event, "an event of the wait list"));
}

void Command::after(const std::shared_ptr<Event>& event) {
  causes_.push_back(event);
  wait_.push_back(native_for(*context_, *event));
}

Memory Command::memory(const backend::Span& span, const char* what, Size bytes, const cl::Buffer& nothing) const {
  if (bytes.bytes() == 0) return {&nothing, 0};
  const Buffer& buffer = own(span.buffer, *context_, what);
  if (span.size < bytes.bytes() || span.offset % context_->features.alignment != 0) {
    throw Error(Status::invalid_argument, std::string(what) + " has " + std::to_string(span.size) +
                                              " bytes from byte " + std::to_string(span.offset) +
                                              ", the call needs " + std::to_string(bytes.bytes()) +
                                              " from a multiple of " + std::to_string(context_->features.alignment));
  }
  return {&buffer.memory(), span.offset};
}

void Command::launch(const cl::Kernel& kernel, const cl::NDRange& work_groups, const cl::NDRange& local) {
  const std::size_t *g = work_groups.get(), *l = local.get();
  cl::Event event;
  try {
    launched_.reserve(launched_.size() + 1);  // Nothing may fail once the command is queued.
    native().enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(g[0] * l[0], g[1] * l[1]), local,
                                  wait_.empty() ? nullptr : &wait_, &event);
  } catch (...) {
    if (!launched_.empty()) wait_for_end_of(launched_.back());
    throw;
  }
  wait_.clear();
  launched_.push_back(std::move(event));
}

std::shared_ptr<Event> Command::done() {
  if (launched_.empty()) {
    launched_.reserve(1);
    cl::Event event;
    native().enqueueMarkerWithWaitList(wait_.empty() ? nullptr : &wait_, &event);
    launched_.push_back(std::move(event));
  }
  return queue_->record(std::move(launched_), std::move(causes_));
}

Size matrix_bytes(std::int64_t rows, std::int64_t ld, std::int64_t cols, backend::DType type) {
  if (rows == 0 || type == backend::DType::none) return 0;
  return (Size(rows - 1) * ld + cols) * numerics::size_of(type);
}

void expect_countable(const char* what, Size count) {
  if (count > kLargestSize) {
    throw Error(Status::unsupported, std::to_string(count.value()) + " " + what + "; here they are at most " +
                                         std::to_string(kLargestSize));
  }
}

void expect_fits(const Features& features, const char* what, Size bytes) {
  if (bytes.bytes() > features.max_buffer_bytes) {
    throw Error(Status::unsupported, std::string(what) + " takes " + std::to_string(bytes.bytes()) +
                                         " bytes, a buffer of " + features.name + " has at most " +
                                         std::to_string(features.max_buffer_bytes));
  }
}

}  // namespace ironcl::opencl
