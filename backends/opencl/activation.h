// SPDX-License-Identifier: Apache-2.0
// activation(gate, up) on the device, rounded or quantised: cl/activate.cl. Next door: router.h, combiner.h.
#pragma once

#include "backends/opencl/objects.h"

namespace ironcl::opencl {

class Activation final : public backend::Activate {
 public:
  /// Builds the kernel. Throws unsupported with what would be accepted.
  Activation(ContextPtr context, const backend::ActivateDesc& desc);
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::ActivateArgs& args) override;

 private:
  ContextPtr context_;
  backend::ActivateDesc desc_;
  std::int64_t group_cols_ = 0;  ///< Columns that a work-group makes at once.
  std::size_t lanes_ = 1;
  cl::Kernel kernel_;
  cl::Buffer null_buffer_;
};

}  // namespace ironcl::opencl
