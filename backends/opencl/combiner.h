// SPDX-License-Identifier: Apache-2.0
// The weighted sum of each token's rows on the device: cl/combine.cl. Next door: router.h, activation.h.
#pragma once

#include "backends/opencl/objects.h"

namespace ironcl::opencl {

class Combiner final : public backend::Combine {
 public:
  /// Builds the kernels, with weights for what is added and without. Throws unsupported with what would be accepted.
  Combiner(ContextPtr context, const backend::CombineDesc& desc);
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::CombineArgs& args) override;

 private:
  ContextPtr context_;
  backend::CombineDesc desc_;
  std::size_t width_ = 1, lanes_ = 1;
  cl::Kernel plain_, weighing_;  ///< weighing_: where what is added has weights.
  cl::Buffer null_buffer_;
};

}  // namespace ironcl::opencl
