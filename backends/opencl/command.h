// SPDX-License-Identifier: Apache-2.0
// What a command that is no plan needs of its call: the queue, the events before it, checked memory, one event of its
// kernels. Next door: router.h, activation.h, combiner.h.
#pragma once

#include <string>

#include "backends/opencl/objects.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

/// One call under way. Throws invalid_argument for a queue, an event or a buffer of another device.
class Command {
 public:
  Command(const ContextPtr& context, const std::shared_ptr<backend::Queue>& queue,
          const std::vector<std::shared_ptr<backend::Event>>& wait);

  /// `bytes` of `span`, or `nothing` where none are needed. Throws invalid_argument, naming `what`, where the span is
  /// too short or at a wrong place.
  Memory memory(const backend::Span& span, const char* what, numerics::Size bytes, const cl::Buffer& nothing) const;

  void launch(const cl::Kernel& kernel, const cl::NDRange& work_groups, const cl::NDRange& local);
  /// Also waits for this event, of a call that used the same memory.
  void after(const std::shared_ptr<Event>& event);
  /// The event of all that was launched; of nothing, one that ends in its turn.
  std::shared_ptr<Event> done();
  const cl::CommandQueue& native() const noexcept { return queue_->native(); }

 private:
  ContextPtr context_;
  Queue* queue_;
  std::vector<std::shared_ptr<Event>> causes_;
  std::vector<cl::Event> wait_;
  std::vector<cl::Event> launched_;
};

/// Bytes of a matrix of `rows` rows, `ld` elements apart, of `cols` elements.
numerics::Size matrix_bytes(std::int64_t rows, std::int64_t ld, std::int64_t cols, backend::DType type);

/// Throws unsupported where there are more than kLargestSize of `what`.
void expect_countable(const char* what, numerics::Size count);

/// Throws unsupported where a buffer of the device cannot hold `bytes`; `what` names them.
void expect_fits(const Features& features, const char* what, numerics::Size bytes);

}  // namespace ironcl::opencl
